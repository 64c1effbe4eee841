"""The texts in the drawings of a topology, and its drawing in a terminal: boxes from source to sink. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from lastro.analysis.topology import is_mesh, n_hosts, nodes_off_path, path_loads
from lastro.results.topology import Link, LinkEnd, Node, Topology
from lastro.study.levels import split_options
from lastro.words.language import ENGLISH, Language


def node_heading(node: Node) -> str:
    """Return the role of a node, with the number of its instances if there are several: 'proxy × 8'."""
    return f"{node.role} × {node.count}" if node.count > 1 else node.role


def node_facts(node: Node, known: Mapping[str, str], hosts: int, say: Language = ENGLISH) -> list[str]:
    """Return the lines below the heading of a node: its platform and version, what it does, isolation, and host.

    `known` is {tool: version}. The host is left out if `hosts`, the number of hosts, is 1."""
    version = known.get(split_options(node.platform)[0], "")
    lines = [f"{node.platform} {version}".strip()]
    if node.anomaly:
        anomaly = say("anomaly {name}", name=node.anomaly)
        lines.append(f"{anomaly}: {node.does}" if node.does else anomaly)
    elif node.does:
        lines.append(node.does)
    if node.isolation not in ("", "none"):
        lines.append(say("isolation {name}", name=node.isolation))
    if hosts > 1:
        lines.append(say("on {host}", host=node.host))
    return [line for line in lines if line]


def device_texts(link: Link) -> list[str]:
    """Return the devices between the two ports of a link, each with its kind and any address: 'hub-br (bridge)'."""
    return [
        f"{device.name} ({device.kind or '?'}){f' {device.address}' if device.address else ''}" for device in link.way
    ]


def description(topology: Topology) -> str:
    """Describe the drawing in one or two sentences, for readers who cannot see it."""
    nodes = ", ".join(node_heading(node) + (f" ({node.platform})" if node.platform else "") for node in topology.nodes)
    links = "; ".join(f"{link.a.role} – {link.b.role}: {link.attachment}" for link in topology.links)
    return f"{nodes}." + (f" {links}." if links else "")


_WIDEST, _BOX, _NAME = 80, 50, 15
_NO_BREAK = "\xa0"  # replaces a space where a line must not break


def topology_lines(topology: Topology, known: Mapping[str, str], width: int) -> list[str]:
    """Return a drawing of a topology as lines of at most `width` (and 80) columns; `known` is {tool: version}."""
    width = min(width, _WIDEST)
    lines = list(_list(topology, known, width) if is_mesh(topology) else _chain(topology, known, width))
    if topology.loads:
        lines += ["", "loads"]
        for (source, target), instruments in path_loads(topology).items():
            way = f"inside {source}" if source == target else f"{source} → {target}"
            lines += _named_lines(way, ", ".join(instruments), width)
    if topology.witnesses:
        lines += ["", "witnesses"]
        for witness in topology.witnesses:
            everywhere = len(witness.at) > 2 and set(witness.at) >= {node.role for node in topology.nodes}
            roles = "everywhere" if everywhere else ", ".join(witness.at)
            lines += _named_lines(witness.name, ": ".join(filter(None, (roles, witness.watches))), width)
    return lines


def _named_lines(name: str, text: str, width: int) -> list[str]:
    first, rest = f"  {_unbroken(name):<{_NAME}} ", " " * (_NAME + 3)
    return _wrap(text, width, first, rest)


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _unbroken(text: str) -> str:
    return text.replace(" ", _NO_BREAK)


def _chain(topology: Topology, known: Mapping[str, str], width: int) -> Iterator[str]:
    """Draw the main path as a column of boxes from source to sink, then all other nodes with their links."""
    main, hosts = topology.main_path, n_hosts(topology)
    above: LinkEnd | None = None
    for role, next_role in zip(main, [*main[1:], ""], strict=True):
        node = topology.node(role) or Node(role)
        to_next = (joint for joint in topology.at(role) if joint[2].role == next_role)
        link, here, there = next(to_next, (None, None, None))
        yield from _box(node, above, here, node_facts(node, known, hosts), width)
        if link is not None:
            yield from _between(link, reverse=here is link.b, width=width)
            above = there
    for node in nodes_off_path(topology):
        yield ""
        joints = topology.at(node.role)
        yield from _box(node, None, joints[0][1] if joints else None, node_facts(node, known, hosts), width)
        for link, here, there in joints:
            yield from _between(link, reverse=here is link.b, width=width, to=there)
        if not joints and len(topology.nodes) > 1:
            yield "    no link: it shares the host with the others" if hosts == 1 else "    no link"


def _box(node: Node, above: LinkEnd | None, below: LinkEnd | None, lines: Sequence[str], width: int) -> Iterator[str]:
    """Draw a node as a box with `lines`; its edges have the ports of the links `above` and `below`, if any."""
    inner = min(_BOX, width) - 4
    yield _edge("┌", "┐", above, inner)
    for line in (node_heading(node), " · ".join(lines)):
        for part in _wrap(line, inner):
            yield f"│ {part:<{inner}} │"
    yield _edge("└", "┘", below, inner)


def _edge(left: str, right: str, end: LinkEnd | None, inner: int) -> str:
    words = " ".join(filter(None, (end.port, end.address, f"({end.kind})" if end.kind else ""))) if end else ""
    label = f" {textwrap.shorten(words, inner - 2, placeholder='…')} " if words else ""
    return f"{left}─{label:─<{inner}}─{right}"


def _between(link: Link, *, reverse: bool, width: int, to: LinkEnd | None = None) -> Iterator[str]:
    """Draw a link below a box: its attachment, and the devices on the way down.

    `reverse` if the upper node is the second end of the link. With `to`, the text names the node at that end."""
    way = device_texts(link)[::-1] if reverse else device_texts(link)
    yield f"    │ {link.attachment}{f' to {to.role}' if to else ''}"
    text = " ─ ".join(map(_unbroken, way))
    for line in _wrap(text, width - 6):
        yield f"    │ {line}"


def _list(topology: Topology, known: Mapping[str, str], width: int) -> Iterator[str]:
    """List nodes and links in lines, because a mesh cannot be drawn as a column of boxes."""
    hosts = n_hosts(topology)
    yield f"{len(topology.nodes)} instances"
    for node in topology.nodes:
        yield from _named_lines(node_heading(node), " · ".join(node_facts(node, known, hosts)), width)
    yield ""
    yield f"{len(topology.links)} links"
    for link in topology.links:
        ends = [" ".join(filter(None, (end.port, end.address))) for end in link.ends]
        words = [link.attachment, " ─ ".join(_unbroken(part) for part in (ends[0], *device_texts(link), ends[1]))]
        yield from _named_lines(f"{link.a.role} – {link.b.role}", " · ".join(words), width)
