"""The scenario proxy without a host: what a study may choose, what is known before, what curl prints, who limits."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import papers
from lastro.attachments.hosting import HostedInstance
from lastro.attachments.nat import NatAttachment
from lastro.errors import InstrumentError, PlatformError
from lastro.functions.http_proxy import RequestCounts
from lastro.host.cgroups import Usage
from lastro.host.local import LocalHost
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.curl import Curl
from lastro.instruments.http_load import ClosedLoad, Endpoint, LoadOrigin, RequestedPage
from lastro.results.samples import GENERATOR_LIMITED, Outcome, Remark
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.base import schemas
from lastro.scenarios.proxy import ProxyScenario, logs, measure, proxies
from lastro.scenarios.proxy import measure as proxy_measure
from lastro.scenarios.proxy import origin as origins
from lastro.scenarios.proxy.expected import expected_s
from lastro.study.load import load as load_study
from lastro.study.load import parse

from ...support.recording import RecordingHost, answer

STUDY = """
[study]
name = "p"
scenario = "proxy"
[factors]
platform = ["docker", "qemu-tcg:nic=e1000"]
attachment = ["nat", "routed"]
proxies = [1, 2]
[settings]
instrument = "curl"
[profiles.quick]
requests = 20
"""
PAGE = origins.page("198.19.2.10", 1000)
PROXIES = (Endpoint("198.19.1.1", 3128), Endpoint("198.19.1.1", 3129))


def config(**changes: Any) -> dict[str, Any]:
    defaults = {setting.name: setting.default for setting in ProxyScenario.settings}
    parts = {
        "platform": "docker:storage=vfs",
        "attachment": "nat",
        "isolation": "none",
        "anomaly": "none",
        "instrument": "curl",
    }
    return {**defaults, **parts, **changes}


def load(**changes: Any) -> ClosedLoad:
    return ClosedLoad(PAGE, **{"proxies": PROXIES, "clients": 3, "requests": 2, **changes})


# What a study may choose, and what is known before


def test_a_study_crosses_ways_to_host_with_proxies() -> None:
    study = parse(STUDY, "p.toml", schemas())
    assert study.settings["object_bytes"] == 1_024_000 and study.settings["anomaly"] == "none"
    assert study.with_profile("quick").settings["requests"] == 20


def test_attachments_are_those_that_host_and_instruments_those_that_ask() -> None:
    assert ProxyScenario.part_names("attachment") == {"host", "docker-nat", "nat", "podman-nat", "routed"}
    assert "curl" in ProxyScenario.part_names("instrument") and "ping" not in ProxyScenario.part_names("instrument")


def test_the_image_has_the_proxy_and_the_server_that_a_study_needs() -> None:
    host = LocalHost()
    assert ProxyScenario.image_needs(host, [config()]) == ImageAdditions(("squid", "apache2-bin", "curl"))
    assert ProxyScenario.image_needs(host, [config(origin="nginx")]) == ImageAdditions(("squid", "nginx-light", "curl"))


def test_the_same_clients_go_straight_to_the_server_before_and_once_for_all_platforms() -> None:
    keys = {
        key
        for changes in (
            {},
            {"platform": "runc"},
            {"proxies": 2},
            {"cache": "on"},
            {"memory": "1G"},
            {"max_proxies": 9},
            {"isolation": "seccomp"},
        )
        for key in ProxyScenario.calibrations(config(**changes))
    }
    assert len(keys) == 1
    (straight,) = ProxyScenario.calibrations(config()).values()
    assert (straight["platform"], straight["proxies"], straight["cache"]) == ("native", 0, "off")
    assert ProxyScenario.calibrations(straight) == {}
    for changes in ({"clients": 11}, {"attachment": "routed"}, {"anomaly": "cpu"}, {"object_bytes": 10}):
        assert keys.isdisjoint(ProxyScenario.calibrations(config(**changes)))


def test_a_plan_expects_more_of_more_requests_and_of_machines() -> None:
    some = ProxyScenario.duration_s(config(requests=10))
    assert some < ProxyScenario.duration_s(config(requests=1000))
    assert some < ProxyScenario.duration_s(config(requests=10, platform="qemu-tcg"))


def test_a_load_is_expected_to_last_by_the_cpus_of_the_dut_and_not_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = config(anomaly="cpu", anomaly_workers=8)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(2))
    assert expected_s(loaded, 1) > ProxyScenario.duration_s(loaded) == expected_s(loaded, 2)


# Who limits


@pytest.mark.parametrize(("rate", "limited"), [(89.0, False), (90.0, True), (150.0, True)])
def test_within_a_tenth_of_what_the_clients_do_alone_they_limit(rate: float, limited: bool) -> None:
    outcome = Outcome({"requests_per_s": rate, "request_time": 5.0})
    measure.judge_generator({"requests_per_s": 100.0, "request_time": 4.0}, outcome)
    assert outcome.notes["generator_limited"] is limited
    assert outcome.valid


@pytest.mark.parametrize(("time_ms", "limited"), [(4.0, True), (4.4, True), (4.5, False), (20.0, False)])
def test_an_open_loop_which_keeps_its_rate_is_judged_by_its_time(time_ms: float, limited: bool) -> None:
    straight = measure.rates(Outcome({"open_requests_per_s": 100.0, "open_request_time": 4.0, "open_lag": 0.1}))
    outcome = Outcome({"open_requests_per_s": 100.0, "open_request_time": time_ms})
    measure.judge_generator(straight, outcome)
    assert outcome.notes["generator_limited"] is limited
    (remark,) = remarks_of(outcome.notes) if limited else (Remark(GENERATOR_LIMITED, "", ("open_request_time",)),)
    assert remark.metrics == ("open_request_time",), "its rate is what was asked for, and limited by nobody"


def test_nothing_is_marked_when_nothing_is_known() -> None:
    outcome = Outcome({"requests_per_s": 10.0})
    measure.judge_generator(None, outcome)
    measure.judge_generator({}, outcome)
    assert outcome.notes == {}


# What carried the requests


def standing(links: Any) -> Any:
    """Of all that stands, what counts: the links, and one proxy."""
    stands = SimpleNamespace(links=links, nodes=SimpleNamespace(dut=SimpleNamespace(testbed=None)), proxies=[object()])
    stands.traffic_counters = partial(proxy_measure.RunningProxies.traffic_counters, stands)
    return stands


def test_without_proxies_no_counter_of_what_hosts_them_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NatAttachment, "traffic_counters", lambda self, testbed: COUNTED)
    stands = standing(NatAttachment())
    assert stands.traffic_counters() == COUNTED
    stands.proxies = []
    assert stands.traffic_counters() == {} and proxy_measure.carried_reasons(stands, {}, Outcome()) == []


def test_what_the_host_of_the_proxies_spends_has_its_kernel_and_not_the_other_roles_on_its_machine() -> None:
    meminfo = "MemTotal: 9000 kB\nMemAvailable: 4904 kB\nSwapTotal: 4096 kB\nSwapFree: 3072 kB\n"
    here: Any = SimpleNamespace(read_text={"/proc/meminfo": meminfo}.__getitem__)
    at: Any = lambda host: SimpleNamespace(testbed=SimpleNamespace(host=host))  # noqa: E731
    used = {
        "proxy0": (at(here), Usage(cpu_s=2.0)),
        "client": (at(here), Usage(cpu_s=3.0)),
        "server": (at(object()), Usage(cpu_s=100.0)),  # on a machine of its own
    }
    stands: Any = SimpleNamespace(
        proxies=[object()], nodes=SimpleNamespace(dut=at(here)), before=proxy_measure.MemoryInUse(2 << 20, 1 << 20)
    )
    outcome = Outcome({"requests_per_s": 50.0}, notes={"http": {"shares": [100]}})
    window = windowed(8.5, 0.5, used)  # 3 s more than roles and Lastro: the kernel's
    proxy_measure._record_dut_usage(stands, window, outcome)
    assert outcome.measurements == {
        "requests_per_s": 50.0, "dut_cpu_time": 50.0, "dut_cpus": 2.5, "dut_memory": 2.0, "dut_swap": 0.0,
    }  # fmt: skip
    assert "dut_swap" not in outcome.notes


def windowed(busy_s: float, own_cpu_s: float, used: dict[str, Any]) -> Any:
    """The window of a load: {role: (instance, what it used)}."""
    usage = SimpleNamespace(
        instances={role: each[0] for role, each in used.items()}, used={role: each[1] for role, each in used.items()}
    )
    host = SimpleNamespace(busy_s=busy_s, own_cpu_s=own_cpu_s, elapsed_s=10.0)
    return SimpleNamespace(host=host, usage=usage)


def test_a_host_without_swap_has_no_value_that_a_claim_could_take_for_alike() -> None:
    meminfo = "MemTotal: 9000 kB\nMemAvailable: 4904 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    here: Any = SimpleNamespace(read_text={"/proc/meminfo": meminfo}.__getitem__)
    dut = SimpleNamespace(testbed=SimpleNamespace(host=here))
    stands: Any = SimpleNamespace(
        proxies=[object()], nodes=SimpleNamespace(dut=dut), before=proxy_measure.MemoryInUse.on(here)
    )
    outcome = Outcome({"requests_per_s": 50.0}, notes={"http": {"shares": [100]}})
    proxy_measure._record_dut_usage(stands, windowed(1.0, 0.0, {}), outcome)
    assert "dut_swap" not in outcome.measurements and outcome.notes["dut_swap"] == "the host has no swap"
    assert outcome.measurements["dut_memory"] == 0.0


COUNTED = {"routed": 70, "published": 3, "translated": 1}  # by the line's ping, and by what was asked by hand


@pytest.mark.parametrize(
    ("moved", "still"),
    [
        ({"routed": 900, "published": 12, "translated": 10}, []),
        ({"routed": 900, "published": 12}, []),  # out of a cache, or over a connection that the proxy has kept
        ({"published": 12}, ["routed"]),
        ({"routed": 900}, ["published"]),
        ({"translated": -1, "routed": 1, "published": 1}, ["translated"]),
    ],
)
def test_counters_that_moved_before_the_load_and_not_in_it_carried_nothing(
    moved: dict[str, int], still: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {name: count + moved.get(name, 0) for name, count in COUNTED.items()}
    monkeypatch.setattr(NatAttachment, "traffic_counters", lambda self, testbed: now)
    outcome = Outcome()
    reasons = proxy_measure.carried_reasons(standing(NatAttachment()), COUNTED, outcome)
    assert [reason.split("'")[1] for reason in reasons] == still
    assert outcome.notes["carried"] == {name: moved.get(name, 0) for name in COUNTED}


# What the logs say


def logging(
    served: list[dict[str, int]],
    shares: list[int],
    cache: str = "off",
    asked: list[int] | None = None,
    by: str = "198.19.1.10",
) -> Any:
    """What is judged of a trial with a routed proxy for each log. `asked`: what the server's log has, look by look."""
    outcome = Outcome(notes={"http": {"sent": sum(shares), "shares": shares}})
    looks = iter(asked or [sum(found.get("TCP_MISS/200", 0) for found in served)] * 100)
    address = lambda n: f"198.18.64.{2 + n}"  # noqa: E731
    proxies = [
        SimpleNamespace(
            hosted=HostedInstance(n, SimpleNamespace(), 3128),  # type: ignore[arg-type]
            instance=SimpleNamespace(spec=SimpleNamespace(name=f"p{n}")),
            running=SimpleNamespace(served=lambda found=found: {3128: RequestCounts(Counter(found), {by})}),
            seen_as=address(n),
        )
        for n, found in enumerate(served)
    ]
    count = lambda: Counter({(address(n), 200, 1000): next(looks) if not n else 0 for n in range(len(served))})  # noqa: E731
    rest: Any = dict.fromkeys(("platform", "native", "client", "server", "starter"))
    place: Any = SimpleNamespace(dut=SimpleNamespace(testbed=None), client=SimpleNamespace(address="198.19.1.10"))
    links: Any = SimpleNamespace(traffic_counters=lambda testbed: {})
    origin: Any = SimpleNamespace(asked=count, page=PAGE)
    stands = proxy_measure.RunningProxies(nodes=place, links=links, origin=origin, proxies=proxies, **rest)  # type: ignore[arg-type]
    logs.judge_logs(stands, config(cache=cache), outcome)
    return outcome


