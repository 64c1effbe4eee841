"""Write the completion scripts and the manual page from the help of the commands: `make shell-files`.

shtab makes the scripts. They start no program when a user presses Tab, which takes about 4 ms. argcomplete was the
alternative: it starts Lastro at every Tab, and importing a command takes about 200 ms."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import shtab

from lastro import __version__, papers, registry
from lastro.cli import COMMANDS, _shell, command_parser

VALUES = Path(__file__).parent / "completion"

# How the value of an argument is completed, by its name in the parser, or by command and name. A function's name, the
# kind of a part, or None where there is nothing to propose. A test asserts that no argument is missing.
COMPLETERS: dict[str | tuple[str, str], str | None] = {
    "study": "_lastro_studies",
    ("calibrate", "study"): "_lastro_campaigns_and_studies",
    "dir": "_lastro_campaigns",
    "a": "_lastro_campaigns",
    "b": "_lastro_campaigns",
    ("calibrate", "output"): "_lastro_campaigns",
    ("run", "output"): "_lastro_directories",
    ("report", "output"): "_lastro_paths",
    "csv": "_lastro_paths",
    "parquet": "_lastro_paths",
    "junit": "_lastro_paths",
    "file": "_lastro_toml",
    "testbed": "_lastro_toml",
    "claims": "_lastro_toml",
    "profile": "_lastro_profiles",
    "part": "part",
    "platform": "platform",
    "scenario": "scenario",
    "attempt": None,
    "confidence": None,
    "fail_over": None,
    "metric": None,
    "name": None,
    "precision": None,
    "trial": None,
}
# zsh and fish have these themselves.
NATIVE = {
    ("zsh", "_lastro_directories"): "_files -/",
    ("zsh", "_lastro_paths"): "_files",
    ("fish", "_lastro_directories"): "(__fish_complete_directories (commandline -ct))",
    ("fish", "_lastro_paths"): "(__fish_complete_path (commandline -ct))",
}
INSTALL = {
    "bash": "lastro completion bash > ~/.local/share/bash-completion/completions/lastro\n"
    '#       or, without the package bash-completion, in ~/.bashrc: eval "$(lastro completion bash)"',
    "zsh": "lastro completion zsh > ~/.zfunc/_lastro\n"
    "#       and in ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit",
    "fish": "lastro completion fish > ~/.config/fish/completions/lastro.fish",
}


def files() -> dict[Path, str]:
    """Return the text of each file."""
    scripts = {file: completion(shell) for shell, file in _shell.COMPLETIONS.items()}
    return {**scripts, _shell.MANUAL: manual()}


# Completion


def completion(shell: str) -> str:
    """Return the completion script of a shell."""
    values = (VALUES / f"values.{shell}").read_text(encoding="utf-8").replace("@STUDIES@", " ".join(studies()))
    script = shtab.complete(_whole_parser(shell), shell, preamble=values)
    generated = (
        f"# Completion of Lastro's commands for {shell}, made by shtab (MPL-2.0, https://github.com/tqdm/shtab)."
    )
    head, lines = "", script.splitlines()
    if shell == "zsh":  # the first line says what the file is for
        head = lines.pop(0) + "\n"
        lines = [_with_equals_sign(line) for line in lines]
    while lines[0].startswith("#") or not lines[0]:  # shtab's own words on how to install
        del lines[0]
    if shell == "bash":
        assert lines[-1] == "complete -o bashdefault -F _shtab_lastro lastro"
        lines[-1] = "complete -o bashdefault -F _lastro lastro"
    body = "\n".join(line.rstrip() for line in lines)
    return f"{head}{generated}\n# Install: {INSTALL[shell]}\n\n{body}\n"


def _with_equals_sign(line: str) -> str:
    """Return the line of an option that takes a value so that zsh completes --option=VALUE too."""
    help_ = r"\[(?:[^\]\\]|\\.)*\]:"
    line = re.sub(rf'^(  "\*?--[\w-]+)(?={help_})', r"\1=", line)
    return re.sub(rf'^(  \{{-\w),(--[\w-]+)(?=\}}"{help_})', r"\1+,\2=", line)


def studies() -> list[str]:
    """Return every published study and suite as the command line names it."""
    names = papers.names()
    suites = {name.partition("/")[0] for name in names}
    return [f"paper:{name}" for name in sorted({*names, *suites})]


def _whole_parser(shell: str) -> argparse.ArgumentParser:
    """Return one parser of all commands, which Lastro itself never builds."""
    parser = argparse.ArgumentParser(prog="lastro", description="What virtualization costs a network function.")
    parser.add_argument("-V", "--version", action="version", version=__version__, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, summary in _commands():
        inner = commands.add_parser(name, description=summary, help=summary)
        for action in command_parser(name)[0]._actions:
            if not isinstance(action, argparse._HelpAction):
                _complete(name, action, shell)
                inner._add_action(action)
    return parser


def _complete(command: str, action: argparse.Action, shell: str) -> None:
    if action.choices or action.nargs == 0:
        return
    key = (command, action.dest)
    completer = COMPLETERS[key] if key in COMPLETERS else COMPLETERS[action.dest]
    kinds = registry.KINDS if completer == "part" else (completer,) if completer in registry.KINDS else ()
    if kinds:
        infos = [info for kind in kinds for info in registry.parts(kind).values()]
        action.choices = sorted({info.name for info in infos if info.origin.startswith("lastro.")})
    elif completer is not None:
        call = f"({completer})" if shell == "fish" else completer
        action.complete = {shell: NATIVE.get((shell, completer), call)}  # type: ignore[attr-defined]


def _commands() -> Iterator[tuple[str, str]]:
    for group in COMMANDS.values():
        yield from group.items()


# The manual page

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
is a study file, a folder of study files, or
.BI paper: NAME\\fR,
a published study that Lastro brings along.
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
.TP
.B LASTRO_RUN
Where sockets and other files of running instances are. Default: /run/lastro.
.TP
.B LASTRO_MIRROR
The Debian mirror from which the root file system is built.
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
    """Return the rows of the table in the README."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (\d+) \| (.*) \|$", readme[readme.index("## Exit codes") :], re.MULTILINE)


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
    for file, text in files().items():
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")
