"""The phases of a network's lifecycle, in order, with the measurements of each.

All times are on the monotonic clock of the testbed's host, where the network runs. Only waits use the clock of this
machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lastro.errors import LastroError, PlatformError
from lastro.results.samples import Series
from lastro.scenarios.routing.additions import packets_series
from lastro.scenarios.routing.flow import ANSWER, Flow, count_lost, outage_s, ping_argv, wait_for_answer
from lastro.scenarios.routing.network import RouterNetwork, Table, last_full, shortened, wall_offset_s
from lastro.scenarios.routing.ospf_capture import UPDATE, totals
from lastro.scenarios.routing.phase_recorder import FAILURE, HELLO_S, QUIET_S, PhaseRecorder
from lastro.scenarios.shared.flow import rest
from lastro.scenarios.shared.host_limits import MAX_DRIFT_PERCENT
from lastro.study.model import DAY_S, Setting
from lastro.units import MIB

DEAD_HELLOS = 4  # as published: 1/4, 5/20, 10/40
CONVERGE_S = Setting("converge_s", 120.0, "time limit of each convergence", 5, DAY_S)
SETTLE_S = Setting("settle_s", 2.0, "time between the convergence and the measurement of regular operation", 0, DAY_S)
REGULAR_S = Setting("regular_s", 5.0, "length of the measurement of regular operation", 1, DAY_S)
FAILURE_S = Setting("failure_s", 0.0, "least time from the cut until the links return, once all is quiet", 0, DAY_S)
PROBE_INTERVAL_MS = Setting(
    "probe_interval_ms", 20, "time between two packets of the flow that crosses the failure", 2, 1000
)
PHASES = (CONVERGE_S, SETTLE_S, REGULAR_S, FAILURE_S, PROBE_INTERVAL_MS)
_CHECK_PERIOD_S, _POLL_PERIOD_S = 0.05, 0.5
_BEFORE_CUT_S = 1.0  # how long the flow runs before the cut, to show that it arrives
_AFTER_S, _AFTER_REQUESTS = 0.5, 3  # how long it runs afterwards, to show that it arrives again: the longer of the two
_REFRESH_S = 900  # after which LSAs are refreshed without a cause: FRRouting does so after 15 minutes at the earliest


def wait_for_routes(
    network: RouterNetwork,
    expected: Sequence[Table],
    since_s: float,
    *,
    quiet_s: float,
    within_s: float,
    unasked_s: float = 0.0,
) -> list[str]:
    """Wait until nothing has changed for `quiet_s` and all routes are as expected; return remaining differences.

    The list is empty if this happens within `within_s`. `since_s` is when the phase began. Routers with kernels of
    their own are polled, but only from the first link-state update on, or after `unasked_s`, because a query takes
    CPU time."""
    watch, deadline_s, checked_s = network.watch, time.monotonic() + within_s, -1.0
    ahead_s = network.now_s() - time.monotonic()  # how much the host's clock is ahead of ours
    polls = not all(instance.shares_kernel for instance in network.instances)  # a guest's route changes are not seen
    while time.monotonic() < deadline_s:
        last_s, now_s = max(watch.last_update_s, watch.last_route_s, since_s), time.monotonic() + ahead_s
        too_early = polls and watch.last_update_s <= since_s and now_s - since_s < unasked_s
        if not too_early and now_s - last_s >= quiet_s and (last_s != checked_s or polls):
            checked_s = last_s
            if not network.differences(expected):
                return []
        time.sleep(_POLL_PERIOD_S if polls or network.testbed.host.remote else _CHECK_PERIOD_S)
    return network.differences(expected) or ["link-state updates or changes of routes did not end"]


@dataclass(slots=True)
class LifecycleRun:
    """The phases of one network, measured by `recorder`."""

    network: RouterNetwork
    recorder: PhaseRecorder

    def run_phases(self) -> None:
        """Run all phases.

        Raises: PlatformError, with the reason, if the network does not converge; any other error of a phase."""
        network, recorder = self.network, self.recorder
        self._record_boot()
        self._initial()
        self._regular()
        self._judge_end("initial convergence", network.marks["converged"])
        if FAILURE.of(recorder.config) != "none":
            self._failure()
        self._adjacencies()
        self._record_traffic()

    # Phases

    def _record_boot(self) -> None:
        network, recorder = self.network, self.recorder
        marks = network.marks
        begin_s, created_s, linked_s, booted_s = (marks[name] for name in ("begin", "created", "linked", "booted"))
        recorder.record_boot(begin_s, booted_s, network.watch_cpu_s)
        recorder.record("boot", booted_s - begin_s)
        if any(instance.starts_on_links for instance in network.instances):
            reason = "instances start when they get their links, so the two times cannot be separated"
            recorder.outcome.notes |= {"created": reason, "links_made": reason}
            return
        recorder.record("created", created_s - begin_s)
        recorder.record("links_made", 1000 * (linked_s - created_s))

    def _initial(self) -> None:
        network, recorder = self.network, self.recorder
        begin_s = network.marks["begin"]
        with self._first_ping() as forwarding_s:
            self._wait_for_convergence("initial convergence", network.topology.routes(), network.marks["booted"])
            recorder.record("initial_forwarding", forwarding_s() - begin_s)
        self._mark("converged")
        network.read_clocks()  # not earlier: asking guests takes CPU time, which the exchange needs
        packet_times_s = [packet.at_s for packet in network.watch.packets]
        recorder.record("first_ospf_packet", min(packet_times_s) - begin_s if packet_times_s else None)
        if network.watch.last_update_s:
            recorder.record("initial_last_update", network.watch.last_update_s - begin_s)
        else:
            recorder.outcome.invalidate(["no link-state update was seen on any link before the initial convergence"])
        if network.watch.last_route_s:
            recorder.record("initial_routes", network.watch.last_route_s - begin_s)
        recorder.record("initial_updates", network.watch.count(begin_s, network.now_s())[UPDATE])

    def _regular(self) -> None:
        network, recorder, n = self.network, self.recorder, len(self.network.names)
        rest(SETTLE_S.of(recorder.config))
        self._mark("regular")
        began_s, cpu_s = network.now_s(), network.cpu_s()
        with recorder.phase("regular"):
            rest(REGULAR_S.of(recorder.config))
        ended_s = network.now_s()
        recorder.record("cpu_router", 1000 * (network.cpu_s() - cpu_s) / n / (ended_s - began_s))
        counted = network.watch.count(began_s, ended_s)
        recorder.record("ospf_regular", counted.total() / (ended_s - began_s))
        recorder.record("memory_router", network.memory_bytes() / n / MIB)
        pss_bytes = network.proportional_bytes()
        if pss_bytes is None:
            recorder.outcome.notes["pss_router"] = "the memory of a living process could not be read"
        elif pss_bytes:
            recorder.record("pss_router", pss_bytes / n / MIB)

    def _failure(self) -> None:
        network, recorder, topology = self.network, self.recorder, self.network.topology
        spare, carrier = topology.spare_links(), FAILURE.of(recorder.config) == "carrier"
        dead_s = DEAD_HELLOS * HELLO_S.of(recorder.config)
        with self._flow(spare) as flow:
            with recorder.phase("failure"):
                cut_s = network.marks["cut"] = network.cut(spare, carrier=carrier)
                expected = topology.routes(spare, subnets_gone=carrier)
                self._wait_for_convergence("convergence after the failure", expected, cut_s, unasked_s=dead_s)
            ended_s = network.now_s()
            self._record_flow("failure", flow)
        self._record_end("failure", cut_s)
        rest(FAILURE_S.of(recorder.config) - (network.now_s() - cut_s))
        with self._flow(spare) as flow:
            self._judge_end("convergence after the failure", ended_s)
            with recorder.phase("recovery"):
                back_s = network.marks["back"] = network.mend(spare, carrier=carrier)
                self._wait_for_convergence("convergence after the recovery", topology.routes(), back_s, dead_s)
            self._record_flow("recovery", flow)
        self._record_end("recovery", back_s)
        recorder.record_quiet(self._mark("recovered"))

    # Helpers of the phases

    def _mark(self, name: str) -> float:
        self.network.marks[name] = now_s = self.network.now_s()
        return now_s

    def _wait_for_convergence(
        self, what: str, expected: Sequence[Table], since_s: float, unasked_s: float = 0.0
    ) -> None:
        """Wait until all routers have the `expected` routes. Raises: PlatformError, with the differences, if not."""
        within_s, quiet_s = CONVERGE_S.of(self.recorder.config), QUIET_S.of(self.recorder.config)
        if reasons := wait_for_routes(
            self.network, expected, since_s, quiet_s=quiet_s, within_s=within_s, unasked_s=unasked_s
        ):
            dead = self.network.dead()
            because = f"died: {shortened(dead)}; " if dead else ""
            raise PlatformError(f"no {what} within {within_s:g} s: {because}{shortened(reasons)}")

    def _judge_end(self, what: str, ended_s: float) -> None:
        """Invalidate the trial if link-state updates came after `ended_s`, when the exchange seemed to be over."""
        until_s = min(self.network.now_s(), self.network.marks["begin"] + _REFRESH_S)
        if late := self.network.watch.count(ended_s, until_s)[UPDATE]:
            reason = f"the exchange had not ended: {late} link-state updates came after the {what}"
            self.recorder.outcome.invalidate([reason])

    def _record_end(self, phase: str, since_s: float) -> None:
        watch, recorder = self.network.watch, self.recorder
        for name, last_s in (("last_update", watch.last_update_s), ("routes", watch.last_route_s)):
            if last_s > since_s:
                recorder.record(f"{phase}_{name}", last_s - since_s)
        recorder.record(f"{phase}_updates", watch.count(since_s, self.network.now_s())[UPDATE])

    @contextmanager
    def _first_ping(self) -> Iterator[Callable[[], float]]:
        """Ping between the corners inside the block; yield a callable that returns the time of the first answer.

        The time is on the host's clock. Call the callable after convergence."""
        topology = self.network.topology
        a, b = topology.corners()
        source, target = (str(topology.address(end, topology.at[end][0])) for end in (a, b))
        instance = self.network.instances[a]
        process = instance.spawn(ping_argv(source, target, 0.1, CONVERGE_S.of(self.recorder.config) + 5))

        def first_answer_s() -> float:
            line = wait_for_answer(process, 5, "no ping between the corners was answered")
            return float(line[1 : line.index("]")]) - wall_offset_s(instance)

        try:
            yield first_answer_s
        finally:
            process.stop()

    @contextmanager
    def _flow(self, spare: Sequence[int]) -> Iterator[Flow | None]:
        """Run a flow inside the block over a path that the failure of the links `spare` makes longer.

        Yield None if the topology has no such path."""
        detour = self.network.topology.detour(spare)
        if detour is None:
            yield None
            return
        router, number = detour
        topology = self.network.topology
        interval_ms = PROBE_INTERVAL_MS.of(self.recorder.config)
        link, costs = topology.links[number], topology.distances(router)
        end = min((link.a, link.b), key=lambda router: costs[router])
        lasting_link = next(link for link in topology.at[router] if link not in spare)
        source_address, target = str(topology.address(router, lasting_link)), str(topology.address(end, number))
        ping = ping_argv(source_address, target, interval_ms / 1000, CONVERGE_S.of(self.recorder.config) + 30)
        source = self.network.instances[router]
        with ExitStack() as stack:
            try:
                process = stack.enter_context(source.during(ping, ANSWER, 10))
            except LastroError as error:
                words = f"the flow across the failure got no answer before the failure: {error.message}"
                raise PlatformError(words) from error
            rest(_BEFORE_CUT_S)
            yield Flow(source, process, interval_ms)

    def _record_flow(self, phase: str, flow: Flow | None) -> None:
        if flow is None:
            reason = "no path between two routers gets longer without the links that are cut"
            self.recorder.outcome.notes["flow"] = reason
            return
        converged_s = self.network.now_s()
        rest(max(_AFTER_S, _AFTER_REQUESTS * flow.interval_ms / 1000))
        answered = flow.answered()
        if not any(at_s > converged_s for at_s, _ in answered):  # then it is unknown how many more are lost
            reason = f"the flow across the failure got no answer after the {phase}, with right routes"
            self.recorder.outcome.invalidate([reason])
            return
        self.recorder.record(f"{phase}_lost", count_lost([number for _, number in answered]))
        if phase == "failure":
            self.recorder.record("failure_outage", 1000 * outage_s(answered))

    def _adjacencies(self) -> None:
        """Record from the routers' logs when the last adjacency became full; invalidate the trial if one did not."""
        network, recorder = self.network, self.recorder
        ends = 2 * len(network.topology.links)
        network.read_clocks()
        recorder.outcome.invalidate(network.clock_reasons(MAX_DRIFT_PERCENT.of(recorder.config) / 100))
        changes, marks = network.changes(), network.marks
        initial = ("initial", "begin", "regular", "at the initial convergence")
        recovery = ("recovery", "back", "recovered", "after the recovery")
        for phase, since, until, when in (initial, recovery) if "recovered" in marks else (initial,):
            at_s, n_full = last_full(changes, marks[since], marks[until])
            if n_full != ends:
                recorder.outcome.invalidate([f"{n_full} of {ends} ends of links had a full adjacency {when}"])
            elif at_s is not None:
                recorder.record(f"{phase}_adjacency", at_s - marks[since])

    def _record_traffic(self) -> None:
        """Record series of OSPF packets by type and second since the first start, and the phases' marks."""
        network, outcome = self.network, self.recorder.outcome
        begin_s, now_s = network.marks["begin"], network.now_s()
        for name, counts in network.watch.per_second(begin_s, now_s).items():
            outcome.series.append(Series(packets_series(name), "1/s", tuple(map(float, counts))))
        self.recorder.record_host_series(begin_s, now_s)
        self.recorder.record_growth(begin_s, network.marks["regular"])
        outcome.notes["ospf_packets"] = totals(network.watch.count(begin_s, now_s))
        outcome.notes["timeline_s"] = {name: round(at_s - begin_s, 3) for name, at_s in network.marks.items()}
