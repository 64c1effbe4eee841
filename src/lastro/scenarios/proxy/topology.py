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
    levels: tuple[str, str, str],
    disturbance: Disturbance | None,
) -> None:
    """Note the topology of a trial with proxies in `outcome`.

    `bare` maps the roles client and server to their instances. `hosted` are the proxies' instances. `levels` are the
    levels of the proxies' platform, attachment and isolation."""
    platform, attachment, isolation = levels
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
        if first.instance.spec.netns is not None:  # inside the DUT, with its interfaces
            port = PluggedPort(ROLE, bed, "", "", "")
        else:
            address_and_end = ("", "") if first.instance.spec.published else (first.port.address, first.end)
            netns = BuiltTopology.visible_netns(first.instance)
            port = PluggedPort(ROLE, bed, netns, first.port.name, *address_and_end)
        built.link(attachment, port, PluggedPort(DUT, bed, "", "", ""))
    if disturbance:
        built.add(NEIGHBOUR, disturbance.neighbour.instance, Native.name, **disturbance.fields)
    built.note(outcome)
