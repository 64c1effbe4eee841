"""A neighbour that exhausts the table of open files: it holds many, and closes and opens them in turn.

An internal denial of service, in the words of Kagami and Gaspary (2017): the kernel counts the open files of all
containers together (fs.file-max), and no process can open another one once there are too many. The host never runs out:
the load holds a fixed number of files, at most a quarter of those that the host can still open."""

from __future__ import annotations

from lastro.anomalies._held_resources import N_OBJECTS, HeldResourceAnomaly
from lastro.anomalies.base import KernelUse
from lastro.platforms.base import Instance

_COUNT_INSIDE = "set -- /proc/[0-9]*/fd/*; echo $#"


class HeldFiles(HeldResourceAnomaly):
    name = objects = "files"
    summary = f"opens and closes files without pause and holds {N_OBJECTS:,}, or as many as its limit allows"

    def taken(self, instance: Instance) -> KernelUse:
        """Return the open files of the neighbour's processes (`held`), counted inside if it is a virtual machine."""
        if not instance.shares_kernel:
            return KernelUse(held=int(instance.run(["sh", "-c", _COUNT_INSIDE]).text))
        view = instance.testbed.host.view
        return KernelUse(held=sum(len(view.names(f"/proc/{pid}/fd")) for pid in instance.pids()))
