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
from collections.abc import Iterable, Mapping, Sequence
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

_MOST_LOOKED_AT = 20  # namespaces: looking at hundreds of routers would disturb them
_ON_PARENT = frozenset({"macvlan", "macvtap", "ipvlan", "ipvtap"})
_LOOK = "printf '{0} '; ip -n {0} -d -j address show 2>/dev/null; echo\n"

IpLink = Mapping[str, Any]  # an interface as `ip -json -details address` shows it


@dataclass(frozen=True, slots=True)
class Plug:
    """One end of a link: the interface `port` of a role in `netns`, and the device `far` in the DUT's namespace.

    `netns` and `port` are empty if there is no such interface; `netns` alone, if it is not visible, as inside a
    virtual machine. If the platform made the link, `address` and `far` are empty; they are then read from the
    kernel."""

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
        self._links: list[tuple[str, Plug, Plug]] = []

    def add(self, role: str, instance: Instance, platform: str, **fields: Any) -> None:
        """Add an instance; `platform` is the level of its platform, and `fields` are other fields of `Node`."""
        self._roles[id(instance)] = role
        self._nodes.append(Node(role, platform, host=instance.testbed.host.name, **fields))

    def place(self, role: str, testbed: Testbed, does: str) -> None:
        """Add a role without an instance, which has only a namespace; `does` says what it does."""
        self._nodes.append(Node(role, does=does, host=testbed.host.name))

    def join(
        self,
        attachment: str,
        segments: Iterable[Segment],
        testbed: Testbed | None = None,
        node: Testbed | None = None,
    ) -> None:
        """Add the links of these segments between instances that were added before.

        `attachment` is its level. `testbed` is where the segments are, by default that of this object. `node` is
        `Attachment.node`."""
        for segment in segments:
            self.link(attachment, *(self._plug(*each, testbed or self._testbed, node) for each in segment.ends()))

    def join_member(self, attachment: str, port: Port, segment: Segment, node: Testbed | None = None) -> None:
        """Add one more port, whose instance was added before, to the link of a segment."""
        ends = ((MEMBER_END, port), segment.ends()[1])
        self.link(attachment, *(self._plug(*each, self._testbed, node) for each in ends))

    def _plug(self, end: str, port: Port, testbed: Testbed, node: Testbed | None) -> Plug:
        role, inside = self._roles[id(port.instance)], self.inside(port.instance)
        return Plug(role, node or testbed, inside, port.name, port.address, "" if node else end)

    def link(self, attachment: str, a: Plug, b: Plug) -> None:
        self._links.append((attachment, a, b))

    def note(self, outcome: Outcome) -> None:
        """Read the devices of all links from the kernel, and store the topology in the trial's notes."""
        seen = self._look()
        links = tuple(
            Link(attachment, _end(a, seen), _end(b, seen), _devices_between(a, b, seen))
            for attachment, a, b in self._links
        )
        outcome.notes[TOPOLOGY] = Topology(tuple(self._nodes), links).as_note()

    @staticmethod
    def inside(instance: Instance) -> str:
        """Return the namespace of an instance's ports; empty for a machine, whose ports are not visible."""
        return "" if instance.takes_taps else instance.netns

    def _look(self) -> dict[str, dict[str, IpLink]]:
        """Return {namespace: {name: interface}}; {} if there are too many namespaces to read, or none is visible."""
        spaces: dict[Host, dict[str, None]] = {}
        for _, *plugs in self._links:
            for plug in plugs:
                spaces.setdefault(plug.testbed.host, {}).update(dict.fromkeys((plug.testbed.dut, plug.netns)))
        if sum(map(len, spaces.values())) > _MOST_LOOKED_AT:
            return {}
        found: dict[str, dict[str, IpLink]] = {}
        for host, names in spaces.items():
            found |= _interfaces(host, [name for name in names if name])
        return found


def _interfaces(host: Host, namespaces: Sequence[str]) -> dict[str, dict[str, IpLink]]:
    try:
        with host.recorded():
            text = host.run(["sh"], stdin="".join(map(_LOOK.format, namespaces)), check=False).text
    except LastroError:  # a description must not invalidate a trial
        return {}
    found = {}
    for name, _, shown in (line.partition(" ") for line in text.splitlines()):
        try:
            found[name] = {each["ifname"]: each for each in json.loads(shown)}
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _end(plug: Plug, seen: Mapping[str, Mapping[str, IpLink]]) -> LinkEnd:
    port = seen.get(plug.netns, {}).get(plug.port, {})
    return LinkEnd(plug.role, plug.port, plug.address or _address(port), _kind(port))


