"""Checks the SHA-256 of every file of a bundle. Then makes the report, each table and each figure again from the
database in the bundle, and compares them byte for byte.

  lastro verify study.crate.zip       a bundle, as `lastro bundle` wrote it
  lastro verify study/                the same as a directory, or unpacked

Prints each file that is damaged or differs, with what was expected. Needs no root, and changes nothing in the bundle.
Exits with 0 if everything is as it should be; with 9 if a file is damaged, or if the same versions of Lastro and its
libraries yield another file; with 8 if all hashes are right, but another version yields another file; with 2 if it is
not a bundle."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.builders.data.encoder import encode
from lastro.cli.compare import UNDECIDED
from lastro.plain import json_text, plain

if TYPE_CHECKING:
    from lastro.app.verify import BundleFault, Verification

NOT_VERIFIED = 9  # an exit code
_FORMAT = "lastro-verify/1"
_MOST_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="a zip or a directory that `lastro bundle` wrote")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    from lastro.app.verify import verify

    verification = verify(args.bundle)
    undecided = "undecided: the hashes are right, but these versions yield other files than those of the bundle"
    if verification.damaged:
        code, verdict = NOT_VERIFIED, "not verified: damaged"
    elif not verification.different:
        code, verdict = 0, "verified"
    elif verification.other_versions:
        code, verdict = UNDECIDED, undecided
    else:
        code, verdict = NOT_VERIFIED, "not verified: the database yields other files"
    if args.json:
        document = {"format": _FORMAT, "bundle": str(args.bundle), "verdict": verdict, "exit_code": code}
        print(json_text(encode(document | vars(verification), {})))
    else:
        print("\n".join(_lines(verification, verdict)))
    return code


def _lines(verification: Verification, verdict: str) -> list[str]:
    lines = [f"{verification.files} files compared with their SHA-256: {_count(verification.damaged, 'damaged')}"]
    lines += _findings(verification.damaged)
    if verification.was_rebuilt:
        made = "reports, tables, figures and records made again from the database"
        lines.append(f"{verification.rebuilt} {made}: {_count(verification.different, 'different')}")
        lines += _findings(verification.different)
    else:
        lines.append("Nothing was made again from the database, since the campaign or the list of hashes is damaged.")
    if verification.other_versions:
        lines.append("Other versions than those that made the bundle:")
        lines += [f"  {name} {there}, here {here}" for name, (there, here) in verification.other_versions.items()]
    return [*lines, verdict]


def _count(findings: Sequence[BundleFault], what: str) -> str:
    return f"{len(findings)} {what}" if findings else "all equal"


def _findings(findings: Sequence[BundleFault]) -> list[str]:
    lines = [f"  {plain(fault.file)}: {plain(fault.reason)}" for fault in findings[:_MOST_SHOWN]]
    more = len(findings) - len(lines)
    return [*lines, f"  and {more} more, which --json lists"] if more else lines
