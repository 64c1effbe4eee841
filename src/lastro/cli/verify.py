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
    from lastro.app.verify import BundleFault

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
        _print_faults(f"{verification.files} files compared with their SHA-256", verification.damaged, "damaged")
        if verification.was_rebuilt:
            made = f"{verification.rebuilt} reports, tables, figures and records made again from the database"
            _print_faults(made, verification.different, "different")
        else:
            print("Nothing was made again from the database, since the campaign or the list of hashes is damaged.")
        if verification.other_versions:
            print("Other versions than those that made the bundle:")
        for name, (there, here) in verification.other_versions.items():
            print(f"  {name} {there}, here {here}")
        print(verdict)
    return code


def _print_faults(checked: str, faults: Sequence[BundleFault], what: str) -> None:
    print(f"{checked}: {f'{len(faults)} {what}' if faults else 'all equal'}")
    for fault in faults[:_MOST_SHOWN]:
        print(f"  {plain(fault.file)}: {plain(fault.reason)}")
    if len(faults) > _MOST_SHOWN:
        print(f"  and {len(faults) - _MOST_SHOWN} more, which --json lists")
