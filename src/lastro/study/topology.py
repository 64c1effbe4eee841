"""Topologies of routers, from grids and files: addresses, spare links, and the routes that a protocol must find.

A topology is a grid such as `3x3` (`grid_size`, `grid`), or is parsed from the text of a file, which the caller reads
(`parse`). Links and routers are identified by their indices, which count from 0 in the order of the file. Pure."""

from __future__ import annotations

import heapq
import ipaddress
import math
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from lastro.errors import InputError
from lastro.study.document import parse_toml
from lastro.study.problems import shown

NETWORK = ipaddress.ip_network("198.18.0.0/15")  # RFC 2544: for measurements, never routed
MOST_ROUTERS = 1024
COST = 10  # the cost of a link whose file does not give one
_PREFIX = 30  # prefix length of a link's subnet, which has two addresses for two routers
_GRID = re.compile(r"(\d{1,4})x(\d{1,4})")
_WANTED = "a grid such as 3x3, or a file of links: .toml, .graphml, or an edge list with two names per line"


@dataclass(frozen=True, slots=True)
class RouterLink:
    """A link between the routers with the indices `a` and `b`. `cost` is its OSPF cost, equal in both directions."""

    a: int
    b: int
    cost: int = COST

    def other(self, router: int) -> int:
        """Return the router at the other end of the link."""
        return self.b if router == self.a else self.a


@dataclass(frozen=True)
class RouterTopology:
    """A connected graph of routers, given by their `names`, and the links between them.

    The constructor checks nothing; `grid` and `parse` return only valid topologies."""

    names: tuple[str, ...]
    links: tuple[RouterLink, ...]

    @cached_property
    def at(self) -> tuple[tuple[int, ...], ...]:
        """For each router, the indices of its links in the order of its interfaces: the first link is that of eth0."""
        links: list[list[int]] = [[] for _ in self.names]
        for number, link in enumerate(self.links):
            links[link.a].append(number)
            links[link.b].append(number)
        return tuple(map(tuple, links))

    def interface(self, router: int, link: int) -> str:
        """Return the name of the interface of a router on one of its links."""
        return f"eth{self.at[router].index(link)}"

    def subnet(self, link: int) -> ipaddress.IPv4Network:
        """Return the subnet of a link; each link has its own."""
        return ipaddress.IPv4Network((int(NETWORK.network_address) + (link << (32 - _PREFIX)), _PREFIX))

    def address(self, router: int, link: int) -> ipaddress.IPv4Address:
        """Return the address of a router on one of its links."""
        return self.subnet(link)[1 if router == self.links[link].a else 2]

    # The routes that a routing protocol must find

    def distances(self, start: int, without: Collection[int] = ()) -> tuple[float, ...]:
        """Return the cost of the shortest path from router `start` to each router (Dijkstra 1959).

        Links in `without` are not used. The cost is infinite if there is no path."""
        gone, costs = frozenset(without), [math.inf] * len(self.names)
        costs[start] = 0
        queue: list[tuple[float, int]] = [(0, start)]
        while queue:
            cost, router = heapq.heappop(queue)
            if cost > costs[router]:
                continue
            for number in self.at[router]:
                link = self.links[number]
                neighbour, new_cost = link.other(router), cost + link.cost
                if number not in gone and new_cost < costs[neighbour]:
                    costs[neighbour] = new_cost
                    heapq.heappush(queue, (new_cost, neighbour))
        return tuple(costs)

    def routes(
        self, without: Collection[int] = (), *, subnets_gone: bool = False
    ) -> list[dict[ipaddress.IPv4Network, frozenset[str]]]:
        """Return, for each router, {subnet that is not its own: addresses of the next hops of all shortest paths}.

        A router's own subnets are those of its links. Links in `without` do not carry packets. Both ends of such a link
        still announce its subnet, unless `subnets_gone`, that is, unless they have detected the loss of carrier."""
        gone = frozenset(without)
        costs = [self.distances(router, gone) for router in range(len(self.names))]
        return [self._routes_of(router, costs, gone, subnets_gone) for router in range(len(self.names))]

    def _routes_of(
        self, router: int, costs: Sequence[Sequence[float]], gone: frozenset[int], subnets_gone: bool
    ) -> dict[ipaddress.IPv4Network, frozenset[str]]:
        """Return the routes of one router; `costs[a][b]` is the cost of the shortest path from router a to b."""
        first_links = [number for number in self.at[router] if number not in gone]
        routes = {}
        for number, link in enumerate(self.links):
            if number in self.at[router] or (subnets_gone and number in gone):
                continue
            nearest = min(costs[router][link.a], costs[router][link.b])
            ends = [end for end in (link.a, link.b) if costs[router][end] == nearest]
            next_hops = set()
            for first in first_links:
                neighbour, cost = self.links[first].other(router), self.links[first].cost
                if any(cost + costs[neighbour][end] == costs[router][end] for end in ends):  # on a shortest path
                    next_hops.add(str(self.address(neighbour, first)))
            if next_hops:
                routes[self.subnet(number)] = frozenset(next_hops)
        return routes

    # The effects of failures

    def spare_links(self) -> tuple[int, ...]:
        """Return the indices of the links without which all routers are still connected, in ascending order.

        They are the links outside of a minimum spanning tree (Kruskal 1956). Among links of equal cost, those with
        lower indices are preferred for the tree."""
        tree_of, spare = list(range(len(self.names))), []
        for number in sorted(range(len(self.links)), key=lambda number: (self.links[number].cost, number)):
            a, b = tree_of[self.links[number].a], tree_of[self.links[number].b]
            if a == b:
                spare.append(number)
            else:
                tree_of = [b if tree == a else tree for tree in tree_of]
        return tuple(sorted(spare))

    def detour(self, without: Collection[int]) -> tuple[int, int] | None:
        """Return (router, link) of the path whose cost increases most if the links in `without` fail.

        The path leads from the router to the subnet of the link. None if no path becomes longer."""
        largest, path = 0.0, None
        remaining = [number for number in range(len(self.links)) if number not in set(without)]
        for router in range(len(self.names)):
            before, after = self.distances(router), self.distances(router, without)
            for number in remaining:
                ends = (self.links[number].a, self.links[number].b)
                increase = min(after[end] for end in ends) - min(before[end] for end in ends)
                if increase > largest:
                    largest, path = increase, (router, number)
        return path

    def corners(self) -> tuple[int, int]:
        """Return the indices of two routers that are far apart; in a grid, they are opposite corners."""
        from_first = self.distances(0)
        a = max(range(len(self.names)), key=lambda router: (from_first[router], router))
        from_a = self.distances(a)
        return a, max(range(len(self.names)), key=lambda router: (from_a[router], -router))


