"""Containers by systemd-nspawn, without systemd inside, and without machined or a service manager outside.

nspawn runs one command and cannot exec another. So commands join the namespaces and the control group of the instance
with nsenter(1), and setpriv(1) limits them to the instance's capabilities. The system call filter of nspawn would apply
only to its first command, so it is switched off, and the platform offers none. On cgroup version 2, a process inside
may open devices that it makes (CAP_MKNOD); other container tools forbid this with a BPF program. On version 1, Lastro
forbids it. Source: systemd-nspawn(1). Tested with systemd 252 on cgroup version 1."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.host.base import Process
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.platforms import container
from lastro.platforms._programs import program_option
from lastro.platforms.base import Instance, InstanceSpec, Platform, Security
from lastro.platforms.container import ON_DISK
from lastro.requirements import Requirements
from lastro.testbed import Testbed

_START_S = 20.0
# The capabilities(7) that nspawn keeps by default; other tools give some of them only on request.
_NSPAWN_CAPABILITIES = (
    "CAP_AUDIT_CONTROL", "CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER",
    "CAP_FSETID", "CAP_IPC_OWNER", "CAP_KILL", "CAP_LEASE", "CAP_LINUX_IMMUTABLE", "CAP_MKNOD", "CAP_NET_ADMIN",
    "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP",
    "CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_PTRACE",
    "CAP_SYS_RESOURCE", "CAP_SYS_TTY_CONFIG",
)  # fmt: skip
# No system call filter (there is no option for it), and /tmp on the root filesystem, as on every other platform.
_SETTINGS = ("SYSTEMD_SECCOMP=0", "SYSTEMD_NSPAWN_TMPFS_TMP=0")


class Nspawn(Platform):
    name = "nspawn"
    summary = "containers by systemd-nspawn, without systemd inside"
    version_argv = ("systemd-nspawn", "--version")
    requirements = Requirements(packages=("systemd-container",))
    confines = frozenset({"drop_capabilities", "read_only_root"})
    options = (program_option("systemd-nspawn", "systemd "),)

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        testbed.host.require(self.chosen_path("systemd-nspawn"), self.requirements.install)
        with ExitStack() as stack:
            netns, home, scratch, cgroup = container.claim_places(stack, testbed, spec)
            container.set_own_sysctls(testbed, netns, spec.sysctls)
            testbed.cgroups.make(testbed.host, cgroup, spec.resources)
            _forbid_devices(testbed, cgroup)
            mounts = [*container.overlay_root(home, scratch, testbed.image.tree), *_disk(home)]
            testbed.host.run(["sh", "-e"], stdin=container.mounts_script(home, *mounts))
            process = testbed.host.spawn(_nspawn_argv(testbed, spec, netns, cgroup, self.chosen_path("systemd-nspawn")))
            stack.callback(process.stop)
            leader, group = _wait_for_start(testbed, spec, process, cgroup)
            enter = [*testbed.cgroups.entering(group), *_joining(leader, spec.security)]
            yield Instance(testbed, spec, netns=netns, cgroup=cgroup, enter=enter)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        residuals = {
            "root filesystem": "overlay",
            "instance's disk": str(testbed.scratch_dir.parent),
            "control groups": "a namespace of its own",
        }
        return residuals if testbed.cgroups.version == 1 else residuals | {"devices": "can be opened once created"}


def _nspawn_argv(testbed: Testbed, spec: InstanceSpec, netns: str, cgroup: str, program: str) -> list[str]:
    home, read_only = testbed.run_dir / spec.name, list[str]()
    if spec.security.read_only_root:  # /tmp and ON_DISK remain writable; nspawn always mounts a writable /run
        read_only = ["--read-only", f"--tmpfs=/tmp:{container.IN_MEMORY['/tmp']}", f"--bind={home}/disk:{ON_DISK}"]
    return [
        *testbed.cgroups.entering(cgroup),
        "nsenter", f"--mount={home / 'mnt'}", "env", *_SETTINGS,
        program, "--quiet", f"--directory={home / 'rootfs'}", "--machine=instance",
        f"--hostname={spec.role}", "--keep-unit", "--register=no", "--settings=no", "--private-users=no",
        "--link-journal=no", "--resolv-conf=off", "--timezone=off", "--console=pipe",
        f"--network-namespace-path={NETNS_DIR / netns}", *_capability_options(spec.security),
        *read_only,
        *(f"--setenv={name}={value}" for name, value in container.ENVIRONMENT.items()),
        "--", "sh", "-c", f"echo started; exec {shlex.join(container.INIT)}",
    ]  # fmt: skip


def _joining(leader: int, security: Security) -> list[str]:
    """Return the prefix of a command that joins the namespaces of the process `leader`, with its capabilities."""
    kept = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in container.capabilities(security))
    return [
        "nsenter", f"--target={leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root",
        "--wd", "--", "env", "-i", *(f"{name}={value}" for name, value in container.ENVIRONMENT.items()),
        "setpriv", f"--bounding-set=-all{kept and ','}{kept}", "--inh-caps=-all", "--",
    ]  # fmt: skip


def _capability_options(security: Security) -> list[str]:
    wanted = container.capabilities(security)
    added = [name for name in wanted if name not in _NSPAWN_CAPABILITIES]
    dropped = [name for name in _NSPAWN_CAPABILITIES if name not in wanted]
    options = [f"--capability={','.join(added)}"] if added else []
    return options + ([f"--drop-capability={','.join(dropped)}"] if dropped else [])


def _disk(home: Path) -> list[str]:
    """Return shell commands that bind ON_DISK to `home`/disk, which stays writable with a read-only root."""
    (directory,) = quoted(home)
    return [f"mkdir {directory}/disk", f"mount --bind {directory}/rootfs{ON_DISK} {directory}/disk"]


def _forbid_devices(testbed: Testbed, cgroup: str) -> None:
    """Let processes in a cgroup open only DEVICES. On cgroup version 2, do nothing: it has no file for this."""
    group = testbed.cgroups.root / "devices" / cgroup.strip("/")
    if testbed.cgroups.version == 1 and group in testbed.cgroups.directories(cgroup):
        testbed.host.write_text(str(group / "devices.deny"), "a")
        for device in container.DEVICES:
            testbed.host.write_text(str(group / "devices.allow"), device)


def _wait_for_start(testbed: Testbed, spec: InstanceSpec, process: Process, cgroup: str) -> tuple[int, str]:
    """Return (PID on the host, cgroup) of the container's first process. Raises: PlatformError if it does not start."""
    try:
        process.wait_line("started", _START_S)
        leader = next(pid for pid in testbed.cgroups.pids(cgroup) if _is_first(testbed, pid))
    except CommandFailed as error:
        raise PlatformError(f"systemd-nspawn did not start instance {spec.name}: {error.message}") from error
    except (CommandTimeout, StopIteration, OSError) as error:
        reason = str(error) or "its first process is gone"
        raise PlatformError(f"systemd-nspawn did not start instance {spec.name}: {reason}") from error
    payload = f"{cgroup}/payload"  # on version 2, nspawn splits its group in two
    is_split = testbed.cgroups.version == 2 and leader in testbed.cgroups.pids(payload)
    return leader, payload if is_split else cgroup


def _is_first(testbed: Testbed, pid: int) -> bool:
    """Return whether a process has PID 1 in a PID namespace other than the host's."""
    lines = testbed.host.read_text(str(Path("/proc", str(pid), "status"))).splitlines()
    numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"
