"""An instance whose disk is nearly full, without filling anybody else's."""

from __future__ import annotations

from lastro.instruments.base import WORK_DIR
from lastro.platforms.base import Instance


def small_disk(instance: Instance) -> None:
    """A few MiB in place of the instance's disk, put there from the host where an instance may not mount."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=4M", "tmpfs", WORK_DIR]
    if instance.shares_kernel and instance.pids():
        instance.testbed.host.run(["nsenter", f"--target={min(instance.pids())}", "--mount", "--", *mount])
    else:
        instance.run(mount)
