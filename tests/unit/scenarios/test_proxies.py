"""Proxies on the DUT without a host: of how many servers they are, when each answered, and how many are too many."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.attachments.host import HostNetwork
from lastro.attachments.hosting import HostedInstance
from lastro.attachments.nat import NatAttachment
from lastro.errors import PlatformError
from lastro.functions.http_proxy import HttpProxy, ProxyOptions
from lastro.host.activity import HostTotals
from lastro.host.cgroups import Resources, Usage
from lastro.results.samples import AT_LEAST, Outcome, Reading
from lastro.results.trial_notes import remarks_of
from lastro.scenarios import proxy as proxy_module
from lastro.scenarios.proxy import capacity, proxies
from lastro.scenarios.proxy import measure as proxy_measure
from lastro.scenarios.proxy import origin as origins
from lastro.scenarios.shared.timing import InstanceTimes
from lastro.scenarios.shared.window import Meters

from .test_proxy import config

PAGE = origins.page("198.19.2.10", 1000)


class Started:
    """A platform whose instances are names alone."""

    def __init__(self, name: str) -> None:
        self.name, self.bare = name, name == "native"

    @contextmanager
    def start(self, testbed: Any, spec: Any) -> Iterator[Any]:
        nothing = lambda *of: None  # noqa: E731
        yield SimpleNamespace(spec=spec, plug=nothing, ready=nothing)


def farm_of(
    platform: str, links: Any, monkeypatch: pytest.MonkeyPatch, *, shared: bool = False
) -> tuple[proxies.ProxyStarter, list[tuple[int, ...]]]:
    """With the ports of each server that it has started."""
    servers: list[tuple[int, ...]] = []

    @contextmanager
    def running(self: HttpProxy, instance: Any, wanted: ProxyOptions) -> Iterator[Any]:
        servers.append(wanted.ports)
        yield SimpleNamespace(require_alive=lambda: None)

    monkeypatch.setattr(HttpProxy, "running", running)
    monkeypatch.setattr(proxies, "require_room", lambda host: None)
    monkeypatch.setattr(proxies, "_wait_for_answer", lambda *of: None)
    numbers = iter(range(9))
    bed = SimpleNamespace(host=None)
    dut = SimpleNamespace(
        testbed=bed,
        addresses={"client": "198.19.1.1", "server": "198.19.2.1"},
        spec=lambda *of: SimpleNamespace(name=f"proxy-{next(numbers)}"),
    )
    nodes, client = SimpleNamespace(dut=dut), SimpleNamespace()
    made: Any = (nodes, Started(platform), links, client, PAGE, ProxyOptions(), Resources())
    return proxies.ProxyStarter(*made, shared=shared), servers


def test_two_bare_proxies_may_be_two_ports_of_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    starter, servers = farm_of("native", HostNetwork(), monkeypatch, shared=True)
    with ExitStack() as stack:
        two = starter.add(stack, 2)
        more = starter.add(stack, 1)
    assert servers == [(3128, 3129), (3130,)]
    assert [str(proxy.endpoint) for proxy in (*two, *more)] == [f"198.19.1.1:{port}" for port in (3128, 3129, 3130)]
    assert two[0].running is two[1].running and two[0].instance is two[1].instance
    standing = proxy_measure.RunningProxies(*[None] * 7, proxies=[*two, *more], starter=starter)  # type: ignore
    assert [name for name in standing.everyone if name.startswith("proxy")] == ["proxy0", "proxy2"]


def test_starts_that_others_disturbed_make_the_trial_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxies are timed before a request is: what was busy then is no more while these go."""
    steps: list[str] = []
    proxy = SimpleNamespace(instance=SimpleNamespace(spec=SimpleNamespace(name="p")))

    class Window(Meters):
        def __init__(self) -> None: ...

        def start(self) -> None:
            steps.append("start")

        def stop(self) -> None:
            steps.append("stop")

        def add(self, instances: Any) -> None:
            assert set(instances) == {"p"}

        def judged(self, config: Any) -> Reading:
            return Reading({}, invalid_because=("disturbed",))

    starter: Any = SimpleNamespace(add=lambda stack, n: steps.append(f"add {n}") or [proxy] * n)
    started: Any = proxy_module._start_proxies
    proxies, found = started(ExitStack(), starter, Window(), config(proxies=2))
    assert steps == ["start", "add 2", "stop"] and proxies == [proxy, proxy] and found.invalid_because == ("disturbed",)
    assert started(ExitStack(), starter, Window(), config(proxies=0))[0] == []