def test_each_proxy_has_had_its_own_share_of_the_requests() -> None:
    even = [{"TCP_MISS/200": 22}, {"TCP_MISS/200": 22}]
    assert logging(even, [20, 20]).invalid_because == []
    uneven = [{"TCP_MISS/200": 42}, {"TCP_MISS/200": 2}]
    assert logging(uneven, [20, 20]).invalid_because == [
        "proxy 0: its log has 42 requests instead of 22",
        "proxy 1: its log has 2 requests instead of 22",
    ]


def test_a_proxy_must_see_the_clients_own_address() -> None:
    served = {"TCP_MISS/200": 22}
    assert logging([served, served], [20, 20]).invalid_because == []
    assert logging([served, served], [20, 20], by="198.18.64.1").invalid_because == [
        "requests came to proxy 0 from ['198.18.64.1'] instead of 198.19.1.10",
        "requests came to proxy 1 from ['198.18.64.1'] instead of 198.19.1.10",
    ]


def test_the_logs_of_proxies_are_waited_for_as_the_servers_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LOG_S", 0.2)
    late = {"TCP_MISS/200": 1, "TCP_MEM_HIT/200": 20}
    monkeypatch.setattr(logs.time, "sleep", lambda s: late.__setitem__("TCP_MEM_HIT/200", 21))
    assert logging([late], [20], cache="on").invalid_because == []


