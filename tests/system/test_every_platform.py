"""A chain across every platform that this machine can run: the same root filesystem, a valid trial on each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..cli.conftest import finish, no_stragglers, start
from .test_chain_campaign import attempts_of, chain_text, write

pytestmark = [pytest.mark.root, pytest.mark.slow]
__all__ = ["no_stragglers"]

LEVELS = [
    "native", "runc", "crun", "containerd", "docker", "podman", "lxc", "lxd", "nspawn", "qemu-tcg",
    "qemu-tcg:nic=e1000", "qemu-tcg:nic=rtl8139",
]  # fmt: skip
LEVELS += ["gvisor"] if shutil.which("runsc") else []  # as `lastro setup` could
LEVELS += ["pod"] if shutil.which("crictl") else []


_RUN_S = 900  # every platform is probed, and has a trial; five minutes where nothing else goes on


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("every")
    text = chain_text(LEVELS, attachment="veth-bridge", function="none", udp_rate="1M")
    done = finish(start("run", write(place, text), "-o", place / "campaign", "--wait"), _RUN_S)
    assert done.code == 0, done.err
    return place / "campaign"


@pytest.mark.parametrize("level", LEVELS)
def test_a_chain_on_it_is_valid_and_measured(campaign: Path, level: str) -> None:
    last = attempts_of(campaign)[level][-1]
    assert last["valid"], last["reasons"]
    assert 5 < last["measurements"]["throughput"] < 1e6
    assert 0.001 < last["measurements"]["latency_mean"] < 1000


@pytest.mark.parametrize("level", LEVELS)
def test_only_machines_have_clocks_of_their_own(campaign: Path, level: str) -> None:
    """Their drift is told with what it is known to, and was small, or the trial would not be valid."""
    clocks = attempts_of(campaign)[level][-1]["notes"].get("clocks", {})
    assert set(clocks) == ({"source", "function", "sink"} if level.startswith("qemu") else set())
    for role, clock in clocks.items():
        assert 0 < clock["uncertainty"] < 0.05, role
        assert abs(clock["drift"]) < 0.001 + clock["uncertainty"], role


@pytest.mark.parametrize("level", LEVELS)
def test_what_still_differs_is_told(campaign: Path, level: str) -> None:
    residuals = attempts_of(campaign)[level][-1]["notes"]["residuals"]
    assert residuals["root filesystem"] and residuals["kernel"]
