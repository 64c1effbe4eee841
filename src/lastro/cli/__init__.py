"""The command line. One short module per command, imported only when its command is typed.

It uses argparse and a table of names rather than typer: importing typer alone takes about six times as long as starting
Python, and `lastro --help` must take less than three times as long."""

from __future__ import annotations

import importlib
import io
import sys
import warnings
from types import ModuleType

from lastro.plain import SUBSTITUTING, PlainStream, UnwritableOutput, unfiltered

TYPE_CHECKING = False  # type checkers know the name; importing it from typing would take a third of the time of --help
if TYPE_CHECKING:
    import argparse
    from typing import TextIO

COMMANDS = {
    "study": {
        "new": "write a commented study file to start from",
        "studies": "list the studies that Lastro brings along: of papers, and its own",
        "plan": "show treatments, trials, what is unavailable and why, and the expected duration",
        "run": "run a study on this host (root)",
        "ab": "say whether a change made it slower: both variants in the same blocks (root)",
        "resume": "continue a campaign that was interrupted (root)",
        "noise-floor": "run the baseline against itself to find the noise floor of each metric (root)",
        "schema": "print the JSON Schema of study files, for editors",
    },
    "campaign": {
        "status": "show the progress of a campaign, and the next command",
        "serve": "show the campaigns of a directory in the browser, while they run",
        "show": "show everything about one trial; --commands prints a script that repeats it",
        "results": "print the table of results; --json, --csv, --parquet",
        "report": "write the self-contained HTML report",
        "claims": "judge published claims against a campaign, one by one",
        "decide": "say which candidate keeps the service levels, at what cost, and how sure that is",
        "advise-replicates": "estimate how many blocks the next campaign needs",
        "compare": "compare one study on two hosts or two days; --fail-over 5% makes it a CI gate",
        "history": "keep campaigns over months; say where their means changed, and what else did",
        "pool": "pool one study over several hosts: mean, spread, and what a new host will see",
        "bundle": "write a campaign as one archive that others can cite and verify: an RO-Crate",
        "verify": "check the hashes of a bundle; make its report again from its data, and compare",
    },
    "host": {
        "setup": "install what parts require: Debian packages, gVisor, vegeta, JMeter (root)",
        "doctor": "find out what this host can run, by trying it (root)",
        "parts": "list every platform, attachment, isolation, function …",
        "image": "show the root filesystem that every platform runs; build it if missing (root)",
        "clean": "remove what a crash left behind, exactly as the ledger lists it (root)",
    },
    "shell": {
        "completion": "print the completion script for bash, zsh or fish",
        "man": "show the manual page",
    },
}

WRITERS = ("new", "run", "ab", "resume", "noise-floor", "results", "report", "compare", "history", "pool", "bundle")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; turn all errors into messages on standard error."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_closed_streams()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries warn of code, such as a division by zero, not of the user's input
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (PlainStream(unfiltered(stream)) for stream in streams)
    code = 0
    try:
        code = _main(sys.argv[1:] if argv is None else argv, streams)
        sys.stdout.flush()
    except KeyboardInterrupt:  # raised before `_run_command` could catch it
        _complain("interrupted")
        code = 130
    except BrokenPipeError:  # `lastro results DIR | head`: the reader has seen enough
        _discard_output()
    except UnwritableOutput as error:
        _discard_output()
        _complain(f"the output cannot be written: {error.strerror}")
        code = 3
    finally:
        sys.stdout, sys.stderr = streams
    return code


def _complain(message: str, hint: str | None = None) -> None:
    """Print an error and its hint. If standard error cannot be written, the exit code alone reports the error."""
    import re

    text = "\n        ".join([f"lastro: {message}", *(hint or "").splitlines()])
    try:
        print(re.sub(r"(\S{200})\S{200,}", r"\1…", text), file=sys.stderr)
    except OSError:
        return


