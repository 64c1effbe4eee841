"""The topology of a trial: its instances, the links between them, load generators and witnesses. Pure data.

A scenario stores it in the notes of each trial, under TOPOLOGY."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

TOPOLOGY = "topology"  # the key among a trial's notes
DUT = "dut"


@dataclass(frozen=True, slots=True)
class Node:
    """An instance in its role, or the network namespace of a role, which has no platform."""

    role: str
    platform: str = ""  # a level of the factor platform, such as 'docker:storage=vfs'
    does: str = ""  # what the programs in the instance do
    isolation: str = ""
    anomaly: str = ""  # the load that a noisy neighbour makes
    host: str = ""  # name of the machine
    count: int = 1  # number of identical instances; the topology has the links of only the first of them


@dataclass(frozen=True, slots=True)
class Device:
    """A network interface as the kernel reported it; `kind` is a link type of ip-link(8), such as veth or bridge."""

    name: str
    kind: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """An end of a link: the interface `port` of the node `role`. `address` is its IP address in CIDR form."""

    role: str
    port: str
    address: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two ends. `way` lists the devices outside the instances that packets cross from `a` to `b`."""

    attachment: str
    a: LinkEnd
    b: LinkEnd
    way: tuple[Device, ...] = ()

    @property
    def ends(self) -> tuple[LinkEnd, LinkEnd]:
        return self.a, self.b


@dataclass(frozen=True, slots=True)
class Load:
    """An instrument that sends from one role to another."""

    instrument: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness of the traffic: `watches` says which counters it reads, and `at` has the roles whose counters they are.

    Without roles, they are the counters of the whole host."""

    name: str
    watches: str
    at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    loads: tuple[Load, ...] = ()
    witnesses: tuple[Witness, ...] = ()

    def as_note(self) -> dict[str, Any]:
        """Return the topology as plain data for a trial's notes."""
        return asdict(self)

    @classmethod
    def of(cls, notes: Mapping[str, Any]) -> Self | None:
        """Return the topology in the notes of a trial; None if they have none, or one that is not valid."""
        try:
            noted = notes[TOPOLOGY]
            return cls(
                tuple(_from_note(Node, node) for node in noted["nodes"]),
                tuple(_link(link) for link in noted["links"]),
                tuple(_from_note(Load, load) for load in noted["loads"]),
                tuple(_from_note(Witness, witness) for witness in noted["witnesses"]),
            )
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            return None

    def node(self, role: str) -> Node | None:
        return next((node for node in self.nodes if node.role == role), None)

    def at(self, role: str) -> list[tuple[Link, LinkEnd, LinkEnd]]:
        """Return (link, end at `role`, other end) for each link that has an end at `role`."""
        directed = [(link, *ends) for link in self.links for ends in (link.ends, link.ends[::-1])]
        return [(link, here, there) for link, here, there in directed if here.role == role]

    def path(self, source: str, target: str) -> list[str]:
        """Return the roles on the shortest path over links from `source` to `target`, both included; empty if none."""
        before: dict[str, str] = {source: source}
        reached = [source]
        for role in reached:
            for _, _, there in self.at(role):
                if there.role not in before:
                    before[there.role] = role
                    reached.append(there.role)
        if target not in before:
            return []
        way = [target]
        while way[-1] != source:
            way.append(before[way[-1]])
        return way[::-1]

    @property
    def main_path(self) -> list[str]:
        """The roles on the path of the first load that has a path, or else on the longest path from the first node."""
        loaded = [self.path(load.source, load.target) for load in self.loads]
        loaded_path = next(filter(None, loaded), [])
        return loaded_path or max(
            (self.path(self.nodes[0].role, node.role) for node in self.nodes), key=len, default=[]
        )


def _link(value: Mapping[str, Any]) -> Link:
    way = tuple(_from_note(Device, each) for each in value["way"])
    return Link(str(value["attachment"]), _from_note(LinkEnd, value["a"]), _from_note(LinkEnd, value["b"]), way)


def _from_note(kind: type[Any], value: Mapping[str, Any]) -> Any:
    """Return a dataclass object with the fields in `value`. Unknown fields, from a later version, are ignored."""
    read: dict[str, Callable[[Any], object]] = {"count": int, "at": lambda roles: tuple(map(str, roles))}
    return kind(**{f.name: read.get(f.name, str)(value[f.name]) for f in fields(kind) if f.name in value})
