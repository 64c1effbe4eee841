"""What CNI plug-ins are told, on a host that only records; and conflists of users, right and wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lastro.attachments import _cni
from lastro.attachments.base import Segment
from lastro.attachments.cni import Cni
from lastro.errors import InputError, PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.platforms.base import Port, configuration
from lastro.scenarios.base import make_part
from lastro.testing.attachments import unstarted

from ...support.recording import RecordingHost, answer, recording_testbed

PLUG_INS = [f"/usr/lib/cni/{name}" for name in ("bandwidth", "bridge", "macvlan", "ptp", "tuning")]
MADE = {"interfaces": [{"name": "cni0"}, {"name": "vethab"}, {"name": "eth0", "sandbox": "/run/netns/N1"}]}


class NodeHost(RecordingHost):
    """Plug-ins give each port the address that they are told, unless `fails` names one of them."""

    def __init__(self, fails: str = "", *, programs: Sequence[str] = PLUG_INS) -> None:
        super().__init__(programs=programs)
        self._fails = fails

    def which(self, program: str) -> str | None:
        return program if program in self._programs else None

    def run(self, argv: Sequence[str], *, stdin: Any = None, timeout_s: float = 60.0, check: bool = True) -> Completed:
        super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
        if "CNI_COMMAND=ADD" not in argv:
            return answer()
        if self._fails and argv[-1].endswith(f"/{self._fails}"):
            return answer(json.dumps({"code": 7, "msg": "no room", "details": "for\nthis port"}), code=1)
        told = json.loads(stdin)
        ips = [{"address": each["address"]} for each in told.get("ipam", {}).get("addresses", ())]
        return answer(json.dumps(told.get("prevResult") or {**MADE, "ips": ips}))

    @property
    def asked(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(command, plug-in, configuration) of each call."""
        pairs = zip(self.commands, self.stdins, strict=True)
        calls = [(argv, stdin) for argv, stdin in pairs if argv[-1].startswith(_cni.PLUGIN_DIRS)]
        words = [(dict(word.split("=", 1) for word in argv if "=" in word), argv[-1], stdin) for argv, stdin in calls]
        return [(f"{env['CNI_COMMAND']} {env['CNI_IFNAME']}", name.split("/")[-1], json.loads(str(stdin)))
                for env, name, stdin in words]  # fmt: skip


def segment() -> Segment:
    a, b = (unstarted(name) for name in ("N1", "N2"))
    return Segment("u", (Port(a, "eth0", "198.18.1.1/24"), Port(b, "eth1", "198.18.1.10/24")))


def lay(level: str, directory: Path, host: NodeHost) -> Cni:
    part, testbed = make_part(Cni, level), recording_testbed(host, directory)
    with part.prepare(testbed), part.laid(testbed, [segment()]):
        assert part.node is not None
    assert part.node is None
    return part


def test_each_port_is_added_with_its_address_and_deleted_in_reverse(tmp_path: Path) -> None:
    host = NodeHost()
    lay("cni", tmp_path, host)
    assert [(what, name) for what, name, _ in host.asked] == [
        ("ADD eth0", "bridge"), ("ADD eth1", "bridge"), ("DEL eth1", "bridge"), ("DEL eth0", "bridge"),
    ]  # fmt: skip
    address = {"address": "198.18.1.1/24", "gateway": "198.18.1.254"}
    told = {
        "type": "bridge", "bridge": "cni0", "ipam": {"type": "static", "addresses": [address]}, "name": "lastro",
        "cniVersion": "1.0.0",
    }  # fmt: skip
    assert host.asked[0][2] == told
    assert host.asked[3][2] == {**told, "prevResult": {**MADE, "ips": [{"address": "198.18.1.1/24"}]}}
    added = host.commands[next(at for at, argv in enumerate(host.commands) if "CNI_COMMAND=ADD" in argv)]
    assert added == [
        "nsenter", "--net=/run/netns/lastro-0a1b2c-cni-1", "env", "CNI_COMMAND=ADD", "CNI_CONTAINERID=N1-eth0",
        "CNI_NETNS=/run/netns/N1", "CNI_IFNAME=eth0", "CNI_PATH=/usr/lib/cni:/opt/cni/bin", "/usr/lib/cni/bridge",
    ]  # fmt: skip


