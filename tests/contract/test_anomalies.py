"""What every anomaly must do, on real instances: the contract that is shipped."""

from __future__ import annotations

import pytest

from lastro import registry
from lastro.anomalies.base import Dose
from lastro.host.local import LocalHost
from lastro.host.processors import last_level_cache_bytes
from lastro.study.levels import split_options
from lastro.testing import AnomalyContract
from lastro.units import MIB

pytestmark = [pytest.mark.root, pytest.mark.measures]


class TestCpu(AnomalyContract):
    anomaly = "cpu"
    tools = ("stress-ng", "stress")


class TestCpuAtHalf(AnomalyContract):
    anomaly = "cpu:dose=50"

    def check(self, dose: Dose) -> None:
        assert 0.9 <= dose.cpus <= 1.1, "half of each of two CPUs"


class TestMemory(AnomalyContract):
    anomaly = "memory"
    tools = ("stress-ng", "stress")

    def check(self, dose: Dose) -> None:
        assert dose.memory_peak_bytes > 32 * MIB


class TestDisk(AnomalyContract):
    anomaly = "disk"
    tools = ("stress-ng", "stress")

    def check(self, dose: Dose) -> None:
        assert dose.written_bytes > 4 * MIB


class TestIo(AnomalyContract):
    anomaly = "io"
    tools = ("stress-ng", "stress")


class TestFork(AnomalyContract):
    anomaly = "fork"

    def check(self, dose: Dose) -> None:
        assert dose.held >= 500 and dose.used >= 100


class TestNetwork(AnomalyContract):
    anomaly = "network"

    def check(self, dose: Dose) -> None:
        assert 45 < dose.moved_bytes / dose.used < 75, "not the smallest frames"


class TestFiles(AnomalyContract):
    anomaly = "files"

    def check(self, dose: Dose) -> None:
        assert 15_000 < dose.held < 17_000


class TestSockets(AnomalyContract):
    anomaly = "sockets"

    def check(self, dose: Dose) -> None:
        assert 15_000 < dose.held < 17_000


class TestConntrack(AnomalyContract):
    anomaly = "conntrack"

    def check(self, dose: Dose) -> None:
        assert 15_000 < dose.held <= 16_002


class TestMembw(AnomalyContract):
    anomaly = "membw"

    def check(self, dose: Dose) -> None:
        assert 1 << 30 <= dose.moved_bytes / dose.elapsed_s < 1.25 * (2 << 30), "not at the rate that was stated"


class TestMembwAtQuarter(AnomalyContract):
    anomaly = "membw:dose=25"

    def check(self, dose: Dose) -> None:
        assert 0.9 * (1 << 29) <= dose.moved_bytes / dose.elapsed_s <= 1.1 * (1 << 29)


class TestDiskbw(AnomalyContract):
    anomaly = "diskbw:dose=25"

    def check(self, dose: Dose) -> None:
        assert 0.9 * 8 * MIB <= dose.written_bytes / dose.elapsed_s <= 1.1 * 8 * MIB, "a quarter of what is stated"


class TestFrames(AnomalyContract):
    anomaly = "frames:dose=20"

    def check(self, dose: Dose) -> None:
        assert 9_000 <= dose.used / dose.elapsed_s <= 11_000, "a fifth of what is stated"
        assert 45 < dose.moved_bytes / dose.used < 75, "not the smallest frames"


class TestCache(AnomalyContract):
    anomaly = "cache"

    def check(self, dose: Dose) -> None:
        assert dose.memory_peak_bytes > last_level_cache_bytes(LocalHost(), None)


ANOMALIES = (
    TestCpu, TestMemory, TestDisk, TestIo, TestFork, TestNetwork, TestFiles, TestSockets, TestConntrack, TestMembw,
    TestCache, TestCpuAtHalf, TestMembwAtQuarter, TestDiskbw, TestFrames,
)  # fmt: skip


def test_every_anomaly_passes_the_contract() -> None:
    assert {split_options(cls.anomaly)[0] for cls in ANOMALIES} == registry.names("anomaly") - {"none"}
