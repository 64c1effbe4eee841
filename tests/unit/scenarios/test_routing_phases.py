"""What phases of a network make of what they see: answers of a flow, a watch that ended, clocks that drift."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.errors import CommandTimeout, PlatformError
from lastro.functions.ospf import Interface, OspfSettings, host_name
from lastro.functions.ospf_router import ROUTERS
from lastro.host.cgroups import Usage
from lastro.host.moments import FileReadings, OwnCpu
from lastro.platforms.base import AVAILABLE
from lastro.results.samples import Outcome
from lastro.scenarios import routing
from lastro.scenarios.routing import RoutingScenario, boot, convergence, flow, phase_recorder
from lastro.scenarios.routing import network as router_network
from lastro.scenarios.routing.convergence import LifecycleRun, wait_for_routes
from lastro.scenarios.routing.flow import Flow, answers, count_lost, outage_s
from lastro.scenarios.routing.host_timeline import HostReading, HostTimeline
from lastro.scenarios.routing.network import RouterNetwork
from lastro.scenarios.routing.ospf_capture import HELLO, UPDATE, Capture, Packet
from lastro.scenarios.routing.phase_recorder import PhaseRecorder, quiet_suffices
from lastro.study.topology import grid, parse
from lastro.validity import ClockSample

from ...support.recording import FakeInstance, answer

INTERVAL_MS = 20


def printed(numbers: list[int], *, first_s: float = 1_000.0, interval_ms: float = INTERVAL_MS) -> str:
    """As `ping -D` prints it; the number of a request has 16 bits on its way."""
    return "PING 198.18.0.2 (198.18.0.2) from 198.18.0.1 : 56(84) bytes of data.\n" + "".join(
        f"[{first_s + number * interval_ms / 1000:.6f}] 64 bytes from 198.18.0.2: icmp_seq={number % 65_536} ttl=63"
        " time=0.06 ms\n"
        for number in numbers
    )


# What is an answer


def test_what_routers_say_of_lost_requests_is_no_answer() -> None:
    text = printed([1, 2]) + "[1000.060000] From 198.18.0.9 icmp_seq=3 Destination Host Unreachable\n" + printed([5])
    assert answers(text, INTERVAL_MS) == [(1000.02, 1), (1000.04, 2), (1000.1, 5)]
    assert count_lost([number for _, number in answers(text, INTERVAL_MS)]) == 2


@given(
    st.lists(st.integers(1, 200_000), min_size=1, max_size=20, unique=True),
    st.sampled_from([2, 20, 1000]),
    st.floats(1.0, 1.1),
)
def test_numbers_go_on_where_those_of_the_protocol_begin_anew(
    numbers: list[int], interval_ms: int, slow: float
) -> None:
    numbers.sort()
    found = answers(printed(numbers, interval_ms=slow * interval_ms), interval_ms)
    first = numbers[0] - numbers[0] % 65_536
    assert [number + first for _, number in found] == numbers
    assert count_lost([number for _, number in found]) == numbers[-1] - numbers[0] + 1 - len(numbers)


def test_answers_out_of_order_and_twice_are_no_loss() -> None:
    numbers = [65_534, 65_535, 65_537, 65_536, 65_536, 65_538]
    assert count_lost([number for _, number in answers(printed(numbers), INTERVAL_MS)]) == 0


def test_an_outage_is_as_long_as_it_was_whatever_interval_was_asked_for() -> None:
    found = answers(printed([1, 2, 3, 103, 104], interval_ms=25), 20)
    assert count_lost([number for _, number in found]) == 99
    assert outage_s(found) == pytest.approx(99 * 0.025)
    assert outage_s(answers(printed([1, 2, 3]), 20)) == outage_s([]) == 0


def test_numbers_go_on_where_a_flow_is_far_slower_than_it_was_told() -> None:
    numbers = [1, 2, 40_000, 90_000]
    assert [number for _, number in answers(printed(numbers, interval_ms=10), 2)] == numbers


# A flow across a failure


class Ping:
    """One that has printed what it will print."""

    def __init__(self, text: str) -> None:
        self.text = text

    def wait_line(self, needle: str, timeout_s: float) -> str:
        for line in self.text.splitlines():
            if needle in line:
                return line
        raise CommandTimeout(["ping"], timeout_s)

    def send(self, line: str) -> None:
        assert line == "give"

    def ended_within(self, timeout_s: float) -> bool:
        return True

    def stop(self) -> Any:
        return SimpleNamespace(text=self.text)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Phases in which no time passes: now, the host's clock and the wall clock are at 1000.2 s, and stay there."""
    monkeypatch.setattr(convergence, "rest", lambda duration_s: None)
    for module in (convergence, flow):
        monkeypatch.setattr(module, "wall_offset_s", lambda instance: 0.0)
    monkeypatch.setattr(convergence, "time", SimpleNamespace(monotonic=lambda: 1000.2, sleep=lambda duration_s: None))
    outcome = Outcome()
    work: Any = SimpleNamespace(
        outcome=outcome,
        config={
            "probe_interval_ms": INTERVAL_MS, "failure": "silent", "converge_s": 5.0, "quiet_s": 5.0, "hello_s": 5,
            "settle_s": 5.0, "regular_s": 5.0, "failure_s": 5.0,
        },
        record=lambda name, value: outcome.measurements.__setitem__(name, value) if value is not None else None,
    )  # fmt: skip
    network: Any = SimpleNamespace(
        topology=grid(2, 2), marks={"begin": 990.0, "booted": 991.0}, instances=[],
        read_clocks=lambda: None, now_s=lambda: 1000.2,
        watch=SimpleNamespace(packets=[], last_update_s=0.0, last_route_s=0.0, count=lambda a, b: {4: 0}),
    )  # fmt: skip
    return LifecycleRun(network, work)


