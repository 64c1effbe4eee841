"""The bare host: the root filesystem by chroot, the host's kernel, and a network namespace that only holds its ports.

With `network=host`, processes of an instance are in the namespace of the DUT, and send by its network stack, as on a
machine without virtualization. The instance's own network namespace exists, but is idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.image.rootfs import Image
from lastro.platforms.base import Instance, InstanceSpec, Platform, Security
from lastro.platforms.container import ON_DISK, claim_places, lasting_namespace_lines
from lastro.study.model import Setting
from lastro.testbed import Testbed, set_sysctls

OWN_STACK = "native:network=host"
_NETWORK_WORDS = "the network of its processes: a namespace at their links, or the host's own"
_NETWORK = Setting("network", "links", _NETWORK_WORDS, choices=("links", "host"))


class NativeInstance(Instance):
    """Processes of the host in a chroot. They are in a cgroup without limits, which counts their usage."""

    memory_dir = "/run"  # its /dev is that of the host

    def __init__(
        self, testbed: Testbed, spec: InstanceSpec, *, netns: str, cgroup: str, home: Path, by_host: bool = False
    ) -> None:
        self.sends_by_host = by_host
        self._net = testbed.dut if by_host else netns
        namespaces = [f"--net={NETNS_DIR / self._net}", f"--mount={home / 'mnt'}"]
        self._rooted = ["nsenter", *namespaces, "chroot", str(home / "root")]
        enter = [*testbed.cgroups.entering(cgroup), *self._rooted, *_without_capabilities(spec.security)]
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup, enter=enter)

    def run_with_rights(self, script: str, *, of_host: bool = False) -> str:
        return self.testbed.host.run([*self._rooted, "sh", "-e"], stdin=script).text

    def links(self) -> list[dict[str, Any]]:
        """Return the interfaces that processes of the instance see, with counters."""
        return self.testbed.host.run_json(["ip", "-n", self._net, "-j", "-s", "link", "show"])


class Native(Platform):
    name = "native"
    summary = "the bare host: chroot into the root filesystem, no container"
    bare = True
    uses_base = False  # true for roles that are not under test: they use the root filesystem that no variant changes
    options = (_NETWORK,)
    confines = frozenset({"drop_capabilities"})  # nothing else: root on a host could unmount or leave a namespace

    @property
    def sends_by_host(self) -> bool:  # type: ignore[override]  # it depends on the options
        return _NETWORK.of(self.chosen) == "host"

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        with ExitStack() as stack:
            netns, home, scratch, cgroup = claim_places(stack, testbed, spec)
            image = testbed.base if self.uses_base and testbed.base else testbed.image
            testbed.host.run(["sh", "-e"], stdin=_setup_script(image, netns, home, scratch))
            testbed.cgroups.make(testbed.host, cgroup, spec.resources)
            if spec.sysctls:
                set_sysctls(testbed.host, netns, dict(spec.sysctls))
            by_host = self.sends_by_host
            yield NativeInstance(testbed, spec, netns=netns, cgroup=cgroup, home=home, by_host=by_host)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {
            "root filesystem": f"overlay in a chroot, {ON_DISK} on the host's own file system",
            "instance's disk": str(testbed.scratch_dir.parent),
        }


def _without_capabilities(security: Security) -> tuple[str, ...]:
    """Return the prefix of a command that keeps only the capabilities of `security`, if this drops any."""
    if not security.drop_capabilities:
        return ()
    kept = (f"+{name.removeprefix('CAP_').lower()}" for name in security.capabilities)
    return ("setpriv", f"--bounding-set={','.join(('-all', *kept))}")


def _setup_script(image: Image, netns: str, home: Path, scratch: Path) -> str:
    """Return a script that makes the mounts of the chroot in a new mount namespace.

    Files below ON_DISK are in a directory of the host's file system, without an overlay."""
    root, home_word, disk, tree = quoted(home / "root", home, scratch, image.tree)
    mounts = [
        f"mount -t overlay overlay -o lowerdir={tree},upperdir={disk}/upper,workdir={disk}/work {root}",
        f"mount -t proc proc {root}/proc",
        f"mount -t sysfs sysfs {root}/sys",
        f"mount --rbind /dev {root}/dev",
        f"mount -t tmpfs tmpfs {root}/run",
        f"mount --bind {disk}/disk {root}{ON_DISK}",
    ]
    (script,) = quoted("\n" + "\n".join(mounts) + "\n")
    return "\n".join(
        [
            f"mkdir -p {root} {disk}/upper {disk}/work",
            f"mkdir -m 1777 {disk}/disk",
            *lasting_namespace_lines(home),
            f"kept {home_word} private nsenter --net={NETNS_DIR / netns} sh -ec {script}\n",
        ]
    )
