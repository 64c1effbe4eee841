"""Containers of LXD and Incus, which share a command line: by a private daemon, from a private image.

The user's daemon is not used, nor its networks, storage, profiles and group."""

from __future__ import annotations

import json
import re
import shlex
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import ClassVar

from lastro.errors import CommandFailed, PlatformError
from lastro.platforms._lxd_daemon import IMAGE, POOL, Flavour, PrivateDaemon
from lastro.platforms._programs import program_option, suffix
from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.platforms.container import ENVIRONMENT, INIT, capabilities, set_own_sysctls
from lastro.platforms.lxc import cgroup_lines, first_error, seccomp_policy, writable_lines
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed

_LAUNCH_TIMEOUT_S = 300.0  # the image is unpacked anew for every instance, unless the storage has snapshots
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?")
_STORAGE_WORDS = "storage of instances: in a directory, or in a file with a file system"
_STORAGE = Setting("storage", "dir", _STORAGE_WORDS, choices=("dir", "btrfs", "zfs"))


class LxdInstance(Instance):
    memory_dir = "/dev"  # a minimal container has no /dev/shm
    idle_wake_ups_per_s = 200  # of the daemon and its client; measured: 45 to 50, or up to 180 on a busy host


class LxdPlatform(Platform):
    flavour: ClassVar[Flavour]
    options = (_STORAGE, program_option("the daemon", r"\d+\.\d+"))
    confines = frozenset({"apparmor", "seccomp", "drop_capabilities", "user_namespace", "read_only_root"})

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._storage = _STORAGE.of(self.chosen)
        self._daemon: PrivateDaemon | None = None
        self._starting = threading.Lock()

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Run the daemon inside the block, with its storage and the image. Starting it takes about a second."""
        assert self._daemon is None, "one daemon for one object: prepare it once"
        self.require_programs(testbed)
        flavour = replace(self.flavour, daemon=self.chosen_path(self.flavour.daemon))
        daemon = self._daemon = PrivateDaemon(testbed, flavour, self._storage, suffix(self.programs))
        self.own_cgroups = (daemon.group,)
        testbed.apparatus.daemons.add(daemon.group)
        try:
            daemon.start()
            yield
        finally:
            self._daemon = None
            daemon.stop()

    def _running_daemon(self) -> PrivateDaemon:
        """Return the daemon. If it was killed, start it again, so that only the trial that was running is lost."""
        assert self._daemon is not None, "prepare it first"
        with self._starting:
            if not self._daemon.alive():
                self._daemon.stop()
                self._daemon.start()
        return self._daemon

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        daemon = self._running_daemon()
        host, client, name = testbed.host, daemon.client, daemon_name(spec.name)
        netns, cgroup = testbed.session.netns_name(spec.name), f"{testbed.session.cgroup}/{spec.name}"
        monitor = f"{daemon.group}/monitor-{spec.name}"
        with daemon.must_keep_running(), ExitStack() as stack:
            for kind, owned in (("netns", netns), ("cgroup", monitor), ("cgroup", cgroup)):
                stack.enter_context(testbed.session.owned(kind, owned))
            stack.callback(host.run, ["sh", "-c", _removal_script(client, name)], check=False)
            raw = [
                f"lxc.cgroup.dir.container = {cgroup.lstrip('/')}",
                f"lxc.cgroup.dir.monitor = {monitor.lstrip('/')}",
                f"lxc.cgroup.dir.monitor.pivot = {daemon.group.lstrip('/')}/pivot",
                *cgroup_lines(testbed, testbed.cgroups.settings(spec.resources)),
                *(writable_lines(daemon.root_of(name), "bind,rw") if spec.security.read_only_root else ()),
            ]
            launch = [*client, "launch", "--quiet", IMAGE, name, "--no-profiles"]
            try:
                host.run(launch, stdin=self._configuration(spec, raw), timeout_s=_LAUNCH_TIMEOUT_S)
            except CommandFailed as error:
                log = host.run([*client, "info", "--show-log", name], check=False).text
                reason = first_error(log) or error.message  # the client only reports where the log is
                raise PlatformError(f"{self.name} did not start instance {spec.name}: {reason}") from error
            pid = json.loads(host.run([*client, "query", f"/1.0/instances/{name}/state"]).stdout)["pid"]
            host.run(["sh", "-ec", f"ip netns attach {netns} {pid}; exec ip -n {netns} link set lo up"])
            set_own_sysctls(testbed, netns, spec.sysctls)
            testbed.cgroups.complete(host, cgroup, spec.resources)
            variables = [f"--env={variable}={value}" for variable, value in ENVIRONMENT.items()]
            enter = [*client, "exec", name, "--mode=non-interactive", "--cwd=/", *variables, "--"]
            instance = LxdInstance(testbed, spec, netns=netns, cgroup=cgroup, enter=enter)
            instance.daemon = daemon.group
            yield instance

    def _configuration(self, spec: InstanceSpec, raw: Sequence[str]) -> str:
        """Return an instance's settings as JSON, a subset of the YAML that the client reads.

        `raw` are further lines of configuration for liblxc; they follow the usual ones, and override them."""
        security, cpuset = spec.security, spec.resources.cpuset
        kept = " ".join(name.removeprefix("CAP_").lower() for name in capabilities(security))
        lines = [
            f"lxc.init.cmd = /bin/{' '.join(INIT)}",
            f"lxc.uts.name = {spec.role}",
            f"lxc.apparmor.profile = {security.apparmor or 'unconfined'}",
            "lxc.cap.drop =",  # clears the daemon's list: liblxc takes a list of dropped or of kept ones
            f"lxc.cap.keep = {kept or 'none'}",
            *raw,
        ]
        config = {
            "security.privileged": json.dumps(not security.user_namespace),
            "security.syscalls.deny_default": "false",  # the only filter is the specification's, if any
            self.flavour.guest_interface: "false",
            "raw.lxc": "\n".join(lines) + "\n",
        }
        if security.seccomp is not None:
            config["raw.seccomp"] = seccomp_policy(security.seccomp)
        if cpuset is not None:  # the daemon must know, since it reassigns CPUs whenever an instance starts
            config["limits.cpu"] = f"{cpuset}-{cpuset}" if cpuset.isdigit() else cpuset  # "2" means any two of them
        root = {"type": "disk", "path": "/", "pool": POOL, "readonly": json.dumps(security.read_only_root)}
        return json.dumps({"config": config, "devices": {"root": root}}, indent=1)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        residuals = {"root filesystem": self._storage, "instance's disk": str(testbed.scratch_dir.parent)}
        if self._storage == "dir":
            return residuals
        disk = f"a file in {testbed.scratch_dir.parent}"
        return {**residuals, "instance's disk": disk, "disk counters": "of the file's device and of the disk"}


def daemon_name(name: str) -> str:
    """Return the daemon's name for an instance: `name` if the daemon accepts it, or else one with a hash of `name`.

    The daemon accepts letters, digits and hyphens. A name must begin with a letter, and must not end with a hyphen."""
    if _NAME.fullmatch(name):
        return name
    return f"x-{re.sub('[^A-Za-z0-9]', '-', name)}-{zlib.crc32(name.encode()):08x}"


def _removal_script(client: Sequence[str], name: str) -> str:
    """Return a shell script that deletes an instance; after a failed start, the daemon is busy for seconds."""
    delete = shlex.join([*client, "delete", "--force", name])
    return (
        f'n=0; until words=$({delete} 2>&1); do case "$words" in *busy*) ;; *) echo "$words" >&2; exit 1;; esac; '
        "[ $((n += 1)) -lt 150 ] || exit 1; sleep 0.1; done"
    )