def test_an_instrument_that_does_not_tell_its_shares_is_an_error() -> None:
    with pytest.raises(InstrumentError, match="did not report how many requests"):
        proxy_measure.total_sent(Outcome())


def test_what_is_told_of_the_whole_host_says_of_when_and_no_published_study_takes_it_for_the_requests() -> None:
    whole = {
        metric.name: metric.summary for metric in ProxyScenario.metrics if metric.name.startswith(("host_", "psi_"))
    }
    assert all(summary.endswith("from the instrument's start to its end") for summary in whole.values()) and whole
    for member in papers.studies("eiras2018"):
        study = load_study(papers.find(member), schemas())
        assert whole.keys().isdisjoint(metric.name for metric in study.metrics), member


# The first answer


def client_with(curl: str, tmp_path: Path) -> Any:
    """An instance whose curl is a script of ours."""
    (tmp_path / "curl").write_text(f"#!/bin/sh\n{curl}\n")
    (tmp_path / "curl").chmod(0o755)
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    (tmp_path / "sleep").chmod(0o755)
    path = f"PATH={tmp_path}:/usr/bin:/bin"
    return SimpleNamespace(run=lambda argv, **more: LocalHost().run(["env", path, *argv], **more))


def refusing(words: str, times: int) -> str:
    """Fails so many times with what the kernel said, as curl 7.88 and 8 tell it, and then has the answer."""
    return (
        f"echo >> ${{0%/*}}/tries; [ $(wc -l < ${{0%/*}}/tries) -gt {times} ] || {{\n"
        f"  echo 000 0; echo '* connect to 198.19.1.1 port 3128 failed: {words}' >&2\n"
        '  echo "curl: (7) Failed to connect to 198.19.1.1 port 3128 after 3 ms: Could not connect" >&2; exit 7; }\n'
        'while [ "$1" != --output ]; do shift; done; printf body > "$2"; echo 200 4'
    )