def pinging(text: str) -> Any:
    """An instance whose ping prints this."""
    return FakeInstance(lambda argv: answer(text))


def flow_of(text: str) -> Flow:
    return Flow(pinging(text), cast(Any, Ping(text)), INTERVAL_MS)


def test_what_is_lost_lies_between_answers_on_both_sides_of_the_failure(run: Any) -> None:
    run._record_flow("failure", flow_of(printed([1, 2, 8, 11, 12])))
    assert run.recorder.outcome.measurements == {
        "failure_lost": 7, "failure_outage": pytest.approx(140),
    }  # fmt: skip
    assert run.recorder.outcome.valid


@pytest.mark.parametrize("numbers", [[], [1, 2, 3]])
def test_a_flow_that_is_not_answered_any_more_makes_no_best_value(run: Any, numbers: list[int]) -> None:
    run._record_flow("failure", flow_of(printed(numbers)))
    assert run.recorder.outcome.measurements == {}
    assert run.recorder.outcome.invalid_because == [
        "the flow across the failure got no answer after the failure, with right routes"
    ]


def test_a_flow_that_was_never_answered_ends_the_trial_before_the_cut(run: Any) -> None:
    text = "From 198.18.0.9 icmp_seq=1 Destination Host Unreachable\n"
    spare = run.network.topology.spare_links()
    run.network.instances = [pinging(text)] * 4
    with pytest.raises(PlatformError, match="got no answer before the failure"), run._flow(spare):
        pytest.fail("the links must not be cut")


def test_a_flow_with_an_answer_is_one_and_tells_when_its_answers_came(run: Any) -> None:
    source = pinging(printed([1, 2]))
    run.network.instances = [source] * 4
    with run._flow(run.network.topology.spare_links()) as flow:
        assert flow is not None
        assert [number for _, number in flow.answered()] == [1, 2]
    (argv,), (ready,) = source.served, source.readiness
    assert argv[:3] == ["ping", "-n", "-D"] and ready == "bytes from"
    assert source.commands == [], "its answers wake nothing outside before its end, and nothing enters to end it"


# What was not seen


def seen(*packets: Packet) -> Capture:
    watch = Capture([], None)
    for packet in packets:
        watch._count_unless_cut(packet)
    return watch


def test_a_convergence_without_an_update_that_was_seen_has_no_time_of_its_last(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LifecycleRun, "_wait_for_convergence", lambda *arguments, **options: None)
    run.network.instances = [SimpleNamespace(spawn=lambda argv: Ping(printed([1])))] * 4
    run._initial()
    assert "initial_last_update" not in run.recorder.outcome.measurements
    (reason,) = run.recorder.outcome.invalid_because
    assert reason.startswith("no link-state update was seen")


@pytest.mark.parametrize(
    ("at_s", "kind", "late"), [(995.0, UPDATE, False), (996.5, HELLO, False), (996.5, UPDATE, True)]
)
def test_an_update_after_the_end_tells_that_it_was_none(run: Any, at_s: float, kind: int, late: bool) -> None:
    run.network.watch = seen(Packet(at_s, "far0", kind))
    run._judge_end("initial convergence", 996.0)
    assert any("had not ended: 1 link-state updates" in words for words in run.recorder.outcome.invalid_because) == late


