"""What every meter must do, on a real instance: the contract that is shipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lastro import registry
from lastro.testing import MeterContract
from lastro.units import MIB

pytestmark = pytest.mark.root


class TestExposure(MeterContract):
    meter = "exposure"

    def check(self, values: Mapping[str, float], notes: Mapping[str, Any]) -> None:
        assert values["exposure_host_kernel"] == 1
        assert values["exposure_syscalls"] > 100


class TestHost(MeterContract):
    meter = "host"
    unread = frozenset({"psi_cpu", "psi_memory", "psi_io"})

    def check(self, values: Mapping[str, float], notes: Mapping[str, Any]) -> None:
        assert values["host_cpus"] > 0.05, "one busy CPU, less what others take of it"


class TestInterfaces(MeterContract):
    meter = "interfaces"

    def check(self, values: Mapping[str, float], notes: Mapping[str, Any]) -> None:
        moved = notes["witness"]["function.lo"]
        assert moved["rx_packets"] == moved["tx_packets"] == 40, "each ping and each answer"
        assert 40 * 1000 < moved["rx_bytes"] == moved["tx_bytes"] < 50 * 1000


class TestUsage(MeterContract):
    meter = "usage"

    def check(self, values: Mapping[str, float], notes: Mapping[str, Any]) -> None:
        assert 0.05 < values["function_cpus"] == values["chain_cpus"] < 1.6
        assert values["chain_memory"] > 0
        assert notes["usage"]["function"]["write_bytes"] >= 8 * MIB


def test_every_meter_passes_the_contract() -> None:
    assert {cls.meter for cls in MeterContract.__subclasses__()} == registry.names("meter")
