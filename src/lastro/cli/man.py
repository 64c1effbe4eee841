"""On a terminal, `man` shows the page. A file or a pipe gets its source, in roff:

  mkdir -p ~/.local/share/man/man1
  lastro man > ~/.local/share/man/man1/lastro.1

pip and pipx install the page themselves; uv does not put it where `man lastro` finds it."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

from lastro.cli._shell import MANUAL
from lastro.cli._terminal import print_document


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--roff", action="store_true", help="print the source of the page, even on a terminal")


def run(args: argparse.Namespace) -> int:
    viewer = shutil.which("man")
    if viewer and sys.stdout.isatty() and not args.roff:
        return subprocess.run([viewer, "-l", str(MANUAL)], check=False).returncode
    print_document(MANUAL.read_text(encoding="utf-8"))
    return 0