def _devices_between(a: Plug, b: Plug, seen: Mapping[str, Mapping[str, IpLink]]) -> tuple[Device, ...]:
    """Return the devices on the path from port `a` to port `b`; a device that both ends share is listed once."""
    from_a, from_b = _inwards(a, seen), _inwards(b, seen)
    if from_a[-1:] == from_b[-1:]:
        from_b = from_b[:-1]
    return (*from_a, *reversed(from_b))


def _inwards(plug: Plug, seen: Mapping[str, Mapping[str, IpLink]]) -> list[Device]:
    """Return the devices behind a port in the DUT's namespace: the link's end, its bridge or parent, a tunnel.

    If the port itself is a slave of a parent device in the DUT's namespace, return only the parent. `seen` is as
    returned by `_look`."""
    there = seen.get(plug.testbed.dut, {})
    port = seen.get(plug.netns, {}).get(plug.port, {})
    names: list[str | None] = []
    if end := there.get(plug.far or _other_end(plug, port, there)):
        on_parent = end.get("link") if _kind(end) in _ON_PARENT else None
        joint = end.get("master") or on_parent
        names = [str(end["ifname"]), joint]
        if joint:
            names += [name for name, each in there.items() if each.get("master") == joint and _kind(each) == "vxlan"]
    elif _kind(port) in _ON_PARENT:
        names = [name for name, each in there.items() if each.get("ifindex") == port.get("link_index")]
    way = (there[name] for name in dict.fromkeys(names) if name and name in there)
    return [Device(str(each["ifname"]), _kind(each), _address(each)) for each in way]


def _other_end(plug: Plug, port: IpLink, there: Mapping[str, IpLink]) -> str:
    """Return the name of the device `there` that is the other end of a veth port.

    Empty if the port is not a veth, or is itself in the DUT's namespace."""
    if plug.netns == plug.testbed.dut or _kind(port) != "veth":
        return ""
    return next((name for name, each in there.items() if each.get("ifindex") == port.get("link_index")), "")


def _address(seen: IpLink) -> str:
    addresses = [f"{each['local']}/{each['prefixlen']}" for each in seen.get("addr_info", ()) if "local" in each]
    return addresses[0] if addresses else ""


def _kind(seen: IpLink) -> str:
    """Return an interface's kind as in ip-link(8), such as 'veth'; for a tap, return 'tap' instead of 'tun'."""
    info = seen.get("linkinfo", {})
    kind = str(info.get("info_kind", ""))
    return str(info.get("info_data", {}).get("type", kind)) if kind == "tun" else kind


def note_load(outcome: Outcome, instrument: str, source: str, target: str) -> None:
    """Note that an instrument loads the path between two roles."""
    _noted(outcome, "loads", asdict(Load(instrument, source, target)))


def note_meter(outcome: Outcome, meter: Meter) -> None:
    """Note a meter as a witness: of the whole host, or of the roles of the instances that it measures."""
    if isinstance(topology := outcome.notes.get(TOPOLOGY), dict):
        known = {node["role"] for node in topology["nodes"]}
        watched = {} if meter.whole_host else meter.instances
        at = dict.fromkeys(role if role in known else instance.spec.role for role, instance in watched.items())
        note_witness(outcome, meter.name, meter.summary, at)


def note_witness(outcome: Outcome, name: str, watches: str, at: Iterable[str] = ()) -> None:
    """Note a witness that is not a meter. `at` are the roles that it watches; empty means the whole host."""
    _noted(outcome, "witnesses", asdict(Witness(name, watches, tuple(at))))


def _noted(outcome: Outcome, key: str, value: dict[str, Any]) -> None:
    """Add a value to the list `key` in the topology of a trial, unless it is there; do nothing without a topology."""
    topology = outcome.notes.get(TOPOLOGY)
    if isinstance(topology, dict) and value not in topology[key]:
        topology[key] = (*topology[key], value)