def test_a_rate_is_the_plug_in_bandwidth_after_the_first_one(tmp_path: Path) -> None:
    host = NodeHost()
    lay("cni:plugin=ptp,rate=100M", tmp_path, host)
    (_, first, _), (_, second, told), *_ = host.asked
    assert (first, second) == ("ptp", "bandwidth")
    assert {told[f"{way}Rate"] for way in ("ingress", "egress")} == {100_000_000}
    assert {told[f"{way}Burst"] for way in ("ingress", "egress")} == {1_000_000}, "10 ms"
    assert told["prevResult"]["ips"] == [{"address": "198.18.1.1/24"}]


def test_the_parent_of_macvlan_is_in_the_node(tmp_path: Path) -> None:
    host = NodeHost()
    lay("cni:plugin=macvlan", tmp_path, host)
    (batch,) = (text for text in host.stdins if text and "type veth" in str(text))
    assert str(batch).splitlines()[0] == "link add name hub-parent type veth peer name hub-peer0"
    assert host.asked[0][2]["master"] == "hub-parent"


def test_a_port_needs_no_address_that_it_has(tmp_path: Path) -> None:
    part, testbed = make_part(Cni, "cni"), recording_testbed(NodeHost(), tmp_path)
    with part.prepare(testbed), part.laid(testbed, [segment()]):
        ports = segment().ports
        assert [configuration(part._unconfigured(port)) for port in ports] == [
            ["link set eth0 up"],
            ["link set eth1 up"],
        ]
        part._results["N1", "eth0"] = {"ips": [{"address": "10.22.0.9/16"}]}
        assert configuration(part._unconfigured(ports[0])) == ["address add 198.18.1.1/24 dev eth0", "link set eth0 up"]


def test_offloads_are_those_of_all_devices_that_plug_ins_made(tmp_path: Path) -> None:
    part, testbed = make_part(Cni, "cni"), recording_testbed(host := NodeHost(), tmp_path)
    with part.prepare(testbed), part.laid(testbed, [segment()]):
        part.switch_offloads_off(testbed, [segment()])
        lines = str(host.stdins[-1]).splitlines()
    places = [(line.split()[1], line.rpartition("- ")[2]) for line in lines]
    assert places[0] == ("--net=/run/netns/lastro-0a1b2c-cni-1", "cni0 vethab") and len(places) == 3


def test_the_error_of_a_plug_in_is_the_reason_and_all_ports_are_deleted(tmp_path: Path) -> None:
    host = NodeHost(fails="bandwidth")
    with pytest.raises(PlatformError, match="CNI plug-in bandwidth did not add eth0: no room for this port"):
        lay("cni:rate=1M", tmp_path, host)
    assert [f"{what} {name}" for what, name, _ in host.asked] == [
        "ADD eth0 bridge", "ADD eth0 bandwidth", "DEL eth0 bandwidth", "DEL eth0 bridge",
    ]  # fmt: skip


def test_what_prints_no_result_and_what_is_not_there(tmp_path: Path) -> None:
    class Silent(NodeHost):
        def run(self, argv: Sequence[str], **more: Any) -> Completed:
            super().run(argv, **more)
            return answer("done!")

    with pytest.raises(PlatformError, match="printed no result: 'done!'"):
        lay("cni", tmp_path / "silent", Silent())
    with pytest.raises(Unavailable, match="no CNI plug-in 'bridge' in /usr/lib/cni or /opt/cni/bin") as raised:
        lay("cni", tmp_path / "none", NodeHost(programs=()))
    assert "apt-get install containernetworking-plugins" in str(raised.value.hint)


def test_only_ptp_forwards_by_itself() -> None:
    assert "no instance can forward" in str(make_part(Cni, "cni:plugin=ptp").no_transit)
    assert make_part(Cni, "cni").no_transit is None
    assert make_part(Cni, "cni:conflist=/x,plugin=ptp").no_transit is None


# Conflists of users