def test_each_instance_starts_only_where_there_is_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for all of them: those that start take the room of those that follow."""
    starter, _ = farm_of("runc", HostNetwork(), monkeypatch)
    monkeypatch.setattr(proxies, "_AT_ONCE", 1)
    rooms = iter([True, True, False])

    def require_room(host: Any) -> None:
        if not next(rooms, False):
            raise PlatformError("the host has 1 MiB of memory left")

    monkeypatch.setattr(proxies, "require_room", require_room)
    with ExitStack() as stack, pytest.raises(PlatformError, match="memory left"):
        starter.add(stack, 5)
    assert next(rooms, None) is None


def test_of_ports_of_one_server_the_first_alone_tells_when_it_answered() -> None:
    instance = SimpleNamespace(spec=SimpleNamespace(name="p"))
    proxies: Any = [SimpleNamespace(instance=instance, start_s=1.0, answer_s=answer_s) for answer_s in (2.0, 2.5, 3.0)]
    starter: Any = SimpleNamespace(began_s=0.0, ended_s=3.0)
    stands = proxy_measure.RunningProxies(*[None] * 7, proxies=proxies, starter=starter)  # type: ignore
    host = SimpleNamespace(read=dict, totals=HostTotals({"softirq": 0.0, "irq": 0.0}, {}), elapsed_s=1.0)
    window: Any = SimpleNamespace(host=host, usage=SimpleNamespace(used={"proxy0": Usage()}))
    outcome = Outcome(notes={"http": {"shares": [10]}})
    proxy_measure._record_usage(stands, window, outcome)
    assert outcome.measurements["proxy_answer"] == 2000 and outcome.measurements["proxies_up"] == 3000


def test_idle_instances_have_addresses_and_run_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    linked: list[str] = []

    @contextmanager
    def hosted(self: Any, testbed: Any, instances: Any, outside: str) -> Iterator[None]:
        linked.extend(each.address for each in instances)
        yield

    monkeypatch.setattr(HostNetwork, "hosted", hosted)
    starter, servers = farm_of("native", HostNetwork(), monkeypatch)
    with ExitStack() as stack:
        starter.start_idle(stack, 2)
        assert servers == [] and len(linked) == 2
        starter.add(stack, 1)
    assert len(servers) == 1 and len(set(linked)) == 3


def test_more_bare_proxies_than_one_server_has_room_for_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    starter, servers = farm_of("native", HostNetwork(), monkeypatch, shared=True)
    with ExitStack() as stack:
        found = starter.add(stack, 130)
    assert sorted(map(len, servers)) == [2, 128] and len({str(proxy.endpoint) for proxy in found}) == 130


@pytest.mark.parametrize("platform", ["native", "runc"])
def test_two_proxies_at_the_hosts_own_address_are_two_servers(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    starter, servers = farm_of(platform, HostNetwork(), monkeypatch)
    with ExitStack() as stack:
        one, other = starter.add(stack, 2)
    assert sorted(servers) == [(3128,), (3129,)] and one.instance is not other.instance


class Counting:
    """A starter that makes proxies until the host has no room, and no more than a few together."""

    def __init__(self, room: int, at_once: int) -> None:
        self.room, self.at_once = room, at_once

    def add(self, stack: Any, n: int) -> list[object]:
        if n > min(self.room, self.at_once):
            raise PlatformError("no room")
        self.room -= n
        stack.callback(self.leave, n)
        return [object()] * n

    def leave(self, n: int) -> None:
        self.room += n


class OutOfFiles(Counting):
    """Lastro itself may open no more files when there are a few."""

    def add(self, stack: Any, n: int) -> list[object]:
        if n > self.room:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().add(stack, n)


def test_what_lastro_has_no_room_for_ends_the_search_and_not_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = filled(OutOfFiles(5, 100), monkeypatch, max_proxies=100)
    assert outcome.measurements == {"capacity": 6} and outcome.valid
    assert "Too many open files" in outcome.notes["capacity"]["stopped_by"]  # type: ignore[index]


def filled(starter: Any, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> Outcome:
    """What a search tells that began with one proxy."""
    monkeypatch.setattr(capacity, "ask_all", lambda *of: None)
    monkeypatch.setattr(capacity, "used_memory_bytes", lambda host: 0)
    outcome, place = Outcome(), SimpleNamespace(dut=SimpleNamespace(testbed=SimpleNamespace(host=None)))
    stands: Any = SimpleNamespace(
        nodes=place, proxies=[object()], starter=starter, client=None, origin=SimpleNamespace(page=None)
    )
    capacity.fill_up(stands, config(**limits), outcome)
    return outcome


@pytest.mark.parametrize(
    ("room", "at_once", "limits", "n", "censored"),
    [
        (5, 100, {"max_proxies": 100}, 6, False),
        (100, 100, {"max_proxies": 7}, 7, True),
        (100, 100, {"max_proxies": 100, "capacity_s": -1}, 1, True),
        (100, 2, {"max_proxies": 7}, 7, True),  # what was too much at once was no end
    ],
)
def test_a_number_at_which_the_study_ended_is_a_lower_bound(
    room: int, at_once: int, limits: dict[str, Any], n: int, censored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = filled(Counting(room, at_once), monkeypatch, **limits)
    assert outcome.measurements == {"capacity": n} and outcome.valid
    told: Any = outcome.notes["capacity"]
    assert told["stopped_by"].startswith("enough for this study") is censored
    marks = [(remark.kind, remark.metrics) for remark in remarks_of(outcome.notes)]
    assert marks == ([(AT_LEAST, ("capacity",))] if censored else [])


def test_an_answer_is_timed_without_the_wait_for_other_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instance took 2 s of the 100 since its start was called for, the others the rest; then the proxy took 3."""
    clock = [100.0]
    monkeypatch.setattr(proxies.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(proxies, "_wait_for_answer", lambda *of: clock.__setitem__(0, 103.0))
    dut = SimpleNamespace(addresses={"client": "198.19.1.1", "server": "198.19.2.1"})
    nodes: Any = SimpleNamespace(dut=dut)
    nothing: Any = None
    starter = proxies.ProxyStarter(nodes, nothing, NatAttachment(), nothing, PAGE, ProxyOptions(), Resources())
    alive = nullcontext(SimpleNamespace(require_alive=lambda: None))
    monkeypatch.setattr(HttpProxy, "running", lambda self, instance, options: alive)
    with starter._answering(
        [HostedInstance(0, nothing, 3128)], InstanceTimes(began_s=0.0, create_s=1.5, port_s=0.5)
    ) as (proxy,):
        assert (proxy.start_s, proxy.answer_s) == (2.0, 5.0)
