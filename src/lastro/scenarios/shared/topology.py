"""The topology of a trial, recorded while it runs, from the same objects that were started and joined.

    built = BuiltTopology(self.testbed)
    built.add("source", source, level)
    built.join(links.level, segments)
    built.note(outcome)
    note_load(outcome, "ping", "source", "sink")
    note_meter(outcome, meter)

The devices between two ports are read from the kernel, not reported by the part that made them. One command for each
host reads them. It is not a step of the trial, so transcripts do not contain it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from lastro.attachments.base import MEMBER_END, Segment
from lastro.errors import LastroError
from lastro.host.base import Host
from lastro.meters.base import Meter
from lastro.platforms.base import Instance, Port
from lastro.results.samples import Outcome
from lastro.results.topology import TOPOLOGY, Device, Link, LinkEnd, Load, Node, Topology, Witness
from lastro.testbed import Testbed

_MOST_NAMESPACES = 20  # reading those of hundreds of routers would disturb them
_ON_PARENT = frozenset({"macvlan", "macvtap", "ipvlan", "ipvtap"})
_READ = "printf '{0} '; ip -n {0} -d -j address show 2>/dev/null; echo\n"

IpLink = Mapping[str, Any]  # an interface as `ip -json -details address` shows it


@dataclass(frozen=True, slots=True)
class PluggedPort:
    """One end of a link: the interface `port` of a role in `netns`, and the device `far` in the DUT's namespace.

    If there is no such interface, `netns` and `port` are empty. If the interface is not visible, as inside a virtual
    machine, only `netns` is empty. If the platform made the link, `address` and `far` are empty; they are then read
    from the kernel."""

    role: str
    testbed: Testbed
    netns: str
    port: str
    address: str
    far: str = ""


class BuiltTopology:
    """The instances and links of a trial: add instances, join those with links, then record the topology."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._nodes: list[Node] = []
        self._roles: dict[int, str] = {}
        self._links: list[tuple[str, PluggedPort, PluggedPort]] = []

    def add(self, role: str, instance: Instance, platform: str, **fields: Any) -> None:
        """Add an instance; `platform` is the level of its platform, and `fields` are other fields of `Node`."""
        self._roles[id(instance)] = role
        self._nodes.append(Node(role, platform, host=instance.testbed.host.name, **fields))

    def add_bare_role(self, role: str, testbed: Testbed, does: str) -> None:
        """Add a role without an instance, which has only a namespace; `does` says what it does."""
        self._nodes.append(Node(role, does=does, host=testbed.host.name))

    def join(
        self, attachment: str, segments: Iterable[Segment], testbed: Testbed | None = None, node: Testbed | None = None
    ) -> None:
        """Add the links of these segments between instances that were added before.

        `attachment` is the level of the attachment. `testbed` is where the segments are, by default the testbed of this
        object. `node` is `Attachment.node`."""
        for segment in segments:
            ends = (self._plugged_port(end, port, testbed or self._testbed, node) for end, port in segment.ends())
            self.link(attachment, *ends)

    def join_member(self, attachment: str, port: Port, segment: Segment, node: Testbed | None = None) -> None:
        """Add one more port, whose instance was added before, to the link of a segment."""
        ends = ((MEMBER_END, port), segment.ends()[1])
        self.link(attachment, *(self._plugged_port(*end_and_port, self._testbed, node) for end_and_port in ends))

    def _plugged_port(self, end: str, port: Port, testbed: Testbed, node: Testbed | None) -> PluggedPort:
        role, netns = self._roles[id(port.instance)], self.visible_netns(port.instance)
        return PluggedPort(role, node or testbed, netns, port.name, port.address, "" if node else end)

    def link(self, attachment: str, a: PluggedPort, b: PluggedPort) -> None:
        self._links.append((attachment, a, b))

    def note(self, outcome: Outcome) -> None:
        """Read the devices of all links from the kernel, and store the topology in the trial's notes."""
        interfaces = self._read_interfaces()
        links = []
        for attachment, a, b in self._links:
            from_a, from_b = _devices_behind(a, interfaces), _devices_behind(b, interfaces)
            if from_a[-1:] == from_b[-1:]:  # a device that both ends share is listed once
                from_b = from_b[:-1]
            between = (*from_a, *reversed(from_b))
            links.append(Link(attachment, _end(a, interfaces), _end(b, interfaces), between))
        outcome.notes[TOPOLOGY] = Topology(tuple(self._nodes), tuple(links)).as_note()

    @staticmethod
    def visible_netns(instance: Instance) -> str:
        """Return the namespace of an instance's ports; empty for a machine, whose ports are not visible."""
        return "" if instance.takes_taps else instance.netns

    def _read_interfaces(self) -> dict[str, dict[str, IpLink]]:
        """Return {namespace: {name: interface}}; {} if there are too many namespaces to read, or none is visible."""
        namespaces: dict[Host, dict[str, None]] = {}
        for _, *plugs in self._links:
            for plug in plugs:
                namespaces.setdefault(plug.testbed.host, {}).update(dict.fromkeys((plug.testbed.dut, plug.netns)))
        if sum(map(len, namespaces.values())) > _MOST_NAMESPACES:
            return {}
        lines: list[str] = []
        for host, names in namespaces.items():
            with suppress(LastroError), host.recorded():  # a description must not invalidate a trial
                script = "".join(map(_READ.format, filter(None, names)))
                lines += host.run(["sh"], stdin=script, check=False).text.splitlines()
        interfaces: dict[str, dict[str, IpLink]] = {}
        for namespace, _, shown in (line.partition(" ") for line in lines):
            with suppress(KeyError, TypeError, ValueError):
                interfaces[namespace] = {link["ifname"]: link for link in json.loads(shown)}
        return interfaces


