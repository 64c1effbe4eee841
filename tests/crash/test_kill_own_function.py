"""A campaign with a function that the study brings is killed while the function runs, and nothing of it is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own-function"
LASTRO = [sys.executable, "-m", "lastro"]
CHOSEN = ["--profile", "quick", "--replicates", "1", "--only", "function=forwarder", "--set", "max_foreign_cpus=4096"]


def functions() -> list[str]:
    """Return the processes of the function, by their only word."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [str(line)] if line.read_bytes() == b"/forwarder\0" else []
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.mark.parametrize("platform", ["native", "runc", "docker"])
def test_nothing_is_left_of_a_function_after_a_kill(tmp_path: Path, platform: str) -> None:
    study, campaign = tmp_path / "study.toml", str(tmp_path / "own")
    study.write_text((EXAMPLE / "study.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "files").mkdir()
    subprocess.run([str(EXAMPLE / "make-files"), str(tmp_path / "files")], check=True)
    words = [*LASTRO, "run", str(study), *CHOSEN, "--only", f"platform={platform}", "-o", campaign]
    begun = subprocess.Popen(words)
    deadline_s = time.monotonic() + 300
    while not functions() and begun.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert functions()
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    subprocess.run([*LASTRO, "clean"], check=True)
    assert not functions()
    subprocess.run([*LASTRO, "resume", campaign], check=True)
    assert not functions()