def test_a_link_state_that_is_only_refreshed_is_no_late_update(run: Any) -> None:
    run.network.watch, run.network.marks["begin"] = seen(Packet(960.0, "far0", UPDATE)), 50.0
    run._judge_end("initial convergence", 200.0)
    assert run.recorder.outcome.valid


@pytest.mark.parametrize(
    ("implementation", "timers", "failure", "hello_s", "least_s"),
    [
        ("frr", "standard", "none", 1, 7), ("bird", "fast", "none", 1, 7), ("frr", "fast", "silent", 1, 2),
        ("frr", "fast", "silent", 10, 10), ("frr", "standard", "silent", 10, 10), ("frr", "standard", "carrier", 10, 7),
    ],
)  # fmt: skip
def test_quiet_must_outlast_every_pause_of_the_protocol(
    implementation: str, timers: str, failure: str, hello_s: int, least_s: int
) -> None:
    config: dict[str, Any] = {
        "implementation": implementation,
        "timers": timers,
        "failure": failure,
        "hello_s": hello_s,
    }
    found = quiet_suffices({**config, "quiet_s": least_s})
    assert not found and found.remedy == f"set quiet_s to more than {least_s}"
    assert quiet_suffices({**config, "quiet_s": least_s + 0.5})


def test_the_cpu_time_of_an_event_ends_with_the_convergence(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Cpu:
        def __init__(self, phase: str) -> None:
            self.phase = phase

        def __enter__(self) -> None:
            events.append(f"{self.phase} begins")

        def __exit__(self, *error: object) -> None:
            events.append(f"{self.phase} ends")

    def moved(name: str) -> float:
        events.append(name)
        return 1000.0

    for name in ("cut", "mend"):
        setattr(run.network, name, lambda *a, name=name, **k: moved(name))
    run.recorder.phase = Cpu
    run.recorder.record_quiet = lambda ended_s: events.append("quiet")
    run.network.instances = [pinging(printed([1, 12]))] * 4
    monkeypatch.setattr(convergence, "rest", lambda duration_s: events.append("rest"))
    monkeypatch.setattr(LifecycleRun, "_wait_for_convergence", lambda *arguments, **options: events.append("converged"))
    run._failure()
    assert events == [
        "rest", "failure begins", "cut", "converged", "failure ends", "rest", "rest",
        "rest", "recovery begins", "mend", "converged", "recovery ends", "rest", "quiet",
    ]  # fmt: skip


# The observer is not what is observed


@pytest.mark.parametrize(
    ("phase", "used_s", "valid"), [("boot", 0, False), ("regular", 0, False), ("regular", 3, True)]
)
def test_the_host_is_judged_in_each_phase_that_is_read(
    monkeypatch: pytest.MonkeyPatch, phase: str, used_s: float, valid: bool
) -> None:
    monkeypatch.setattr(phase_recorder, "used_memory_bytes", lambda host: 0)
    outcome, used, moments = Outcome(), iter((0.0, used_s)), itertools.count(step=4)  # four seconds, all of them busy

    def glance(paths: Any) -> FileReadings:
        at_s = next(moments)
        return FileReadings(at_s, {"/proc/stat": f"cpu  {100 * at_s} 0 0 1000 0 0 0 0\n"}, OwnCpu())

    testbed: Any = SimpleNamespace(host=SimpleNamespace(name="here", glance=glance), guest_controller=None)
    at_s = itertools.count()
    timeline = HostTimeline(lambda: HostReading(next(at_s), 0.0, 0.0), 2)
    work = PhaseRecorder(testbed, {"max_steal_percent": 5.0, "max_foreign_cpus": 0.3}, outcome, (), timeline)
    if phase == "boot":
        work.record_boot(0.0, 1.0, 0.0)
    else:
        moments = itertools.count(step=4)
        work.routers = {"r1": cast(Any, SimpleNamespace(usage=lambda: Usage(user_s=next(used))))}
        with work.phase(phase):
            pass
    assert outcome.valid == valid
    assert outcome.invalid_because == ([] if valid else [
        f"{phase}: the host was disturbed: other processes used 1.00 CPUs (limit 0.3)"
    ])  # fmt: skip


def test_a_course_has_a_value_for_each_second_and_means_over_phases() -> None:
    cpus = 4
    read = iter([HostReading(10, 5, 0), HostReading(13, 5 + 3 * cpus / 2, 300), HostReading(12, 6, 200)])
    timeline = HostTimeline(lambda: next(read), cpus)
    for _ in range(3):
        timeline.take()
    busy = timeline.cpu_percent(10, 13)
    assert len(busy) == 3 and sum(busy) == pytest.approx(150) and busy[0] == pytest.approx(busy[1])
    assert timeline.taken_bytes(10, 12.9) == (100, 200)
    assert timeline.mean_taken_bytes(10, 13) == pytest.approx(150)
    assert timeline.mean_taken_bytes(11, 12) == pytest.approx(150)
    assert timeline.mean_taken_bytes(12, 12) == pytest.approx(200)


def guests(rate: float, step_s: float = 0.0) -> Any:
    """One router whose clock is read at 100 s and at 200 s of the host's, and another that runs on the host's own."""
    found: Any = object.__new__(RouterNetwork)
    before, after = (
        ClockSample(at_s, rate * (at_s - 90), 5000 + rate * (at_s - 90) + step, 0.001)
        for at_s, step in ((100.0, 0.0), (200.0, step_s))
    )
    found.topology, found.router, found.clocks, found.host_clocks = grid(1, 2), ROUTERS["frr"], [], []
    readings = iter((before, None, after, None))
    found.instances = [SimpleNamespace(clock=lambda: next(readings))] * 2
    found.testbed = SimpleNamespace(host=SimpleNamespace(clock=lambda: ClockSample(0.0, 0.0, 0.0, 0.0)))
    return found


@pytest.mark.parametrize("rate", [1.0, 1.01, 0.98])
def test_what_guests_log_is_told_in_the_hosts_time_whatever_their_clocks_do(
    monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    monkeypatch.setattr(router_network, "AT_ONCE", 1)
    network = guests(rate)
    for _ in range(2):
        network.read_clocks()
    samples = [network.clocks[0][0], network.clocks[1][0]]
    for at_s in (95.0, 150.0, 200.0):
        assert router_network._on_host(5000 + rate * (at_s - 90), samples, []) == pytest.approx(at_s)
    reasons = network.clock_reasons(0.001)
    assert [words.split(" drifted ")[0] for words in reasons] == (["the clock of the router r0-0"] if rate != 1 else [])


def test_a_guest_whose_clock_was_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_network, "AT_ONCE", 1)
    network = guests(1.0, step_s=2.0)
    for _ in range(2):
        network.read_clocks()
    assert network.clock_reasons(0.001) == ["router r0-0's clock jumped by +2.00 s"]


ALIVE, ZOMBIE = "Name:\tospfd\nState:\tS (sleeping)\nVmSize:\t 9000 kB\n", "Name:\tsh\nState:\tZ (zombie)\n"


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"smaps_rollup": "Rss: 90 kB\nPss: 30 kB\n", "status": ALIVE}, 50 << 10), ({}, 20 << 10),
        ({"status": ZOMBIE}, 20 << 10), ({"status": ALIVE}, None), ({"smaps_rollup": "", "status": ALIVE}, None),
    ],
)  # fmt: skip
def test_a_process_that_lives_and_cannot_be_read_is_no_small_one(second: dict[str, str], expected: int | None) -> None:
    files = {"/proc/1/smaps_rollup": "Pss: 20 kB\n", **{f"/proc/2/{name}": text for name, text in second.items()}}

    def read(paths: list[str]) -> dict[str, str]:
        return {path: files[path] for path in paths if path in files}

    network: Any = object.__new__(RouterNetwork)
    network.testbed = SimpleNamespace(host=SimpleNamespace(view=SimpleNamespace(read=read)))
    network.instances = [SimpleNamespace(pids=lambda: {1, 2})]
    assert network.proportional_bytes() == expected


