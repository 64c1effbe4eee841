"""Parts as a stranger writes them, in `examples/plug-ins`, pass the contracts of their kinds on real instances."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro import registry
from lastro.scenarios.base import schemas
from lastro.testing import AttachmentContract, PlatformContract, ScenarioContract

from ..support.scenarios import TOLERANT

pytestmark = pytest.mark.root
PLUG_INS = Path(__file__).parents[2] / "examples" / "plug-ins"


@pytest.fixture(scope="module", autouse=True)
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make the parts known to this process and to those that it starts; runc stands in for the runtime youki."""
    parts = shutil.copytree(PLUG_INS, tmp_path_factory.mktemp("strangers") / "parts")
    youki = parts / "platforms" / "youki.py"
    youki.write_text(youki.read_text().replace('binary = "youki"', 'binary = "runc"'))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LASTRO_PARTS", str(parts))
        registry.scan.cache_clear()
        yield
    registry.scan.cache_clear()


def test_they_are_parts_like_any_other() -> None:
    assert "youki" in registry.names("platform") and "youki" in schemas()["chain"].parts["platform"]
    assert "nft-wire" in registry.names("attachment")


class TestRoundTrips(ScenarioContract):
    scenario = "round-trips"
    short = {
        "platform": "runc", "attachment": "veth-bridge", "settle_s": 0.0, "ping_s": 0.5,
        **{name: value for name, value in TOLERANT.items() if name.startswith("max_") and "drift" not in name},
    }  # fmt: skip
    unmeasured = frozenset({"latency_p95", "latency_p99"})  # of few pings


class TestNftWire(AttachmentContract):
    attachment = "nft-wire"
    counters = frozenset({"forwarded"})


class TestYouki(PlatformContract):
    platform = "youki"
