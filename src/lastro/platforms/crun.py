"""OCI containers by crun alone: a runtime written in C, without a daemon.

On a host with both cgroup versions, crun expects the tree of version 2 to be empty, and refuses one that has a
controller. There it runs in its own mount namespace with version 1 only. This applies to every command of crun, since
each checks again. Tested with crun 1.8.1 on such a host."""

from __future__ import annotations

import shlex

from lastro.platforms._programs import program_option
from lastro.platforms.base import InstanceSpec
from lastro.platforms.oci import OciPlatform, extra_v2_tree
from lastro.requirements import Requirements
from lastro.testbed import Testbed


class Crun(OciPlatform):
    name = "crun"
    summary = "OCI containers by crun, a runtime written in C, without a daemon"
    version_argv = ("crun", "--version")
    binary = "crun"
    options = (program_option("crun", "crun version "),)
    requirements = Requirements(packages=("crun",), instead={"crun": "crun"})

    def runtime_argv(self, testbed: Testbed, spec: InstanceSpec) -> tuple[str, ...]:
        runtime = super().runtime_argv(testbed, spec)
        tree = extra_v2_tree(testbed)
        if tree is None:
            return runtime
        unmount = f'umount {shlex.quote(tree)}; exec "$0" "$@"'
        return ("unshare", "--mount", "--propagation", "private", "sh", "-ec", unmount, *runtime)