ANSWER = RequestedPage.of("http://198.19.2.10/object", b"body")
ALIVE: Any = SimpleNamespace(require_alive=lambda: None)


def test_a_proxy_that_does_not_listen_yet_is_asked_again(tmp_path: Path) -> None:
    client = client_with(refusing("Connection refused", 60), tmp_path)
    proxies._wait_for_answer(client, ANSWER, PROXIES[0], ALIVE)
    assert len((tmp_path / "tries").read_text()) == 61


def test_no_route_is_no_proxy_that_does_not_listen_yet(tmp_path: Path) -> None:
    """What broke on the published host. curl's exit code is that of a refused connection."""
    client = client_with(refusing("No route to host", 3), tmp_path)
    with pytest.raises(PlatformError, match=r"198\.19\.1\.1:3128: connect to .* failed: No route to host"):
        proxies._wait_for_answer(client, ANSWER, PROXIES[0], ALIVE)
    assert len((tmp_path / "tries").read_text()) == 1


# The server


def test_the_object_is_as_long_as_said_and_has_its_hash() -> None:
    assert (PAGE.url, PAGE.length_bytes) == ("http://198.19.2.10/object", 1000)
    assert PAGE.sha256 != origins.page("198.19.2.10", 1001).sha256
    assert len(PAGE.sha256) == 64 and len(PAGE.md5) == 32


