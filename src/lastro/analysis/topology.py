"""Select the recorded topology that a report draws, and determine its shape. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lastro.analysis.campaign import CampaignResults
from lastro.grouping import by_key
from lastro.results.provenance import Provenance
from lastro.results.rows import Attempt
from lastro.results.topology import Node, Topology
from lastro.study.design import Treatment

_VERSION = re.compile(r"\d+\.[\w.+~-]*\w")


@dataclass(frozen=True, slots=True)
class RecordedTopology:
    """The topology that an attempt recorded."""

    topology: Topology
    trial: int
    attempt: int


def recorded_topology(attempts: Iterable[Attempt]) -> RecordedTopology | None:
    """Return the topology that the last valid attempt recorded, or else the last invalid one; None without any."""
    for attempt in sorted(attempts, key=lambda last: (last.valid, last.trial, last.attempt), reverse=True):
        if topology := Topology.of(attempt.notes):
            return RecordedTopology(topology, attempt.trial, attempt.attempt)
    return None


@dataclass(frozen=True, slots=True)
class DrawnTopology:
    """The topology that a report draws: of one treatment, with the neighbours that only other treatments have.

    `others` has one node for each role of a neighbour; the `anomaly` of the node lists all anomalies in this role."""

    treatment: Treatment
    recorded: RecordedTopology
    others: tuple[Node, ...]


def drawn_topology(report: CampaignResults) -> DrawnTopology | None:
    """Return the topology of a baseline, or else of the first treatment that recorded one; None without any."""
    valid = {treatment: attempts[0] for treatment, attempts in report.valid_attempts().items()}
    rows = sorted(report.rows, key=lambda row: not row.is_baseline)
    attempts = [(row.treatment, valid[row.treatment.index]) for row in rows if row.treatment.index in valid]
    topologies = [
        (treatment, topology) for treatment, attempt in attempts if (topology := recorded_topology([attempt]))
    ]
    if not topologies:
        return None
    treatment, first = topologies[0]
    known = {node.role for node in first.topology.nodes}
    all_nodes = [topology.topology.nodes for _, topology in topologies]
    larger = [nodes for nodes in all_nodes if known <= {node.role for node in nodes}]
    others = by_key((node.role, node) for nodes in larger for node in nodes if node.anomaly and node.role not in known)
    merged = (
        replace(nodes[0], anomaly=", ".join(dict.fromkeys(node.anomaly for node in nodes)), does="")
        for nodes in others.values()
    )
    return DrawnTopology(treatment, first, tuple(merged))


def tool_versions(provenance: Provenance) -> dict[str, str]:
    """Return the version of each tool that the campaign recorded, such as {"runc": "1.1.5"}."""
    matches = {name: _VERSION.search(tool.version) for name, tool in provenance.tools.items()}
    return {name: match[0] for name, match in matches.items() if match}


def n_hosts(topology: Topology) -> int:
    """Return the number of hosts on which the nodes of a topology run."""
    return len({node.host for node in topology.nodes})


def path_loads(topology: Topology) -> dict[tuple[str, str], list[str]]:
    """Return {(role of the source, role of the target): names of the instruments that load this path}."""
    return by_key(((load.source, load.target), load.instrument) for load in topology.loads)


def nodes_off_path(topology: Topology) -> list[Node]:
    """Return the nodes that are not on the main path."""
    main = topology.main_path
    return [node for node in topology.nodes if node.role not in main]


def is_mesh(topology: Topology) -> bool:
    """Return whether the topology is more than a chain of nodes to which single nodes are attached."""
    branching = any(len(topology.at(node.role)) > 1 for node in nodes_off_path(topology))
    return branching or len(topology.links) > len(topology.nodes)
