"""What several commands share: arguments, percentages, JUnit files, a pause of the garbage collector."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lastro.errors import InputError
from lastro.study.selection import Selection
from lastro.units import parse_fraction
from lastro.words.language import LANGUAGES

MANY_INVALID_TRIALS = 7  # an exit code
_MOST_INVALID_IN_CI = "10%"
_FALSE = ("", "0", "false", "no")  # values of the environment variable CI


def study_arguments(parser: argparse.ArgumentParser, hosts: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the arguments that name a study and select levels, settings and blocks; `hosts` adds those for its hosts."""
    add = parser.add_argument
    add(
        "study", metavar="STUDY",
        help="a study file; a built-in study (see `lastro studies`); a suite: a folder of studies, or a built-in one",
    )  # fmt: skip
    hosts(parser)
    add("--profile", metavar="P", help="one of the study's profiles: quick, standard, paper, published or emulated")
    add(
        "--only", metavar="FACTOR=LEVEL,...", action="append", default=[],
        help="keep only these levels of a factor, such as platform=lxc,runc; repeatable",
    )  # fmt: skip
    add(
        "--set", metavar="NAME=VALUE", action="append", default=[], dest="settings",
        help="change a constant of the study, such as tcp_s=5; repeatable",
    )  # fmt: skip
    add("--replicates", metavar="N", type=int, help="run N blocks")


def selection(args: argparse.Namespace) -> Selection:
    """Return the selection of levels, settings and blocks that the arguments of `study_arguments` express."""
    return Selection(args.profile, tuple(args.only), tuple(args.settings), args.replicates)


def testbed_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--testbed", type=Path, metavar="FILE",
        help="a file with the hosts of client, DUT and server, or the word guest for a virtual machine;"
        " default: all on this machine",
    )  # fmt: skip


def hosts_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --testbed and --fleet, which exclude each other."""
    hosts = parser.add_mutually_exclusive_group()
    testbed_argument(hosts)
    hosts.add_argument(
        "--fleet", type=Path, metavar="FILE",
        help="a file with several testbeds, among which the blocks of the study are divided",
    )  # fmt: skip


def campaign_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR", help="a campaign's directory, as created by `lastro run`")


def language_argument(parser: argparse.ArgumentParser, of: str = "output") -> None:
    """Add --lang, the language of the output; `of` names that output in the help."""
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help=f"the language of the {of} (default: en)")


def junit_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the outcome as JUnit XML, for CI systems")


def write_file(file: Path, content: str | bytes) -> None:
    """Write a file atomically, and print its path on standard error."""
    from lastro.results.files import write_atomically

    write_atomically(file, content)
    print(f"wrote {file}", file=sys.stderr)


def output_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="-", help='the file to write; default: "-", standard output'
    )


def wait_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait for another campaign on this host to end")


def campaigns_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument `dirs`, a list: one campaign or suite, or several campaigns of one study."""
    parser.add_argument(
        "dirs", nargs="+", type=Path, metavar="DIR",
        help="a campaign's directory, as created by `lastro run`; several campaigns of one study are put together",
    )  # fmt: skip


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while a campaign is read.

    A large campaign is a million objects that live until the command ends. Searching them for cycles again and again
    takes longer than reading them."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def share(text: str, option: str, *, above_zero: bool = False) -> float:
    """Parse '5%' or '0.05' as 0.05; `option` names the option in errors.

    Raises: InputError unless the value is at least 0 (with `above_zero`: above 0) and below 1."""
    try:
        return parse_fraction(text, above_zero=above_zero)
    except InputError as error:
        raise InputError(f"{option}: {error.message}", error.hint) from None


def fail_invalid_argument(parser: argparse.ArgumentParser) -> None:
    """Add --fail-invalid to a command that runs a campaign; `MANY_INVALID_TRIALS` is the exit code if it fails."""
    parser.add_argument(
        "--fail-invalid", metavar="P",
        help=f"exit with {MANY_INVALID_TRIALS} if more than P of the runnable trials are invalid, such as 10%%;"
        f" default: {_MOST_INVALID_IN_CI}% if the environment variable CI is set, else no limit",
    )  # fmt: skip


def most_invalid(args: argparse.Namespace) -> float | None:
    """Return the fraction of invalid trials above which a campaign fails; None without --fail-invalid.

    Raises: InputError when its value is not a valid fraction."""
    text = args.fail_invalid or (_MOST_INVALID_IN_CI if os.environ.get("CI", "").lower() not in _FALSE else None)
    return None if text is None else share(text, "--fail-invalid")


def levels_named(texts: Sequence[str], option: str) -> dict[str, list[str]]:
    """Parse the values of an option such as --under, each like 'anomaly=memory,disk', as {factor: levels}.

    Raises: InputError for another form."""
    levels_by_factor: dict[str, list[str]] = {}
    for text in texts:
        name, sign, levels = text.partition("=")
        if not (name and sign and levels):
            raise InputError(f"{option}: '{text}' is not FACTOR=LEVEL", f"write it as in {option} anomaly=memory")
        levels_by_factor.setdefault(name.strip(), []).extend(level.strip() for level in levels.split(","))
    return levels_by_factor
