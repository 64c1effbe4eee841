"""`lastro --help` against starting Python and doing nothing. Target: under 3 times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _harness import interleaved

LASTRO = str(Path(sys.executable).with_name("lastro"))


def rows() -> list[str]:
    def run(*argv: str) -> None:
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

    ratio = interleaved(lambda: run(LASTRO, "--help"), lambda: run(sys.executable, "-c", "pass"), 40)
    return [ratio.row("`lastro --help` against `python3 -c pass`", "< 3")]


if __name__ == "__main__":
    print("\n".join(rows()))
