"""Somebody else is busy on the host for a while: the campaign waits, says for whom, and loses no trial."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastro.results.store import Store

from ..cli.conftest import lastro, rows, study_text

pytestmark = [pytest.mark.root, pytest.mark.measures]

SHORT = {
    "attachment": "veth-direct", "function": "none", "settle_s": 0, "tcp_s": 1, "udp_s": 1, "ping_s": 0.5, "gap_s": 0,
    "ping_interval_ms": 20,
}  # fmt: skip


@contextmanager
def load(seconds: float) -> Iterator[int]:
    """The process ID of a loop that keeps one CPU busy, and ends by itself."""
    loop = f"import time\nend_s = time.monotonic() + {seconds}\nwhile time.monotonic() < end_s: pass"
    process = subprocess.Popen([sys.executable, "-c", loop])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("busy_s", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_a_busy_time_costs_no_trial(tmp_path: Path, busy_s: float) -> None:
    study, directory = tmp_path / "study.toml", tmp_path / "campaign"
    study.write_text(study_text({"platform": ["native"]}, scenario="chain", replicates=1, **SHORT))
    with load(busy_s) as pid:
        done = lastro("run", study, "-o", directory, "--no-report")
    assert done.code == 0, done.err
    assert f", process {pid}: 1." in done.err or f", process {pid}: 0.9" in done.err
    assert sum("waiting until the host is quiet" in line for line in done.err.splitlines()) >= 1
    assert [row[3] for row in rows(directory)] == ["valid"], done.err
    assert max(row[4] for row in rows(directory)) <= 2
    with Store.open(directory, readonly=True) as store:
        waits = [text for _, kind, text in store.events() if kind == "waited"]
    assert any(f"process {pid}" in text and "until the host was quiet" in text for text in waits)
