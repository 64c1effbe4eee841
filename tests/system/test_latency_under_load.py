"""Latency under an open load between real instances, while the one that answers or forwards is frozen for a moment."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from lastro import registry
from lastro.attachments.veth_direct import VethDirect
from lastro.instruments.load_generator import PORT, Direction, Traffic
from lastro.instruments.sockperf_latency import SockperfLatency
from lastro.platforms.base import Instance
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing.network import RIGHT, linked_pair
from lastro.testing.subject import Subject

from ..conftest import needs_runsc
from ..support.scenarios import image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]

GROUPS = Path("/sys/fs/cgroup")
SLEEPS_S = 2.0  # of sockperf before it sends
FROZEN_MS, PERIOD_MS = 200, 10
BUSY_MS = 15  # that other tests may take
BACKLOG_MS = 60  # that three kernels on two CPUs may take to forward what waited in a freeze: 20 were seen
_TIME = re.compile(r"(<MAX>|percentile 99\.000)[^=]*= *([\d.]+)")  # microseconds


@contextmanager
def freezer(instance: Instance) -> Iterator[Path]:
    """A control group that holds the processes of an instance and can freeze them: the file that does so."""
    version1 = (GROUPS / "freezer").is_dir()
    group = GROUPS / ("freezer" if version1 else "unified" if (GROUPS / "unified").is_dir() else "") / "lastro-frozen"
    group.mkdir()
    try:
        for pid in instance.pids():
            (group / "cgroup.procs").write_text(str(pid))
        yield group / ("freezer.state" if version1 else "cgroup.freeze")
    finally:
        for line in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(line)
        group.rmdir()


@contextmanager
def frozen(instance: Instance, after_s: float) -> Iterator[None]:
    """Inside the block, after so many seconds, the instance is frozen for FROZEN_MS."""
    with freezer(instance) as state:
        on, off = ("FROZEN", "THAWED") if state.name == "freezer.state" else ("1", "0")

        def freeze() -> None:
            time.sleep(after_s)
            state.write_text(on)
            time.sleep(FROZEN_MS / 1000)
            state.write_text(off)

        freezing = threading.Thread(target=freeze)
        freezing.start()
        try:
            yield
        finally:
            freezing.join()


@pytest.fixture(scope="module")
def way(testbed: Testbed, pool: PlatformPool) -> Iterator[Direction]:
    with linked_pair(Subject(testbed, pool.get("runc")), "veth-direct") as (left, right):
        yield Direction(left, right, RIGHT)


def test_every_packet_due_in_a_freeze_counts_with_its_waiting(way: Direction) -> None:
    require_all_counted(way, way.receiver)


@needs_runsc
@pytest.mark.measures  # three kernels that are processes keep both CPUs busy
def test_so_it_does_where_a_function_is_frozen_whose_kernel_is_a_process(testbed: Testbed, pool: PlatformPool) -> None:
    gvisor, forwarding = pool.get("gvisor"), registry.get("function", "none")()
    with deployed(testbed, gvisor, VethDirect(), forwarding, offloads=False) as chain:
        require_all_counted(
            Direction(chain.source, chain.sink, chain.path.sink), chain.instances["function"], BACKLOG_MS
        )


def require_all_counted(way: Direction, stopped: Instance, backlog_ms: float = BUSY_MS) -> None:
    """1,000 packets a second, of which every tenth is answered: one is due every 10 ms, also in the freeze.

    None is answered before the thaw, and all are within `backlog_ms` of it."""
    meter = SockperfLatency()
    with meter.answering(way), frozen(stopped, SLEEPS_S + 1.2):
        trips = meter.round_trips(way, Traffic((64,)), 1100, 2)
    assert trips.lost == 0 and trips.rate_fps == pytest.approx(1100, rel=0.01)
    waits_ms, answered_ms = (trips.answered_ns - trips.due_ns) / 1e6, trips.answered_ns / 1e6
    thawed_ms = answered_ms[waits_ms.argmax()]
    due_ms = trips.due_ns / 1e6
    in_freeze = (due_ms > thawed_ms - FROZEN_MS) & (due_ms < thawed_ms)
    assert in_freeze.sum() == pytest.approx(FROZEN_MS / PERIOD_MS, abs=1)
    after_thaw_ms = answered_ms[in_freeze] - thawed_ms
    assert after_thaw_ms.min() > -1 and after_thaw_ms.max() < backlog_ms
    assert waits_ms.max() > FROZEN_MS - PERIOD_MS, "and more where the thawed process waits for a CPU"
    assert np.diff(trips.due_ns) == pytest.approx([1e6 * PERIOD_MS] * (len(waits_ms) - 1), rel=1e-4)
    # 20 of 245 packets waited for 10 ms and more: the 95th percentile of the packets due is half the freeze.
    assert trips.histogram.quantile(0.95) / 1e6 > 30


def test_a_closed_loop_hides_the_freeze(way: Direction) -> None:
    """It sends one packet in the freeze, and tens of thousands outside of it."""
    argv = ["sockperf", "ping-pong", "--ip", way.target, "--port", str(PORT), "--time", "2", "--full-rtt"]
    with SockperfLatency().answering(way), frozen(way.receiver, SLEEPS_S + 1.2):
        text = way.sender.run(argv, timeout_s=20).text
    found = {name: float(value) / 1000 for name, value in _TIME.findall(text)}
    assert found["<MAX>"] > FROZEN_MS - BUSY_MS
    assert found["percentile 99.000"] < 30, "as if there had been no freeze"


def test_the_meter_alone_takes_little(way: Direction) -> None:
    own = SockperfLatency().own_delay(way.sender, Traffic((64,)), 5500, 1)
    assert own.lost == 0 and 0 < own.histogram.quantile(0.5) / 1e6 < BUSY_MS
