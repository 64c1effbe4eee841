"""Tests of the world inside an instance: its own system, the root filesystem of all platforms, real confinement."""

from __future__ import annotations

import pytest

from lastro.errors import Unavailable
from lastro.isolation.seccomp import filter_profile
from lastro.platforms.base import Instance, Security
from lastro.testing.subject import Subject, inside, status

DOCKERS_CAPABILITIES = 0x00000000A80425FB
# A hash over names and contents of files that no platform has a reason to touch.
_DIGEST = "cd {root} && find usr/bin usr/sbin etc/apt -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"


class World:
    shares_kernel: bool
    contained: bool
    own_nftables: bool

    def test_a_setting_of_the_kernel_and_a_capability_are_there_for_who_asks(
        self, subject: Subject, instance: Instance
    ) -> None:
        """Request a sysctl and a capability in the same instance, since a virtual machine takes seconds to boot."""
        outside = subject.testbed.host.read_text("/proc/sys/net/ipv4/ip_forward")
        requested = Security(capabilities=("CAP_NET_ADMIN",))
        with subject.start("router", sysctls={"net.ipv4.ip_forward": "1"}, security=requested) as router:
            assert inside(router, "/proc/sys/net/ipv4/ip_forward") == "1"
            assert inside(instance, "/proc/sys/net/ipv4/ip_forward") == "0"
            assert int(status(router)["CapEff"], 16) & 1 << 12
            if self.own_nftables:
                router.run(["nft", "add", "table", "ip", "mine"])
                assert "table ip mine" in router.run(["nft", "list", "tables"]).text
        assert subject.testbed.host.read_text("/proc/sys/net/ipv4/ip_forward") == outside

    def test_it_runs_on_the_kernel_that_the_platform_states(self, subject: Subject, instance: Instance) -> None:
        assert instance.shares_kernel is subject.platform.shares_kernel is self.shares_kernel

    def test_the_root_filesystem_is_the_same(self, subject: Subject, instance: Instance) -> None:
        wanted = subject.testbed.host.run(["sh", "-ec", _DIGEST.format(root=subject.testbed.image.tree)]).text
        assert instance.run(["sh", "-ec", _DIGEST.format(root="/")], timeout_s=120).text == wanted

    def test_a_setuid_program_of_the_image_has_its_rights(self, instance: Instance) -> None:
        """Run a setuid program that must read a file of root. Setuid bits in the image have no effect on the host."""
        argv = ["setpriv", "--reuid=65534", "--clear-groups", "passwd", "--status"]
        assert instance.run(argv).text.split()[:2] == ["nobody", "L"]

    def test_it_is_called_by_its_role(self, instance: Instance) -> None:
        assert (instance.run(["hostname"]).text == "subject\n") is self.contained

    def test_it_sees_no_process_of_the_host(self, subject: Subject, instance: Instance) -> None:
        """Compare PID 1 inside with PID 1 of the host: a contained instance has its own."""
        host_first = subject.testbed.host.read_text("/proc/1/cmdline")
        assert (instance.run(["cat", "/proc/1/cmdline"]).text != host_first) is self.contained

    def test_a_filter_of_system_calls_is_in_force(self, subject: Subject, instance: Instance) -> None:
        """Create a user namespace: this needs no capability, so it fails only if the filter forbids it."""
        security = Security(seccomp=filter_profile())
        if "seccomp" not in subject.platform.confines:
            with pytest.raises(Unavailable, match=subject.platform.name), subject.start(security=security):
                pass
            return
        assert instance.run(["unshare", "--user", "true"], check=False).returncode == 0
        with subject.start("filtered", security=security) as filtered:
            done = filtered.run(["unshare", "--user", "true"], check=False)
            assert done.returncode != 0
            assert "not permitted" in done.error_text
            assert status(filtered)["Seccomp"] == "2"

    def test_a_container_has_dockers_usual_capabilities_and_no_more(self, instance: Instance) -> None:
        effective = int(status(instance)["CapEff"], 16)
        assert (effective == DOCKERS_CAPABILITIES) is (self.contained and self.shares_kernel)
