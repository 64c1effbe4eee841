"""Completion as the shells do it: a real line editor on a pseudo-terminal, with the script that Lastro prints."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lastro import papers, registry
from lastro.cli import COMMANDS, command_parser
from lastro.cli._completion import completion, published
from lastro.cli._shell import HOME, SHELLS

from ..support.campaigns import make_campaign
from .conftest import lastro

NAMES = {name for group in COMMANDS.values() for name in group}
OWN_PLATFORMS = {i.name for i in registry.parts("platform").values() if i.origin.startswith("lastro.")}


SCRIPTS: dict[str, Path] = {}
LEVELS = """
study.name = "levels"
[factors]  # "quoted" = ["in a comment"]
platform = [
  "native", 'lxc',  # ] two quotes
  "kvm:disk=virtio,cache=none", "two words",
]
"instrument.threads" = [1, 20]
[settings]
tcp_s = 5  # tcp_streams = 2
platform_x = "a = b"
[profiles.quick]
replicates = 2
"""


@pytest.fixture(scope="module", autouse=True)
def scripts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The script of each shell, as a file of the name under which the shell finds it."""
    names = {"bash": "lastro.bash", "zsh": "_lastro", "fish": "lastro.fish"}
    place = tmp_path_factory.mktemp("scripts")
    SCRIPTS.update({shell: place / names[shell] for shell in SHELLS})
    for shell, file in SCRIPTS.items():
        file.write_text(completion(shell), encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A place with studies, campaigns, a suite and what is none of these."""
    make_campaign(tmp_path / "before", stop_after=1)
    make_campaign(tmp_path / "work" / "c1", stop_after=1)
    make_campaign(tmp_path / "work" / "c two", stop_after=1)
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "suite.json").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "study.toml").write_text('[study]\n[profiles.short]\n[[profiles.short.exclude]]\n[profiles."x"]\n')
    (tmp_path / "levels.toml").write_text(LEVELS)
    (tmp_path / "notes.txt").touch()
    return tmp_path


# The scripts


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_with_how_to_install_it(shell: str) -> None:
    done = lastro("completion", shell)
    assert (done.code, done.err) == (0, "")
    head = done.out.splitlines()[:4]
    assert any(line.startswith(f"# Install: lastro completion {shell} > ") for line in head)
    assert done.out == completion(shell)
    registration = {
        "bash": "\ncomplete -o bashdefault -F _lastro lastro\n",
        "zsh": "#compdef lastro\n",
        "fish": "\ncomplete -c lastro ",
    }
    assert registration[shell] in "\n" + done.out
    for name in NAMES:
        assert name in done.out
    for study in papers.names():
        assert study in done.out


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_shell_finds_no_error_in_its_script(shell: str) -> None:
    done = subprocess.run([shell, "-n", SCRIPTS[shell]], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_another_shell_is_an_error() -> None:
    done = lastro("completion", "tcsh")
    assert done.code == 2 and "invalid choice: 'tcsh'" in done.err


def test_every_option_is_in_every_script() -> None:
    for shell, file in SCRIPTS.items():
        text = file.read_text(encoding="utf-8")
        for name in NAMES:
            for action in command_parser(name)[0]._actions:
                for option in action.option_strings:
                    shown = f"-l {option[2:]}" if shell == "fish" and option.startswith("--") else option
                    shown = f"-s {option[1:]}" if shell == "fish" and not option.startswith("--") else shown
                    assert shown in text, (shell, name, option)


# Real shells. `lastro` is a function there, which writes down its arguments.

_INSERT_ALL = "\x1b*"
_PREPARE = {
    "bash": "bind 'set completion-query-items 0'; source {script}",
    # _all_matches inserts every match, as readline does with M-*.
    "zsh": "bindkey -e; LISTMAX=9999; fpath=({script:h} $fpath); autoload -Uz compinit; compinit -C -d {dump}; "
    "zstyle ':completion:*' completer _all_matches _complete; zstyle ':completion:*' insert yes; "
    "zstyle ':completion:*' old-matches true",
}
_ARGV = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


def typed(shell: str, home: Path, line: str, keys: str = "\t") -> list[str]:
    """Type a line and keys into an interactive shell, press Enter, and return the words that `lastro` is given."""
    script = SCRIPTS[shell]
    prepare = _PREPARE[shell].replace("{script:h}", str(script.parent)).replace("{script}", str(script))
    prepare = prepare.replace("{dump}", str(home.parent / "zsh-dump"))  # one for all tests: it takes long to write
    function = "lastro() { printf '%s\\n' \"$@\" > ~/words.new; mv ~/words.new ~/words; }"
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home)
        os.environ.update(PS1="", TERM="dumb", LC_ALL="C.UTF-8", HOME=str(home))
        os.execvp(_ARGV[shell][0], _ARGV[shell])
    try:
        os.write(terminal, f"stty -echo; {prepare}; {function}; printf 're''ady\\n'\n".encode())
        _wait(terminal, lambda text: "ready" in text)
        os.write(terminal, f"{line}{keys}\n".encode())
        _wait(terminal, lambda text: (home / "words").exists())
        return (home / "words").read_text(encoding="utf-8").splitlines()
    finally:
        os.close(terminal)  # the shell gets SIGHUP
        os.waitpid(child, 0)
        (home / "words").unlink(missing_ok=True)


def _wait(terminal: int, condition: Callable[[str], bool]) -> None:
    """Read what the shell writes until a condition on it holds."""
    text, deadline = "", time.monotonic() + 60
    while not condition(text):
        assert time.monotonic() < deadline, f"waited in vain: {text!r}"
        if select.select([terminal], [], [], 0.02)[0]:
            text += os.read(terminal, 65536).decode(errors="replace")


def proposed_by_fish(home: Path, line: str) -> list[str]:
    script = f"source {SCRIPTS['fish']}; complete -C $argv[1]"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script, line], cwd=home, capture_output=True, text=True, timeout=60,
        env={**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert done.stderr == ""
    return [proposal.partition("\t")[0].removesuffix("/") for proposal in done.stdout.splitlines()]


STUDIES = set(papers.names()) | {"trindade2018", "mendes2019", "eiras2018"}
DIRECTORIES = {"before", "other", "suite", "work"}
# What is typed, and every word that can follow; directories without their slash.
PROPOSED = [
    ("", NAMES),
    ("compare before work/c1 --fail", {"--fail-changed-host", "--fail-lost", "--fail-over"}),
    ("report before --format ", {"html", "latex", "md"}),
    ("parts ", set(registry.KINDS)),
    ("completion ", set(SHELLS)),
    ("run ", STUDIES | DIRECTORIES | {"levels.toml", "study.toml"}),
    ("run tri", {name for name in STUDIES if name.startswith("tri")}),
    ("run mendes2019/", {name for name in STUDIES if name.startswith("mendes2019/")}),
    ("run study.toml --profile ", {"short"}),
    ("run kagami2017 --profile ", {"quick", "standard", "paper", "published", "emulated"}),
    ("run study.toml --testbed ", DIRECTORIES | {"levels.toml", "study.toml"}),
    ("status ", {"before", "suite", "work"}),
    ("status work/", {"work/c1", "work/c two"}),
    ("compare before ", {"before", "suite", "work"}),
    ("plan study.toml --gate 0.05 --from ", {"before", "suite", "work"}),
    ("noise-floor ", STUDIES | DIRECTORIES | {"levels.toml", "study.toml"}),
    ("doctor --platform ", OWN_PLATFORMS),
    ("schema ", {info.name for info in registry.parts("scenario").values() if info.origin.startswith("lastro.")}),
]
# What is typed, and what one Tab makes of it.
COMPLETED = [
    ("run kag", "run kagami2017"),
    ("run study.toml --prof", "run study.toml --profile"),
    ("run study.toml --profile=", "run study.toml --profile=short"),
    ("claims before --lang pt", "claims before --lang pt-BR"),
    ("doctor --platform qemu", "doctor --platform qemu-tcg"),
]


@pytest.mark.parametrize(("line", "expected"), PROPOSED, ids=[line or "-" for line, _ in PROPOSED])
def test_what_is_proposed(home: Path, line: str, expected: set[str]) -> None:
    keep = line.count(" ")
    found = typed("bash", home, f"lastro {line}", _INSERT_ALL)[keep:]
    assert {word.rstrip("/") for word in found} == expected
    if shutil.which("fish"):
        assert set(proposed_by_fish(home, f"lastro {line}")) == expected
    if shutil.which("zsh"):
        assert {word.rstrip("/") for word in typed("zsh", home, f"lastro {line}")[keep:]} == expected


@pytest.mark.parametrize(("line", "expected"), COMPLETED, ids=[line for line, _ in COMPLETED])
def test_what_a_tab_completes(home: Path, line: str, expected: str) -> None:
    assert typed("bash", home, f"lastro {line}") == expected.split()
    if shutil.which("fish"):
        assert proposed_by_fish(home, f"lastro {line}") == [expected.split()[-1]]
    if shutil.which("zsh"):
        assert typed("zsh", home, f"lastro {line}") == expected.split()


# What is typed, and the texts about a factor or a constant that can follow.
LEVELS_OF_PLATFORM = {f"platform={level}" for level in ("native", "lxc", "kvm:disk=virtio,cache=none", "two words")}
OF_STUDIES = [
    ("run levels.toml --only ", {"platform=", "instrument.threads="}),
    ("run levels.toml --only=pl", {"platform="}),
    ("run levels.toml --only platform=", LEVELS_OF_PLATFORM),
    ("run levels.toml --only platform=kvm:disk=v", {"platform=kvm:disk=virtio,cache=none"}),
    ("run levels.toml --only platform=native,l", {"platform=native,lxc"}),
    ("run levels.toml --only=instrument.threads=1,", {"instrument.threads=1,20"}),
    ("plan levels.toml --set ", {"tcp_s=", "platform_x="}),
    ("run kagami2017 --only function=dpi,", {"function=dpi,firewall", "function=dpi,nat"}),
    ("run kagami2017 --only fun", {"function="}),
    ("run kagami2017 --set tcp_st", {"tcp_streams="}),
    ("run trindade2018 --only tow", set()),
    ("run study.toml --only ", set()),
]


@pytest.mark.parametrize(("line", "expected"), OF_STUDIES, ids=[line for line, _ in OF_STUDIES])
def test_factors_levels_and_constants_of_the_study_are_proposed(home: Path, line: str, expected: set[str]) -> None:
    begun = line.rpartition(" ")[2].removeprefix("--only=")
    kept = begun[: max(begun.rfind("="), begun.rfind(":")) + 1]  # of the word, bash inserts what follows alone
    last = line.count(" ")
    for shell, keys in (("bash", _INSERT_ALL), ("zsh", "\t")):
        if shutil.which(shell):
            first, *others = typed(shell, home, f"lastro {line}", keys)[last:] or [""]
            first = first.removeprefix("--only=")
            found = {first, *(f"{kept}{word}" if shell == "bash" else word for word in others)}
            assert found == (expected or {begun}), shell
    if shutil.which("fish"):
        assert {word.removeprefix("--only=") for word in proposed_by_fish(home, f"lastro {line}")} == expected


def test_every_published_study_is_read_as_the_awk_program_reads_it() -> None:
    for name in papers.names():
        done = subprocess.run(["awk", "-f", HOME / "values.awk", papers.find(name)], capture_output=True, text=True)
        lines = [line.split("\t") for line in published() if line.startswith(f"{name}\t")]
        assert done.stdout.splitlines() == [f"{key} {word}" for _, key, *words in lines for word in words]
        assert "'" not in "".join(published()) and "\\" not in "".join(published())


def test_a_name_with_a_space_is_quoted(home: Path) -> None:
    assert typed("bash", home, r"lastro status work/c\ t") == ["status", "work/c two"]
    assert typed("bash", home, "lastro status ~/work/c1") == ["status", str(home / "work" / "c1")]


def test_options_come_before_values_and_after(home: Path) -> None:
    assert typed("bash", home, "lastro run --wait stu", "\t") == ["run", "--wait", "study.toml"]
    assert "--wait" in typed("bash", home, "lastro run study.toml --", _INSERT_ALL)
