"""No value reaches a shell unquoted: scripts for sh with hostile directories, and a rule over every script in src."""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.errors import InputError, LastroError
from lastro.host.base import Completed, directory_from
from lastro.host.testbed_file import parse
from lastro.image import guest
from lastro.instruments import _user_programs
from lastro.platforms.base import InstanceSpec

from ...support.recording import RecordingHost, answer, recording_testbed

SRC = Path(__file__).parents[3] / "src" / "lastro"
MARK = "QZ"  # in every part of the hostile name, and nowhere else
HOSTILE = "QZ QZ'QZ\"QZ$(touch QZ)`touch QZ`;QZ&QZ|QZ>QZ\\QZ*QZé日"
# Each command writes its words down, until one says that a shell takes the rest, as in another namespace.
STUB = """#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" != sh ] || { shift; exec /bin/sh "$@"; }
    printf '%s\\0' "$1" >> "$WORDS"
    shift
done
"""
COMMANDS = (
    "cat", "chmod", "chown", "cp", "crictl", "crun", "ctr", "docker", "dockerd", "env", "grep", "grub-mkrescue",
    "incus", "ip", "kata-runtime", "ln", "lxc", "lxc-start", "mkdir", "mknod", "mount", "mountpoint", "mv", "nsenter",
    "ploop", "qemu-img", "rm", "runc", "runsc", "sleep", "sync", "tar", "touch", "true", "umount", "uname", "unshare",
    "youki",
)  # fmt: skip


def scripts(host: RecordingHost) -> Iterator[tuple[str, list[str]]]:
    """Every script that a host was to run by sh, with its arguments."""
    for argv, stdin in zip(host.commands, host.stdins, strict=True):
        for at, word in enumerate(argv):
            if word == "sh" and argv[at + 1 : at + 2] and re.fullmatch("-[eu]*c", argv[at + 1]):
                yield argv[at + 2], argv[at + 3 :]
        if stdin and argv[-1] in ("sh", "-e"):
            yield stdin if isinstance(stdin, str) else stdin.decode(), []


def words_of(script: str, arguments: Sequence[str], directory: Path) -> list[str]:
    """Run a script by a real sh in which every command is a stub, and return the words of all commands."""
    written = re.sub(r">\s*/dev/null|2>&1", "", script)
    assert not re.search(r"[0-9]?>+\s*/(proc|sys|etc|dev)", written), f"this test would write there: {script}"
    stubs, empty, words = directory / "stubs", directory / "empty", directory / "words"
    stubs.mkdir(exist_ok=True)
    empty.mkdir(exist_ok=True)
    words.write_bytes(b"")
    for name in COMMANDS:
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(stat.S_IRWXU)
    (stubs / "sleep").write_text("#!/bin/sh\nkill $PPID\n")  # who waits here waits for what no stub makes
    environment = {"PATH": str(stubs), "WORDS": str(words)}
    done = subprocess.run(
        ["/bin/sh", "-c", script, *arguments], env=environment, cwd=empty, capture_output=True, timeout=60, check=False
    )
    assert b"not found" not in done.stderr, f"add the stub: {done.stderr.decode()} of {script}"
    assert b"[:" not in done.stderr and b"yntax" not in done.stderr, f"{done.stderr.decode()} of {script}"
    assert not list(empty.iterdir()), f"a value was run as a command: {script}"
    return [*words.read_bytes().decode().split("\0"), *done.stderr.decode().splitlines()]


def check(host: RecordingHost, directory: Path) -> int:
    """Check that the hostile name is whole wherever a part of it is; return the number of scripts that have it."""
    found = 0
    for script, arguments in scripts(host):
        if MARK in script:
            found += 1
            torn = [word for word in words_of(script, arguments, directory) if MARK in word.replace(HOSTILE, "")]
            assert not torn, f"{torn} in {script}"
    return found


def says(argv: Sequence[str]) -> Completed | None:
    text = " ".join(argv)
    for words, said in {
        "VBoxManage --version": "7.0.1\n", "/state": '{"pid": 4711}', "prlimit": "NOFILE 1024 524288\n",
        "podman run": "ab12" * 16, "xl info": "nr_cpus : 2\n", "xl list": "Name ID Mem VCPUs State Time(s)\n",
    }.items():  # fmt: skip
        if words in text:
            return answer(said)
    return None


