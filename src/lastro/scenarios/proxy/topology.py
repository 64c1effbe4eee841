"""The topology of a trial with proxies: three roles in a line, and the proxies behind the DUT."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.hosting import HostedInstance
from lastro.isolation.base import NEIGHBOUR
from lastro.platforms.base import Instance
from lastro.platforms.native import Native
from lastro.results.samples import Outcome
from lastro.results.topology import DUT
from lastro.scenarios.proxy.proxies import ROLE
from lastro.scenarios.proxy.three_node import LINKS, ThreeNodeTestbed
from lastro.scenarios.shared.disturbance import Disturbance
from lastro.scenarios.shared.topology import BuiltTopology, PluggedPort


def note_topology(
    outcome: Outcome,
    nodes: ThreeNodeTestbed,
    bare: dict[str, Instance],
    hosted: Sequence[HostedInstance],
    how: tuple[str, str, str],
    disturbance: Disturbance | None,
) -> None:
    """Note the topology of a trial with proxies in `outcome`.

    `bare` maps the roles client and server to their instances. `hosted` are the proxies' instances. `how` has the
    levels of the proxies' platform, attachment and isolation."""
    platform, attachment, isolation = how
    built = BuiltTopology(nodes.dut.testbed)
    for node in nodes.all:
        if node.role in bare:
            built.add(node.role, bare[node.role], Native.name)
        else:
            built.add_bare_role(node.role, node.testbed, "forwards")
    for a, b in LINKS:
        near, far = (next(node for node in nodes.all if node.role == role) for role in (a, b))
        ends = [
            PluggedPort(node.role, node.testbed, node.testbed.dut, node.links[other], f"{node.addresses[other]}/24")
            for node, other in ((near, b), (far, a))
        ]
        built.link("veth" if near.testbed.session is far.testbed.session else "network cards", *ends)
    if hosted:
        first, bed = hosted[0], nodes.dut.testbed
        built.add(ROLE, first.instance, platform, does="http-proxy", count=len(hosted), isolation=isolation)
        made = (first.port.address, first.end) if not first.instance.spec.published else ("", "")
        own = PluggedPort(ROLE, bed, BuiltTopology.visible_netns(first.instance), first.port.name, *made)
        inside_dut = first.instance.spec.netns is not None  # then its interfaces are the DUT's
        built.link(
            attachment, PluggedPort(ROLE, bed, "", "", "") if inside_dut else own, PluggedPort(DUT, bed, "", "", "")
        )
    if disturbance:
        built.add(NEIGHBOUR, disturbance.neighbour.instance, Native.name, **disturbance.fields)
    built.note(outcome)
