"""Each distinct host of the roles is judged once, by what is ours on it; and so is each host's clock."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.host import base
from lastro.host.cgroups import Usage
from lastro.results.samples import Outcome
from lastro.scenarios.proxy.proxies import StartsWindow
from lastro.scenarios.shared.host_limits import HostClocks, clock_kept
from lastro.scenarios.shared.window import Meters
from lastro.validity import ClockReading, ClockSample

from ...support.recording import RecordingHost

LIMITS = {"max_steal_percent": 5.0, "max_foreign_cpus": 0.3}
DRIFT = {"max_drift_percent": 0.1}
STAT = "cpu  {user} 0 0 1000 0 0 0 {steal}\n"


class Counted(RecordingHost):
    """A host whose user time and stolen time, in hundredths of a second, are what a test says."""

    def __init__(self, name: str, *, remote: bool = False) -> None:
        super().__init__()
        self.name, self.remote = name, remote  # type: ignore[misc]
        self.user = self.steal = 0
        self.view: Any = self

    def read(self, paths: Sequence[str]) -> dict[str, str]:
        assert "/proc/stat" in paths
        return {"/proc/stat": STAT.format(user=self.user, steal=self.steal)}


def nodes(client: Counted, dut: Counted, server: Counted) -> Any:
    place = lambda host: SimpleNamespace(testbed=SimpleNamespace(host=host, cgroups=None, guest_controller=None))  # noqa: E731
    found = SimpleNamespace(client=place(client), dut=place(dut), server=place(server))
    found.all = (found.client, found.dut, found.server)
    return found


class Using:
    """An instance on a host, which has used some CPU time since it started."""

    def __init__(self, host: Counted) -> None:
        self.testbed, self.used_s = SimpleNamespace(host=host, guest_controller=None), 0.0

    def usage(self) -> Usage:
        return Usage(cpu_s=self.used_s, user_s=self.used_s)


class Domain(Using):
    """An instance that a hypervisor runs beside the host."""

    def usage(self) -> Usage:
        return Usage(cpu_s=self.used_s, hidden_s=self.used_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Monotonic seconds of the meters."""
    now = [100.0]
    monkeypatch.setattr("lastro.host.base.time.monotonic", lambda: now[0])
    return now


def test_a_disturbed_client_on_a_host_of_its_own_makes_the_trial_invalid(clock: list[float]) -> None:
    client, dut, server = (Counted(name, remote=True) for name in ("client-host", "dut-host", "server-host"))
    everyone: Any = {"client": Using(client), "proxy0": Using(dut), "server": Using(server)}
    beds = [place.testbed for place in nodes(client, dut, server).all]
    meters = Meters(beds[1], everyone, elsewhere=beds)
    with meters:
        client.user, dut.user, server.user, clock[0] = 900, 100, 100, 110.0
        for each in everyone.values():
            each.used_s += 1.0
    found = meters.judged(LIMITS)
    assert found.invalid_because == ("client-host: the host was disturbed: other processes used 0.80 CPUs (limit 0.3)",)
    assert set(found.notes) == {"host", "host client-host", "host server-host"}


def test_one_machine_for_all_roles_is_judged_once(clock: list[float]) -> None:
    one = Counted("here", remote=True)
    everyone: Any = {"client": Using(one), "server": Using(one)}
    beds = [place.testbed for place in nodes(one, one, one).all]
    meters = Meters(beds[1], everyone, elsewhere=beds)
    with meters:
        one.user, one.steal, clock[0] = 250, 500, 110.0
        everyone["client"].used_s, everyone["server"].used_s = 1.0, 1.5
    found = meters.judged(LIMITS)
    (reason,) = found.invalid_because
    assert "stolen" in reason and set(found.notes) == {"host"}


