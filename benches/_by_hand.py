"""A chroot by hand: what a person would type who wants a tool to run on the files of the image.

There is no meter, and unless it is asked for no control group, only the files and the CPUs that an instance of Lastro's
would have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.instruments.base import WORK_DIR
from lastro.platforms.base import Instance, InstanceSpec
from lastro.testbed import Testbed


class ByHand(Instance):
    """A chroot into the image, in a mount namespace that all of its commands share: a server and its client overlap."""

    memory_dir = "/run"

    def __init__(self, testbed: Testbed, spec: InstanceSpec, netns: str, home: Path, cgroup: str) -> None:
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup)
        self._home = home
        self._join = testbed.cgroups.entering(cgroup) if cgroup else []

    def wrap(self, argv: Sequence[str]) -> list[str]:
        cpus = self.spec.resources.cpuset
        pinned = ["taskset", "-c", cpus] if cpus else []
        where = ["nsenter", f"--net={NETNS_DIR / self.netns}", f"--mount={self._home}/mnt"]
        return [*self._join, *where, *pinned, "chroot", f"{self._home}/root", *argv]


@contextmanager
def by_hand(
    testbed: Testbed, resources: Resources | None = None, netns: str | None = None, *, grouped: bool = False
) -> Iterator[ByHand]:
    """A layer over the image and a directory of the host's own to work in, mounted once; without `resources` all CPUs.

    `netns`: the namespace of its network, the device under test's where none is given. `grouped`: in a control group
    where an instance's is, under the same limits."""
    spec = InstanceSpec(testbed.session.unique("by-hand"), "instance", resources=resources or Resources())
    home, scratch = testbed.run_dir / spec.name, testbed.scratch_dir / spec.name
    cgroup = f"{testbed.session.cgroup}/{spec.name}" if grouped else ""
    with ExitStack() as stack:
        if cgroup:
            stack.enter_context(testbed.session.owned("cgroup", cgroup))
            testbed.cgroups.make(testbed.host, cgroup, spec.resources)
        for directory in (home, scratch):
            stack.enter_context(testbed.session.owned("directory", str(directory)))
        testbed.host.run(["sh", "-e"], stdin=_mounts(testbed, home, scratch))
        yield ByHand(testbed, spec, netns or testbed.dut, home, cgroup)


def _mounts(testbed: Testbed, home: Path, scratch: Path) -> str:
    layers = f"lowerdir={testbed.image.tree},upperdir={scratch}/upper,workdir={scratch}/work"
    return f"""mkdir -p {home}/root {scratch}/upper {scratch}/work {scratch}/disk
mount --bind {home} {home}
mount --make-private {home}
touch {home}/mnt
unshare --mount={home}/mnt --propagation private sh -e <<'END'
mount -t overlay overlay -o {layers} {home}/root
mount -t proc proc {home}/root/proc
mount --rbind /dev {home}/root/dev
mount -t tmpfs tmpfs {home}/root/run
mount --bind {scratch}/disk {home}/root{WORK_DIR}
END
"""
