"""OCI containers by crun alone: a runtime written in C, without a daemon.

On a host with both versions of cgroups, crun takes version 2 for empty, and refuses a tree that still has a controller.
There it runs in a mount namespace of its own that has version 1 alone; so must every later command of crun's, since it
looks anew each time. Run for real: crun 1.8.1 on such a host."""

from __future__ import annotations

from lastro.platforms._oci import OciPlatform, second_tree
from lastro.platforms.base import InstanceSpec
from lastro.requirements import Requirements
from lastro.testbed import Testbed


class Crun(OciPlatform):
    name = "crun"
    summary = "OCI containers by crun, a runtime written in C, without a daemon"
    version_argv = ("crun", "--version")
    binary = "crun"
    requirements = Requirements(packages=("crun",), instead={"crun": "crun"})

    def runtime_argv(self, testbed: Testbed, spec: InstanceSpec) -> tuple[str, ...]:
        runtime = super().runtime_argv(testbed, spec)
        tree = second_tree(testbed)
        if tree is None:
            return runtime
        return (
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            f'umount {tree}; exec "$0" "$@"',
            *runtime,
        )
