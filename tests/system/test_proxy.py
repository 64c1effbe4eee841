"""Real proxies between real clients and a real server: on several platforms, translated and routed, with witnesses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from lastro.attachments.nat import NatAttachment
from lastro.attachments.routed import Routed
from lastro.errors import PlatformError
from lastro.functions.http_proxy import HttpProxy, ProxyOptions
from lastro.isolation.base import not_in_force
from lastro.platforms.base import InstanceSpec
from lastro.platforms.runc import Runc
from lastro.results.samples import AT_LEAST, Outcome
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.base import isolations_of
from lastro.scenarios.proxy import ProxyScenario
from lastro.scenarios.proxy.proxies import ask_all
from lastro.testbed import Testbed

from ..support.products import one_of
from ..support.scenarios import Refusing, attempted, configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

REQUESTS = 40  # of four clients


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ProxyScenario]:
    with closing(ProxyScenario(testbed)) as made:
        yield made


def config(platform: str, attachment: str, **more: Any) -> dict[str, Any]:
    few = {"clients": 4, "requests": REQUESTS // 4, "settle_s": 0.0, "memory": "512M"}
    parts = {"platform": platform, "attachment": attachment, "isolation": "none", "anomaly": "none"}
    return configured(ProxyScenario, **{**few, **parts, "instrument": "curl", **more})


def run(scenario: ProxyScenario, wanted: dict[str, Any], calibrations: dict[str, Any] | None = None) -> Outcome:
    return attempted(scenario, wanted, calibrations)


def logs(outcome: Outcome) -> dict[str, Any]:
    found = outcome.notes["logs"]
    assert isinstance(found, dict)
    return found


CELLS = [
    ("native", "host", "off", {"198.19.2.1"}),
    pytest.param("native", "host", "on", {"198.19.2.1"}, marks=pytest.mark.slow),
    ("runc", "nat", "off", {"198.19.2.1"}),
    pytest.param("runc", "routed", "on", {"198.18.64.2", "198.18.64.3"}, marks=pytest.mark.slow),
    pytest.param("docker", "nat", "on", {"198.19.2.1"}, marks=pytest.mark.slow),
    ("docker", "routed", "off", {"198.18.64.2", "198.18.64.3"}),
    pytest.param("docker", "docker-nat", "off", {"198.19.2.1"}, marks=pytest.mark.slow),
    pytest.param("podman", "podman-nat", "off", {"198.19.2.1"}, marks=pytest.mark.slow),
]
TRANSLATED = {"routed", "published", "translated"}
COUNTERS = {"host": set(), "docker-nat": TRANSLATED, "nat": TRANSLATED, "podman-nat": TRANSLATED, "routed": {"routed"}}


@pytest.mark.parametrize(("platform", "attachment", "cache", "seen"), CELLS)
def test_requests_go_through_two_proxies_and_reach_the_server_as_the_cache_says(
    scenario: ProxyScenario, testbed: Testbed, platform: str, attachment: str, cache: str, seen: set[str]
) -> None:
    shared = set(Path("/dev/shm").iterdir())
    wanted = config(platform, attachment, cache=cache, proxies=2)
    found = scenario.availability(wanted)
    assert found, found
    mark = testbed.session.mark()
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert testbed.session.mark() == mark, "nothing is left but what the platform was prepared with"
    assert {path for path in set(Path("/dev/shm").iterdir()) - shared if path.name.startswith("squid")} == set()
    own = REQUESTS // 2 + 2  # each proxy has half of the clients, and two requests by hand
    one = {"TCP_MISS/200": 1, "TCP_MEM_HIT/200": own - 1} if cache == "on" else {"TCP_MISS/200": own}
    assert logs(outcome)["proxies"] == {"0": one, "1": one}
    server: dict[str, int] = logs(outcome)["server"]
    assert {line.split()[0] for line in server} == seen
    assert sum(server.values()) == (2 if cache == "on" else 2 * own)
    links = logs(outcome)["links"]
    assert set(links) == COUNTERS[attachment]
    carried: Any = outcome.notes["carried"]
    assert set(carried) == set(links) and all(n > 0 for name, n in carried.items() if name != "translated"), carried
    values = outcome.measurements
    assert 0 < values["proxy_start"] < values["proxy_answer"] <= values["proxies_up"] * 1.01 < 60_000
    assert values["request_time"] > 0 and values["requests_per_s"] > 0 and values["request_errors"] == 0
    assert values["proxy_cpus"] > 0 and 1 < values["proxy_memory"] < 512
    assert values["dut_cpus"] > 0.8 * values["proxy_cpus"], "the host spends what its proxies are charged for, and more"
    assert {"dut_cpu_time", "dut_memory"} <= set(values), "other tests on this host take memory, too"
    assert ("dut_swap" in values) != (outcome.notes.get("dut_swap") == "the host has no swap")


def test_dockers_own_network_carries_the_requests_by_its_own_rules_and_ends_with_the_trial(
    scenario: ProxyScenario, testbed: Testbed
) -> None:
    wanted = config("docker", "docker-nat", proxies=2)
    assert scenario.availability(wanted)
    of_host, mark = testbed.host.run(["nft", "list", "ruleset"]).text, testbed.session.mark()
    with scenario.attempt(), ExitStack() as stack:
        stood = scenario._deploy(stack, wanted)
        bed = stood.nodes.dut.testbed
        pids = testbed.host.run(["ip", "netns", "pids", bed.dut]).text.split()
        commands = [Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in pids]
        published = [words[words.index("-host-port") + 1] for words in commands if "docker-proxy" in words[0]]
        assert sorted(published) == ["3128", "3129"]
        before = stood.links.traffic_counters(bed)
        for _ in range(3):
            ask_all(stood.client, stood.origin.page, stood.proxies)
        assert stood.links.traffic_counters(bed)["published"] == before["published"] + 6, (
            "a connection that no rule of Docker saw"
        )
    assert testbed.session.mark() == mark
    assert testbed.host.run(["nft", "list", "ruleset"]).text == of_host, "the rules of the host are not Docker's here"
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    link: Any = outcome.notes["topology"]["links"][2]  # type: ignore[index]
    assert link["a"]["address"] in ("198.18.64.2/18", "198.18.64.3/18")
    assert [device["name"] for device in link["way"]][1:] == ["docker0"]


@pytest.mark.parametrize(
    ("platform", "isolation"),
    [("runc", "seccomp+capabilities+read-only-root"), pytest.param("docker", "user-namespace", marks=pytest.mark.slow)],
)
def test_an_isolation_confines_each_proxy(
    scenario: ProxyScenario, platform: str, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = config(platform, "routed", isolation=isolation, proxies=2)
    found = scenario.availability(wanted)
    assert found, found
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    (node,) = (node for node in outcome.notes["topology"]["nodes"] if node["role"] == "proxy")  # type: ignore[index]
    assert node["isolation"] == isolation
    with scenario.attempt(), ExitStack() as stack:
        stood = scenario._deploy(stack, wanted)
        assert all(not_in_force(isolations_of(wanted), {"": proxy.instance}) == [] for proxy in stood.proxies)
        assert not_in_force(isolations_of(wanted), {"client": stood.client}), "the load is not confined"


def test_an_isolation_that_sets_other_limits_or_that_a_platform_lacks_is_unavailable(scenario: ProxyScenario) -> None:
    limits = scenario.availability(config("runc", "routed", isolation="cgroups"))
    assert "this scenario sets those of all treatments" in str(limits.reason)
    assert "native cannot confine" in str(scenario.availability(config("native", "host", isolation="seccomp")).reason)


def test_two_ports_of_one_process_share_its_cache(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("native", "host", cache="on", proxies=2, bare_proxies="ports"))
    assert outcome.valid, outcome.invalid_because
    own = REQUESTS // 2 + 2
    assert logs(outcome)["proxies"] == {
        "0": {"TCP_MISS/200": 1, "TCP_MEM_HIT/200": own - 1}, "1": {"TCP_MEM_HIT/200": own}
    }  # fmt: skip
    assert sum(logs(outcome)["server"].values()) == 1


@pytest.mark.slow
def test_a_machine_hosts_one_too(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("qemu-tcg", "nat", cache="on", clients=2, requests=3))
    assert outcome.valid, outcome.invalid_because
    assert logs(outcome)["proxies"] == {"0": {"TCP_MISS/200": 1, "TCP_MEM_HIT/200": 7}}


def test_nginx_serves_as_well(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("native", "host", origin="nginx"))
    assert outcome.valid, outcome.invalid_because


@pytest.mark.parametrize("attachment", one_of(["docker-nat", "nat"]))
def test_what_the_clients_do_alone_is_measured_for_each_way_to_the_proxies(
    scenario: ProxyScenario, attachment: str
) -> None:
    (straight,) = ProxyScenario.calibrations(config("docker", attachment)).values()
    outcome = run(scenario, straight)
    assert outcome.valid, outcome.invalid_because
    assert scenario.calibration_value("straight", outcome)["requests_per_s"] > 0


def test_without_a_proxy_the_clients_ask_the_server_itself(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("native", "routed", proxies=0))
    assert outcome.valid, outcome.invalid_because
    assert logs(outcome)["server"] == {"198.19.1.10 200 1024000": REQUESTS + 1}
    straight = scenario.calibration_value("straight", outcome)
    assert straight["requests_per_s"] > 0
    limited = run(scenario, config("native", "host"), {"straight/x": {"requests_per_s": 1e-6}})
    assert limited.notes["generator_limited"] is True
    assert run(scenario, config("native", "host"), {"straight/x": straight}).notes["ceiling"] == straight


@pytest.mark.parametrize(("anomaly", "comes_first"), [("none", False), ("cpu", True)])
def test_clients_weigh_more_than_proxies_under_a_load_alone(
    scenario: ProxyScenario, anomaly: str, comes_first: bool
) -> None:
    """Before a proxy on the same CPUs they make it wait, and would seem to have a slow one."""
    wanted = config("runc", "routed", anomaly=anomaly)
    with scenario.attempt(), ExitStack() as stack:
        stood = scenario._deploy(stack, wanted)
        weights = {
            role: instance.spec.resources.cpu_weight or 100
            for role, instance in {**stood.everyone, "proxy": stood.first_of_each_instance[0].instance}.items()
        }
    assert weights["client"] == weights["server"]
    assert (weights["client"] > weights["proxy"]) is comes_first


def test_a_load_on_the_dut_has_its_dose_recorded(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("runc", "routed", anomaly="cpu", anomaly_workers=1))
    doses = outcome.notes["doses"]
    assert isinstance(doses, dict) and doses["alive"] and doses["cpus"] > 0.05
    short = [reason for reason in outcome.invalid_because if "missed its dose" in reason]  # where others work, too
    assert outcome.invalid_because == (short if doses["cpus"] < 0.5 else [])


@pytest.mark.parametrize("n", one_of([12, 32]))
def test_many_proxies_are_up_together_and_each_answers(scenario: ProxyScenario, n: int) -> None:
    outcome = run(scenario, config("runc", "routed", proxies=n, clients=n, requests=2, cache="on"))
    assert outcome.valid, outcome.invalid_because
    assert len(logs(outcome)["proxies"]) == n
    one_by_one = n * outcome.measurements["proxy_answer"]
    assert 0 < outcome.measurements["proxies_up"] < one_by_one


@pytest.mark.parametrize("attachment", ["nat", "routed"])
def test_instances_beyond_the_proxies_exist_and_get_no_request(scenario: ProxyScenario, attachment: str) -> None:
    outcome = run(scenario, config("runc", attachment, proxies=2, instances=5))
    assert outcome.valid, outcome.invalid_because
    assert len(logs(outcome)["proxies"]) == 2


def test_a_proxy_has_no_privilege_at_all(testbed: Testbed) -> None:
    with (
        Runc().start(testbed, InstanceSpec("bare", "proxy")) as instance,
        HttpProxy().running(instance, ProxyOptions()),
    ):
        script = "until grep -q squid /proc/$(cat /var/tmp/lastro-proxy/pid)/comm; do sleep 0.05; done"
        instance.run(["sh", "-c", script], timeout_s=20)
        text = instance.run(["sh", "-c", "cat /proc/$(cat /var/tmp/lastro-proxy/pid)/status"]).text
    status = {key: value.split() for key, _, value in (line.partition(":") for line in text.splitlines())}
    assert set(status["Uid"]) == {"13"} and status["NoNewPrivs"] == ["1"] and status["Groups"] == []
    assert {int(status[key][0], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}


def test_a_connection_that_a_client_did_not_need_is_no_request(testbed: Testbed) -> None:
    """Open loops leave some behind. Squid writes a line of each into its log."""
    with Runc().start(testbed, InstanceSpec("idle", "proxy")) as instance:
        testbed.host.run(["ip", "-n", instance.netns, "link", "set", "lo", "up"])
        with HttpProxy().running(instance, ProxyOptions()) as proxy:
            for until in ("nc -z 127.0.0.1 3128", "grep -q NONE_NONE/000 /var/tmp/lastro-proxy/access.log"):
                instance.run(["sh", "-c", f"until {until}; do sleep 0.05; done"], timeout_s=20)
            assert proxy.served() == {}


# What makes a trial invalid


def test_a_cache_that_should_be_off_is_found(scenario: ProxyScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    real = HttpProxy.configuration
    monkeypatch.setattr(
        HttpProxy, "configuration", lambda self, wanted: real(self, wanted).replace("cache deny all", "")
    )
    outcome = run(scenario, config("native", "host"))
    reasons = "; ".join(outcome.invalid_because)
    assert "41 of 42 answers came from the cache, which was off" in reasons
    assert "1 requests reached the server instead of 42" in reasons


def test_an_object_that_does_not_fit_the_cache_is_found(scenario: ProxyScenario) -> None:
    """Of 1024 kB in bytes of 1024: with its header it is larger than Squid's limit of 1024 KB."""
    outcome = run(scenario, config("native", "host", cache="on", object_bytes=1 << 20))
    assert any("0 of 42 answers came from the cache, which was on" in reason for reason in outcome.invalid_because)


