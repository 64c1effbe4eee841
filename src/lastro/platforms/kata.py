"""Kata Containers: each container in its own virtual machine, made by Docker through Kata's containerd shim.

Kata takes over the links that are in the namespace when the guest starts, so the guest starts after they are made. The
container's cgroup counts the whole guest if Kata's configuration has `sandbox_cgroup_only = true`, and otherwise only
its virtual CPUs. Not yet tested with the real program: no registry that the tests use has Kata. Written from the
documentation of Kata Containers 3 and Docker 23."""

from __future__ import annotations

from dataclasses import replace

from lastro.platforms.base import AVAILABLE, Availability, Instance
from lastro.platforms.docker import Docker

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Kata(Docker):
    name = "kata"
    summary = "Kata Containers: each container in a virtual machine of its own"
    version_argv = ("containerd-shim-kata-v2", "--version")
    options = tuple(option for option in Docker.options if option.name == "storage")
    requirements = replace(
        Docker.requirements,
        program="containerd-shim-kata-v2",
        remedy="install Kata Containers from katacontainers.io, and Docker 23 or later",
    )
    only_runtime = "kata"

    def verify(self, instance: Instance) -> Availability:
        if instance.run(["cat", _BOOT_ID]).text == instance.testbed.host.read_text(_BOOT_ID):
            return Availability("it runs on the host's kernel: no guest has started")
        return AVAILABLE