class EveryProgram(RecordingHost):
    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    place = tmp_path / HOSTILE
    place.mkdir()
    return place


@pytest.mark.processes
@pytest.mark.parametrize("name", sorted(registry.parts("platform")))
def test_every_script_of_a_platform_keeps_its_directories_whole(
    name: str, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = guest.Guest("6.1", *(hostile / name for name in ("vmlinuz", "vmlinux", "initramfs", "disk.img")))
    monkeypatch.setattr(guest, "ensure", lambda *args, **more: made)
    host = EveryProgram(says)
    host.run_root = Path("/", HOSTILE)  # short, as sockets need it
    host.files["/proc/sys/kernel/pid_max"] = "32768\n"
    testbed = recording_testbed(host, hostile)
    platform: Any = registry.get("platform", name)()
    try:
        with platform.prepare(testbed), platform.start(testbed, InstanceSpec("one", "probe")):
            pass
    except (LastroError, OSError) as error:  # a stub answers nothing; what was written until then is checked
        print(name, error)
    assert check(host, tmp_path) >= 1, host.commands


@pytest.mark.processes
def test_programs_of_the_user_are_gathered_from_and_in_any_place(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_user_programs, "STATE_DIR", hostile / "state")
    (hostile / "program").write_text("x")
    host = RecordingHost()
    _user_programs.gather_files(host, "y-cruncher", {"y-cruncher": hostile / "program", HOSTILE: hostile / "program"})
    assert check(host, tmp_path) == 1


@pytest.mark.processes
def test_the_daemons_of_open_vswitch_have_any_directory(hostile: Path, tmp_path: Path) -> None:
    host = EveryProgram()
    host.run_root = hostile
    with registry.get("attachment", "ovs")().prepare(recording_testbed(host, hostile)):
        pass
    assert check(host, tmp_path) >= 3


def test_a_torn_value_is_found(tmp_path: Path) -> None:
    for script in (f"mkdir -p /{HOSTILE}/x", f"mkdir -p '/{HOSTILE}/x'", f'mkdir -p "/{HOSTILE}/x"'):
        host = RecordingHost()
        host.run(["sh", "-ec", script])
        with pytest.raises(AssertionError):
            check(host, tmp_path)


# The rule for every script


_COMMAND = re.compile(
    r"(?:^|[;&|({'\n] *|\b(?:exec|do|then|trap|until) )(?:mkdir|u?mount|rm|rmdir|cp|mv|ln|touch|cat|cd|tar"
    r"|ch(?:own|mod)|sync|ip|nft|nsenter|unshare|echo|printf|kill|ploop|sort|grep|tc|ethtool|exec|sh|test|n=0|\[) "
    r"|\[ -[a-zA-Z] | > "
)
_QUOTING = {"quote", "join", "quoted", "sysctl_lines", "_sh_command"}
# Words that Lastro itself makes, of letters, digits and ._-/ alone: names of namespaces, links, devices and instances,
# numbers, and paths inside an instance. A new name here needs the same reason.
_OWN = {
    "20 * _ANSWER_S", "NETNS_DIR / netns", "_LEVEL.of(self.chosen)", "_exit_message(done)", "chain", "client",
    "command", "file", "hop.bucket", "instance.netns", "kept", "kind.process", "load.timeout_s", "n_bytes",
    "name", "netns", "nonce", "number", "options", "owner", "pid", "port", "port.name", "program.name", "query",
    "self.answers", "self.home", "self.mac(port.name)", "self.netns", "self.place",
    "self.router.log", "self.size", "self.spec.role", "synced", "tap.link", "testbed.dut", "text.rstrip()", "through",
    "top", "tries",
}  # fmt: skip


def _is_quoting(value: ast.AST, safe: set[str]) -> bool:
    for each in ast.walk(value):
        if isinstance(each, ast.Call) and getattr(each.func, "attr", getattr(each.func, "id", "")) in _QUOTING:
            return True
        if isinstance(each, ast.Name) and each.id in safe and not isinstance(value, ast.JoinedStr):
            return True
    return False


def _quoted_names(function: ast.AST) -> set[str]:
    """The names that stand for quoted words in a function."""
    safe: set[str] = set()
    for _ in range(3):  # a list of quoted words, a loop over it, and a choice of one
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.comprehension | ast.For):
                value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else node.iter
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if value is not None and _is_quoting(value, safe):
                    safe |= {name.id for each in targets for name in ast.walk(each) if isinstance(name, ast.Name)}
    return safe


