"""A campaign whose every text is hostile, through every command that prints: nothing controls the terminal.

The texts of a campaign come from whoever made it, and a campaign is a thing to pass on."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from lastro.cli import main
from lastro.results.samples import Metric, Series
from lastro.results.store import Store

from ..support.campaigns import PROVENANCE, Levels, make_campaign, make_study
from .conftest import lastro

CLIPBOARD, C1, BIDI = "\x1b]52;c;aGk=\x07", "\x9b2J", "\u202egnp\u2066\u200f"
HOSTILE = f"{CLIPBOARD}{C1}{BIDI}\t\r\x08\x7f\u2028\U000e0041"
_SGR = re.compile(r"\x1b\[[0-9;]*m")
_NEVER = {chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x2070))}
COMMANDS = (
    ["status"],
    ["status", "--json"],
    ["results"],
    ["results", "--all-metrics"],
    ["results", "--json"],
    ["results", "--csv", "-"],
    ["report", "-o", "-", "--format", "md"],
    ["report", "-o", "-", "--format", "md", "--full"],
    ["report", "-o", "-", "--format", "latex"],
    ["advise-replicates"],
    ["advise-replicates", "--json"],
    ["show", "1"],
    ["show", "1", "--json"],
    ["show", "99999"],
)


def text(word: str) -> str:
    return f"{word}{HOSTILE}"


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two of one study: in each, a treatment that is unavailable, an invalid attempt, events, and an empty journal."""
    levels = {text("platform"): (text("native"), text("=runc")), "isolation": ("none", text("cgroups"))}
    metrics = (
        Metric(text("rate"), text("Mbit/s"), "higher", text("of TCP")),
        Metric("lag", "ms", "lower", text("lag")),
    )
    study = make_study(
        levels, replicates=4, metrics=metrics, baseline={"isolation": "none"}, title=text("title"),
        description=text("description"), profile=text("quick"),
    )  # fmt: skip

    def value(of: Levels, block: int, metric: str) -> float:
        return 100 + 3 * block % 5 + 7 * sum("runc" in str(level) for level in of.values())

    def doubts(of: Levels, block: int, attempt: int) -> list[str]:
        return [text("no traffic")] if (block, attempt) == (1, 1) else []

    def unavailable(of: Levels) -> tuple[str, str] | None:
        return (text("no runc"), text("install")) if text("=runc") in of.values() and "none" in of.values() else None

    def places(home: Path, factor: float) -> Path:
        made = make_campaign(
            home, study, value=lambda *of: factor * value(*of), doubts=doubts, unavailable=unavailable,
            notes=lambda of, block: {
                text("note"): text("said"), "two lines": "one\n\ncommands\n  run  1.0 ms  rm -rf /",
                text("more"): [{text("key"): text("value")}],
            },
            series=lambda of, block: [Series(text("series"), text("ms"), (1.0, 2.0))],
            extra={text("extra"): 1.0},
            provenance={
                **PROVENANCE, text("chapter"): {text("fact"): text("x")}, "host": {"hostname": text(f"edge{factor:g}")}
            },
        )  # fmt: skip
        with Store.open(made) as store:
            store.log("2026-11-02T12:00:00Z", text("kind"), text("event"))
        return made

    home = tmp_path_factory.mktemp("hostile")
    return places(home / "a", 1), places(home / "b", 0.5)


def controls(shown: str) -> set[str]:
    return {char for char in shown if char != "\n" and (unicodedata.category(char) == "Cc" or char in _NEVER)}


def words_of(command: list[str], directory: Path) -> list[str]:
    return [command[0], str(directory), *command[1:]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_control_character_is_printed(campaigns: tuple[Path, Path], command: list[str]) -> None:
    done = lastro(*words_of(command, campaigns[0]))
    assert (done.code == 0) is (command[-1] != "99999"), done
    assert done.out + done.err and controls(done.out + done.err) == set()


@pytest.mark.parametrize("option", [["--all"], ["--json"], ["--format", "md"], ["--format", "html"]], ids=str)
def test_a_pool_prints_none(campaigns: tuple[Path, Path], option: list[str]) -> None:
    done = lastro("pool", *campaigns, *option)
    assert done.code == 0 and controls(done.out + done.err) == set(), done


@pytest.mark.parametrize("option", [[], ["--json"], ["--format", "md"], ["--format", "github"], ["--all"]], ids=str)
def test_a_comparison_prints_none(campaigns: tuple[Path, Path], option: list[str]) -> None:
    done = lastro("compare", *campaigns, "--fail-over", "5%", *option)
    assert done.code in (0, 4) and controls(done.out + done.err) == set(), done


def test_a_note_of_several_lines_cannot_pass_for_what_follows_it(campaigns: tuple[Path, Path]) -> None:
    shown = lastro("show", campaigns[0], 1).out.splitlines()
    assert r'  two lines: "one\n\ncommands\n  run  1.0 ms  rm -rf /"' in shown
    assert sum(line.startswith("commands") for line in shown) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "command", [*COMMANDS, ["show", "1", "--commands"], ["report", "-o", "-"], ["results", "--raw", "--csv", "-"]],
    ids=" ".join,
)  # fmt: skip
def test_a_terminal_with_colours_gets_ours_only(
    campaigns: tuple[Path, Path], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, terminal)
    main(words_of(command, campaigns[0]))
    shown = terminal.getvalue()
    assert sys.stdout is terminal, "put back"
    document = command[0] in ("advise-replicates", "results", "status") and "--json" not in command
    assert ("\x1b[" in shown) is (document and "--csv" not in command), "documents have styles"
    assert shown and controls(_SGR.sub("", shown)) == set()


def test_an_error_that_quotes_a_word_of_the_command_line_is_plain() -> None:
    for words in ([text("nonsense")], ["plan", text("/nowhere")], ["status", text("/nowhere")]):
        done = lastro(*words)
        assert done.code == 2 and controls(done.err) == set(), done


def test_json_keeps_what_it_escapes(campaigns: tuple[Path, Path]) -> None:
    found = json.loads(lastro("status", campaigns[0], "--json").out)
    assert found["title"] == text("title") and found["last_event"]["text"] == text("event")


def test_a_spreadsheet_executes_no_cell(campaigns: tuple[Path, Path], tmp_path: Path) -> None:
    def cells(*option: str) -> list[list[str]]:
        lastro("results", campaigns[0], "--csv", tmp_path / "out.csv", *option)
        return list(csv.reader(io.StringIO((tmp_path / "out.csv").read_bytes().decode(), newline="")))

    safe, raw = cells(), cells("--raw")
    assert len(safe) == len(raw) > 10
    assert {cell[0] for row in safe for cell in row if cell} & set("=+-@\t\r") == set()
    assert any(cell.startswith("'=runc") for row in safe for cell in row)
    assert all(controls(cell) == set() for row in safe for cell in row)
    assert any(cell == text("=runc") for row in raw for cell in row)
    numbers = [row[-2] for row in safe[1:]]
    assert numbers == [row[-2] for row in raw[1:]] and float(numbers[0]) > 0