def _open_closed_streams() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise, the next file to be opened would get its number: a library could print its messages into a database."""
    import os

    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # has this number: it is the lowest one that is free
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _main(words: list[str], streams: tuple[TextIO, TextIO]) -> int:
    """Print the help or the version, or run the command; return the exit code. `streams` are stdout and stderr."""
    for stream in streams:  # a terminal that lacks ▲ or ± gets another character, not a crash
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=SUBSTITUTING)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        from lastro import __version__

        print(f"lastro {__version__}")
        return 0
    known = [name for group in COMMANDS.values() for name in group]
    if words[0] not in known:
        from lastro.errors import did_you_mean

        what = "option" if words[0].startswith("-") else "command"
        print(f"lastro: no {what} '{words[0]}': {did_you_mean(words[0], known)}", file=sys.stderr)
        return 2
    return _run_command(words[0], words[1:])


def _help() -> str:
    lines = [
        "usage: lastro COMMAND [OPTION ...]",
        "",
        "What virtualization costs a network function, and what isolation saves.",
        "",
    ]
    width = max(len(name) for commands in COMMANDS.values() for name in commands)
    for group, commands in COMMANDS.items():
        lines.append(f"{group}:")
        lines += [f"  {name:<{width}} {summary}" for name, summary in commands.items()]
    lines += [
        "",
        "`lastro COMMAND --help` shows the options of a command. Only commands marked (root) need root.",
        "Exit codes: 0 success; 1 unexpected error; 2 bad input; 3 not possible on this host;",
        "4 regression found, or no candidate holds; 5 campaign database unusable; 6 host busy;",
        "7 too many invalid trials; 8 gate, decision or bundle undecided; 9 bundle not verified;",
        "130 interrupted by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP (the terminal is gone), after cleaning up.",
    ]
    return "\n".join(lines)


def module_name(command: str) -> str:
    """Return the name of a command's module: hyphens become underscores."""
    return command.replace("-", "_")


def _run_command(name: str, rest: list[str]) -> int:
    """Run a command and turn each error into a message and an exit code."""
    import os
    from pathlib import Path

    from lastro.cli._failures import failure
    from lastro.errors import InputError, LastroError
    from lastro.interrupts import exit_code, raise_interrupts

    try:
        raise_interrupts()
        os.environ["PATH"] = os.environ.get("PATH") or os.defpath
        try:
            Path.cwd()
        except OSError as error:
            message = f"the working directory is not there: {error.strerror}"
            raise InputError(message, "cd to one that exists") from error
        return _parse_and_run(name, rest)
    except SystemExit as exit_:  # argparse: 0 after --help, 2 after a bad argument
        return exit_.code if isinstance(exit_.code, int) else 1
    except LastroError as error:
        _complain(error.message, error.hint)
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        _complain(f"interrupted{': ' + str(interrupt) if str(interrupt) else ''}")
        return exit_code(interrupt)
    except (BrokenPipeError, UnwritableOutput):
        raise
    except Exception as error:
        code, message, hint = failure(error)
        _complain(message, hint)
        return code


def _parse_and_run(name: str, rest: list[str]) -> int:
    """Parse the arguments of a command, run it, and return its exit code: 0 if its `run` returns None.

    Raises: SystemExit for bad arguments."""
    parser, module = command_parser(name)
    for option, _, value in (word.partition("=") for word in rest):
        if option.startswith("--") and value == "--":  # argparse would turn it into an empty list
            parser.error(f"argument {option}: '--' is not a value")
    args, unknown = parser.parse_known_args(rest)
    if unknown:
        from lastro.errors import did_you_mean

        known = [text for action in parser._actions for text in action.option_strings if text.startswith("--")]
        option = unknown[0].partition("=")[0]
        hint = f"; {did_you_mean(option, known)}" if option.startswith("--") else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    from contextlib import ExitStack

    with ExitStack() as stack:
        if getattr(args, "trust", False):
            from lastro.files import trust_directories

            stack.enter_context(trust_directories())
        try:
            return int(module.run(args) or 0)
        except SystemExit as error:  # no command does this, but a part may
            raise RuntimeError("it ended the program") from error


def _discard_output() -> None:
    """Discard the unwritten output, so that the interpreter does not try to write it when it exits.

    Source: the note on SIGPIPE in Python's documentation of `signal`."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def command_parser(name: str) -> tuple[argparse.ArgumentParser, ModuleType]:
    """Import a command's module, and return the command's parser and this module."""
    import argparse

    module = importlib.import_module(f"lastro.cli.{module_name(name)}")
    summary = next(group[name] for group in COMMANDS.values() if name in group)
    parser = argparse.ArgumentParser(
        prog=f"lastro {name}", description=summary, epilog=module.__doc__, allow_abbrev=False
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    module.configure(parser)
    if name in WRITERS:
        parser.add_argument(
            "--trust", action="store_true", help="as root, also write to directories that other users own or can change"
        )
    return parser, module