def grid(rows: int, columns: int, what: str = "") -> RouterTopology:
    """Return a grid of routers, each linked to its neighbours; `what` names the topology in errors.

    Raises: InputError for too many routers, and for fewer than two."""
    if rows * columns > MOST_ROUTERS:
        raise _too_many(what or f"{rows}x{columns}", rows * columns)
    names = [f"r{row}-{column}" for row in range(rows) for column in range(columns)]
    across = [(at, at + 1) for at in range(len(names)) if (at + 1) % columns]
    down = [(at, at + columns) for at in range(len(names) - columns)]
    pairs = [(names[a], names[b], COST) for a, b in sorted(across + down)]
    return _topology(what or f"{rows}x{columns}", names, pairs)


def grid_size(text: str) -> tuple[int, int] | None:
    """Return (rows, columns) of a grid such as '3x3'; None for any other text."""
    match = _GRID.fullmatch(text.strip())
    return (int(match[1]), int(match[2])) if match else None


def parse(text: str, name: str) -> RouterTopology:
    """Return the topology in the text of a file; the file's name decides the format, and appears in errors.

    Raises: InputError if the text is not a topology, or if the topology cannot be run."""
    if name.endswith(".toml"):
        return _parse_toml(text, name)
    if name.endswith((".graphml", ".xml")):
        return _parse_graphml(text, name)
    return _parse_edges(text, name)


def _parse_toml(text: str, name: str) -> RouterTopology:
    """Parse nodes = ["a", "b"] and [[link]] tables with ends = ["a", "b"], and a cost if it is not 10."""
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise InputError(f"{name}: is not TOML: {error}", 'links are tables: [[link]] with ends = ["a", "b"]') from None
    if unknown := set(document) - {"nodes", "link"}:
        raise InputError(f"{name}: unknown key {shown(min(unknown))}", "a topology file has `nodes` and [[link]]")
    nodes, links = document.get("nodes", []), document.get("link", [])
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise InputError(f"{name}: nodes: must be a list of names", 'such as nodes = ["a", "b"]')
    if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
        raise InputError(f"{name}: link: must be tables, [[link]]", 'each with ends = ["a", "b"]')
    known = frozenset(nodes)
    pairs = [_toml_link(name, number, link, known) for number, link in enumerate(links)]
    return _topology(name, [*nodes, *(end for a, b, _ in pairs for end in (a, b))], pairs, listed=nodes)


def _toml_link(name: str, number: int, link: dict[str, object], nodes: Collection[str]) -> tuple[str, str, int]:
    """Return the ends and the cost of a [[link]] table. Raises: InputError if it is not valid."""
    where, ends = f"{name}: link[{number}]", link.get("ends")
    if unknown := set(link) - {"ends", "cost"}:
        raise InputError(f"{where}: unknown key {shown(min(unknown))}", "a link has `ends` and `cost`")
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise InputError(f"{where}.ends: must be the names of two routers", 'such as ends = ["a", "b"]')
    for end in ends if nodes else ():
        if end not in nodes:
            raise InputError(f"{where}.ends: {shown(end)} is not in nodes", "add it there, or leave `nodes` out")
    return ends[0], ends[1], _cost(link.get("cost", COST), where)


