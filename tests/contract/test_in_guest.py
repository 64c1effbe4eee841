"""The contracts in a guest: platforms and meters under cgroup v2, isolations with AppArmor, links of its modules.

The machine that runs the tests may have neither. One guest serves all tests here; in software, each takes its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lastro import registry
from lastro.app.hosts import image_of
from lastro.attachments.base import Attachment
from lastro.errors import CommandFailed
from lastro.host.ledger import session
from lastro.host.lock import silently
from lastro.host.testbed_file import parse
from lastro.host.undo import MODULES
from lastro.isolation.base import Profile
from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed, guest_testbeds
from lastro.testing import AttachmentContract, IsolationContract
from lastro.testing.commands import Commands
from lastro.testing.ending import Ending
from lastro.testing.limits import Limits
from lastro.testing.network import Network
from lastro.testing.platforms import OnPlatform
from lastro.testing.world import World
from lastro.units import MIB

from ..support.images import IN_A_GUEST
from .test_meters import TestExposure, TestHost, TestInterfaces, TestUsage

pytestmark = [pytest.mark.root, pytest.mark.slow]
__all__ = ["TestExposure", "TestHost", "TestInterfaces", "TestUsage"]  # meters, here with the testbed below

CONTAINERS = ("runc", "crun", "docker")
ISOLATIONS: dict[str, tuple[str, ...]] = {
    "apparmor": CONTAINERS,
    "user-namespace": CONTAINERS,
    **dict.fromkeys(("capabilities", "cgroups", "landlock", "read-only-root", "seccomp"), ("native", *CONTAINERS)),
}


@contextmanager
def in_guest(platforms: Sequence[str], *more: str) -> Iterator[Testbed]:
    """Yield a testbed in a guest in software; `more` are lines of its file."""
    with session("tests", wait=silently) as held:
        lines = ['kind = "guest"', "cpus = 2", 'accelerator = "tcg"', f"platforms = {list(platforms)}", *more]
        plan = parse("\n".join(lines), "guest.toml").guest
        assert plan is not None
        with guest_testbeds(held, image_of(held), [plan], "tests") as made:
            assert made.cgroups.version == 2
            yield made


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """Yield a testbed in a guest, in place of the one on this machine."""
    with in_guest(IN_A_GUEST, 'memory = "3G"') as made:
        yield made


class InGuest(OnPlatform, Commands, Limits, World, Network, Ending):
    """Without the test that kills another Lastro, which would need a guest of its own."""

    many = 4
    test_killed_and_cleaned_up_after_it_leaves_nothing = None  # type: ignore[assignment]


class TestNative(InGuest):
    platform = "native"
    contained = False


class TestRunc(InGuest):
    platform = "runc"


class TestCrun(InGuest):
    platform = "crun"


class TestContainerd(InGuest):
    """Debian's Docker has brought it."""

    platform = "containerd"


class TestDocker(InGuest):
    platform = "docker"


class TestLxc(InGuest):
    platform = "lxc"


class TestNspawn(InGuest):
    platform = "nspawn"


class TestPodman(InGuest):
    platform = "podman"


class MachineInGuest(InGuest):
    """A machine has a kernel of its own, and takes half a minute to boot."""

    shares_kernel = False
    small_memory_bytes = 160 * MIB
    many = 2


class TestKvm(MachineInGuest):
    """On the hardware virtualization that QEMU emulates."""

    platform = "kvm"

    def test_its_kernel_found_kvm_below_it(self, instance: Instance) -> None:
        clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
        assert "kvm-clock" in instance.run(["cat", clocks]).text


for name, platforms in ISOLATIONS.items():
    title = "".join(map(str.capitalize, name.split("-")))
    attributes = {"isolation": name, "platforms": platforms, "__module__": __name__}
    globals()[f"Test{title}"] = type(f"Test{title}", (IsolationContract,), attributes)


class Links(AttachmentContract):
    """Without taps, whose stand-in needs a Python inside, and without the test that kills another Lastro."""

    test_killed_and_cleaned_up_after_it_leaves_nothing = None  # type: ignore[assignment]

    @pytest.fixture(scope="class")
    @classmethod
    def platform(cls, pool: PlatformPool) -> Platform:  # type: ignore[override]
        return pool.get("native")


class TestIpvlan(Links):
    attachment = "ipvlan"


class TestVethBridgeVlan(Links):
    """Packets that its bridges receive in the VLAN are counted: every flow must move the counter."""

    attachment = "veth-bridge:vlan=100"
    counters = frozenset({"in the VLAN"})


class TestOvs(Links):
    attachment = "ovs"
    counters = frozenset({"switched"})

    def test_it_uses_the_datapath_of_the_kernel(self, testbed: Testbed, links: Attachment) -> None:
        assert links.residuals(testbed) == {"datapath": "in the kernel (system)"}
        assert "openvswitch " in testbed.host.read_text("/proc/modules")


@pytest.mark.parametrize("platform", CONTAINERS)
def test_docker_default_denies_what_is_allowed_without_it(testbed: Testbed, pool: PlatformPool, platform: str) -> None:
    """Root may open a file of /proc for writing, unless the profile denies that."""
    part, plain = registry.get("isolation", "apparmor")(), InstanceSpec("confined", "subject")
    opening = ["sh", "-c", ": > /proc/loadavg"]
    with pool.get(platform).start(testbed, plain) as free:
        free.run(opening)
    with pool.get(platform).start(testbed, part.apply(plain, Profile.unmeasured(testbed))) as confined:
        assert part.verify(confined) is None
        with pytest.raises(CommandFailed, match="Permission denied"):
            confined.run(opening)


def test_the_module_that_docker_loads_for_its_networks_goes_with_them(testbed: Testbed, pool: PlatformPool) -> None:
    """The kernel of the guest has it as a module; here, it may be built in. A bridge of the user's stays."""
    view, place = testbed.host.view, MODULES["br_netfilter"]
    assert not view.exists(place)
    testbed.host.run(["ip", "link", "add", "br-of-user", "type", "bridge"])
    try:
        with registry.get(Attachment, "docker-nat")().before_start(testbed, [pool.get("docker")]):
            assert view.exists(place)
        assert not view.exists(place)
    finally:
        testbed.host.run(["ip", "link", "delete", "br-of-user"])
