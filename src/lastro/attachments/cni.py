"""Links by plug-ins of the Container Network Interface (CNI), which Kubernetes and Podman use.

The plug-ins run in a separate network namespace, the node, which stands for a container host. Everything that they make
there ends with the node, such as bridges, iptables rules and sysctls. Each port is added by `ADD`, with the address
that the scenario wants, and removed by `DEL`. If the user's conflist assigns another address, the port has both. If a
plug-in expects an interface of the node, its `master`, that interface is one end of a veth pair.

Tested with the plug-ins of Debian 12 (1.1.1). Source: the CNI specification 1.0.0, and cni.dev/plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from lastro.attachments import _cni
from lastro.attachments._offloads import switch_off
from lastro.attachments._parent import PARENT, parent
from lastro.attachments.base import Attachment, Segment, made
from lastro.attachments.routing import forwarded_packets
from lastro.errors import InputError, Unavailable
from lastro.host import facts
from lastro.platforms.base import Port
from lastro.requirements import Requirements
from lastro.study.levels import NONE
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed, with_new_dut
from lastro.units import link_rate_bps

_STATIC = {"ipam": {"type": "static"}}
NETWORKS: dict[str, _cni.Plugin] = {
    "bridge": {"type": "bridge", "bridge": "cni0", **_STATIC},
    "ptp": {"type": "ptp", **_STATIC},
    "macvlan": {"type": "macvlan", "mode": "bridge", "master": PARENT, **_STATIC},
}
_BURST_S, _LEAST_BURST_BITS = 0.01, 8 * 4096  # of the buckets, as with `link.rate`


def _absolute(text: str) -> None:
    if text and not text.startswith("/"):
        raise InputError(f"'{text}' is not an absolute path", "write it as /etc/cni/net.d/10-mine.conflist")


PLUGIN = Setting("plugin", "bridge", "the CNI plug-in that makes the links", choices=tuple(NETWORKS))
RATE = Setting(
    "rate", NONE, "limit of each port by the plug-in bandwidth, in bit/s; none: without it", check=link_rate_bps
)
CONFLIST = Setting("conflist", "", "path of a conflist, which names all plug-ins; empty: see `plugin`", check=_absolute)


class Cni(Attachment):
    name = "cni"
    summary = "links that CNI plug-ins make, as in Kubernetes: a bridge by default, or what a conflist says"
    requirements = Requirements(packages=("containernetworking-plugins",))
    options = (PLUGIN, RATE, CONFLIST)

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._conflist: _cni.Conflist | None = None  # once prepared
        self._network: _cni.CniNetwork | None = None  # while links are laid
        self._results: dict[tuple[str, str], Mapping[str, Any]] = {}  # by namespace and name of a port

    @property
    def node(self) -> Testbed | None:  # type: ignore[override]  # only while links are laid
        return self._network.node if self._network else None

    @property
    def _routes(self) -> bool:
        return PLUGIN.of(self.chosen) == "ptp" and not CONFLIST.of(self.chosen)

    @property
    def no_transit(self) -> str | None:  # type: ignore[override]  # it depends on an option
        reason = "the plug-in ptp routes each packet directly to the instance with its destination address"
        return f"{reason}, so no instance can forward it" if self._routes else None

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Read the conflist, so that all trials of a session use the same, and check that the host has its plug-ins."""
        self._conflist = self._chosen_conflist()
        for kind in self._conflist.types:
            _cni.plugin_program(testbed.host, kind)
        yield

    def _chosen_conflist(self) -> _cni.Conflist:
        bps = link_rate_bps(RATE.of(self.chosen))
        if path := CONFLIST.of(self.chosen):
            if bps or self.chosen[PLUGIN.name] != PLUGIN.default:
                raise Unavailable(
                    "a conflist names its plug-ins and their limits itself", "leave out `plugin` and `rate`"
                )
            return _cni.read_conflist(path)
        plugins = [NETWORKS[PLUGIN.of(self.chosen)]]
        if bps:
            rate, burst = round(bps), max(_LEAST_BURST_BITS, round(bps * _BURST_S))
            limits = {"ingressRate": rate, "ingressBurst": burst, "egressRate": rate, "egressBurst": burst}
            plugins.append({"type": "bandwidth", **limits})
        return _cni.Conflist("lastro", _cni.VERSION, tuple(plugins))

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        ports = [port for segment in segments for port in segment.ports]
        if any(port.instance.takes_taps for port in ports):
            raise Unavailable("a CNI plug-in makes no taps for virtual machines", 'choose "veth-bridge" for them')
        assert self._conflist is not None, "prepare it first"
        parents = enumerate(_cni.masters(self._conflist.plugins))
        parent_lines = [line for number, name in parents for line in parent(name, f"hub-peer{number}")]
        with ExitStack() as stack:
            node = stack.enter_context(with_new_dut(testbed, testbed.session.unique("cni")))
            stack.enter_context(made(node, node.dut, parent_lines))
            self._network = _cni.CniNetwork(node, self._conflist, testbed.run_dir / "cni")
            stack.callback(setattr, self, "_network", None)
            for port in ports:
                stack.enter_context(self._added(port))
            yield

    @contextmanager
    def _added(self, port: Port) -> Iterator[None]:
        """Add a port by the plug-ins, and delete it when the block ends. Raises: PlatformError if a plug-in fails."""
        assert self._network is not None
        key, network = (port.netns, port.name), self._network
        try:
            self._results[key] = network.add(port)
            yield
        finally:
            network.delete(port, self._results.pop(key, {}))

    def plug(self, segments: Sequence[Segment]) -> None:
        remaining = []
        for segment in segments:
            a, b = segment.ports
            remaining.append(replace(segment, ports=(self._unconfigured(a), self._unconfigured(b))))
        super().plug(remaining)

    def _unconfigured(self, port: Port) -> Port:
        """Return what is still to be configured of a port: all but its address if a plug-in has set that address."""
        result = self._results[port.netns, port.name]
        return replace(port, address="") if _cni.has_address(result, port.address) else port

    @contextmanager
    def member(self, testbed: Testbed, segments: Sequence[Segment], port: Port) -> Iterator[None]:
        with self._added(port):
            port.instance.plug([self._unconfigured(port)], {})
            yield

    def switch_offloads_off(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        assert self.node is not None, "lay the links first"
        links: dict[str, list[str]] = {}
        for port in (port for segment in segments for port in segment.ports):
            outside, inside = _cni.devices(self._results[port.netns, port.name])
            links.setdefault(self.node.dut, []).extend(outside)
            links.setdefault(port.netns, []).extend(inside)
        switch_off(testbed, {netns: [*dict.fromkeys(names)] for netns, names in links.items() if names})

    def counters(self, testbed: Testbed) -> dict[str, int]:
        """Return how many packets the node `routed`, with plug-in ptp, and how many passed the rate limit (`limited`).

        `limited` needs the option `rate`. There are no counters while no links are laid."""
        counters: dict[str, int] = {}
        if self.node and self._routes:
            counters["routed"] = forwarded_packets(self.node)
        if self.node and RATE.of(self.chosen) != NONE:
            shown = testbed.host.run_json(["ip", "-n", self.node.dut, "-j", "-s", "link", "show", "type", "ifb"])
            counters["limited"] = sum(link["stats64"]["tx"]["packets"] for link in shown)
        return counters

    def facts(self, testbed: Testbed) -> dict[str, Any]:
        """Return the version and hash of each plug-in and, if the conflist is the user's, its hash."""
        conflist = self._conflist or self._chosen_conflist()
        programs = {kind: (_cni.plugin_program(testbed.host, kind),) for kind in conflist.types}
        provenance: dict[str, Any] = {"plug-ins": facts.tools(testbed.host, programs)}
        return provenance | ({"conflist": {"sha256": conflist.sha256}} if conflist.sha256 else {})
