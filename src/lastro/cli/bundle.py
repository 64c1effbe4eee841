"""The bundle has the study, the database, transcripts, provenance, the report, figures and tables, and the SHA-256 of
each file. It is an RO-Crate 1.1, which archives such as Zenodo and other programs can read.

  lastro bundle DIR                                writes DIR.crate.zip
  lastro bundle DIR -o study.zip                   elsewhere
  lastro bundle DIR -o study                       as a directory
  lastro bundle DIR --author 'Ana Silva' --license CC-BY-4.0
  lastro bundle DIR --anonymous                    without names of hosts and users, for a double-blind review

Needs no root. A suite becomes one bundle, too. `lastro verify` checks a bundle on any machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from lastro.cli._common import campaign_argument, language_argument
from lastro.errors import InputError
from lastro.units import human_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    campaign_argument(parser)
    add(
        "-o", "--output", type=Path, metavar="FILE",
        help="a zip, or a new directory if the name does not end with .zip (default: DIR.crate.zip)",
    )  # fmt: skip
    add(
        "--author", metavar="NAME", action="append", default=[], dest="authors",
        help="an author of the study, such as 'Ana Silva <0000-0002-1825-0097>', with an ORCID or without; repeatable",
    )  # fmt: skip
    add("--license", metavar="ID", default="", help="the licence of the data: an SPDX identifier or an address")
    language_argument(parser, "report")
    add(
        "--anonymous", action="store_true",
        help="replace names of hosts and users, and leave out the kernel's command line",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    from lastro.app.bundle import BundleOptions, place_for_bundle, write_bundle
    from lastro.builders.crate import author, licence_url

    if args.anonymous and args.authors:
        raise InputError("--anonymous and --author contradict each other", "leave out one of them")
    if args.license:
        licence_url(args.license)
    wanted = BundleOptions(tuple(map(author, args.authors)), args.license, args.lang, args.anonymous)
    written = write_bundle(args.dir, args.output or place_for_bundle(args.dir), wanted)
    print(f"{written.place}: {written.files} files, {human_bytes(written.size)}, SHA-256 {written.sha256}")
    if written.waiting:
        print(f"The campaign is unfinished. Trials that have not run: {written.waiting}")
    if not written.licence:
        print("The bundle states no licence. If you publish it, choose one, such as --license CC-BY-4.0.")
    print(f"Check it on any machine: lastro verify {written.place}")
