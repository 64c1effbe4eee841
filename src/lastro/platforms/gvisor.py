"""Containers on gVisor: a kernel in user space, with a network stack of its own, started by runsc as an OCI runtime.

When it starts, the network stack takes over the links, addresses and routes of its namespace, and answers for them
instead of the host's kernel. It does not see links that are added later. It forwards packets, but has neither nftables
nor most of Linux's network settings. Tested with runsc of September 2026, with systrap and ptrace; kvm failed on a host
on which /dev/kvm runs no guests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from lastro.errors import PlatformError, Unavailable
from lastro.platforms._programs import program_option
from lastro.platforms.base import InstanceSpec, Port, Tap
from lastro.platforms.oci import OciInstance, OciPlatform
from lastro.requirements import Requirements
from lastro.study.model import Setting
from lastro.testbed import Testbed, set_sysctls

# --gso=false: gVisor's stack does not forward the long segments that the host's offloads make from several. --net-raw
# is for ping. --overlay2=none: writes go to the disk, as with runc.
RUNSC_FLAGS = ("--net-raw", "--gso=false", "--overlay2=none", "--oci-seccomp")
_PLATFORM = Setting("platform", "systrap", "how it intercepts system calls", choices=("systrap", "ptrace", "kvm"))
REMEDY = "run `lastro setup gvisor`, which needs a Go toolchain, or install runsc from gvisor.dev"
RESIDUALS = {
    "segmentation offloads": "off in gVisor's stack (--gso=false)",
    "network settings": "only ip_forward; gVisor's stack lacks the others",
    "direct writes": "through the host's page cache",
}
# The host's kernel must not use the links that it has handed over: no forwarding, no neighbour discovery.
HOST_SYSCTLS = {
    "net.ipv4.ip_forward": "0",
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
}


class GvisorInstance(OciInstance):
    shares_kernel = False
    starts_on_links = True
    has_nftables = False
    own_settings = True
    launch_timeout_s = 20.0  # a platform that does not work here may wait for ever

    def plug(self, ports: Sequence[Port], taps: Mapping[str, Tap]) -> None:
        if any(":" in port.address for port in ports):
            raise Unavailable("Lastro gives gVisor links with IPv4 only", 'measure it with ip = "4"')
        set_sysctls(self.testbed.host, self.netns, HOST_SYSCTLS)
        super().plug(ports, taps)
        self.launch()

    def launch(self) -> None:
        try:
            super().launch()
        except PlatformError as error:
            is_systrap = "--platform=systrap" in self._runtime
            raise PlatformError(error.message, None if is_systrap else "systrap works on any host") from error
        self.set_sysctls(self.spec.sysctls)

    def end(self) -> None:
        """End the instance by force, which takes about 15 ms.

        Without force, runsc waits until the host's init has reaped the killed sandbox, which may take long."""
        self.testbed.host.run([*self._runtime, "delete", "--force", self.spec.name], check=False)


class Gvisor(OciPlatform):
    name = "gvisor"
    summary = "containers on gVisor, a kernel in user space with a network stack of its own"
    version_argv = ("runsc", "--version")
    requirements = Requirements(program="runsc", recipe="gvisor", remedy=REMEDY)
    binary = "runsc"
    instance_type = GvisorInstance
    shares_kernel = False
    takes_links_at_start = True
    confines = frozenset({"drop_capabilities", "read_only_root", "seccomp"})
    options = (_PLATFORM, program_option("runsc", "runsc version "))

    def runtime_argv(self, testbed: Testbed, spec: InstanceSpec) -> tuple[str, ...]:
        return (*super().runtime_argv(testbed, spec), f"--platform={_PLATFORM.of(self.chosen)}", *RUNSC_FLAGS)

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        testbed.host.require(self.program, REMEDY)
        with super().prepare(testbed):
            yield

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {**super().residuals(testbed), **RESIDUALS}
