"""What containers of all tools have in common: capabilities, devices, mounts, directories and limits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import Unavailable
from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.host.undo import HOLDER_MARK, HOLDER_VARIABLE
from lastro.platforms.base import InstanceSpec, Security, instance_netns
from lastro.testbed import Testbed

# What Docker gives a container by default.
_USUAL_CAPABILITIES = (
    "CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
)  # fmt: skip
# Every node may be made, but only these devices may be opened.
DEVICES = (
    "c *:* m", "b *:* m", "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm",
    "c 136:* rwm",
)  # fmt: skip
INIT = ("sleep", "infinity")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# Directories that stay writable with a read-only root: in memory, with their mount options, and one on disk.
IN_MEMORY = {"/tmp": "nosuid,nodev,exec,mode=1777,size=65536k", "/run": "nosuid,nodev,exec,mode=755,size=16384k"}
ON_DISK = "/var/tmp"


@dataclass(frozen=True, slots=True)
class OwnNetworks:
    """The networks that a container platform makes by itself, by its command line `client`."""

    client: tuple[str, ...]
    first: str  # the network that an instance without a published port has when it starts
    made_by: str  # the program that makes their links and rules
    options: tuple[str, ...] = ()  # for `network create`, besides those with addresses


def capabilities(security: Security) -> list[str]:
    """Return the names of all capabilities of an instance, sorted."""
    usual = () if security.drop_capabilities else _USUAL_CAPABILITIES
    return sorted({*usual, *security.capabilities})


def claim_places(
    stack: ExitStack, testbed: Testbed, spec: InstanceSpec, *, netns_by_runtime: bool = False
) -> tuple[str, Path, Path, str]:
    """Return (network namespace, directory for small files, directory for the disk, cgroup) for an instance.

    All four are recorded in the ledger, and removed when `stack` closes. The network namespace is made immediately,
    unless the container runtime makes it (`netns_by_runtime`). The caller makes the directories and the cgroup."""
    netns = stack.enter_context(instance_netns(testbed.host, testbed, spec, made_by_runtime=netns_by_runtime))
    home, scratch = testbed.run_dir / spec.name, testbed.scratch_dir / spec.name
    cgroup = f"{testbed.session.cgroup}/{spec.name}"
    for kind, name in (("directory", home), ("directory", scratch), ("cgroup", cgroup)):
        stack.enter_context(testbed.session.owned(kind, str(name)))
    return netns, home, scratch, cgroup


def set_own_sysctls(testbed: Testbed, netns: str, sysctls: Mapping[str, str]) -> None:
    """Apply sysctls in the network namespace `netns`, for container tools that have no option for this.

    Raises: Unavailable for a setting of the whole host, which would affect others; CommandFailed for an unknown one."""
    for key in sysctls:
        if not key.startswith("net."):
            raise Unavailable(f"sysctl {key} cannot be set for one instance", "only network sysctls (net.*) can")
    pairs = (quoted(value, f"/proc/sys/{key.replace('.', '/')}") for key, value in sysctls.items())
    lines = [f"echo {value} > {file}" for value, file in pairs]
    if lines:
        testbed.host.run(["nsenter", f"--net={NETNS_DIR / netns}", "sh", "-e"], stdin="\n".join(lines) + "\n")


def let_children_inherit(testbed: Testbed, group: str) -> None:
    """Make a cgroup whose children inherit its CPUs. On cgroup version 1, a new cgroup otherwise has no CPUs.

    liblxc, which makes the children, sets `cgroup.clone_children` only for the first cgroup of a path. Source: the
    kernel's cgroup-v1/cpusets.rst."""
    testbed.cgroups.make(testbed.host, group)
    switch = testbed.cgroups.root / "cpuset" / group.strip("/") / "cgroup.clone_children"
    if switch.exists():
        testbed.host.write_text(str(switch), "1")


# Make a mount namespace that exists without processes, and run a command in it: kept HOME PROPAGATION COMMAND …
# If the kernel accepts it, the namespace is mounted on the file HOME/mnt. Inside another mount namespace, Linux 6.18
# refuses some files (EINVAL), since the new namespace must have the higher number, and each CPU assigns numbers in
# batches. In that case, a sleeping process is in the namespace, and HOME/mnt is a symbolic link to its namespace. The
# environment variable HOLDER_VARIABLE identifies this process (`host.undo`).
_KEPT = f"""kept() {{
    home=$1 propagation=$2
    shift 2
    if ! unshare --mount="$home/mnt" --propagation "$propagation" true 2>/dev/null; then
        mkfifo "$home/ready"
        unshare --mount --propagation "$propagation" env {HOLDER_VARIABLE}="$home" \\
            sh -c 'echo >"$1"; exec sleep infinity' hold "$home/ready" </dev/null >/dev/null 2>&1 &
        read -r _ <"$home/ready" || :
        rm "$home/ready"
        ln -sf "/proc/$!/ns/mnt" "$home/mnt"
        touch "$home/{HOLDER_MARK}"
    fi
    nsenter --mount="$home/mnt" "$@"
}}"""


def lasting_namespace_lines(home: Path) -> list[str]:
    """Return shell commands that prepare the directory `home`, and define the shell function `kept`.

    `kept HOME PROPAGATION COMMAND …` runs a command in a mount namespace that exists until HOME is unmounted."""
    (directory,) = quoted(home)
    return [
        f"mount --bind --make-private {directory} {directory}",  # a namespace file must be on a mount that is private
        f"touch {directory}/mnt",
        _KEPT,
    ]


