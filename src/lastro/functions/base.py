"""A network function forwards the flow between two ports of its instance, and processes every packet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from lastro.errors import Unavailable, with_hint
from lastro.functions import _click, _dpdk, _xdp
from lastro.functions._forwarding_path import (
    BROKEN,
    HEADER_BYTES,
    MOST_CHAINS,
    PATHS,
    CounterReading,
    ForwardingPath,
    Readings,
)
from lastro.functions._xdp import PASSED, TO_KERNEL, BlockedFrames
from lastro.host.base import Host
from lastro.platforms.base import Instance
from lastro.study.parts import Part
from lastro.testbed import IN_A_GUEST

_USUAL_PATH = PATHS["4"]


@dataclass(frozen=True, slots=True)
class Implementation:
    """A way to run functions: the kernel, Click, DPDK or XDP."""

    counts: str  # a noun phrase for messages: what counts the packets, such as 'its rules'
    condition: Mapping[str, str] = field(default_factory=dict)  # how the links were measured, for the report
    packages: tuple[str, ...] = ()  # Debian packages that the image needs
    # {name of a program: command that prints its version}
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Returns the paths, on a host, of our own programs to copy into the image. Raises: Unavailable if they cannot be
    # compiled there.
    programs: Callable[[Host], tuple[str, ...]] = lambda host: ()
    capabilities: tuple[str, ...] = ()  # those that an instance needs besides the capabilities of its functions


_RAW = ("CAP_NET_RAW",)  # to open packet sockets
IMPLEMENTATIONS: Mapping[str, Implementation] = {
    "kernel": Implementation("its rules"),
    "click": Implementation("its elements", _click.CONDITION, versions=_click.VERSION, capabilities=_RAW),
    "dpdk": Implementation(
        "the ports, or the flows of its switch,", _dpdk.CONDITION, _dpdk.PACKAGES, _dpdk.VERSION, capabilities=_RAW
    ),
    "xdp": Implementation("its XDP program and the kernel", _xdp.CONDITION, _xdp.PACKAGES, _xdp.VERSION, _xdp.programs),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A command to run inside the function's instance."""

    argv: tuple[str, ...]
    stdin: str | None = None