class Clock:
    """Time that passes as it is slept."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


@pytest.mark.parametrize(("update_s", "first_asked_s"), [(1030.0, 1036.0), (0.0, 1040.0)])
def test_guests_are_left_alone_until_an_update_or_until_neighbours_must_be_dead(
    monkeypatch: pytest.MonkeyPatch, update_s: float, first_asked_s: float
) -> None:
    clock, asked_s = Clock(1000.0), []

    class Links:
        last_route_s = 0.0

        @property
        def last_update_s(self) -> float:
            return update_s if clock.now_s >= update_s else 0.0

    def differences(expected: Any) -> list[str]:
        asked_s.append(clock.now_s)
        return []

    monkeypatch.setattr(convergence, "time", clock)
    network: Any = SimpleNamespace(
        watch=Links(), instances=[SimpleNamespace(shares_kernel=False)], differences=differences,
        now_s=lambda: clock.now_s, testbed=SimpleNamespace(host=SimpleNamespace(remote=False)),
    )  # fmt: skip
    assert wait_for_routes(network, [], 1000.0, quiet_s=6, within_s=100, unasked_s=40) == []
    assert asked_s == [first_asked_s]


def test_a_clock_that_is_ahead_of_ours_is_waited_by_and_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a host that is reached by SSH, where each look is an exchange."""
    clock, ahead_s = Clock(1000.0), 5000.0
    looks_s: list[float] = []

    class Links:
        last_route_s = 6003.0

        @property
        def last_update_s(self) -> float:
            looks_s.append(clock.now_s)
            return 6001.0

    monkeypatch.setattr(convergence, "time", clock)
    network: Any = SimpleNamespace(
        watch=Links(), instances=[SimpleNamespace(shares_kernel=True)], differences=lambda expected: [],
        now_s=lambda: clock.now_s + ahead_s, testbed=SimpleNamespace(host=SimpleNamespace(remote=True)),
    )  # fmt: skip
    assert wait_for_routes(network, [], 6000.0, quiet_s=6, within_s=100) == []
    assert clock.now_s == 1009.0 and len(looks_s) < 25


