"""A campaign is killed while its function runs in XDP, and no program of it stays loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..support.bpf import xdp_programs
from ..support.products import one_of

pytestmark = pytest.mark.root

LASTRO = [sys.executable, "-m", "lastro"]
STUDY = """
[study]
name = "killed"
title = "A function in XDP"
scenario = "chain"
[factors]
platform = ["{platform}"]
[settings]
attachment = "veth-bridge"
function = "{function}"
implementation = "xdp"
isolation = "none"
anomaly = "none"
tcp_s = 20
max_foreign_cpus = 4096
[design]
replicates = 1
"""


@pytest.mark.parametrize("work", one_of(["none@native", "firewall@runc", "none@docker"]))
def test_no_program_is_left_after_a_kill(tmp_path: Path, work: str) -> None:
    function, platform = work.split("@")
    study, others = tmp_path / "study.toml", xdp_programs()
    study.write_text(STUDY.format(platform=platform, function=function), encoding="utf-8")
    begun = subprocess.Popen([*LASTRO, "run", str(study), "-o", str(tmp_path / "campaign")])
    deadline_s = time.monotonic() + 300
    while not (loaded := xdp_programs() - others) and begun.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.1)
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    assert loaded
    subprocess.run([*LASTRO, "clean"], check=True)
    while loaded & xdp_programs() and time.monotonic() < deadline_s:  # the kernel takes a moment
        time.sleep(0.1)
    assert not loaded & xdp_programs()