def test_another_way_than_the_promised_one_is_found(scenario: ProxyScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Routed, "seen_as", lambda self, hosted, outward: outward)
    outcome = run(scenario, config("runc", "routed"))
    assert outcome.invalid_because == ["requests came to the server from ['198.18.64.2'] instead of ['198.19.2.1']"]


@pytest.mark.parametrize("attachment", ["nat", "routed"])
def test_clients_whose_addresses_are_changed_on_the_way_in_are_found(
    scenario: ProxyScenario, attachment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a rule that hides those who ask behind the DUT, as some container platforms have it."""
    kind: type[Any] = {"nat": NatAttachment, "routed": Routed}[attachment]
    publish = kind.publish
    rules = (
        "add table ip hiding\nadd chain ip hiding go { type nat hook postrouting priority 99; }\n"
        "add rule ip hiding go ip saddr 198.19.1.10 ip daddr 198.18.64.0/18 masquerade\n"
    )

    def hiding(self: Any, bed: Testbed, instances: Any, outside: str) -> None:
        bed.host.run(["ip", "netns", "exec", bed.dut, "nft", "-f", "-"], stdin=rules)
        publish(self, bed, instances, outside)

    monkeypatch.setattr(kind, "publish", hiding)
    try:
        outcome = run(scenario, config("runc", attachment))
    finally:
        bed = scenario.testbed
        bed.host.run(["ip", "netns", "exec", bed.dut, "nft", "delete", "table", "ip", "hiding"])
    assert outcome.invalid_because == ["requests came to proxy 0 from ['198.18.64.1'] instead of 198.19.1.10"]


def test_an_open_loop_has_a_rate_of_its_own(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("runc", "routed", instrument="vegeta:rate=20", open_s=2.0, rate_per_s=500))
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["open_rate"] == pytest.approx(20, rel=0.05)
    assert scenario.facts([config("runc", "routed", instrument="vegeta:rate=20")])["image_tools"]["vegeta"]


@pytest.mark.parametrize("attachment", ["nat", "routed"])
def test_a_way_that_carried_what_was_asked_by_hand_alone_is_found(
    scenario: ProxyScenario, attachment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the counters are when the requests take another way: moved by the line's ping, and still from then on."""
    kind: type[Any] = {"nat": NatAttachment, "routed": Routed}[attachment]
    counted = {"nat": {"routed": 70, "published": 1, "translated": 1}, "routed": {"routed": 70}}[attachment]
    monkeypatch.setattr(kind, "traffic_counters", lambda self, testbed: counted)
    outcome = run(scenario, config("runc", attachment))
    told = "the attachment did not carry the requests: its counter '{}' stood still"
    assert outcome.invalid_because == [told.format(name) for name in counted if name != "translated"]


def test_one_client_reuses_what_the_proxy_has_kept_and_is_valid_under_translation(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("runc", "nat", clients=1, requests=10))
    assert outcome.valid, outcome.invalid_because


def test_a_proxy_that_refuses_is_an_error_with_its_status(
    scenario: ProxyScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = HttpProxy.configuration
    refusing = lambda self, wanted: real(self, wanted).replace("http_access allow", "http_access deny")  # noqa: E731
    monkeypatch.setattr(HttpProxy, "configuration", refusing)
    with pytest.raises(PlatformError, match=r"no full answer through proxy 198\.19\.1\.1:3128: .*'403'"):
        run(scenario, config("native", "host"))


# How many a host carries


def test_what_broke_is_told_with_the_number_that_answered(
    scenario: ProxyScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        refusing = Refusing()
        stack.enter_context(refusing.prepare(scenario.testbed))
        monkeypatch.setitem(scenario.pool._ready, "runc", refusing)
        outcome = run(scenario, config("runc", "routed", clients=1, requests=2, max_proxies=100))
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["capacity"] == 5
    note: Any = outcome.notes["capacity"]
    assert note["stopped_by"] == "the runtime has no room for another one"
    assert [step["proxies"] for step in note["steps"]] == [2, 4, 8, 6, 5, 6]
    assert AT_LEAST not in [remark.kind for remark in remarks_of(outcome.notes)]


def test_the_study_bounds_the_number(scenario: ProxyScenario) -> None:
    outcome = run(scenario, config("native", "host", clients=1, requests=2, max_proxies=3))
    assert outcome.measurements["capacity"] == 3
    assert ("capacity",) in [remark.metrics for remark in remarks_of(outcome.notes) if remark.kind == AT_LEAST]
    assert "max_proxies = 3" in outcome.notes["capacity"]["stopped_by"]  # type: ignore[index]