# Where it runs, and what a file may name


@pytest.mark.parametrize(("shares_kernel", "failure", "can"), [
    (True, "carrier", True), (False, "silent", True), (False, "none", True), (False, "carrier", False),
])  # fmt: skip
def test_a_router_with_a_kernel_of_its_own_sees_no_carrier_go(
    monkeypatch: pytest.MonkeyPatch, shares_kernel: bool, failure: str, can: bool
) -> None:
    scenario: Any = object.__new__(RoutingScenario)
    scenario._testbed = SimpleNamespace(host=SimpleNamespace(remote=False))
    scenario._probed, scenario._own_kernels = {}, set()
    scenario._probes = SimpleNamespace(platform=lambda name: AVAILABLE, attachment=lambda name, platform: AVAILABLE)
    scenario.pool = SimpleNamespace(get=lambda level: None)
    scenario.attachments = SimpleNamespace(get=lambda name: SimpleNamespace())
    three = SimpleNamespace(
        instances=[SimpleNamespace(shares_kernel=shares_kernel)] * 3, marks={"booted": 0.0}, dead=list
    )
    monkeypatch.setattr(routing, "observers", nullcontext)
    monkeypatch.setattr(routing, "booted", lambda *arguments: nullcontext(three))
    monkeypatch.setattr(routing, "wait_for_routes", lambda *arguments, **limits: [])
    timing = {"timers": "standard", "hello_s": 1, "quiet_s": 8.0}
    parts = {"platform": "any:with=option", "attachment": "ovs", "implementation": "frr", "topology": "3x3"}
    config = {**parts, **timing, "failure": failure}
    found = scenario.availability(config)
    assert bool(found) == can
    assert can or ("carrier" in str(found.reason) and 'failure = "silent"' in str(found.remedy))


@pytest.mark.parametrize("name", ["New York", "São Paulo", "a\nEND\ntouch /tmp/x", "$(x)", "x" * 64, "-here", "zz\n"])
def test_a_name_that_is_no_plain_word_gets_into_no_script(name: str) -> None:
    assert host_name(name, 7) == "router-7"
    for router, plain in itertools.product(ROUTERS.values(), ("r1-1", "b.example_1")):
        assert host_name(plain, 7) == plain
        files = router.configuration(host_name(name, 7), 7, [Interface("eth0", 10)], OspfSettings())
        assert name not in router.start_script(files)


def test_a_network_with_names_of_cities_is_configured_by_plain_ones() -> None:
    scripts: list[str] = []

    def run(argv: list[str], *, stdin: str, timeout_s: float) -> None:
        scripts.append(stdin)

    text = '[[link]]\nends = ["New York", "São Paulo"]\n'
    network: Any = SimpleNamespace(
        topology=parse(text, "x.toml"), router=ROUTERS["frr"], instances=[SimpleNamespace(run=run)] * 2
    )
    boot._start_daemons(network, OspfSettings())
    assert sorted(line for script in scripts for line in script.splitlines() if line.startswith("hostname")) == [
        "hostname router-0", "hostname router-0", "hostname router-1", "hostname router-1",
    ]  # fmt: skip
