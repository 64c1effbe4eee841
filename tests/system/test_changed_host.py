"""A campaign that is resumed after a program and the kernel's command line have changed, as by an upgrade."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from lastro.results.store import Store

from ..cli.conftest import ENVIRONMENT, command, finish, lastro, no_stragglers, rows, start, study_text, until
from ..support.scenarios import TOLERANT

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]


def begun(directory: Path, words: tuple[object, ...]) -> None:
    """Run a campaign until it has a valid trial, and interrupt it."""
    process = start("run", *words, "-o", directory, "--wait", "--no-report")
    until(lambda: (directory / "campaign.db").exists(), "the campaign", 300)
    until(lambda: sum(row[3] == "valid" for row in rows(directory)) >= 1, "the first trial", 120)
    process.send_signal(signal.SIGHUP)
    assert finish(process, 60).code == 129


def resumed(directory: Path, changes: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Resume where the kernel's command line and runc are others."""
    runc = shutil.which("runc")
    script = f'mount --bind {changes}/cmdline /proc/cmdline && mount --bind {changes}/runc {runc} && exec "$@"'
    argv = ["unshare", "-m", "sh", "-ec", script, "sh", *command("resume", directory, "--wait", "--no-report", *more)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


@pytest.mark.skipif(shutil.which("runc") is None, reason="needs runc")
def test_a_changed_program_and_kernel_are_refused_until_they_are_accepted(tmp_path: Path) -> None:
    chosen = {
        "attachment": "veth-direct", "function": "none", "settle_s": 0, "tcp_s": 1, "udp_s": 1, "ping_s": 0.5,
        "gap_s": 0, "ping_interval_ms": 20, **TOLERANT,
    }  # fmt: skip
    text = study_text({"platform": ["native", "runc"]}, scenario="chain", replicates=2, **chosen)
    (tmp_path / "study.toml").write_text(text.replace("[factors]", 'metrics = ["throughput"]\n[factors]'))
    campaign = tmp_path / "campaign"
    begun(campaign, (tmp_path / "study.toml",))
    (tmp_path / "cmdline").write_text(f"{Path('/proc/cmdline').read_text().strip()} mitigations=off\n")
    shutil.copy(str(shutil.which("runc")), tmp_path / "runc")
    with (tmp_path / "runc").open("ab") as file:
        file.write(b"x")
    refused = resumed(campaign, tmp_path)
    assert refused.returncode == 2, refused
    assert "kernel.command_line was" in refused.stderr and "tools.runc was" in refused.stderr
    assert "--accept-change" in refused.stderr
    accepted = resumed(campaign, tmp_path, "--accept-change")
    assert accepted.returncode == 0, accepted
    assert "The host changed after" in " ".join(accepted.stdout.split())
    with Store.open(campaign, readonly=True) as store:
        (segment,) = store.segments()
        assert segment.changes.keys() == {"kernel.command_line", "tools.runc"}
    assert {row[3] for row in rows(campaign)} == {"valid"}
    assert "tools.runc was" in lastro("report", campaign, "--format", "md", "-o", "-").out