def _end(plug: PluggedPort, interfaces: Mapping[str, Mapping[str, IpLink]]) -> LinkEnd:
    port = interfaces.get(plug.netns, {}).get(plug.port, {})
    return LinkEnd(plug.role, plug.port, plug.address or _address(port), _kind(port))


def _devices_behind(plug: PluggedPort, interfaces: Mapping[str, Mapping[str, IpLink]]) -> list[Device]:
    """Return the devices behind a port in the DUT's namespace: the link's end, its bridge or parent, a tunnel.

    If the port itself is a slave of a parent device in the DUT's namespace, return only the parent. `interfaces` are
    as `_read_interfaces` returns them."""
    in_dut = interfaces.get(plug.testbed.dut, {})
    port = interfaces.get(plug.netns, {}).get(plug.port, {})
    names: list[str | None] = []
    if end := in_dut.get(plug.far or _other_end(plug, port, in_dut)):
        parent = end.get("link") if _kind(end) in _ON_PARENT else None
        joint = end.get("master") or parent
        names = [str(end["ifname"]), joint]
        if joint:
            names += [name for name, link in in_dut.items() if link.get("master") == joint and _kind(link) == "vxlan"]
    elif _kind(port) in _ON_PARENT:
        names = [name for name, link in in_dut.items() if link.get("ifindex") == port.get("link_index")]
    links = (in_dut[name] for name in dict.fromkeys(names) if name and name in in_dut)
    return [Device(str(link["ifname"]), _kind(link), _address(link)) for link in links]


def _other_end(plug: PluggedPort, port: IpLink, in_dut: Mapping[str, IpLink]) -> str:
    """Return the name of the interface in the DUT's namespace, `in_dut`, that is the other end of a veth port.

    Empty if the port is not a veth, or is itself in the DUT's namespace."""
    if plug.netns == plug.testbed.dut or _kind(port) != "veth":
        return ""
    return next((name for name, link in in_dut.items() if link.get("ifindex") == port.get("link_index")), "")


def _address(link: IpLink) -> str:
    """Return the first address of an interface, as ADDRESS/PREFIX; empty if it has none."""
    entries = (entry for entry in link.get("addr_info", ()) if "local" in entry)
    return next((f"{entry['local']}/{entry['prefixlen']}" for entry in entries), "")


def _kind(link: IpLink) -> str:
    """Return an interface's kind as in ip-link(8), such as 'veth'; for a tap, return 'tap' instead of 'tun'."""
    info = link.get("linkinfo", {})
    kind = str(info.get("info_kind", ""))
    return str(info.get("info_data", {}).get("type", kind)) if kind == "tun" else kind


def note_load(outcome: Outcome, instrument: str, source: str, target: str) -> None:
    """Note that an instrument loads the path between two roles."""
    _add_to_topology(outcome, "loads", asdict(Load(instrument, source, target)))


def note_meter(outcome: Outcome, meter: Meter) -> None:
    """Note a meter as a witness: of the whole host, or of the roles of the instances that it measures."""
    if isinstance(topology := outcome.notes.get(TOPOLOGY), dict):
        known = {node["role"] for node in topology["nodes"]}
        watched = {} if meter.whole_host else meter.instances
        at = dict.fromkeys(role if role in known else instance.spec.role for role, instance in watched.items())
        note_witness(outcome, meter.name, meter.summary, at)


def note_witness(outcome: Outcome, name: str, watches: str, at: Iterable[str] = ()) -> None:
    """Note a witness that is not a meter. `at` are the roles that it watches; empty means the whole host."""
    _add_to_topology(outcome, "witnesses", asdict(Witness(name, watches, tuple(at))))


def _add_to_topology(outcome: Outcome, key: str, value: dict[str, Any]) -> None:
    """Add a value to the list `key` in a trial's topology, if it is not in it yet; do nothing without a topology."""
    topology = outcome.notes.get(TOPOLOGY)
    if isinstance(topology, dict) and value not in topology[key]:
        topology[key] = (*topology[key], value)
