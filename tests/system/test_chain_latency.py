"""Latency of a real chain: by irtt, with CPUs that are kept awake, and beside a TCP stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from lastro.scenarios.chain import ChainScenario
from lastro.testbed import Testbed

from ..support.products import one_of
from ..support.scenarios import SHORT, attempted, configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds


@pytest.fixture(scope="module")
def running(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


@pytest.mark.parametrize("platform", one_of(["native", "docker"], "docker"))
def test_a_trial_probes_the_idle_link_and_the_loaded_one(running: ChainScenario, platform: str) -> None:
    chosen = {
        **SHORT["chain"],
        "platform": platform,
        "latency_tool": "irtt",
        "ping_s": 1.0,
        "loaded_s": 2.0,
        "tcp_rr_s": 1,
        "tcp_crr_s": 1,
    }
    config = configured(ChainScenario, isolation="none", anomaly="none", cpus_idle="awake", **chosen)
    for _ in range(3):  # as a campaign does: a daemon has work of its own at times, the more so on a busy host
        outcome = attempted(running, config)
        running.judge_apparatus(outcome)
        if outcome.valid:
            break
    assert outcome.valid, outcome.invalid_because
    assert "loss_loaded" in outcome.measurements
    for name, most_ms in (("tcp_transaction", 10), ("tcp_connect_transaction", 50)):
        assert outcome.measurements[f"{name}s"] > 1000 / most_ms
        assert 0 < outcome.measurements[f"{name}_p50"] <= outcome.measurements[f"{name}_p90"] < most_ms
    wanted = {"latency_mean", "latency_p50", "latency_p95", "latency_p50_loaded", "latency_p95_loaded"}
    dropped = {name for remark in outcome.notes.get("remarks", []) for name in remark["metrics"]}  # type: ignore[attr-defined]
    assert wanted <= outcome.measurements.keys() | dropped, "a latency is measured, or dropped with its reason"
    assert set(outcome.notes["witness"]) == {  # type: ignore[call-overload]
        "iperf3-tcp", "iperf3-udp", "sockperf-rr", "ab", "irtt", "irtt beside TCP",
    }  # fmt: skip
    awake, conditions = outcome.notes["awake"], outcome.notes["really"]
    assert awake["cpu_s"] >= 0 and "kept awake" in conditions["CPUs while latency is measured"]  # type: ignore[index]
    assert outcome.notes["apparatus"]["wake_ups"] >= 0  # type: ignore[index]


@pytest.mark.parametrize("percent", [0, 50])
def test_requests_with_the_signature_take_the_detour_of_dpi(running: ChainScenario, percent: int) -> None:
    chosen = {**SHORT["chain"], "platform": "native", "function": "dpi", "ping_suspect_percent": percent, "udp_s": 0}
    outcome = attempted(running, configured(ChainScenario, isolation="none", anomaly="none", **chosen))
    assert outcome.valid, outcome.invalid_because
    witness = outcome.notes["witness"]
    assert set(witness) == {"iperf3-tcp", "ping"}, "a study without UDP measures none"  # type: ignore[call-overload]
    assert not {"jitter", "udp_loss"} & outcome.measurements.keys()
    requests = len(next(series for series in outcome.series if series.name == "rtt").values)
    redirected = witness["ping"]["function.detour0"]["tx_packets"]  # type: ignore[index]
    assert redirected == pytest.approx(requests * percent / 100, abs=1)
