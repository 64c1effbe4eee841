"""The base of OCI runtimes: no daemon, no image store. Source: OCI runtime specification 1.0.2."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.host.state_dirs import FIRST_ID, N_IDS
from lastro.image import rootfs
from lastro.platforms.base import Instance, InstanceSpec, Platform, Security
from lastro.platforms.container import (
    ENVIRONMENT,
    IN_MEMORY,
    INIT,
    MASKED,
    ON_DISK,
    READ_ONLY,
    capabilities,
    claim_places,
)
from lastro.testbed import Testbed

_MOUNTS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("/proc", "proc", "proc", ("nosuid", "noexec", "nodev")),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/pts", "devpts", "devpts", ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620")),
    ("/dev/shm", "tmpfs", "shm", ("nosuid", "noexec", "nodev", "mode=1777", "size=65536k")),
    ("/sys", "sysfs", "sysfs", ("nosuid", "noexec", "nodev", "ro")),
)
_STOP_TRIES = 200
_FILE_LABEL = "system_u:object_r:container_file_t:s0"  # by the policy of container-selinux


class OciInstance(Instance):
    """A container, which `launch` starts. `runtime` is the prefix of the runtime's command lines."""

    launch_timeout_s: ClassVar[float] = 60.0

    def __init__(
        self, testbed: Testbed, spec: InstanceSpec, program: str, runtime: Sequence[str], *, netns: str, cgroup: str
    ) -> None:
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup, enter=[*runtime, "exec", spec.name])
        self.program, self._runtime = program, tuple(runtime)
        self._bundle, self._scratch = testbed.run_dir / spec.name, testbed.scratch_dir / spec.name

    def launch(self) -> None:
        """Start the container. Raises: PlatformError if it does not start."""
        host, name = self.testbed.host, self.spec.name
        config = oci_config(self.spec, self.netns, self.cgroup)
        host.write_text(str(self._bundle / "config.json"), json.dumps(config, indent=1))
        script = _start_script(self._runtime, self.spec, self.testbed, self._bundle, self._scratch)
        try:
            host.run(["sh", "-ec", script], timeout_s=self.launch_timeout_s)
            if self.spec.security.user_namespace:
                (pid,) = quoted(self._bundle / "pid")
                attach = f"ip netns attach {self.netns} $(cat {pid}); exec ip -n {self.netns} link set lo up"
                host.run(["sh", "-ec", attach])
        except CommandFailed as error:
            raise PlatformError(f"{self.program} did not start instance {name}: {error.message}") from error
        except CommandTimeout as error:
            limit = f"within {self.launch_timeout_s:g} s"
            raise PlatformError(f"{self.program} did not start instance {name} {limit}") from error
        self.testbed.cgroups.complete(host, self.cgroup, self.spec.resources)

    def end(self) -> None:
        script = _stop_script(self._runtime, self.spec.name, self._bundle, self.cgroup)
        self.testbed.host.run(["sh", "-c", script], check=False)


class OciPlatform(Platform):
    """A runtime with a `binary` that has the commands `run`, `exec` and `delete` of runc."""

    binary: ClassVar[str]
    instance_type: ClassVar[type[OciInstance]] = OciInstance
    takes_links_at_start: ClassVar[bool] = False  # a container can use only the links that exist when it starts
    confines = frozenset({"apparmor", "drop_capabilities", "read_only_root", "seccomp", "selinux", "user_namespace"})

    @property
    def program(self) -> str:
        """The path of the runtime that the study chose, or its name, to be looked up in the PATH."""
        return self.chosen_path(self.binary)

    def runtime_argv(self, testbed: Testbed, spec: InstanceSpec) -> tuple[str, ...]:
        """Return the beginning of every command line of the runtime for an instance."""
        # Each instance has its own root, which is removed even if the runtime fails to delete the container. In a
        # common root, runsc would also take `many-1` for an abbreviation of `many-10`.
        return (self.program, "--root", str(testbed.run_dir / spec.name / self.binary))

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        # A user namespace must own its network namespace, so the runtime makes both.
        by_runtime = spec.security.user_namespace
        with ExitStack() as stack:
            netns, _, _, cgroup = claim_places(stack, testbed, spec, netns_by_runtime=by_runtime)
            runtime = self.runtime_argv(testbed, spec)
            instance = self.instance_type(testbed, spec, self.binary, runtime, netns=netns, cgroup=cgroup)
            stack.callback(instance.end)
            if not (self.takes_links_at_start and spec.ports):
                instance.launch()
            yield instance

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {"root filesystem": "overlay", "instance's disk": str(testbed.scratch_dir.parent)}


def _start_script(runtime: Sequence[str], spec: InstanceSpec, testbed: Testbed, bundle: Path, scratch: Path) -> str:
    """Return a script that mounts the writable layer in a new mount namespace, and runs the container there.

    The mount disappears with the container. With a user namespace, root's files belong to FIRST_ID."""
    tree = testbed.image.tree
    owner = 0
    if spec.security.user_namespace:
        with testbed.session.building():
            tree = rootfs.shifted_tree(testbed.image, testbed.original, FIRST_ID, testbed.host)
            owner = FIRST_ID
    root, disk, lower = quoted(bundle / "rootfs", scratch, tree)
    options = f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work"
    if spec.security.selinux:
        options += f",context={_FILE_LABEL}"
    run = [*runtime, "run", "--detach", "--pid-file", f"{bundle}/pid", "--bundle", f"{bundle}", spec.name]
    (mount,) = quoted(f'mount -t overlay overlay -o {options} {root}; exec "$0" "$@"')
    return (
        f"mkdir -p {root} {disk}/upper {disk}/work; chown {owner}:{owner} {disk}/upper; "
        f"exec unshare --mount --propagation private sh -ec {mount} {shlex.join(run)} </dev/null"
    )


