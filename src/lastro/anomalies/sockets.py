"""A neighbour that fills the tables of sockets: it binds many to ports, and closes and opens them in turn.

An internal denial of service, in the words of Kagami and Gaspary (2017): the kernel keeps the sockets of all containers
in the same hash tables and memory. They are sockets of UDP on the loopback address of the neighbour's own namespace."""

from __future__ import annotations

from lastro.anomalies._held_resources import N_OBJECTS, HeldResourceAnomaly
from lastro.anomalies.base import KernelUse
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance

_READ_COUNTS = ["cat", "/proc/net/sockstat"]


class HeldSockets(HeldResourceAnomaly):
    name = objects = "sockets"
    summary = f"binds and closes sockets without pause and holds {N_OBJECTS:,}, or as many as its limit allows"

    def taken(self, instance: Instance) -> KernelUse:
        """Return the sockets in the neighbour's network namespace (`held`). Source: proc_pid_net(5), sockstat."""
        if instance.shares_kernel:
            host = instance.testbed.host
            text = host.run(["nsenter", f"--net={NETNS_DIR / instance.netns}", *_READ_COUNTS]).text
        else:
            text = instance.run(_READ_COUNTS).text
        return KernelUse(held=int(text.splitlines()[0].split()[-1]))
