"""On a terminal, `man` shows the page. Into a file or a pipe goes its source, in roff:

  lastro man > ~/.local/share/man/man1/lastro.1

pip and pipx install the page themselves; `man lastro` then works where their share/man is in the MANPATH."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

from lastro.cli._shell import MANUAL


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--roff", action="store_true", help="print the source of the page, on a terminal too")


def run(args: argparse.Namespace) -> int:
    viewer = shutil.which("man")
    if viewer and sys.stdout.isatty() and not args.roff:
        return subprocess.run([viewer, "-l", str(MANUAL)], check=False).returncode
    print(MANUAL.read_text(encoding="utf-8"), end="")
    return 0
