"""The texts in the drawings of a topology, both on a page and in a terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.results.topology import Link, Node, Topology
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
