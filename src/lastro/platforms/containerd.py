"""Containers of containerd, by a private daemon, without Docker or Kubernetes, which build on it.

An instance is a task of containerd, with its own shim and a layer of the snapshotter overlayfs. Lastro writes the
container's OCI specification itself, as on every other platform. The container's runtime executes commands directly:
through the shim, each command would need three more processes. Tested with containerd 1.6."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.platforms._containerd import Containerd
from lastro.platforms.base import Instance, InstanceSpec, Platform, instance_netns
from lastro.platforms.oci import oci_config
from lastro.requirements import Requirements
from lastro.testbed import Testbed

_START = """mkdir -p "$1/rootfs"
mounts=$(ctr snapshots prepare --target "$1/rootfs" "$2" "$3")
eval "$mounts"
ctr run --detach --null-io --runc-root "$4" --config "$1/config.json" "$2\""""
_STOP = """ctr tasks delete --force "$2" >/dev/null 2>&1 || :
ctr containers delete "$2" >/dev/null 2>&1 || :
umount "$1/rootfs" 2>/dev/null || :
ctr snapshots delete "$2\""""


class ContainerdPlatform(Platform):
    name = "containerd"
    summary = "containers of containerd alone, by a private daemon, separate from the user's"
    version_argv = ("containerd", "--version")
    requirements = Requirements(packages=("containerd", "runc"), instead={"containerd": "containerd", "runc": "runc"})
    start_s = 0.3
    confines = frozenset({"apparmor", "drop_capabilities", "read_only_root", "seccomp", "selinux"})
    daemon_type: ClassVar[type[Containerd]] = Containerd

    def __init__(self) -> None:
        super().__init__()
        self._daemon: Containerd | None = None
        self._starting = threading.Lock()

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Run the daemon, which has the image, inside the block. Its root remains as a cache for later campaigns."""
        self._daemon = daemon = self.daemon_type(testbed)
        try:
            self._running_daemon()
            self.own_cgroups = (daemon.cgroup,)
            yield
        finally:
            daemon.stop()
            self._daemon = None

    def _running_daemon(self) -> Containerd:
        """Return the daemon, started again if it was killed. Only the trial that was running is lost."""
        assert self._daemon is not None, "prepare it first"
        with self._starting:
            if not self._daemon.alive():
                self._daemon.start()
            return self._daemon

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        daemon = self._running_daemon()
        home = daemon.instances / spec.name
        cgroup = f"{testbed.session.cgroup}/{spec.name}"
        with daemon.must_keep_running(), ExitStack() as stack:
            netns = stack.enter_context(instance_netns(testbed.host, testbed, spec))
            for kind, name in (("directory", home), ("cgroup", cgroup)):
                stack.enter_context(testbed.session.owned(kind, str(name)))
            config = oci_config(spec, netns, cgroup, root=str(home / "rootfs"))
            testbed.host.write_text(str(home / "config.json"), json.dumps(config, indent=1))
            stack.callback(daemon.run, _STOP, str(home), spec.name, check=False)
            try:
                daemon.run(_START, str(home), spec.name, daemon.base, str(daemon.runtime_root))
            except (CommandFailed, CommandTimeout) as error:
                raise PlatformError(f"containerd did not start instance {spec.name}: {error.message}") from error
            testbed.cgroups.complete(testbed.host, cgroup, spec.resources)
            yield Instance(testbed, spec, netns=netns, cgroup=cgroup, enter=daemon.enter(spec.name))

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        assert self._daemon is not None
        return {"root filesystem": "overlay", "instance's disk": str(self._daemon.root)}
