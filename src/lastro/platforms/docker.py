"""Docker by private daemons inside the DUT's network namespace, one for each set of options.

They do not use the user's Docker, nor its images, networks and firewall rules."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.platforms import gvisor
from lastro.platforms._docker_instances import DockerInstance, KataInstance, LateInstance, RunscInstance
from lastro.platforms._dockerd import ROUTED, Daemon
from lastro.platforms._programs import program_option, suffix
from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.platforms.container import INIT, ON_DISK, OwnNetworks, confinement_flags, limit_flags, seccomp_profile
from lastro.platforms.oci import extra_v2_tree
from lastro.requirements import Requirements
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed

_LAYER, _VOLUME = "layer", "volume"
_DEVICE_MAPPER = "devicemapper"
_DRIVERS = ("overlay2", "fuse-overlayfs", "btrfs", "zfs", "vfs", "aufs", _DEVICE_MAPPER)
# Runtimes that do not come with Docker: the program, and where to get it.
_PROGRAMS = {
    "crun": ("crun", "apt-get install crun"),
    "runsc": ("runsc", gvisor.REMEDY),
    "kata": (
        "containerd-shim-kata-v2",
        "install Kata Containers, with its containerd-shim-kata-v2 in /usr/local/bin, and Docker 23 or later",
    ),
}
_LATE: dict[str, type[LateInstance]] = {"runsc": RunscInstance, "kata": KataInstance}
_STORAGE = Setting("storage", "overlay2", "storage driver for images and containers", choices=_DRIVERS)
_RUNTIME = Setting("runtime", "runc", "container runtime", choices=("runc", *_PROGRAMS))
_PLACE_WORDS = f"where {ON_DISK} is: in the container's layer, or in a volume"
_PLACE = Setting("place", _LAYER, _PLACE_WORDS, choices=(_LAYER, _VOLUME))


class Docker(Platform):
    name = "docker"
    summary = "Docker containers, by a private daemon, separate from the user's"
    version_argv = ("dockerd", "--version")
    requirements = Requirements(
        packages=("docker.io", "iptables", "apparmor"),
        optional_packages=("btrfs-progs", "fuse-overlayfs"),
        instead={"docker.io": "dockerd"},
    )
    start_s = 0.6
    confines = frozenset({"apparmor", "drop_capabilities", "read_only_root", "seccomp", "selinux", "user_namespace"})
    options: ClassVar[tuple[Setting[Any], ...]] = (
        _STORAGE,
        _RUNTIME,
        _PLACE,
        program_option("dockerd", "Docker version "),
        program_option("containerd", "containerd (?!-shim)", "containerd"),
        program_option("runc", "runc version ", "runc"),
        program_option("crun", "crun version ", "crun"),
        program_option("runsc", "runsc version ", "runsc"),
    )
    only_runtime: ClassVar[str | None] = None  # for a platform that is Docker with this runtime

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self.runtime = self.only_runtime or _RUNTIME.of(self.chosen)
        if self.runtime in _LATE:  # kernels of their own
            self.shares_kernel = False
            self.confines = frozenset({"drop_capabilities", "read_only_root"})
        self._daemons: dict[bool, Daemon] = {}  # by whether the daemon puts instances into user namespaces
        self._networked: Daemon | None = None  # with Docker's own network, inside `own_network`
        self._starting = threading.Lock()

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Run a daemon that has the image inside the block. Its data root remains as a cache for later campaigns."""
        assert not self._daemons, "one daemon for one object: prepare it once"
        self.require_programs(testbed)
        try:
            self._daemon(testbed, remapped=False)
            yield
        finally:
            for daemon in self._daemons.values():
                daemon.stop()
            self._daemons.clear()

    def _daemon(self, testbed: Testbed, *, remapped: bool) -> Daemon:
        """Return the daemon for instances with (`remapped`) or without user namespaces, running, with the image."""
        with self._starting:
            if remapped not in self._daemons:
                self._daemons[remapped] = self._new_daemon(testbed, remapped)
            daemon = self._daemons[remapped]
            if not daemon.alive():
                self._start_daemon(daemon)
            return daemon

    def _start_daemon(self, daemon: Daemon) -> None:
        daemon.stop()
        daemon.start()
        daemon.import_image()
        self.own_cgroups = tuple({*self.own_cgroups, daemon.cgroup})

    @contextmanager
    def own_network(self, testbed: Testbed, gateway: str, *, routed: bool = False) -> Iterator[OwnNetworks]:
        """Inside the block, run a daemon with Docker's own networks, on which instances with `own_network` start.

        Instances with `published` are on Docker's default network. `gateway` is the address of its bridge in CIDR form.
        If the networks are `routed`, an instance may send to instances of networks to which it is not connected.
        Nothing else may use the DUT's namespace during the block or later: the daemon leaves firewall rules in it.

        Raises: Unavailable if instances of the chosen runtime start on existing links."""
        if self.runtime in _LATE:
            raise Unavailable(
                f"with the runtime {self.runtime}, an instance takes over links of Lastro, not Docker's own network",
                'use the attachment "nat"',
            )
        daemon = self._new_daemon(testbed, remapped=False, bridge=gateway, routed=routed)
        with testbed.session.owned_module("br_netfilter"):  # dockerd loads it if it makes rules
            try:
                self._start_daemon(daemon)
                self._networked = daemon
                made_by = f"dockerd, with {ROUTED}" if routed else "dockerd"
                yield OwnNetworks(daemon.client, first="none", made_by=made_by)
            finally:
                self._networked = None
                daemon.stop()

    def _daemon_for(self, testbed: Testbed, spec: InstanceSpec) -> Daemon:
        if not spec.own_network:
            return self._daemon(testbed, remapped=spec.security.user_namespace)
        if spec.security.user_namespace:
            raise Unavailable(
                "the daemon with Docker's own network puts no instance into a user namespace",
                'use the attachment "nat"',
            )
        assert self._networked is not None, "such instances start inside `own_network`"
        return self._networked

    def _new_daemon(self, testbed: Testbed, remapped: bool, bridge: str = "", routed: bool = False) -> Daemon:
        storage = _STORAGE.of(self.chosen)
        if storage == _DEVICE_MAPPER:
            raise Unavailable(
                "Docker has no devicemapper since version 25; if an older daemon were killed, it would leave"
                " devices on the host that Lastro does not remove",
                "use `docker:storage=overlay2`, which replaces it",
            )
        # Daemons that run at the same time cannot share a data root: each set of options has its own.
        name = self.name
        for option in self.options:
            if not option.prints and self.chosen[option.name] != option.default:
                name += f"-{self.chosen[option.name]}"
        name += testbed.suffix
        name += ("-remapped" if remapped else "") + ("-network" if bridge else "")
        return Daemon(
            testbed,
            name + suffix(self.programs),
            storage=storage,
            runtimes=self._runtimes(testbed),
            hide=extra_v2_tree(testbed) if self.runtime == "crun" else None,
            remapped=remapped,
            bridge=bridge,
            routed=routed,
            programs=self.programs,
        )

    def _runtimes(self, testbed: Testbed) -> dict[str, Any]:
        """Return the setting `runtimes`: the chosen one unless it is part of Docker. Raises: Unavailable without it."""
        if self.runtime not in _PROGRAMS:
            return {}
        program, remedy = _PROGRAMS[self.runtime]
        path = testbed.host.require(self.chosen_path(program, program), remedy)
        if self.runtime == "kata":  # no command line: containerd speaks to its shim
            return {"kata": {"runtimeType": "io.containerd.kata.v2"}}
        arguments = {"runtimeArgs": list(gvisor.RUNSC_FLAGS)} if self.runtime == "runsc" else {}
        return {self.runtime: {"path": path, **arguments}}

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        daemon = self._daemon_for(testbed, spec)
        netns = testbed.session.netns_name(spec.name)
        with daemon.must_keep_running(), ExitStack() as stack:
            stack.enter_context(testbed.session.owned("netns", netns))  # first: it refuses a name that is in use
            if self.runtime in _LATE:
                yield self._make_late(stack, testbed, spec, daemon, netns)
                return
            network = ["bridge", "--publish", spec.published] if spec.published else ["none"]
            argv = [*self._run_argv(testbed, spec, *network), "--hostname", spec.role]
            container = self._make_container(stack, testbed, daemon, spec.name, ["run", "--detach", *argv])
            cgroup = f"{testbed.session.cgroup}/{container}"
            stack.callback(_end_orphan, testbed, daemon, cgroup)
            _name_netns(testbed, daemon, netns, spec.name)
            testbed.cgroups.complete(testbed.host, cgroup, spec.resources)
            yield DockerInstance(testbed, spec, daemon.client, netns=netns, cgroup=cgroup, daemon=daemon.cgroup)

    def _make_late(
        self, stack: ExitStack, testbed: Testbed, spec: InstanceSpec, daemon: Daemon, netns: str
    ) -> LateInstance:
        """Return an instance that starts when its links exist, in the network namespace of an idle container.

        It is started immediately if it has no ports."""
        holder = f"{spec.name}-network"
        parent = ("--cgroup-parent", testbed.session.cgroup)
        idle = ["--runtime=runc", "--network=none", *parent, "--hostname", spec.role]
        container = self._make_container(stack, testbed, daemon, holder, ["run", "--detach", *idle])
        stack.callback(_end_orphan, testbed, daemon, f"{testbed.session.cgroup}/{container}")
        _name_netns(testbed, daemon, netns, holder)
        argv = self._run_argv(testbed, spec, f"container:{holder}")
        container = self._make_container(stack, testbed, daemon, spec.name, ["create", *argv])
        cgroup = f"{testbed.session.cgroup}/{container}"
        stack.callback(_end_orphan, testbed, daemon, cgroup)
        late = _LATE[self.runtime]
        instance = late(testbed, spec, daemon.client, netns=netns, cgroup=cgroup, daemon=daemon.cgroup)
        if not spec.ports:
            instance.launch()
        return instance

    def _make_container(
        self, stack: ExitStack, testbed: Testbed, daemon: Daemon, name: str, argv: Sequence[str]
    ) -> str:
        """Make a container with the arguments `argv` of `docker`, and return its ID; it is removed when `stack` closes.

        The ID is part of the path of a cgroup that will be removed with all its processes, so output other than an ID
        is refused. Raises: PlatformError."""
        stack.callback(testbed.host.run, [*daemon.client, "rm", "--force", "--volumes", name], check=False)
        try:
            command = [*daemon.client, *argv, "--name", name, testbed.image.docker_tag, *INIT]
            container = testbed.host.run(command).text.strip()
        except CommandFailed as error:
            raise PlatformError(f"docker did not start instance {name}: {error.message}") from error
        if re.fullmatch("[0-9a-z]+", container) is None:
            raise PlatformError(f"docker returned no container ID for instance {name}, but {container[:80]!r}")
        return container

    def _run_argv(self, testbed: Testbed, spec: InstanceSpec, *network: str) -> list[str]:
        argv = ["--network", *network, "--runtime", self.runtime, "--cgroup-parent", testbed.session.cgroup]
        if self.runtime != "runsc":  # gVisor cannot apply these settings at its start
            argv += [f"--sysctl={key}={value}" for key, value in spec.sysctls.items()]
        if self.chosen.get(_PLACE.name) == _VOLUME or spec.security.read_only_root:  # removed with the container
            argv += [f"--volume={ON_DISK}"]
        argv += ["--cap-drop=ALL"] if spec.security.drop_capabilities else []
        argv += [f"--cap-add={capability.removeprefix('CAP_')}" for capability in spec.security.capabilities]
        seccomp = f"--security-opt=seccomp={seccomp_profile(testbed, spec, testbed.run_dir)}"
        return [*argv, *confinement_flags(spec.security), seccomp, *limit_flags(spec.resources)]

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        storage = _STORAGE.of(self.chosen)
        place = "volumes" if self.chosen.get(_PLACE.name) == _VOLUME else storage
        residuals = {"root filesystem": storage, "instance's disk": str(self._daemons[False].data_root / place)}
        return {**residuals, **gvisor.RESIDUALS} if self.runtime == "runsc" else residuals


def _name_netns(testbed: Testbed, daemon: Daemon, netns: str, container: str) -> None:
    pid = f"$({shlex.join([*daemon.client, 'inspect', '--format', '{{.State.Pid}}', container])})"
    testbed.host.run(["sh", "-ec", f"ip netns attach {netns} {pid}"])


def _end_orphan(testbed: Testbed, daemon: Daemon, cgroup: str) -> None:
    """Kill a container and remove its cgroup if the daemon was killed; the container would disturb later trials."""
    if not daemon.alive():
        testbed.cgroups.remove(cgroup)