@pytest.mark.parametrize("server", sorted(origins.PACKAGES))
def test_a_server_listens_at_its_address_alone_and_logs_every_request(server: str) -> None:
    text = origins.configuration(server, "198.19.2.10")
    assert "198.19.2.10:80" in text and "access.log" in text


# curl


def test_clients_are_spread_over_the_proxies_in_turn() -> None:
    script = Curl().script("/place", load(clients=4))
    lines = [line for line in script.splitlines() if line.startswith("curl")]
    assert ["3128" in line for line in lines] == [True, False, True, False]
    assert all("http://198.19.2.10/object#[1-2]" in line and line.endswith("&") for line in lines)


def test_without_proxies_no_environment_brings_one() -> None:
    script = Curl().script("/place", load(proxies=()))
    assert script.count("--proxy ''") == 3 and script.count("--disable") == 3


def test_its_files_lie_where_a_session_owns_them(tmp_path: Path) -> None:
    host = RecordingHost(lambda argv: answer(GOOD) if argv[-1] == "sh" else None)
    station = LoadOrigin(host, ("enter",), str(tmp_path / "load"))
    assert Curl().measure(station, load()).invalid_because == ()
    assert host.commands == [["rm", "-rf", station.directory], ["mkdir", "-p", station.directory], ["enter", "sh"]]
    script = str(host.stdins[-1])
    assert script.startswith(f"cd {station.directory} || exit\n") and "mktemp" not in script


GOOD = "".join(f"{client} 200 1000 0.00{time} 0\n" for client in range(3) for time in (2, 4)) + "10.0 10.5\n"


def test_answers_become_times_and_a_rate_on_the_clock() -> None:
    reading = Curl().read(load(), GOOD)
    assert reading.invalid_because == ()
    assert reading.measurements["request_time"] == pytest.approx(3.0)
    assert reading.measurements["requests_per_s"] == pytest.approx(12.0)
    assert sorted(reading.series[0].values) == pytest.approx([2, 2, 2, 4, 4, 4])
    assert reading.payload_bytes == 6000
    assert reading.notes["http"] == {"sent": 6, "shares": [4, 2]}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("2 503 1000 0.004 0", "status 503"),
        ("2 200 999 0.004 0", "999 bytes"),
        ("2 200 500 60.0 28", "curl error 28"),
        ("", "no answer at all"),
    ],
)
def test_one_bad_answer_leaves_no_time_and_no_rate(line: str, words: str) -> None:
    *answers, last = GOOD.splitlines()
    text = "\n".join([*answers[:-1], *([line] if line else []), last])
    reading = Curl().read(load(), text)
    assert words in reading.invalid_because[0]
    assert set(reading.measurements) == {"request_errors"} and reading.series == ()


@pytest.mark.parametrize("text", ["", "10.0\n", "10.0 9.0\n", "x y\n", GOOD.replace("200", "ok"), "0 200 1\n" + GOOD])
def test_what_is_no_output_is_an_error(text: str) -> None:
    with pytest.raises(InstrumentError):
        Curl().read(load(), text)


def test_more_answers_than_requests_cannot_be() -> None:
    with pytest.raises(InstrumentError, match="6 answers to 3 requests"):
        Curl().read(load(requests=1), GOOD)
