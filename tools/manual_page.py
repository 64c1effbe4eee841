"""Write the manual page from the help of the commands: `make manual`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from lastro import __version__
from lastro.cli import COMMANDS, _shell, command_parser

_HEAD = """\
.TH LASTRO 1 "" "Lastro {version}" "User Commands"
.SH NAME
lastro \\- measure what virtualization costs a network function
.SH SYNOPSIS
.B lastro
.I COMMAND
.RI [ OPTION " ...]"
.SH DESCRIPTION
Lastro measures what virtualization costs a network function, and what isolation saves when a neighbour misbehaves.
A study is one TOML file: platforms, virtual links, isolation mechanisms, functions, anomalies.
Lastro runs every combination on your own Linux host, in randomised blocks.
It writes a table, figures and an HTML report in which each trial has a verdict on its validity.
.PP
A
.I STUDY
is a study file, a folder of study files, or the name of a study that Lastro brings along, which
.B lastro studies
lists.
A campaign is one execution of a study, and has a directory of its own.
"""
_TAIL = """\
.SH ENVIRONMENT
.TP
.B LASTRO_PARTS
Folders of your own parts, separated by \\(dq:\\(dq.
.TP
.B LASTRO_STATE
Where root file systems and the ledger of what Lastro made are kept. Default: /var/lib/lastro.
An absolute path of letters, digits and ._+- alone; any other is refused before anything is made.
.TP
.B LASTRO_RUN
Where sockets and other files of running instances are. Default: /run/lastro.
Refused as LASTRO_STATE is.
.TP
.B LASTRO_MIRROR
The Debian mirror from which the root file system is built.
.TP
.B LASTRO_SNAPSHOT
A moment of Debian's archive, such as 20261101T000000Z, from which the root file system is built instead.
.SH FILES
.TP
.IB DIR /campaign.db
A campaign: the study, the conditions of the host, and every trial.
.TP
.IB DIR /report.html
The report.
.SH EXAMPLES
.EX
lastro new study.toml
lastro plan study.toml
sudo lastro run study.toml \\-\\-profile quick \\-o before
lastro results before
lastro compare before after \\-\\-fail\\-over 5%
.EE
"""
_ROOT = " (root)"


def manual() -> str:
    """Return the manual page, in roff with the macros of man(7). It has no date: the same help gives the same page."""
    lines = [_HEAD.format(version=__version__).rstrip()]
    for group, commands in COMMANDS.items():
        lines.append(f".SH {group.upper()} COMMANDS")
        for name, summary in commands.items():
            lines += _command(name, summary)
    lines += [".SH EXIT STATUS"]
    for code, meaning in _exit_codes():
        lines += [".TP", f".B {code}", _prose(meaning)]
    return "\n".join([*lines, _TAIL.rstrip()]) + "\n"


def _command(name: str, summary: str) -> Iterator[str]:
    parser, module = command_parser(name)
    takes = [action for action in parser._actions if not action.option_strings]
    words = [f"\\fI{_code(word)}\\fR" if action.nargs != "?" else f"[\\fI{_code(word)}\\fR]"
             for action in takes for word in [str(action.metavar)]]  # fmt: skip
    yield " ".join([".SS", "lastro", _code(name), *words, "[\\fIOPTION\\fR ...]"])
    sentence = summary.removesuffix(_ROOT)
    yield _prose(f"{sentence[0].upper()}{sentence[1:]}.{' Needs root.' if summary.endswith(_ROOT) else ''}")
    yield from _epilog(module.__doc__ or "")
    formatter = parser._get_formatter()
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            yield from (".TP", _invocation(action), _prose(formatter._expand_help(action)))


def _invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"\\fI{_code(str(action.metavar))}\\fR"
    value = ""
    if action.nargs != 0:
        choices = "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
        value = f" \\fI{_code(str(action.metavar or choices))}\\fR"
    return ", ".join(f"\\fB{_code(option)}\\fR" for option in action.option_strings) + value


def _epilog(text: str) -> Iterator[str]:
    """Yield paragraphs of prose, and runs of indented lines as examples."""
    paragraphs = [
        list(lines) for blank, lines in groupby(text.splitlines(), lambda line: not line.strip()) if not blank
    ]
    for paragraph in paragraphs:
        for indented, lines in groupby(paragraph, lambda line: line.startswith("  ")):
            if indented:
                yield from (".PP", ".RS 4", ".EX", *(_line(_code(line[2:])) for line in lines), ".EE", ".RE")
            else:
                yield from (".PP", _prose(" ".join(lines)))


def _exit_codes() -> list[tuple[str, str]]:
    """Return the rows of the table on the page of commands."""
    page = (Path(__file__).parents[1] / "docs" / "reference-commands.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (\d+) \| (.*) \|$", page[page.index("## Exit codes") :], re.MULTILINE)


def _prose(text: str) -> str:
    """Return running text; what stands between backquotes, and options, as it is typed."""
    parts = re.split(r"`([^`]+)`", " ".join(text.split()))
    for at, part in enumerate(parts):
        if at % 2:
            parts[at] = f"\\fB{_code(part)}\\fR"
        else:
            parts[at] = re.sub(r"(?<![\w\\])--?[a-z][\w-]*", lambda match: _code(match[0]), _escaped(part))
    return _line("".join(parts))


def _code(text: str) -> str:
    """Return text in which a hyphen is the one of ASCII, so that it can be copied into a shell."""
    return re.sub(r"(?<!\\)-", r"\\-", _escaped(text)).replace("'", "\\(aq").replace("`", "\\(ga")


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e")
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text)


def _line(text: str) -> str:
    """Return a line that roff does not take for a request."""
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    _shell.MANUAL.write_text(manual(), encoding="utf-8")
    print(f"wrote {_shell.MANUAL}")
