"""Topologies as trials note them, for tests of what draws them."""

from __future__ import annotations

from lastro.results.topology import Device, Link, LinkEnd, Load, Node, Topology, Witness

_CHAIN = ("source", "function", "sink")


def _bridged(a: LinkEnd, b: LinkEnd, name: str) -> Link:
    way = (Device(f"hub-{name}a", "veth"), Device("hub-br", "bridge"), Device(f"hub-{name}b", "veth"))
    return Link("veth-bridge", a, b, way)


def chain(*, anomaly: str = "") -> Topology:
    """Source, function and sink on a bridge; with a neighbour where there is an anomaly."""
    nodes = [Node(role, "runc", isolation="cgroups", host="local") for role in _CHAIN]
    nodes[1] = Node("function", "runc", "firewall (kernel)", "cgroups", host="local")
    witnesses = [
        Witness("interfaces", "bytes and packets over every interface of every instance", _CHAIN),
        Witness("host", "busy CPUs, steal and pressure of the whole host"),
    ]
    if anomaly:
        command = f"stress-ng --{anomaly} 2 --timeout 77"
        nodes.append(Node("neighbour", "runc", command, "cgroups", anomaly, "local"))
        witnesses.append(Witness("dose", "what the neighbour really did", ("neighbour",)))
    links = (
        _bridged(
            LinkEnd("source", "out0", "198.18.0.10/24", "veth"),
            LinkEnd("function", "in0", "198.18.0.1/24", "veth"),
            "a",
        ),
        _bridged(
            LinkEnd("function", "out0", "198.18.1.1/24", "veth"), LinkEnd("sink", "in0", "198.18.1.10/24", "veth"), "b"
        ),
    )
    loads = (Load("iperf3-tcp", "source", "sink"), Load("ping", "source", "sink"))
    return Topology(tuple(nodes), links, loads, tuple(witnesses))


def proxies() -> Topology:
    """Eight proxies behind NAT at a DUT between a client and a server on another host."""
    nodes = (
        Node("client", "native", host="load-1"),
        Node("dut", does="forwards", host="edge-7"),
        Node("server", "native", host="load-1"),
        Node("proxy", "docker:storage=vfs", "http-proxy", host="edge-7", count=8),
    )
    way = (Device("hub-h0", "veth"), Device("br-hosted", "bridge", "198.18.64.1/18"))
    links = (
        Link("network cards", LinkEnd("client", "eth1", "198.19.1.10/24"), LinkEnd("dut", "eth1", "198.19.1.1/24")),
        Link("network cards", LinkEnd("dut", "eth2", "198.19.2.1/24"), LinkEnd("server", "eth2", "198.19.2.10/24")),
        Link("nat", LinkEnd("proxy", "eth0", "198.18.64.2/18", "veth"), LinkEnd("dut", ""), way),
    )
    return Topology(
        nodes, links, (Load("jmeter", "client", "server"),), (Witness("logs", "every request", ("proxy",)),)
    )


def grid() -> Topology:
    """Four routers in a ring."""
    names = ("r0-0", "r0-1", "r1-1", "r1-0")
    links = [
        Link("veth-direct", LinkEnd(a, "e0", f"198.18.{at}.1/30"), LinkEnd(b, "e1", f"198.18.{at}.2/30"))
        for at, (a, b) in enumerate(zip(names, (*names[1:], names[0]), strict=True))
    ]
    return Topology(tuple(Node(name, "runc", "frr", host="local") for name in names), tuple(links))