def conflist(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.conflist"
    file.write_text(text)
    return file


def test_a_conflist_keeps_its_data_with_us_and_takes_addresses_where_it_can(tmp_path: Path) -> None:
    plugins = [
        {"type": "macvlan", "master": "eth0", "ipam": {"type": "host-local", "subnet": "10.1.0.0/16", "dataDir": "/x"},
         "capabilities": {"ips": True}},
        {"type": "tuning"},
    ]  # fmt: skip
    file = conflist(tmp_path, json.dumps({"cniVersion": "0.4.0", "name": "mine", "plugins": plugins}))
    host = NodeHost()
    part = lay(f"cni:conflist={file}", tmp_path, host)
    told = host.asked[0][2]
    assert told["ipam"] == {"type": "host-local", "subnet": "10.1.0.0/16", "dataDir": "/run/lastro/0a1b2c/cni"}
    assert told["runtimeConfig"] == {"ips": ["198.18.1.1/24"]}
    assert (told["name"], told["cniVersion"]) == ("mine", "0.4.0")
    assert [name for _, name, _ in host.asked[:2]] == ["macvlan", "tuning"]
    assert any("link add name eth0 type veth peer name hub-peer0" in str(text) for text in host.stdins)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert part.facts(recording_testbed(host, tmp_path / "c"))["conflist"] == {"sha256": digest}


def test_a_single_configuration_is_a_conflist_of_one_plug_in(tmp_path: Path) -> None:
    file = conflist(tmp_path, '{"cniVersion": "0.3.1", "name": "one", "type": "bridge", "ipam": {}}')
    assert _cni.read_conflist(str(file)).types == ["bridge"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not a conflist"),
        ("[]", "is not a conflist"),
        ("\udcff", "cannot be read"),
        ('{"name": "n", "plugins": []}', "has no plug-ins"),
        ('{"name": "n", "plugins": ["bridge"]}', "is not a conflist"),
        ('{"name": "n", "plugins": [{}]}', "'' cannot be the type of a plug-in"),
        ('{"name": "n", "plugins": [{"type": "../sh"}]}', "'../sh' cannot be the type of a plug-in"),
        ('{"name": "a/b", "plugins": [{"type": "bridge"}]}', "'a/b' cannot be the name"),
        ('{"name": "n", "cniVersion": 1, "plugins": [{"type": "bridge"}]}', "is not a conflist"),
    ],
)
def test_what_is_no_conflist_is_refused_with_one_reason(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "bad.conflist"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(Unavailable) as raised:
        _cni.read_conflist(str(file))
    assert str(file) in raised.value.message and raised.value.hint
    assert reason in raised.value.message or "not a conflist" in raised.value.message


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        _cni.read_conflist(str(tmp_path / "absent.conflist"))
    with pytest.raises(Unavailable, match="Is a directory"):
        _cni.read_conflist(str(tmp_path))
    with pytest.raises(InputError, match="not an absolute path"):
        make_part(Cni, "cni:conflist=mine.conflist")
    with pytest.raises(InputError, match="not from 100k to 100G"):
        make_part(Cni, "cni:rate=1k")


def test_a_conflist_stands_alone(tmp_path: Path) -> None:
    part = make_part(Cni, f"cni:conflist={conflist(tmp_path, '{}')},rate=1G")
    with pytest.raises(Unavailable, match="names its plug-ins"), part.prepare(recording_testbed(NodeHost(), tmp_path)):
        pytest.fail("it has two answers to one question")


def test_what_a_plug_in_says_of_devices_is_not_taken_on_trust() -> None:
    assert _cni.devices(MADE) == (["cni0", "vethab"], ["eth0"])
    assert _cni.devices({"interfaces": [{"name": "eth0"}, {"name": "eth0", "sandbox": "/x"}]}) == (["eth0"], ["eth0"])
    for odd in ({"interfaces": [{"name": "a; reboot"}]}, {"interfaces": 7}, {"interfaces": [1]}, {"interfaces": [{}]}):
        assert _cni.devices(odd) == ([], [])
    assert not _cni.has_address({"ips": [{"address": "no"}]}, "198.18.0.1/24")
    with pytest.raises(Unavailable, match="`master`"):
        _cni.masters([{"type": "macvlan", "master": "eth0 up; x"}])
