"""The exact commands by which a container platform makes the networks of a chain, on a host that only records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lastro import registry
from lastro.attachments.base import Attachment, Segment
from lastro.errors import Unavailable
from lastro.host.base import Completed
from lastro.host.undo import MODULES
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port
from lastro.platforms.docker import Docker
from lastro.platforms.podman import Podman
from lastro.platforms.runc import Runc
from lastro.scenarios.base import make_part

from ...support.recording import FakeInstance, RecordingHost, answer, recording_testbed

NODE = "lastro-0a1b2c-docker-1"
SAVED = """*filter
:FORWARD DROP [0:0]
[42:3528] -A FORWARD -j DOCKER-USER
[42:3528] -A FORWARD -j DOCKER-ISOLATION-STAGE-1
[0:0] -A FORWARD -o docker0 -j DOCKER
[42:3528] -A DOCKER-USER -j RETURN
COMMIT
"""


def answers(argv: Sequence[str]) -> Completed | None:
    if "iptables-save" in argv:
        return answer(SAVED)
    if "show" in argv:  # the interface with an address; older versions of ip print {} for the others
        found = "br-c0ffee" if argv[-1] == "198.18.0.254/32" else "eth3"
        return answer(json.dumps([{"ifname": "lo"}, {"ifname": found}] if "link" in argv else [{}, {"ifname": found}]))
    return answer("c0ffee\n") if "run" in argv else None


def a_host() -> RecordingHost:
    return RecordingHost(answers, programs=("dockerd", "docker"))


@contextmanager
def started(links: Attachment, host: RecordingHost, directory: Path) -> Iterator[tuple[Instance, Segment]]:
    """A container of Docker, and its segment to an instance of another platform."""
    testbed, docker = recording_testbed(host, directory), Docker()
    with ExitStack() as stack:
        stack.enter_context(docker.prepare(testbed))
        stack.enter_context(links.before_start(testbed, [Runc(), docker]))
        spec = links.adapted_spec(InstanceSpec("one", "function"), docker)
        own = stack.enter_context(docker.start(testbed, spec))
        ends = Port(other(), "out0", "198.18.0.10/24"), Port(own, "in0", "198.18.0.1/24")
        yield own, Segment("a", ends)


def other() -> Instance:
    return FakeInstance(spec=InstanceSpec("two", "source"))  # type: ignore[return-value]


def test_docker_connects_its_container_and_another_instance_gets_a_port_of_the_bridge(tmp_path: Path) -> None:
    host, links = a_host(), registry.get(Attachment, "docker-nat")()
    with started(links, host, tmp_path) as (own, segment):
        client = [*own.client, "network"]  # type: ignore[attr-defined]
        before = len(host.commands)
        with links.laid(own.testbed, [segment]):
            assert links.node is not None and links.node.dut == NODE
            laid, after = host.commands[before:], len(host.commands)
        removed = host.commands[after:]
    subnet = ["--subnet=198.18.0.0/24", "--gateway=198.18.0.254", "lastro-a"]
    assert [argv for argv in laid if argv[: len(client)] == client] == [
        [*client, "disconnect", "none", "one"],
        [*client, "create", *subnet],
        [*client, "connect", "--ip=198.18.0.1", "lastro-a", "one"],
    ]
    renamed, on_bridge = (text for text in host.stdins if text and str(text).startswith(("link set eth3", "link add")))
    assert str(renamed).splitlines() == ["link set eth3 down", "link set eth3 name in0", "address flush dev in0"]
    assert str(on_bridge).splitlines() == [
        "link add name hub-aa type veth peer name out0 netns N1", "link set hub-aa master br-c0ffee up",
    ]  # fmt: skip
    assert [argv for argv in removed if argv[: len(client)] == client] == [
        [*client, "disconnect", "--force", "lastro-a", "one"], [*client, "rm", "lastro-a"],
    ]  # fmt: skip
    assert "link set in0 down\nlink set in0 name eth3\n" in host.stdins
    networked = next(argv for argv in host.commands if "--bip=198.19.255.1/24" in argv)
    assert f"--net=/run/netns/{NODE}" in networked and "--iptables=false" not in networked
    assert links.node is None


def test_a_daemon_with_networks_removes_those_of_a_killed_one(tmp_path: Path) -> None:
    host = a_host()
    with started(registry.get(Attachment, "docker-nat")(), host, tmp_path):
        pass
    pruned = [argv[-3] for argv in host.commands if "prune" in argv]
    assert pruned == ["container", "container", "network"]


def test_a_function_may_forward_between_the_networks_of_a_new_docker(tmp_path: Path) -> None:
    host = a_host()
    with started(registry.get(Attachment, "docker-nat")(), host, tmp_path):
        pass
    alone, networked = (" ".join(argv) for argv in host.commands if "dockerd" in argv)
    allows = "export DOCKER_INSECURE_NO_IPTABLES_RAW=1; "
    assert allows in networked and allows not in alone


@pytest.mark.parametrize("kernel_has_it", [True, False])
def test_frames_pass_dockers_rules_where_the_kernel_can_do_that(
    tmp_path: Path, kernel_has_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, links = a_host(), registry.get(Attachment, "docker-nat")()
    monkeypatch.setattr("lastro.attachments._own_network._filters_frames", lambda testbed: kernel_has_it)
    with started(links, host, tmp_path) as (own, segment), links.laid(own.testbed, [segment]):
        assert links.counters(own.testbed) == ({"filtered": 42} if kernel_has_it else {})
        said = links.residuals(own.testbed)["frames on its bridges"]
    assert said == ("pass Docker's rules" if kernel_has_it else "pass no rules")
    assert any("bridge-nf-call-iptables" in str(text) and "echo 1" in str(text) for text in host.stdins)


def test_the_module_that_docker_loads_is_owned_and_what_frames_passed_is_known_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODULES, "br_netfilter", str(tmp_path / "not-loaded"))
    host, links = a_host(), registry.get(Attachment, "docker-nat")()
    assert links.residuals(recording_testbed(host, tmp_path / "before")) == {}
    with started(links, host, tmp_path) as (own, _):
        session = own.testbed.session
        (owned,) = (each.name for each in session.owned_objects() if each.kind == "module")
        assert owned.startswith("br_netfilter@")
        during = links.residuals(own.testbed)
    assert not [each for each in session.owned_objects() if each.kind == "module"]
    assert links.residuals(own.testbed) == during


def test_offloads_are_those_of_the_ports_and_of_all_devices_in_the_node(tmp_path: Path) -> None:
    host, links = a_host(), registry.get(Attachment, "docker-nat")()
    with started(links, host, tmp_path) as (own, segment), links.laid(own.testbed, [segment]):
        links.switch_offloads_off(own.testbed, [segment])
        places = [(line.split()[1], line.rpartition("- ")[2]) for line in str(host.stdins[-1]).splitlines()]
    assert places == [
        (f"--net=/run/netns/{NODE}", "eth3"), ("--net=/run/netns/N1", "out0"),
        ("--net=/run/netns/lastro-0a1b2c-one", "in0"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("platforms", "reason"),
    [
        ([Runc()], "runc does not start instances on Docker's own network"),
        ([Podman(), Runc()], "podman does not start instances on Docker's own network"),
        ([Docker(), Docker(runtime="crun")], "different options of docker"),
        ([Docker(runtime="runsc")], "with the runtime runsc"),
    ],
)
def test_instances_that_docker_cannot_connect_are_refused(
    tmp_path: Path, platforms: list[Platform], reason: str
) -> None:
    testbed, links = recording_testbed(a_host(), tmp_path), registry.get(Attachment, "docker-nat")()
    with pytest.raises(Unavailable, match=reason) as caught, links.before_start(testbed, platforms):
        pass
    assert caught.value.hint


@pytest.mark.parametrize(("change", "reason"), [({"takes_taps": True}, "no taps"), ({}, "IPv4")])
def test_taps_and_ipv6_are_refused(tmp_path: Path, change: dict[str, bool], reason: str) -> None:
    links = registry.get(Attachment, "podman-nat")()
    address = "198.18.0.1/24" if change else "2001:2::1/64"
    ports = [Port(FakeInstance(spec=InstanceSpec(n, n), **change), "in0", address) for n in ("a1", "b1")]  # type: ignore[arg-type]
    testbed = recording_testbed(a_host(), tmp_path)
    with pytest.raises(Unavailable, match=reason), links.laid(testbed, [Segment("a", (ports[0], ports[1]))]):
        pass


def test_an_instance_of_podman_is_on_its_first_network_until_it_is_connected() -> None:
    links, spec = make_part(Attachment, "podman-nat"), InstanceSpec("one", "function")
    assert links.adapted_spec(spec, Podman()) == replace(spec, own_network=True)
    assert links.adapted_spec(spec, Docker()) == spec
