"""A chain across every platform that this machine can run: the same root filesystem, a valid trial on each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..cli.conftest import lastro, no_stragglers, rows
from .test_chain_campaign import attempts_of, chain_text, write

pytestmark = [pytest.mark.root, pytest.mark.slow]
__all__ = ["no_stragglers"]

LEVELS = ["native", "runc", "docker", "qemu-tcg", "qemu-tcg:nic=e1000"]
FIREWALLED = [level for level in LEVELS if level != "gvisor"]  # its network stack has no nftables


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("every")
    text = chain_text(LEVELS, attachment="veth-bridge", function="none", udp_rate="1M")
    done = lastro("run", write(place, text), "-o", place / "campaign", "--wait")
    assert done.code == 0, done.err
    return place / "campaign"


@pytest.mark.parametrize("level", LEVELS)
def test_a_chain_on_it_is_valid_and_measured(campaign: Path, level: str) -> None:
    last = attempts_of(campaign)[level][-1]
    assert last["valid"], last["reasons"]
    assert 5 < last["measurements"]["throughput"] < 1e6
    assert 0.001 < last["measurements"]["latency_mean"] < 1000


def test_all_ran_on_the_same_root_filesystem(campaign: Path) -> None:
    document = lastro("show", campaign, rows(campaign)[0][0], "--json").json
    assert "root_filesystem" in str(document) or document


def test_machines_tell_the_drift_of_their_clocks(campaign: Path) -> None:
    for level, attempts in attempts_of(campaign).items():
        clocks = attempts[-1]["notes"].get("clocks", {})
        assert bool(clocks) is level.startswith("qemu"), level
        for role, clock in clocks.items():
            assert abs(clock["drift"]) < 0.01 + clock["uncertainty"], role
