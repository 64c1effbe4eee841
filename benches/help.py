"""`lastro --help` against starting Python and doing nothing. Target: under 3 times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _harness import Ratio, interleaved, show

LASTRO = str(Path(sys.executable).with_name("lastro"))


def ratios() -> list[Ratio]:
    def run(*argv: str) -> None:
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

    what = "`lastro --help` against `python3 -c pass`"
    return [interleaved(what, "< 3", lambda: run(LASTRO, "--help"), lambda: run(sys.executable, "-c", "pass"), 40)]


if __name__ == "__main__":
    show(ratios())