def _cost(value: object, where: str) -> int:
    """Return the checked cost of a link, a whole number from 1 to 65535 (RFC 2328, appendix C.3).

    `where` names the link in errors. Raises: InputError for any other value."""
    cost = math.nan
    with suppress(ValueError):
        cost = float(str(value))
    if isinstance(value, bool) or not cost.is_integer() or not 1 <= cost <= 65_535:
        message = f"{where}: cost {shown(value)} is not a whole number from 1 to 65535"
        raise InputError(message, "omit it for the default of 10")
    return int(cost)


def _parse_graphml(text: str, name: str) -> RouterTopology:
    """Parse nodes and edges of GraphML, as in collections of topologies; labels and other data are ignored."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{name}: contains a document type declaration", "remove it: GraphML needs none")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"{name}: is not XML: {error}", "export the graph as GraphML again") from None
    nodes = [str(element.get("id")) for element in root.iter() if _tag(element) == "node"]
    known = frozenset(nodes)
    edges = [element for element in root.iter() if _tag(element) == "edge"]
    pairs = [(str(edge.get("source")), str(edge.get("target")), COST) for edge in edges]
    for end in (end for a, b, _ in pairs for end in (a, b)):
        if end not in known:
            message = f"{name}: an edge ends at {shown(end)}, which is not a node"
            raise InputError(message, "add the node, or drop the edge")
    return _topology(name, nodes, _without_repeats(pairs))


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _parse_edges(text: str, name: str) -> RouterTopology:
    """Parse lines of two names and, optionally, a cost; '#' and '%' begin comments."""
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        words = re.split(r"[\s,;]+", re.split(r"[#%]", line)[0].strip())
        if words == [""]:
            continue
        if len(words) < 2 or len(words) > 3:
            message = f"{name}: line {number}: {len(words)} words instead of two names and an optional cost"
            raise InputError(message, _WANTED)
        cost = _cost(words[2], f"{name}: line {number}") if len(words) == 3 else COST
        pairs.append((words[0], words[1], cost))
    return _topology(name, [end for a, b, _ in pairs for end in (a, b)], _without_repeats(pairs))


def _without_repeats(pairs: Iterable[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """Return the links without loops, and with only the first of several links between the same two routers.

    Collections of topologies list each link in both directions, or list parallel links."""
    links: dict[frozenset[str], tuple[str, str, int]] = {}
    for a, b, cost in pairs:
        if a != b:
            links.setdefault(frozenset((a, b)), (a, b, cost))
    return list(links.values())


def _topology(
    what: str, nodes: Sequence[str], pairs: Sequence[tuple[str, str, int]], listed: Sequence[str] = ()
) -> RouterTopology:
    """Return the topology of these nodes and links (end, end, cost), after checks.

    `what` names the topology in errors. `listed` are the nodes that a file lists explicitly. Raises: InputError if the
    topology is not valid, too large, or not connected."""
    names = list(dict.fromkeys(nodes))
    if len(set(listed)) < len(listed):
        twice = Counter(listed).most_common(1)[0][0]
        raise InputError(f"{what}: nodes: {shown(twice)} is listed twice", "give every router its own name")
    for name in names:
        if not name.isprintable() or not name.strip():
            raise InputError(f"{what}: {shown(name)} is not a router name", "use visible characters")
    if len(names) < 2:
        raise InputError(f"{what}: has {len(names)} routers, but routing needs two", _WANTED)
    if len(names) > MOST_ROUTERS:
        raise _too_many(what, len(names))
    room = 1 << (_PREFIX - NETWORK.prefixlen)
    if len(pairs) > room:
        hint = "use a smaller part of it: each link needs its own subnet"
        raise InputError(f"{what}: has {len(pairs)} links, but {NETWORK} has room for only {room} subnets", hint)
    number = {name: at for at, name in enumerate(names)}
    for a, b, _ in pairs:
        if a == b:
            raise InputError(f"{what}: a link joins {shown(a)} to itself", "drop it")
    topology = RouterTopology(tuple(names), tuple(RouterLink(number[a], number[b], cost) for a, b, cost in pairs))
    cut_off = [name for name, cost in zip(names, topology.distances(0), strict=True) if math.isinf(cost)]
    if cut_off:
        some = ", ".join(map(shown, cut_off[:5])) + (" …" if len(cut_off) > 5 else "")
        hint = "add links, or use one connected part: routes across a gap never converge"
        raise InputError(f"{what}: is not connected: no path leads from {shown(names[0])} to {some}", hint)
    return topology


def _too_many(what: str, n: int) -> InputError:
    return InputError(f"{what}: has {n} routers; the limit is {MOST_ROUTERS}", "use a smaller part of it")