def test_time_that_the_trials_own_domains_took_is_not_stolen_by_others(clock: list[float]) -> None:
    """Under Xen, the host's domain waits for the domains of the trial, and its kernel counts that as stolen."""
    for used_s, reasons in ((4.8, ()), (1.0, ("the host was disturbed: 80.0 % of CPU time stolen",))):
        here = Counted("here")
        domain: Any = Domain(here)
        meters = Meters(nodes(here, here, here).dut.testbed, {"router": domain})
        with meters:
            here.steal, clock[0], domain.used_s = 500, clock[0] + 10.0, used_s
        found = meters.judged(LIMITS).invalid_because
        assert len(found) == len(reasons) and all(map(str.startswith, found, reasons))


def test_starts_are_judged_without_what_lastros_own_commands_used(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, children_s = Counted("here"), [0.0]
    monkeypatch.setattr(
        base.os,
        "times",
        lambda: SimpleNamespace(user=0.0, system=0.0, children_user=children_s[0], children_system=0.0),
    )
    told = "while the proxies started, the host was disturbed: other processes used 0.62 CPUs (limit 0.3)"
    for used_s, reasons in ((3.0, ()), (1.0, (told,))):
        here.user, children_s[0], clock[0] = 0, 0.0, 100.0
        window, proxy = StartsWindow(nodes(here, here, here), Using(here), ()), Using(here)  # type: ignore[arg-type]
        with window:
            here.user, children_s[0], clock[0], proxy.used_s = 500, 1.5, 104.0, used_s
            window.add({"proxy0": proxy})  # type: ignore[dict-item]
        found = window.judged(LIMITS)
        assert found.invalid_because == reasons and set(found.notes) == {"host at start"}


def test_in_a_guest_foreign_load_is_that_of_the_machine_below(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while proxies start. But it is no work of the guest: what its own processes used is."""
    under = SimpleNamespace(foreign_cpus=0.75, totals=SimpleNamespace(steal_percent=0.0), stop=lambda: None)
    monkeypatch.setattr("lastro.meters.host._MachineUnderGuest", lambda near, rivals: under)
    guest = Counted("the guest", remote=True)
    place = SimpleNamespace(
        testbed=SimpleNamespace(host=guest, cgroups=None, guest_controller=object(), rivals=frozenset())
    )
    nodes: Any = SimpleNamespace(dut=place, all=(place, place, place))
    window = StartsWindow(nodes, Using(guest), ())  # type: ignore[arg-type]
    with window:
        guest.user, clock[0] = 400, 110.0
    assert window.judged(LIMITS).invalid_because == (
        "while the proxies started, the host was disturbed: other processes used 0.75 CPUs (limit 0.3)",
    )
    assert window.host.foreign_cpus(3.0) == 0.75 and window.host.others_user_s(3.0) == pytest.approx(1.0)


# Clocks


class Clocked(RecordingHost):
    """A remote host with a clock of its own, of which `rate` seconds pass in one of ours.

    A reading takes `round_trip_s`. The first is of its begin, all later ones are of its end: no error is larger."""

    remote = True

    def __init__(self, name: str = "the guest", *, rate: float = 1.0, round_trip_s: float = 0.002) -> None:
        super().__init__()
        self.name, self._rate, self._round_trip_s = name, rate, round_trip_s
        self.now_s, self.set_by_s, self.n_readings = 100.0, 0.0, 0

    def clock(self) -> ClockSample:
        self.n_readings += 1
        half_s = self._round_trip_s / 2
        own_s = self._rate * (self.now_s + (self._round_trip_s if self.n_readings > 1 else 0.0))
        self.now_s += self._round_trip_s
        return ClockSample(self.now_s - half_s, own_s, 1.7e9 + own_s + self.set_by_s, half_s)


def trial(host: RecordingHost, config: dict[str, Any], *, lasts_s: float = 20.0, set_by_s: float = 0.0) -> Outcome:
    """A trial on a DUT's host, whose wall clock is set in the middle."""
    outcome, testbed = Outcome(), SimpleNamespace(host=host)
    with clock_kept(testbed, config, outcome):  # type: ignore[arg-type]
        if isinstance(host, Clocked):
            host.now_s += lasts_s
            host.set_by_s = set_by_s
    return outcome


@pytest.mark.parametrize(("rate", "percent"), [(0.95, "-5.000"), (1.002, "+0.200")])
def test_a_guest_whose_clock_runs_wrong_has_no_valid_trial(rate: float, percent: str) -> None:
    (reason,) = trial(Clocked(rate=rate, round_trip_s=0.0), DRIFT).invalid_because
    drifted = f"the guest: the clock of the host drifted by {percent} % (± 0.000 %)"
    assert reason == f"{drifted} relative to the controller's (limit 0.1 %)"


def test_the_limit_of_the_study_applies_and_the_drift_is_noted_beside_those_of_guests() -> None:
    outcome, host = Outcome(), Clocked(rate=0.998, round_trip_s=0.0)
    with clock_kept(SimpleNamespace(host=host), {"max_drift_percent": 0.5}, outcome):  # type: ignore[arg-type]
        host.now_s += 20
        outcome.notes["clocks"] = {"sink": {"drift": 0.0, "uncertainty": 0.0}}
    assert outcome.valid
    clocks: Any = outcome.notes["clocks"]
    assert set(clocks) == {"sink", "the guest"} and clocks["the guest"]["drift"] == pytest.approx(-0.002)


@pytest.mark.parametrize("set_by_s", [10.0, -0.3])
def test_a_remote_clock_that_is_set_in_a_trial_is_seen(set_by_s: float) -> None:
    reason = f"the guest: the host's clock jumped by {set_by_s:+.2f} s"
    assert trial(Clocked(), DRIFT, set_by_s=set_by_s).invalid_because == [reason]


@pytest.mark.parametrize("round_trip_s", [0.001, 0.5, 3.0, 60.0])
def test_a_right_clock_that_is_read_slowly_leaves_the_trial_valid(round_trip_s: float) -> None:
    outcome = trial(Clocked(round_trip_s=round_trip_s), DRIFT)
    assert outcome.invalid_because == []
    clocks: Any = outcome.notes["clocks"]
    assert abs(clocks["the guest"]["drift"]) <= clocks["the guest"]["uncertainty"] + 1e-9


def test_a_clock_that_runs_wrong_by_more_than_a_slow_reading_explains_is_seen() -> None:
    assert not trial(Clocked(rate=0.95, round_trip_s=0.2), DRIFT).valid
    assert trial(Clocked(rate=0.95, round_trip_s=2.0), DRIFT).valid


def test_the_clock_is_read_twice_in_a_trial_and_nothing_else_is_asked() -> None:
    host = Clocked()
    trial(host, DRIFT)
    assert host.n_readings == 2 and host.commands == []


def test_where_the_controller_takes_all_times_only_a_clock_that_was_set_matters() -> None:
    outcome = trial(Clocked(rate=0.95), LIMITS)
    assert outcome.valid and "clocks" in outcome.notes
    assert not trial(Clocked(rate=0.95), LIMITS, set_by_s=10).valid


def test_on_this_machine_no_command_is_run_and_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    here = RecordingHost()
    outcome = trial(here, DRIFT)
    assert outcome.valid and outcome.notes == {} and here.commands == []
    readings = iter([ClockReading(10.0, 1000.0), ClockReading(20.0, 4610.0)])
    monkeypatch.setattr(ClockReading, "now", lambda: next(readings))
    assert trial(here, DRIFT).invalid_because == ["the host's clock jumped by +3600.00 s"]


def test_each_distinct_host_of_the_roles_is_read_once_and_named() -> None:
    near, client, dut = RecordingHost(), Clocked("client-host"), Clocked("dut-host")
    clocks, outcome = HostClocks([near, client, dut, dut]), Outcome()
    client.set_by_s, dut.now_s, client.now_s = 3.0, 120.0, 120.0
    clocks.judge(outcome, 0.001)
    assert outcome.invalid_because == ["client-host: the host's clock jumped by +3.00 s"]
    noted: Any = outcome.notes["clocks"]
    assert client.n_readings == dut.n_readings == 2 and set(noted) == {"client-host", "dut-host"}
