"""`lastro setup` as a user sees it, and on machines that tests make up: nothing is ever installed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lastro import cli, registry
from lastro.instruments import jmeter
from lastro.requirements import Requirements
from lastro.setup import scripts as running
from lastro.setup.machine import Machine
from lastro.setup.scripts import DEBIAN, HERE, RECIPES, SetupStep, apt_step
from lastro.setup.selection import select

from .conftest import is_error, lastro, until

# Enough of Debian: dpkg knows the packages in the file `installed`, and apt adds to it those in the file `sources`.
_DPKG = """#!/bin/sh
for package; do grep -Fqx "$package" {home}/installed && echo "$package installed"; done
true
"""
_APT = """#!/bin/sh
echo "$@" >>{home}/calls
[ "$1" = install ] || exit 0
[ ! -e {home}/broken ] || {{ echo "E: the disk is full" >&2; exit 100; }}
for word; do echo "$word"; done >>{home}/installed
"""
_CACHE = """#!/bin/sh
if grep -qx "$2" {home}/absent; then echo "  Candidate: (none)"; else echo "  Candidate: 1.0"; fi
"""
_GO = "#!/bin/sh\necho {version}\n"


class Made:
    """A machine with programs of our own, on which this user counts as root."""

    def __init__(self, home: Path, *, root: bool = True) -> None:
        self.home, self.bin = home, home / "bin"
        self.bin.mkdir()
        for tool in ("sh", "mktemp", "rm", "ln", "sed", "grep", "cat"):
            (self.bin / tool).symlink_to(f"/bin/{tool}")
        for name in ("installed", "absent", "calls"):
            (home / name).touch()
        self.machine = Machine(str(self.bin), home / "usr-local", root)

    def program(self, name: str, text: str = "#!/bin/sh\n") -> None:
        (self.bin / name).write_text(text.format(home=self.home))
        (self.bin / name).chmod(0o755)

    def with_apt(self) -> Made:
        for name, text in (("dpkg-query", _DPKG), ("apt-get", _APT), ("apt-cache", _CACHE)):
            self.program(name, text)
        return self

    @property
    def calls(self) -> list[list[str]]:
        return [line.split() for line in (self.home / "calls").read_text().splitlines()]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Made]:
    """A function that makes the machine which commands in this process find."""

    def make(*, root: bool = True) -> Made:
        found = Made(tmp_path, root=root)
        monkeypatch.setattr(Machine, "this", classmethod(lambda cls: found.machine))
        return found

    return make


# The real command, which installs nothing


def test_dry_run_prints_a_shell_script_off_debian_without_root(tmp_path: Path) -> None:
    done = lastro("setup", "nspawn", "jmeter", "kata", "--dry-run", env={"PATH": str(tmp_path)})
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("#!/bin/sh\n# What `lastro setup nspawn jmeter kata` runs as root")
    assert "# platform kata cannot be installed: " in done.out and "katacontainers.io" in done.out
    assert done.out.count("apt-get update") == done.out.count("apt-get install") == 1
    loop = next(line for line in done.out.splitlines() if line.startswith("for package in "))
    words = loop.removesuffix("; do").split()[3:]
    assert {"systemd-container", "mmdebstrap", "curl", "default-jre-headless"} <= set(words)
    assert subprocess.run(["sh", "-n"], input=done.out, text=True, check=False).returncode == 0


def test_off_debian_it_says_what_to_install(tmp_path: Path) -> None:
    done = lastro("setup", "lxc", env={"PATH": str(tmp_path)})
    is_error(done, 3, "no apt-get", " lxc ", "package manager")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dokcer"], ("no part is named 'dokcer'", "did you mean 'docker'?")),
        (["platform/dokcer"], ("no platform is named 'dokcer'", "did you mean 'docker'?")),
        (["platfrom/docker"], ("no kind of part is named 'platfrom'", "did you mean 'platform'?")),
        (["zzz"], ("no part is named 'zzz'", "`lastro parts`")),
        (["docker", "--all"], ("--all", "either")),
        (["docker", "--source", "."], ("--source is for `click` alone", "lastro setup click --source DIR")),
        (["click", "--source", "/nowhere"], ("/nowhere is not a source tree of Click", "github.com/kohler/click")),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_wrong_word(words: list[str], expected: tuple[str, ...]) -> None:
    is_error(lastro("setup", *words), 2, *expected)


def test_json_of_a_dry_run(tmp_path: Path) -> None:
    document = lastro("setup", "nspawn", "kata", "--dry-run", "--json", env={"PATH": str(tmp_path)}).json
    parts = {part["name"]: part for part in document["parts"]}
    assert parts["nspawn"]["status"] == "missing" and parts["nspawn"]["required"]
    assert parts["kata"]["status"] == "unavailable" and "Kata" in parts["kata"]["remedy"]
    assert "systemd-container" in document["packages"]
    assert [(step["name"], step["status"]) for step in document["steps"]] == [(DEBIAN, "not run")]


# Machines that are made up


def test_everything_is_installed_by_one_call_of_apt(
    made: Callable[..., Made], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = made().with_apt()
    assert cli.main(["setup", "lxc", "nspawn", "ovs"]) == 0
    update, install = machine.calls
    assert update[0] == "update" and install[0] == "install"
    assert {"lxc", "systemd-container", "openvswitch-switch", "mmdebstrap"} <= set(install)
    out = capsys.readouterr().out
    assert re.search(r"^Debian packages: done in ", out, re.MULTILINE) and "ready: lxc, nspawn, ovs\n" in out

    assert cli.main(["setup", "lxc", "nspawn", "ovs"]) == 0
    assert len(machine.calls) == 2, "apt has nothing to do the second time"
    assert capsys.readouterr().out == "nothing to install\nready: lxc, nspawn, ovs\n"


def test_a_pattern_stands_for_the_package_of_this_release(made: Callable[..., Made]) -> None:
    machine = made()
    machine.program("dpkg-query", "#!/bin/sh\necho librte-net-af-packet23 installed\n")
    patterns = ["librte-net-af-packet*", "librte-mempool-ring*"]
    assert machine.machine.missing(patterns) == {"librte-mempool-ring*"}
    script = apt_step(patterns).script
    assert "in 'librte-mempool-ring*' 'librte-net-af-packet*'; do" in script and "\nset -f" in script


def test_services_do_not_start_with_their_packages(made: Callable[..., Made]) -> None:
    machine = made().with_apt()
    assert cli.main(["setup", "lxc"]) == 0
    (option,) = [word for word in machine.calls[1] if word.startswith("DPkg::Path=")]
    path = option.removeprefix("DPkg::Path=")
    assert {"/usr/sbin", "/usr/bin", "/sbin", "/bin"} <= set(path.split(":"))
    for name in ("invoke-rc.d", "deb-systemd-invoke"):
        found = shutil.which(name, path=path)
        assert found and Path(found).is_relative_to(HERE)
        assert subprocess.run([found, "docker", "start"], capture_output=True).returncode == 0


def test_killed_while_apt_installs_nothing_is_left(made: Callable[..., Made], tmp_path: Path) -> None:
    """SIGKILL for all of it, at the moment when something that stops services would have to be in place."""
    machine = made().with_apt()
    machine.program("apt-get", '#!/bin/sh\n[ "$1" = install ] || exit 0\n: >{home}/reached\nexec /bin/sleep 60\n')
    scratch, policy = tmp_path / "scratch", Path("/usr/sbin/policy-rc.d")
    scratch.mkdir()
    before = policy.exists()
    process = subprocess.Popen(
        ["/bin/sh", "-euc", apt_step(["lxc"]).script], start_new_session=True,
        env={"PATH": str(machine.bin), "TMPDIR": str(scratch)},
    )  # fmt: skip
    try:
        until((machine.home / "reached").exists, "the installation")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL
    assert list(scratch.iterdir()) == [] and policy.exists() is before


def test_without_root_it_says_so(made: Callable[..., Made], capsys: pytest.CaptureFixture[str]) -> None:
    machine = made(root=False).with_apt()
    assert cli.main(["setup", "lxc"]) == 3
    out, err = capsys.readouterr()
    assert out == "" and "only root" in err and "`lastro setup lxc --dry-run`" in err
    assert machine.calls == []


def test_a_package_that_the_sources_lack(made: Callable[..., Made], capsys: pytest.CaptureFixture[str]) -> None:
    machine = made().with_apt()
    (machine.home / "absent").write_text("incus\n")
    assert cli.main(["setup", "incus", "lxc"]) == 3
    out, err = capsys.readouterr()
    assert "platform incus cannot be installed: the package sources of this host do not have incus" in err
    assert "ready: lxc" in out and "lxc" in machine.calls[1] and "incus" not in machine.calls[1]


def test_all_reports_what_cannot_be_had(made: Callable[..., Made], capsys: pytest.CaptureFixture[str]) -> None:
    machine = made().with_apt()
    for name in ("runsc", "vegeta"):
        machine.program(name)
    (machine.home / "absent").write_text("incus\nmaven\n")
    assert cli.main(["setup", "--all", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    lost = {part["name"] for part in document["parts"] if part["status"] == "unavailable"}
    assert {"incus", "kata", "virtualbox", "openvz"} <= lost and not {"lxc", "docker", "gvisor"} & lost
    assert len(machine.calls) == 2


def test_a_failing_apt_shows_its_last_line(made: Callable[..., Made], capsys: pytest.CaptureFixture[str]) -> None:
    machine = made().with_apt()
    (machine.home / "broken").touch()
    assert cli.main(["setup", "--all"]) == 3
    out, err = capsys.readouterr()
    assert re.search(r"^Debian packages: failed after .*: E: the disk is full$", out, re.MULTILINE)
    log = Path(re.search(r"the whole log: (\S+)", out)[1])  # type: ignore[index]
    assert "the disk is full" in log.read_text() and "every study cannot be installed" in err
    for file in log.parent.iterdir():
        file.unlink()
    log.parent.rmdir()


@pytest.mark.parametrize(
    ("version", "reason"), [(None, "has no Go toolchain"), ("go1.19.8", "too old: go1.19.8"), ("", "did not print")]
)
def test_without_a_fit_go(
    version: str | None, reason: str, made: Callable[..., Made], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = made().with_apt()
    if version is not None:
        machine.program("go", _GO.format(version=version))
    assert cli.main(["setup", "gvisor"]) == 3
    err = capsys.readouterr().err
    assert reason in err and "install Go 1.22 or newer" in err and "`lastro setup gvisor`" in err


def test_a_build_runs_beside_apt_and_is_not_run_again(
    made: Callable[..., Made], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = made().with_apt()
    machine.program("go", _GO.format(version="go1.26.8"))
    # Apt waits for the build to start, which it would in vain if they took turns.
    program = machine.bin / "runsc"
    script = f"printf '#!/bin/sh\\n' >{program}; /bin/chmod 755 {program}"
    monkeypatch.setattr("lastro.setup.plan.recipe_step", lambda recipe, prefix: SetupStep(recipe.name, script))
    wait = f"i=0; until [ -e {program} ]; do i=$((i + 1)); [ $i -lt 100 ]; /bin/sleep 0.1; done"
    monkeypatch.setattr("lastro.setup.scripts._APT", f"{wait}\napt-get install {{packages}}\n")
    assert cli.main(["setup", "gvisor"]) == 0
    assert "gvisor: done in " in capsys.readouterr().out
    assert cli.main(["setup", "gvisor"]) == 0
    assert capsys.readouterr().out == "nothing to install\nready: gvisor\n"


def test_packages_alone(made: Callable[..., Made], capsys: pytest.CaptureFixture[str]) -> None:
    machine = made().with_apt()
    machine.program("go", _GO.format(version="go1.26.8"))
    assert cli.main(["setup", "gvisor", "vegeta", "lxc", "--packages"]) == 0
    out = capsys.readouterr().out
    assert "ready: lxc\nleft to build: gvisor, vegeta\n" in out and "gvisor: started" not in out
    assert "lxc" in machine.calls[1] and len(machine.calls) == 2


def test_a_vendors_program_is_not_displaced(made: Callable[..., Made]) -> None:
    machine = made().with_apt()
    for name in ("dockerd", "runc"):
        machine.program(name)
    assert cli.main(["setup"]) == 0
    assert not {"docker.io", "runc"} & set(machine.calls[1])


def test_what_runs_is_what_a_dry_run_prints(made: Callable[..., Made], capsys: pytest.CaptureFixture[str]) -> None:
    machine = made().with_apt()
    assert cli.main(["setup", "lxc", "--dry-run"]) == 0
    script = capsys.readouterr().out
    assert machine.calls == []
    subprocess.run(["/bin/sh"], input=script, text=True, check=True)
    by_hand = machine.calls
    for name in ("calls", "installed"):
        (machine.home / name).write_text("")
    assert cli.main(["setup", "lxc"]) == 0
    assert machine.calls == by_hand


# Click, which is built from a tree of the user


_CONFIGURE = """#!/bin/sh
printf '#!/bin/sh\\necho click LDFLAGS %s\\n' "$*" >made
printf '.PHONY: userlevel\\nuserlevel:\\n' >Makefile
printf '\\tsed s/LDFLAGS/$(LDFLAGS)/ made >userlevel/click\\n\\tchmod 755 userlevel/click\\n' >>Makefile
"""


def click_tree(home: Path) -> Path:
    """Enough of a source tree: the program that its `make` makes prints how it was made."""
    tree = home / "click source"
    for name in ("userlevel/Makefile.in", "include/click/router.hh", "elements/standard/classifier.cc"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    (tree / "configure").write_text(_CONFIGURE)
    (tree / "configure").chmod(0o755)
    return tree


def click_machine(made: Callable[..., Made], monkeypatch: pytest.MonkeyPatch) -> Made:
    machine = made().with_apt()
    monkeypatch.setattr("lastro.setup.selection._CLICK_PROGRAM", str(machine.machine.prefix / "bin" / "click"))
    for tool in ("cp", "make", "nproc", "mkdir", "install", "mv", "chmod"):
        (machine.bin / tool).symlink_to(shutil.which(tool) or f"/usr/bin/{tool}")
    machine.program("strip")
    return machine


def test_click_is_built_from_a_copy_of_the_users_tree(
    made: Callable[..., Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine, tree = click_machine(made, monkeypatch), click_tree(tmp_path)
    before = sorted(tree.rglob("*"))
    assert cli.main(["setup", "click", "--source", str(tree)]) == 0, capsys.readouterr()
    assert "ready: click\n" in capsys.readouterr().out and {"g++", "make"} <= set(machine.calls[1])
    done = subprocess.run([machine.machine.prefix / "bin" / "click"], capture_output=True, text=True, check=True)
    assert done.stdout == "click -static --disable-linuxmodule --disable-dynamic-linking\n"
    assert sorted(tree.rglob("*")) == before
    assert cli.main(["setup", "click"]) == 0
    assert capsys.readouterr().out == "nothing to install\nready: click\n"


def test_a_dry_run_shows_how_click_is_built(
    made: Callable[..., Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    click_machine(made, monkeypatch)
    tree = click_tree(tmp_path)
    assert cli.main(["setup", "click", "--source", str(tree), "--dry-run"]) == 0
    script = capsys.readouterr().out
    assert f"source={shlex.quote(str(tree))}\n" in script and 'make -j "$(nproc)" LDFLAGS=-static userlevel\n' in script
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


def test_a_click_that_does_not_build_shows_its_last_line(
    made: Callable[..., Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine, tree = click_machine(made, monkeypatch), click_tree(tmp_path)
    (tree / "configure").write_text("#!/bin/sh\necho 'configure: error: no C++ compiler' >&2\nexit 77\n")
    assert cli.main(["setup", "click", "--source", str(tree)]) == 3
    out, err = capsys.readouterr()
    assert "program click cannot be installed: its build failed: configure: error: no C++ compiler" in err
    assert not (machine.machine.prefix / "bin" / "click").exists()
    shutil.rmtree(Path(re.search(r"the whole log: (\S+)", out)[1]).parent)  # type: ignore[index]


def test_click_without_a_source_says_how_to_get_it(
    made: Callable[..., Made], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = click_machine(made, monkeypatch)
    machine.program("click")  # in the caller's PATH, where Lastro does not look
    assert cli.main(["setup", "click"]) == 3
    err = capsys.readouterr().err
    assert "click cannot be installed" in err and "git clone https://github.com/kohler/click" in err
    assert "`lastro setup click --source click`" in err


def test_an_interruption_ends_the_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    step = SetupStep("slow", f"echo $$ >{shlex.quote(str(pid_file))}; sleep 600; true")

    def interrupt(line: str) -> None:
        while not pid_file.exists() or not pid_file.read_text().strip():
            pass
        os.kill(os.getpid(), signal.SIGINT)

    machine = Machine(os.environ["PATH"], tmp_path, root=False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever tests in the background has it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            running.execute([step], machine, interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    group, deadline_s = pid_file.read_text().strip(), time.monotonic() + 10
    while states := living(group):  # one that was killed dies when it next gets a processor
        assert time.monotonic() < deadline_s, states


def living(group: str) -> list[str]:
    """The states of the processes of a group, but of those that init has not collected yet."""
    found = subprocess.run(["ps", "-o", "stat=", "-g", group], capture_output=True, text=True, check=False).stdout
    return [state for state in found.split() if not state.startswith("Z")]


def test_a_program_that_cannot_be_asked_is_an_obstacle_and_not_a_crash(tmp_path: Path) -> None:
    for name in ("go", "dpkg-query"):
        (tmp_path / name).write_text("\0 no program\n")
        (tmp_path / name).chmod(0o755)
    machine = Machine(str(tmp_path), tmp_path, True)
    assert "did not print a version" in str(machine.go_obstacle())
    assert machine.missing(["curl"]) == {"curl"}


# What parts declare


def test_every_declaration_is_sound() -> None:
    for kind in registry.KINDS:
        for info in registry.parts(kind).values():
            found = getattr(info.cls, "requirements", Requirements())
            assert isinstance(found, Requirements), info.name
            assert set(found.instead) <= {*found.packages, *found.optional_packages}, info.name
            assert found.recipe is None or found.recipe in RECIPES, info.name
            assert found.program is None or found.remedy, f"{info.name}: no remedy for {found.program}"


def test_recipes_and_parts_agree() -> None:
    parts = (*select([], everything=True), *select(["click"], everything=False, click_tree=True))
    used = {part.requirements.recipe for part in parts} - {None}
    assert used == set(RECIPES) == {file.parent.name for file in HERE.glob("*/recipe.sh")}
    pom = (HERE / "jmeter" / "pom.xml").read_text()
    assert f"  <version>{jmeter.VERSION}</version>\n" in pom
    for name in ("gvisor", "vegeta"):
        assert {"go.mod", "go.sum"} <= {file.name for file in (HERE / name).iterdir()}
        assert "-mod=readonly" in (HERE / name / "recipe.sh").read_text()
    assert f"/usr/local/lib/lastro/jmeter-{jmeter.VERSION}" == jmeter.HOME


@pytest.mark.parametrize("left", [(), ("lib", "jmeter-5.6.3.new/lib/ext")])
def test_jmeter_takes_the_place_of_what_was_left_half_made(tmp_path: Path, left: tuple[str, ...]) -> None:
    """Whoever else runs a setup at the same time, or did until it was killed."""
    data, home = tmp_path / "data", tmp_path / "prefix" / "lib" / "lastro" / "jmeter-9"
    for name in left:
        (home / name).mkdir(parents=True)
    data.mkdir()
    (data / "pom.xml").write_text("  <version>9</version>\n")
    jars = ("ApacheJMeter-9.jar", "ApacheJMeter_config-9.jar", "ApacheJMeter_http-9.jar", "oro.jar")
    for name in jars:
        with zipfile.ZipFile(data / name, "w") as jar:
            jar.writestr("bin/jmeter", name)
    sums = [f"{hashlib.sha256((data / name).read_bytes()).hexdigest()}  {name}\n" for name in jars]
    (data / "SHA256SUMS").write_text("".join(sums))
    maven = tmp_path / "mvn"
    maven.write_text(f'#!/bin/sh\nfor word; do :; done\nmkdir "${{word#*=}}"\ncp {data}/*.jar "${{word#*=}}"\n')
    maven.chmod(0o755)
    given = f"data={data} prefix={tmp_path / 'prefix'} python={sys.executable}\n"
    argv = ["sh", "-euc", given + (HERE / "jmeter" / "recipe.sh").read_text()]
    subprocess.run(argv, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
    found = {str(file.relative_to(home)) for file in home.rglob("*") if file.is_file()}
    assert found == {"bin/jmeter", "bin/ApacheJMeter.jar", "lib/ext/ApacheJMeter_config-9.jar",
                     "lib/ext/ApacheJMeter_http-9.jar", "lib/oro.jar"}  # fmt: skip
    assert [each.name for each in home.parent.iterdir()] == [home.name]
