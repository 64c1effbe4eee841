"""Docker, by a private daemon of ours inside the DUT's network namespace; each set of options has one of its own.

The user's own Docker, its images, networks and firewall rules are never touched."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.platforms._container import IN_MEMORY, ON_DISK, limit_flags
from lastro.platforms._dockerd import Daemon
from lastro.platforms._oci import second_tree
from lastro.platforms.base import Instance, InstanceSpec, Platform, Security
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed

_STORAGE = ("overlay2", "fuse-overlayfs", "btrfs", "zfs", "vfs")
_PROGRAMS = {"crun": ("crun", "apt-get install crun")}  # of runtimes that Docker does not bring, and where from


class DockerInstance(Instance):
    def __init__(self, testbed: Testbed, spec: InstanceSpec, client: Sequence[str], *, netns: str, cgroup: str) -> None:
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup)
        self._client = tuple(client)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return [*self._client, "exec", "--interactive", self.spec.name, *argv]


class Docker(Platform):
    name = "docker"
    summary = "Docker containers, by a private daemon that leaves the user's own alone"
    version_argv = ("dockerd", "--version")
    confines = frozenset({"apparmor", "drop_capabilities", "read_only_root", "seccomp", "selinux", "user_namespace"})
    options = (
        Setting("storage", "overlay2", "what keeps images and containers", choices=_STORAGE),
        Setting("runtime", "runc", "what makes containers", choices=("runc", *_PROGRAMS)),
    )

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._daemons: dict[bool, Daemon] = {}  # by whether they put instances into user namespaces
        self._starting = threading.Lock()

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """The daemon and the image: started and imported once. The data root is kept between campaigns, as a cache."""
        assert not self._daemons, "one daemon for one object: prepare it once"
        try:
            self._daemon(testbed, remapped=False)
            yield
        finally:
            for daemon in self._daemons.values():
                daemon.stop()
            self._daemons.clear()

    def _daemon(self, testbed: Testbed, *, remapped: bool) -> Daemon:
        """The one that runs, with the image; started when it is not, or not any more."""
        with self._starting:
            if remapped not in self._daemons:
                self._daemons[remapped] = self._new_daemon(testbed, remapped)
            daemon = self._daemons[remapped]
            if not daemon.alive():
                daemon.restart()
                daemon.import_image()
                self.own_cgroups = tuple({*self.own_cgroups, daemon.cgroup})
            return daemon

    def _new_daemon(self, testbed: Testbed, remapped: bool) -> Daemon:
        storage, runtime = str(self.chosen["storage"]), str(self.chosen["runtime"])
        options = [str(self.chosen[o.name]) for o in self.options if self.chosen[o.name] != o.default]
        return Daemon(
            testbed,
            # Daemons that are alive at once cannot share a data root: each set of options has its own.
            "-".join(["docker", *options, *(["remapped"] if remapped else [])]),
            storage=storage,
            runtimes=self._runtimes(testbed, runtime),
            hide=second_tree(testbed) if runtime == "crun" else None,
            remapped=remapped,
        )

    def _runtimes(self, testbed: Testbed, runtime: str) -> dict[str, Any]:
        """What the daemon must be told of a runtime that it does not bring. Raises: Unavailable without it."""
        if runtime not in _PROGRAMS:
            return {}
        program, remedy = _PROGRAMS[runtime]
        found = testbed.host.which(program)
        if found is None:
            raise Unavailable(f"this host has no program '{program}'", remedy)
        return {runtime: {"path": found}}

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        daemon = self._daemon(testbed, remapped=spec.security.user_namespace)
        netns = testbed.session.netns_name(spec.name)
        with ExitStack() as stack:
            stack.enter_context(testbed.session.owned("netns", netns))  # first: it refuses a name that is in use
            stack.callback(testbed.host.run, [*daemon.client, "rm", "--force", "--volumes", spec.name], check=False)
            try:
                container = testbed.host.run([*daemon.client, *self._run_argv(testbed, spec)]).text.strip()
            except CommandFailed as error:
                raise PlatformError(f"docker did not start instance {spec.name}: {error.message}") from error
            cgroup = f"{testbed.session.cgroup}/{container}"
            stack.callback(_end_orphan, testbed, daemon, cgroup)
            pid = f"$({' '.join(daemon.client)} inspect --format '{{{{.State.Pid}}}}' {spec.name})"
            testbed.host.run(["sh", "-ec", f"ip netns attach {netns} {pid}"])
            testbed.cgroups.complete(testbed.host, cgroup, spec.resources)
            yield DockerInstance(testbed, spec, daemon.client, netns=netns, cgroup=cgroup)

    def _run_argv(self, testbed: Testbed, spec: InstanceSpec) -> list[str]:
        argv = ["run", "--detach", "--name", spec.name, "--hostname", spec.role, "--network", "none"]
        argv += ["--runtime", str(self.chosen["runtime"])]
        argv += ["--cgroup-parent", testbed.session.cgroup]
        argv += [f"--sysctl={key}={value}" for key, value in spec.sysctls.items()]
        argv += [*_confinement(spec.security), f"--security-opt=seccomp={self._seccomp(testbed, spec)}"]
        argv += limit_flags(spec.resources)
        return [*argv, testbed.image.docker_tag, "sleep", "infinity"]

    def _seccomp(self, testbed: Testbed, spec: InstanceSpec) -> str:
        if spec.security.seccomp is None:
            return "unconfined"
        file = testbed.run_dir / f"seccomp-{spec.name}.json"
        testbed.host.write_text(str(file), json.dumps(spec.security.seccomp))
        return str(file)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        storage = str(self.chosen["storage"])
        return {"root filesystem": storage, "instance's disk": str(self._daemons[False].data_root / storage)}


def _end_orphan(testbed: Testbed, daemon: Daemon, cgroup: str) -> None:
    """A container outlives a killed daemon, and would disturb the trials after it."""
    if not daemon.alive():
        testbed.cgroups.remove(cgroup)


def _confinement(security: Security) -> list[str]:
    argv = ["--cap-drop=ALL"] if security.drop_capabilities else []
    argv += [f"--cap-add={capability.removeprefix('CAP_')}" for capability in security.capabilities]
    argv += [f"--security-opt=apparmor={security.apparmor or 'unconfined'}"]
    argv += [f"--security-opt=label={f'type:{security.selinux}' if security.selinux else 'disable'}"]
    if security.read_only_root:
        argv += ["--read-only", *(f"--tmpfs={place}:{how}" for place, how in IN_MEMORY.items()), f"--volume={ON_DISK}"]
    return argv