def mounts_script(home: Path, *commands: str, propagation: str = "private") -> str:
    """Return a shell script that runs `commands` in a new mount namespace, which exists as long as `home`.

    The namespace has its own /run, which contains only NETNS_DIR and, if it is below /run, the directory `home`. So the
    locks and sockets of a tool are private, and disappear with the namespace."""
    (directory,) = quoted(home)
    visible = [f"{NETNS_DIR}", *([directory] if home.is_relative_to("/run") else [])]
    return "\n".join(
        [
            f"mkdir -p {directory}/own",
            *lasting_namespace_lines(home),
            f"kept {directory} {propagation} sh -e <<'INSIDE'",
            *commands,
            f"mount -t tmpfs tmpfs {directory}/own",
            f"mkdir -p {directory}/own/run/mount",  # mount(8) uses /run/mount
            f"mkdir -p {' '.join(f'{directory}/own{path}' for path in visible)}",
            *(f"mount --rbind {path} {directory}/own{path}" for path in visible),
            f"mount --rbind {directory}/own/run /run",
            "INSIDE\n",
        ]
    )


def covering_overlays(covers: Path, state: Path, *directories: str) -> list[str]:
    """Return shell commands for a mount namespace that cover directories of the host, so that no write reaches them.

    Writes go to memory, at `covers`. Lastro's state directory, which may be below one of them, remains as it is."""
    memory, state_dir = quoted(covers, state)
    lines = [
        f"mkdir -p {memory}",
        f"mount -t tmpfs tmpfs {memory}",
        f"mkdir {memory}/state",
        f"mount --rbind {state_dir} {memory}/state",
    ]
    for top in directories:
        options = f"lowerdir={top},upperdir={memory}{top},workdir={memory}{top}.work"
        lines += [f"mkdir {memory}{top} {memory}{top}.work", f"mount -t overlay overlay -o {options} {top}"]
    return [*lines, f"mount --rbind {memory}/state {state_dir}"]


def overlay_root(home: Path, scratch: Path, tree: Path) -> list[str]:
    """Return shell commands that mount the root filesystem `tree` at `home`/rootfs, with writes going to `scratch`."""
    directory, disk, lower = quoted(home, scratch, tree)
    return [
        f"mkdir -p {directory}/rootfs {disk}/upper {disk}/work",
        f"mount -t overlay overlay -o lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work {directory}/rootfs",
    ]


def copied_root(home: Path, scratch: Path, tree: Path) -> list[str]:
    """Return shell commands that copy the root filesystem `tree` into `scratch`, and mount the copy at `home`/rootfs.

    They flush the copy to the disk, since the kernel would otherwise do so during a measurement."""
    directory, disk, original = quoted(home, scratch, tree)
    return [
        f"mkdir -p {directory}/rootfs {disk}",
        f"cp -a --reflink=auto {original} {disk}/rootfs",
        f"sync -f {disk}",
        f"mount --bind {disk}/rootfs {directory}/rootfs",
    ]


def seccomp_profile(testbed: Testbed, spec: InstanceSpec, directory: Path) -> str:
    """Write the instance's seccomp filter to a file in `directory`, and return the value of `--security-opt=seccomp`.

    The value is the path of the file, or "unconfined" if the instance has no filter."""
    if spec.security.seccomp is None:
        return "unconfined"
    text = json.dumps(spec.security.seccomp)
    file = str(directory / f"seccomp-{zlib.crc32(text.encode()):08x}.json")
    testbed.host.write_text(file, text)
    return file


def limit_flags(resources: Resources) -> list[str]:
    """Return the limits that are set in `resources` as options of `docker run`, which `podman run` has, too."""
    r = resources
    # Its node, such as /dev/vda for 254:0.
    device = f"/dev/{Path(f'/sys/dev/block/{r.block_device}').resolve().name}" if r.block_device else None
    flags = {
        "--cpus": f"{r.cpus:.3f}" if r.cpus is not None else None,
        "--cpu-shares": r.cpu_shares,
        "--cpuset-cpus": r.cpuset,
        "--memory": r.memory_bytes,
        "--memory-reservation": r.memory_reserved_bytes,
        "--pids-limit": r.pids,
        "--device-read-bps": f"{device}:{r.read_bps}" if device and r.read_bps else None,
        "--device-write-bps": f"{device}:{r.write_bps}" if device and r.write_bps else None,
        "--device-read-iops": f"{device}:{r.read_iops}" if device and r.read_iops else None,
        "--device-write-iops": f"{device}:{r.write_iops}" if device and r.write_iops else None,
    }
    return [f"{flag}={value}" for flag, value in flags.items() if value is not None]


def confinement_flags(security: Security) -> list[str]:
    """Return options of `docker run`, which `podman run` has, too, for AppArmor, SELinux and a read-only root."""
    flags = [f"--security-opt=apparmor={security.apparmor or 'unconfined'}"]
    flags += [f"--security-opt=label={f'type:{security.selinux}' if security.selinux else 'disable'}"]
    if security.read_only_root:
        flags += ["--read-only", *(f"--tmpfs={path}:{options}" for path, options in IN_MEMORY.items())]
    return flags