class Function(Part):
    """A network function; a new one defines its rules in the kernel and, if it can, in Click and XDP.

    `rules` returns nftables statements for the table `path.table`, in the path's address family; they may define
    counters. `remedy` is what to do on a host whose kernel refuses the rules. `hook` is the nftables hook of all
    rules: "forward" or "postrouting", which comes later. If it is empty, no other function can run in the same
    instance."""

    kind = "function"
    remedy: ClassVar[str] = f"use a kernel with nftables, {IN_A_GUEST}"
    capabilities: ClassVar[tuple[str, ...]] = ("CAP_NET_ADMIN",)
    crossings: ClassVar[tuple[str, ...]] = ("crossed",)  # counters of all packets of a flow
    witnesses: ClassVar[tuple[str, ...]] = ()  # counters of its own that every new flow must increase
    per_packet: ClassVar[bool] = False  # whether its work on each packet, besides forwarding it, may limit the rate
    tracks: ClassVar[bool] = False  # whether its rules keep each connection in the table of its network namespace
    hook: ClassVar[str] = ""
    passes: ClassVar[int] = 1  # how often its kernel forwards a packet at most

    def rules(self, path: ForwardingPath) -> str:
        """Return the nftables chains, sets and counters of the function; an empty text means plain forwarding."""
        return ""

    def more_steps(self, path: ForwardingPath) -> Sequence[Step]:
        """Return further commands to run inside the instance after the nftables table is loaded, in order."""
        return ()

    def click(self, path: ForwardingPath) -> str:
        """Return the function's elements in Click: the body of a compound element with two inputs and two outputs.

        Packets from the inside to the outside use input 0 and output 0; packets in the other direction use input 1 and
        output 1. Each named `Counter` is read as a counter of the function.
        Raises: Unavailable if the function does not run in Click."""
        raise Unavailable(f"function '{self.name}' has no Click configuration", 'use implementation = "kernel"')

    def xdp(self, path: ForwardingPath) -> BlockedFrames:
        """Return the frames to drop before the kernel sees them, for a function that does more than forward.

        Raises: Unavailable if the function does anything but drop frames and forward the rest."""
        why = f"function '{self.name}' does not run in XDP: xdp-filter only drops frames"
        raise Unavailable(why, 'use implementation = "kernel"')

    def openflow(self, path: ForwardingPath) -> Sequence[str]:
        """Return the packets to drop in DPDK, each as a match of OpenFlow, for a function that does more than forward.

        Raises: Unavailable if the function does anything but drop packets and forward the rest."""
        why = f"function '{self.name}' does not run in DPDK, which forwards or drops packets here"
        raise Unavailable(why, 'use implementation = "kernel"')

    @contextmanager
    def installed(
        self, instance: Instance, path: ForwardingPath, implementation: str = "kernel"
    ) -> Iterator[Callable[[], dict[str, CounterReading]]]:
        """Run the function inside the block; yield a callable that returns the readings of its counters, by name.

        Raises: Unavailable when the function does not run in this implementation or on this kernel."""
        if implementation == "click":
            with _click.running(instance, self.click(path), path) as router:
                yield router.counted
        elif implementation == "xdp" and not self.does_more(path):
            with _xdp.forwarding(instance, path) as program:
                yield program.counted
        elif implementation == "xdp":
            forwarding = Function()
            with _xdp.filtering(instance, self.xdp(path), path.inside) as program:
                forwarding._load(instance, path)
                # The program is read last, so it has passed all packets that the kernel has forwarded.
                yield lambda: {**forwarding.counters(instance, path), **program.counted()}
        elif implementation == "dpdk" and not self.does_more(path):
            with _dpdk.forwarding(instance, path):
                yield partial(interface_counters, instance, path)
        elif implementation == "dpdk":
            with _dpdk.filtering(instance, path, self.openflow(path)) as switch:
                yield switch.counted
        else:
            self._load(instance, path)
            yield partial(self.counters, instance, path)

    def _load(self, instance: Instance, path: ForwardingPath) -> None:
        with with_hint(self.remedy if instance.shares_kernel else None):
            if instance.has_nftables:
                instance.run(["nft", "-f", "-"], stdin=self.ruleset(path))
            elif self.does_more(path):
                why = f"function '{self.name}' needs nftables, which the kernel of this platform does not have"
                raise Unavailable(why, 'measure plain forwarding on it: function = "none"')
            for step in self.more_steps(path):
                instance.run(step.argv, stdin=step.stdin)

    def does_more(self, path: ForwardingPath) -> bool:
        """Return whether the function does more than forward packets."""
        return bool(self.rules(path) or self.more_steps(path))

    def ruleset(self, path: ForwardingPath) -> str:
        """Return the nftables table of the function: its rules, and the counter `crossed` of forwarded packets.

        `crossed` counts every packet that the kernel forwards from inside to outside."""
        return f"""table {path.family} {path.table} {{
    counter crossed {{ }}
    chain witness {{
        type filter hook forward priority -300; policy accept;
        iifname "{path.inside}" oifname != "{path.inside}" {path.ttl_match}counter name crossed
    }}
{self.rules(path)}}}
"""

    def counters(self, instance: Instance, path: ForwardingPath = _USUAL_PATH) -> dict[str, CounterReading]:
        """Return the readings of the function's counters in the kernel, by name; empty if the instance has died.

        If the instance's kernel has no nftables, they are `interface_counters`."""
        if not instance.has_nftables:
            return interface_counters(instance, path)
        done = instance.run(["nft", "-j", "list", "counters", "table", path.family, path.table], check=False)
        try:
            items = json.loads(done.text)["nftables"]
            counters = (item["counter"] for item in items if "counter" in item)
            return {counter["name"]: CounterReading(counter["packets"], counter["bytes"]) for counter in counters}
        except (ValueError, KeyError, TypeError):
            return {}


def interface_counters(instance: Instance, path: ForwardingPath) -> dict[str, CounterReading]:
    """Return {'crossed': upper bound of the packets and bytes that crossed an instance from the inside to the outside}.

    It is the smaller of two counts: what the inside interface has received and what the outside one has sent so far."""
    stats = {link["ifname"]: link["stats64"] for link in instance.links()}
    received, sent = stats[path.inside]["rx"], stats[path.outside]["tx"]
    n_packets, n_bytes = (min(received[unit], sent[unit]) for unit in ("packets", "bytes"))
    return {"crossed": CounterReading.of_frames(n_packets, n_bytes)}


class Service(Part):
    """A network function that serves clients, such as a proxy: a program, not a rule applied to packets in transit.

    `packages` are Debian packages that it needs in the image; `version_argv` prints its version."""

    kind = "function"
    packages: ClassVar[tuple[str, ...]] = ()
    version_argv: ClassVar[tuple[str, ...]] = ()


__all__ = [
    "BROKEN", "HEADER_BYTES", "IMPLEMENTATIONS", "MOST_CHAINS", "PASSED", "PATHS", "TO_KERNEL", "BlockedFrames",
    "CounterReading", "ForwardingPath", "Function", "Readings", "Service", "Step",
]  # fmt: skip
