"""Latency of a chain: which tool measures it, the load beside it, and CPUs that are kept awake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lastro.functions.base import CounterReading
from lastro.functions.dpi import SIGNATURE, Dpi
from lastro.host.cgroups import Usage
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.results.samples import Outcome, Reading
from lastro.scenarios.base import schema
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.chain.latency import (
    LOADED_METRICS,
    BesideTcp,
    IdleByIrtt,
    idle_instrument,
    image_packages,
    load_reasons,
    missed_redirections,
    signable,
    signed,
)
from lastro.scenarios.shared.awake import awake_cpus

from ...support.recording import FakeInstance, RecordingHost, answer, recording_testbed

MS = 1_000_000
TRIPS = [
    {
        "lost": "false",
        "timestamps": {"client": {"send": {"monotonic": 10 * n * MS}, "receive": {"monotonic": (10 * n + 2) * MS}}},
    }
    for n in range(100)
]
REPORT = json.dumps({"round_trips": TRIPS})


def config(**chosen: Any) -> dict[str, Any]:
    return {**{setting.name: setting.default for setting in ChainScenario.settings}, **chosen}


def test_ping_measures_the_idle_link_unless_irtt_is_chosen() -> None:
    assert isinstance(idle_instrument(config()), Ping)
    assert isinstance(idle_instrument(config(latency_tool="irtt")), IdleByIrtt)


def test_ping_is_not_asked_for_what_it_can_only_do_by_spinning() -> None:
    (interval,) = [each for each in ChainScenario.settings if each.name == "ping_interval_ms"]
    assert interval.minimum == 10


def summary(n: int) -> str:
    """What ping prints of `n` requests, all answered."""
    lines = [f"64 bytes from 198.18.1.10: icmp_seq={seq} ttl=64 time=0.05 ms" for seq in range(1, n + 1)]
    return "\n".join([*lines, f"{n} packets transmitted, {n} received, 0% packet loss, time {100 * n}ms", ""])


@pytest.mark.parametrize(
    ("percent", "fillings"), [(0, [""]), (100, [SIGNATURE]), (30, [SIGNATURE, ""])], ids=["none", "all", "some"]
)
def test_echo_requests_have_the_signature_that_dpi_redirects(percent: int, fillings: list[str]) -> None:
    """The pattern of ping, of 16 bytes at most, is repeated up to the end of the payload."""
    client = FakeInstance(lambda argv: answer(summary(15) + summary(35) if percent == 30 else summary(50)))
    settings = signed(config(ping_suspect_percent=percent))
    reading = Ping().measure(client, FakeInstance(lambda argv: answer("")), "198.18.1.10", settings)  # type: ignore[arg-type]
    ((*argv,),) = client.measured
    runs = argv[2].split("; ") if argv[0] == "sh" else [" ".join(argv)]
    assert [bytes.fromhex(next(iter(re.findall(r"-p (\w+)", run)), "")).decode() for run in runs] == fillings
    assert sum(int(count) for run in runs for count in re.findall(r"-c (\d+)", run)) == 50
    assert len(reading.series[0].values) == 50 and reading.measurements["ping_loss"] == 0


def test_a_request_with_the_signature_that_was_not_redirected_is_a_reason() -> None:
    """Where DPI does not redirect, its latency is that of its search alone."""
    half = config(ping_suspect_percent=50)
    assert missed_redirections(Reading({"ping_loss": 0.0}), 25, half) == []
    assert missed_redirections(Reading({"ping_loss": 4.0}), 23, half) == [], "two were lost, maybe on their way there"
    (reason,) = missed_redirections(Reading({"ping_loss": 0.0}), 0, half)
    assert reason == "ping: the function redirected 0 of 25 requests with its signature"
    assert missed_redirections(Reading({"ping_loss": 0.0}), 0, config()) == []


def test_dpi_counts_what_it_redirected_in_the_kernel_and_on_click() -> None:
    assert Dpi.detoured({"function.detour0": {"tx_packets": 7}}, {"crossed": CounterReading(9, 90)}) == 7
    assert Dpi.detoured({}, {"detoured": CounterReading(5, 50)}) == 5


def test_irtt_sends_no_signature() -> None:
    assert signable(config(latency_tool="irtt")) and signable(config(ping_suspect_percent=1))
    found = signable(config(latency_tool="irtt", ping_suspect_percent=1))
    assert not found and found.remedy == 'set latency_tool = "ping", or ping_suspect_percent = 0'


@pytest.mark.parametrize(
    ("chosen", "packages"),
    [
        ({}, ()),
        ({"latency_tool": "irtt"}, ("irtt",)),
        ({"loaded_s": 2.0}, ("irtt",)),
        ({"tcp_rr_s": 1}, ("sockperf",)),
        ({"tcp_crr_s": 1}, ("apache2-utils", "nginx-light")),
    ],
)
def test_the_image_has_a_tool_only_where_it_is_used(chosen: dict[str, Any], packages: tuple[str, ...]) -> None:
    assert image_packages(config(**chosen)) == packages


def test_irtt_on_an_idle_link_has_the_metrics_of_ping() -> None:
    client, server = FakeInstance(lambda argv: answer(REPORT)), FakeInstance(lambda argv: answer("[ListenerStart]"))
    settings = config(latency_tool="irtt", ping_s=1.0)
    reading = IdleByIrtt().measure(client, server, "198.18.1.10", settings)  # type: ignore[arg-type]
    assert reading.measurements["latency_mean"] == reading.measurements["latency_p95"] == 2.0
    assert reading.measurements["ping_loss"] == 0 and set(reading.measurements) < {each.name for each in Ping.metrics}
    assert "irtt" in reading.really["latency on the idle link"]


def test_a_probe_beside_tcp_has_a_stream_before_it() -> None:
    client = FakeInstance(lambda argv: answer(REPORT if argv[0] == "irtt" else "[  5] connected to 198.18.1.10"))
    server = FakeInstance(lambda argv: answer("Server listening on 5201\n[ListenerStart]"))
    reading = BesideTcp().measure(client, server, "198.18.1.10", config(loaded_s=1.0))  # type: ignore[arg-type]
    assert reading.measurements["latency_p50_loaded"] == 2.0 and reading.measurements["loss_loaded"] == 0
    (stream,) = client.served
    assert stream[:3] == ["iperf3", "--client", "198.18.1.10"] and stream[stream.index("--time") + 1] == "11"
    assert [argv[0] for argv in server.served] == ["iperf3", "irtt"]


def test_a_stream_that_carried_little_is_not_the_load() -> None:
    assert load_reasons(125_000_000, 1.0, 1500.0) == []
    (reason,) = load_reasons(12_500_000, 1.0, 1500.0)
    assert "carried 100 Mbit/s" in reason and "1500 Mbit/s" in reason


@pytest.mark.parametrize(("driver", "by_kernel"), [("none\n", False), ("", False), ("intel_idle\n", True)])
def test_cpus_stay_awake_by_the_kernel_if_it_has_a_driver_else_by_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, by_kernel: bool
) -> None:
    host = RecordingHost(lambda argv: None)
    testbed = recording_testbed(host, tmp_path)
    monkeypatch.setattr(host.view, "read", lambda paths: dict.fromkeys(paths, driver) if driver else {})
    monkeypatch.setattr(type(testbed.cgroups), "usage", lambda self, name: Usage(cpu_s=1.5))
    started: list[list[str]] = []

    class Awake:
        def wait_line(self, needle: str, timeout_s: float) -> str:
            return needle

        def stop(self) -> None:
            started.append(["stopped"])

    monkeypatch.setattr(host, "spawn", lambda argv: started.append(list(argv)) or Awake())
    outcome = Outcome()
    with awake_cpus(testbed) as awake:
        assert awake.by_kernel is by_kernel and awake.group in testbed.apparatus.instances
        with awake.keep_awake():
            running = [argv for argv in started if argv != ["stopped"]]
        awake.note(outcome)
    assert len(running) == (1 if by_kernel else len(testbed.usable_cpus))
    words = " ".join(running[0])
    assert ("/dev/cpu_dma_latency" in words) is by_kernel and ("chrt --idle 0" in words) is not by_kernel
    assert started.count(["stopped"]) == len(running), "none of them outlives the measurement"
    assert outcome.notes["awake"]["cpu_s"] == 1.5  # type: ignore[index]


@pytest.mark.parametrize(
    ("chosen", "brought"),
    [
        ({}, {"jitter", "udp_loss"}),
        ({"udp_s": 0}, set()),
        ({"udp_s": (0, 5)}, {"jitter", "udp_loss"}),
        ({"udp_s": 0, "loaded_s": {0.0: "", 2.0: ""}}, {metric.name for metric in LOADED_METRICS}),
    ],
)
def test_a_measurement_that_a_study_leaves_out_brings_no_metric(chosen: dict[str, Any], brought: set[str]) -> None:
    optional = {metric.name for metric in (*Iperf3Udp.metrics, *LOADED_METRICS)}
    assert optional & schema(ChainScenario).metrics_for(chosen).keys() == brought
