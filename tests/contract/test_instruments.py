"""What every instrument must do, in real instances: the contract that is shipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.errors import Unavailable
from lastro.host.local import LocalHost
from lastro.instruments.base import Workload
from lastro.instruments.jmeter import HOME
from lastro.testing import InstrumentContract

from ..support.scenarios import image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

CLOSED = {"clients": 2, "requests": 20, "warm_up": 2, "timeout_s": 5, "limit_s": 60}
SETTINGS: dict[str, dict[str, Any]] = {
    "ab": {"tcp_crr_s": 1},
    "curl": CLOSED,
    "irtt": {"probe_interval_ms": 10, "loaded_s": 1},
    "iperf2-udp": {"offered": "5M", "datagram_bytes": 1470, "load_s": 1},
    "iperf3-tcp": {"tcp_s": 1, "tcp_streams": 1},
    "iperf3-udp": {"udp_s": 1, "udp_rate": "1M"},
    "iperf3-udp-load": {"offered": "5M", "datagram_bytes": 1448, "load_s": 1},
    "jmeter": CLOSED,
    "ping": {"ping_s": 0.5, "ping_interval_ms": 10},
    "sockperf": {"offered_fps": 1000, "probe_s": 1, "frame_size": "64", "flows": 1},
    "trafgen": {"offered_fps": 1000, "probe_s": 0.5, "frame_size": "imix", "flows": 100},
    "pktgen": {"offered_fps": 1000, "probe_s": 0.5, "frame_size": "imix", "flows": 100},
    "sockperf-rr": {"tcp_rr_s": 1},
    "sockperf-latency": {"frame_size": "64", "offered_fps": 2200, "latency_s": 1},
    "vegeta": {"rate_per_s": 50, "open_s": 1, "timeout_s": 5},
}
# Where the short version is too short for a number.
OPTIONS: dict[str, dict[str, Any]] = {"bonnie": {"files": 0, "size": "16M", "seeks": 150_000}}


def loads(module: str) -> bool:
    """Whether the kernel has a module, built in, loaded or not; `modprobe --dry-run` loads nothing."""
    argv = ["modprobe", "--dry-run", "--quiet", module]
    return shutil.which("modprobe") is not None and subprocess.run(argv, check=False).returncode == 0


OWN = {"pts", "y-cruncher"}  # the user's own programs, which `lastro setup` does not install
MARKS = {
    # `make test` runs these two in tests/system: test_disk_front.py, test_application.py.
    "bonnie": [pytest.mark.slow],
    "sysbench-oltp": [pytest.mark.slow],
    # Where they could not be had (`lastro setup` said why), they cannot run.
    "jmeter": [
        pytest.mark.slow,  # `make test` runs it in tests/system/test_http_load.py
        pytest.mark.skipif(not Path(HOME).exists(), reason="no JMeter here, and no Maven to fetch it"),
    ],
    # A kernel without it cannot run it; `make test-all` does so in a guest: tests/system/test_guest_load.py.
    "pktgen": [pytest.mark.skipif(not loads("pktgen"), reason="no pktgen in this kernel")],
    "vegeta": [pytest.mark.skipif(shutil.which("vegeta") is None, reason="no vegeta here, and no Go to build it")],
}

for name in sorted(registry.names("instrument") - OWN):
    title = "".join(map(str.capitalize, name.split("-")))
    attributes = {
        "instrument": name, "settings": SETTINGS.get(name, {}), "options": OPTIONS.get(name, {}),
        "printed_by": "dd" if name == "jmeter" else "", "pytestmark": MARKS.get(name, []),
        "__module__": __name__,
    }  # fmt: skip
    globals()[f"Test{title}"] = type(f"Test{title}", (InstrumentContract,), attributes)


@pytest.mark.parametrize("name", sorted(OWN))
def test_what_is_not_here_says_so_with_a_remedy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind: type[Workload] = registry.get("instrument", name)
    host = LocalHost()
    monkeypatch.setattr(host, "which", lambda program: None)
    with pytest.raises(Unavailable) as caught:
        kind.require(host)
    assert caught.value.hint