def _stop_script(runtime: Sequence[str], name: str, bundle: Path, cgroup: str) -> str:
    """Return a script that deletes a container faster than `delete --force`, which looks only every 100 ms."""
    delete = shlex.join([*runtime, "delete", name])
    file, in_cgroup = quoted(bundle / "pid", f":{cgroup}(/|$)")
    return (
        f"[ -s {file} ] || exec {delete} --force; pid=$(cat {file}); "  # without a PID, the container never ran
        # The container may have ended, and its PID may now belong to another process.
        f"if grep -qsE {in_cgroup} /proc/$pid/cgroup; then kill -KILL $pid; fi; "
        f"n=0; until {delete} 2>/dev/null; do "
        f"[ $((n += 1)) -lt {_STOP_TRIES} ] || exec {delete} --force; sleep 0.005; done"
    )


def oci_config(spec: InstanceSpec, netns: str, cgroup: str, root: str = "rootfs") -> dict[str, Any]:
    """Return a bundle's configuration (OCI runtime specification 1.0.2); `root` is relative to it or absolute."""
    sets = ("bounding", "effective", "permitted")
    process: dict[str, Any] = {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": list(INIT),
        "env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "cwd": "/",
        "capabilities": dict.fromkeys(sets, capabilities(spec.security)),
    }
    linux: dict[str, Any] = {
        "cgroupsPath": cgroup,
        "resources": {"devices": [{"allow": False, "access": "rwm"}], **oci_resources(spec.resources)},
        "namespaces": [
            *({"type": kind} for kind in ("pid", "ipc", "uts", "mount")),
            {"type": "network", "path": str(NETNS_DIR / netns)},
        ],
        "maskedPaths": list(MASKED),
        "readonlyPaths": list(READ_ONLY),
        "sysctl": dict(spec.sysctls),
    }
    mounts = [
        {"destination": destination, "type": kind, "source": source, "options": list(options)}
        for destination, kind, source, options in _MOUNTS
    ]
    config = {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": root, "readonly": spec.security.read_only_root},
        "hostname": spec.role,
        "mounts": mounts,
        "linux": linux,
    }
    _add_security(spec.security, config)
    return config


def _add_security(security: Security, config: dict[str, Any]) -> None:
    """Add the mechanisms of `security`, except capabilities, to a bundle's configuration."""
    process, linux = config["process"], config["linux"]
    if security.apparmor:
        process["apparmorProfile"] = security.apparmor
    if security.selinux:
        process["selinuxLabel"], linux["mountLabel"] = f"system_u:system_r:{security.selinux}:s0", _FILE_LABEL
    if security.seccomp:
        linux["seccomp"] = security.seccomp
    if security.user_namespace:
        mapping = [{"containerID": 0, "hostID": FIRST_ID, "size": N_IDS}]
        linux["uidMappings"] = linux["gidMappings"] = mapping
        # Without paths: the runtime makes the network namespace, too.
        linux["namespaces"] = [{"type": space["type"]} for space in linux["namespaces"]] + [{"type": "user"}]
    if security.read_only_root:
        config["mounts"] += [
            {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options.split(",")}
            for path, options in IN_MEMORY.items()
        ]
        on_disk = {"source": f"{config['root']['path']}{ON_DISK}", "options": ["bind", "rw", "nosuid", "nodev"]}
        config["mounts"].append({"destination": ON_DISK, "type": "bind", **on_disk})


def oci_resources(resources: Resources) -> dict[str, Any]:
    """Return the limits that are set in `resources`, as `linux.resources` of the OCI runtime specification."""
    r = resources
    cpu = {
        "quota": round(r.cpus * 100_000) if r.cpus is not None else None,
        "period": 100_000 if r.cpus is not None else None,
        "shares": r.cpu_shares,
        "cpus": r.cpuset,
    }
    memory = {"limit": r.memory_bytes, "reservation": r.memory_reserved_bytes}
    rates = {
        "throttleReadBpsDevice": r.read_bps, "throttleWriteBpsDevice": r.write_bps,
        "throttleReadIOPSDevice": r.read_iops, "throttleWriteIOPSDevice": r.write_iops,
    }  # fmt: skip
    major, _, minor = (r.block_device or "0:0").partition(":")
    block_io = {
        name: [{"major": int(major), "minor": int(minor), "rate": rate}] if rate and r.block_device else None
        for name, rate in rates.items()
    }
    controllers: dict[str, dict[str, Any]] = {
        "cpu": cpu,
        "memory": memory,
        "blockIO": block_io,
        "pids": {"limit": r.pids},
    }
    limits = {}
    for controller, values in controllers.items():
        if limited := {name: value for name, value in values.items() if value is not None}:
            limits[controller] = limited
    return limits


def extra_v2_tree(testbed: Testbed) -> str | None:
    """Return the cgroup v2 tree if it has a controller beside version 1, which crun refuses; else None."""
    tree = testbed.cgroups.root / "unified"
    return str(tree) if testbed.host.read_or_empty(str(tree / "cgroup.controllers")).strip() else None