@dataclass(frozen=True)
class Unquoted:
    """A value in a script for sh that is neither quoted nor a constant."""

    where: str
    value: str
    script: str


def unquoted(tree: ast.AST, where: str = "") -> Iterator[Unquoted]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        scripts = [node for node in ast.walk(function) if isinstance(node, ast.JoinedStr) and _is_script(node)]
        safe = _quoted_names(function) if scripts else set()
        for node in scripts:
            for each in node.values:
                if isinstance(each, ast.FormattedValue) and not _is_safe(each.value, safe):
                    yield Unquoted(f"{where}:{node.lineno}", ast.unparse(each.value), _text(node))


def _is_script(node: ast.JoinedStr) -> bool:
    return _COMMAND.search(_text(node)) is not None


def _text(node: ast.JoinedStr) -> str:
    return "".join(each.value if isinstance(each, ast.Constant) else "X" for each in node.values)


def _is_safe(value: ast.expr, safe: set[str]) -> bool:
    if isinstance(value, ast.Name) and (value.id in safe or value.id.isupper()):
        return True
    return isinstance(value, ast.Call) and _is_quoting(value, set())


SCRIPTED = ("anomalies", "attachments", "functions", "guest.py", "host", "image", "instruments", "isolation", "meters",
            "platforms", "scenarios", "testbed.py")  # fmt: skip


@cache
def _unquoted_below(place: str) -> tuple[Unquoted, ...]:
    """All of a package of Lastro, or of one module."""
    files = [SRC / place] if place.endswith(".py") else sorted((SRC / place).rglob("*.py"))
    found = (unquoted(ast.parse(file.read_text()), str(file.relative_to(SRC))) for file in files)
    return tuple(chain.from_iterable(found))


@pytest.mark.parametrize("place", SCRIPTED)
def test_no_value_is_put_into_a_script_without_quotes(place: str) -> None:
    found = [f"{each.where}: {each.value} in {each.script[:80]!r}" for each in _unquoted_below(place)
             if each.value not in _OWN]  # fmt: skip
    assert not found, "\n".join(["quote these by lastro.host.shell.quoted:", *found])


def test_no_word_is_excused_that_no_script_uses() -> None:
    assert {each.value for place in SCRIPTED for each in _unquoted_below(place)} >= _OWN


def test_an_unquoted_value_is_found_by_the_rule() -> None:
    text = "def f(home):\n    other, = quoted(home)\n    return f'rm -rf {home}/x; mkdir {other}'\n"
    assert [each.value for each in unquoted(ast.parse(text))] == ["home"]


# Directories of Lastro


WRONG = (
    "",
    "relative",
    "~/lastro",
    "/",
    "/a b",
    "/a:b",
    "/a,b",
    "/a\\b",
    "/a'b",
    "/日本",
    "/a/../b",
    "/a/./b",
    "/a\nb",
    "/.",
)


@pytest.mark.parametrize("text", WRONG)
def test_a_place_that_tools_would_not_take_as_it_is_written_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LASTRO_STATE", text)
    with pytest.raises(InputError, match=r"LASTRO_STATE: .* is not an absolute path"):
        directory_from("LASTRO_STATE", "/var/lib/lastro")
    with pytest.raises(InputError):
        parse(f'[dut]\naddress = "host"\nstate = {json.dumps(text)}\n', "bed.toml")


@pytest.mark.parametrize("text", ["/srv/lastro", "/a-b/c_d.e+f", "/srv/lastro/"])
def test_an_ordinary_place_is_taken(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTRO_RUN", text)
    assert directory_from("LASTRO_RUN", "/run/lastro") == Path(text)
    monkeypatch.delenv("LASTRO_RUN")
    assert directory_from("LASTRO_RUN", "/run/lastro") == Path("/run/lastro")


@pytest.mark.processes
@pytest.mark.parametrize("command", [["doctor", "--quick"], ["clean"], ["status", "/nonexistent"]])
def test_a_wrong_place_is_one_error_before_anything_is_made(command: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "LASTRO_STATE": "state", "LASTRO_RUN": f"{tmp_path}/a b"}
    argv = [sys.executable, "-m", "lastro", *command]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 2, done
    assert "is not an absolute path of letters, digits" in done.stderr
    assert not list(tmp_path.iterdir())
