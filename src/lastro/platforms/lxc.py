"""Containers by classic LXC: `lxc-start` and `lxc-attach`, without a daemon and without a store of images.

Lastro writes the whole configuration: neither the host's defaults nor its lxcfs affect an instance. Inside an instance,
its cgroup appears as the root, since LXC always makes a cgroup namespace. Source: lxc.container.conf(5). Tested with
LXC 5.0.2 on cgroup version 1."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.host.ledger import NETNS_DIR
from lastro.platforms import container
from lastro.platforms._programs import program_option
from lastro.platforms.base import Instance, InstanceSpec, Platform, Security
from lastro.requirements import Requirements
from lastro.study.model import Setting
from lastro.testbed import Testbed

_START_TIMEOUT_S = 300.0  # a copy of the files may be made on a slow disk
_OVERLAY, _DIR = "overlay", "dir"
_STORAGE_WORDS = "root filesystem: a layer over shared files, or a directory with a copy of them"
_STORAGE = Setting("storage", _OVERLAY, _STORAGE_WORDS, choices=(_OVERLAY, _DIR))
_MOUNTS = (
    "proc proc proc nosuid,noexec,nodev 0 0",
    "sysfs sys sysfs nosuid,noexec,nodev,ro 0 0",
    "shm dev/shm tmpfs nosuid,noexec,nodev,mode=1777,size=65536k,create=dir 0 0",
)
_SECCOMP_ACTIONS = {
    "SCMP_ACT_ALLOW": "allow", "SCMP_ACT_ERRNO": "errno", "SCMP_ACT_KILL": "kill", "SCMP_ACT_KILL_THREAD": "kill",
    "SCMP_ACT_TRAP": "trap",
}  # fmt: skip


class Lxc(Platform):
    name = "lxc"
    summary = "containers by classic LXC, without a daemon"
    version_argv = ("lxc-start", "--version")
    requirements = Requirements(packages=("lxc",))
    options = (_STORAGE, program_option("lxc-start", r"\d+\.\d+"))
    confines = frozenset({"apparmor", "drop_capabilities", "read_only_root", "seccomp", "selinux"})

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        self.require_programs(testbed)
        if self.programs:
            for other in ("lxc-attach", "lxc-stop"):
                testbed.host.require(self.tool(other), "install it in the directory of lxc-start")
        yield

    def tool(self, name: str) -> str:
        """Return the path of the LXC program `name` in the directory of the lxc-start that the study chose.

        If the study chose none, return `name`, which is looked up in the PATH."""
        return str(Path(self.chosen_path(name)).with_name(name)) if self.programs else name

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        testbed.host.require(self.tool("lxc-start"), self.requirements.install)
        with ExitStack() as stack:
            netns, home, scratch, cgroup = container.claim_places(stack, testbed, spec)
            # LXC has a monitor process for each instance. It moves to the second cgroup when the instance ends.
            for monitor_cgroup in (f"{cgroup}.monitor", f"{cgroup}.pivot"):
                stack.enter_context(testbed.session.owned("cgroup", monitor_cgroup))
            container.set_own_sysctls(testbed, netns, spec.sysctls)
            container.let_children_inherit(testbed, testbed.session.cgroup)
            write_configuration(testbed, spec, home, netns, cgroup)
            stop = [*_lxc_argv(testbed, self.tool("lxc-stop"), spec.name), "--kill"]
            stack.callback(testbed.host.run, stop, check=False)
            self._launch(testbed, spec, home, scratch)
            testbed.cgroups.complete(testbed.host, cgroup, spec.resources)
            fixed = [f"--set-var={name}={value}" for name, value in container.ENVIRONMENT.items()]
            enter = [*_lxc_argv(testbed, self.tool("lxc-attach"), spec.name), "--clear-env", *fixed, "--"]
            yield Instance(testbed, spec, netns=netns, cgroup=cgroup, enter=enter)

    def _launch(self, testbed: Testbed, spec: InstanceSpec, home: Path, scratch: Path) -> None:
        log = home / "log"
        argv = _lxc_argv(testbed, self.tool("lxc-start"), spec.name)
        start = shlex.join([*argv, "--daemon", "--logfile", str(log), "--logpriority", "ERROR"])
        make_root = container.copied_root if _STORAGE.of(self.chosen) == _DIR else container.overlay_root
        mounts = container.mounts_script(home, *make_root(home, scratch, testbed.image.tree))
        script = f"{mounts}exec {start}\n"
        try:
            testbed.host.run(["sh", "-e"], stdin=script, timeout_s=_START_TIMEOUT_S)
        except CommandFailed as error:
            reason = error.message
            with suppress(OSError):
                reason = first_error(testbed.host.read_text(str(log))) or reason
            raise PlatformError(f"lxc-start did not start instance {spec.name}: {reason}") from error

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {
            "root filesystem": _STORAGE.of(self.chosen),
            "instance's disk": str(testbed.scratch_dir.parent),
            "control groups": "a namespace of its own",
        }


def _lxc_argv(testbed: Testbed, program: str, name: str) -> list[str]:
    """Return the command line of the LXC tool `program` for the instance `name`, without further arguments.

    It runs in the mount namespace of the instance, which has LXC's locks."""
    return ["nsenter", f"--mount={testbed.run_dir / name / 'mnt'}", program, "-P", str(testbed.run_dir), "-n", name]


def write_configuration(testbed: Testbed, spec: InstanceSpec, home: Path, netns: str, cgroup: str) -> None:
    """Write the LXC configuration of an instance into its directory `home`."""
    devices = [("devices.deny", "a"), *(("devices.allow", device) for device in container.DEVICES)]
    lines = lxc_config(spec, home, netns, cgroup)
    lines += cgroup_lines(testbed, [*devices, *testbed.cgroups.settings(spec.resources)])
    if spec.security.seccomp:
        testbed.host.write_text(str(home / "seccomp"), seccomp_policy(spec.security.seccomp))
    testbed.host.write_text(str(home / "config"), "\n".join(lines) + "\n")


def lxc_config(spec: InstanceSpec, home: Path, netns: str, cgroup: str) -> list[str]:
    """Return the lines of an instance's LXC configuration, except those for the limits of its cgroup."""
    kept = [capability.removeprefix("CAP_").lower() for capability in container.capabilities(spec.security)]
    return [
        f"lxc.rootfs.path = dir:{home}/rootfs",
        f"lxc.uts.name = {spec.role}",
        "lxc.namespace.clone = mnt pid uts ipc",
        f"lxc.namespace.share.net = {NETNS_DIR / netns}",
        f"lxc.init.cmd = {' '.join(container.INIT)}",
        *(f"lxc.environment = {name}={value}" for name, value in container.ENVIRONMENT.items()),
        "lxc.tty.max = 0",
        "lxc.pty.max = 1024",
        "lxc.console.path = none",
        "lxc.signal.stop = SIGKILL",
        f"lxc.cgroup.dir.container = {cgroup.strip('/')}",
        f"lxc.cgroup.dir.monitor = {cgroup.strip('/')}.monitor",
        f"lxc.cgroup.dir.monitor.pivot = {cgroup.strip('/')}.pivot",
        *(f"lxc.mount.entry = {mount}" for mount in (*_MOUNTS, *_masking_mounts())),
        f"lxc.cap.keep = {' '.join(kept) or 'none'}",
        f"lxc.apparmor.profile = {spec.security.apparmor or 'unconfined'}",
        *_confinement(spec.security, home),
    ]


def cgroup_lines(testbed: Testbed, values: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines by which LXC writes (path of a cgroup file, value) pairs to the instance's cgroup."""
    prefix = "lxc.cgroup" if testbed.cgroups.version == 1 else "lxc.cgroup2"
    return [f"{prefix}.{Path(file).name} = {value}" for file, value in values]


def writable_lines(root: Path, how: str) -> list[str]:
    """Return lines of configuration for the mounts that stay writable with a read-only root: IN_MEMORY and ON_DISK.

    `root` is the path of the root filesystem. `how` are the options of the bind mount for ON_DISK."""
    in_memory = [f"tmpfs {path.strip('/')} tmpfs {options} 0 0" for path, options in container.IN_MEMORY.items()]
    on_disk = f"{root}{container.ON_DISK} {container.ON_DISK.strip('/')} none {how} 0 0"
    return [f"lxc.mount.entry = {entry}" for entry in (*in_memory, on_disk)]


def _confinement(security: Security, home: Path) -> list[str]:
    """Return the configuration lines for seccomp, SELinux and a read-only root."""
    lines = [f"lxc.seccomp.profile = {home}/seccomp"] if security.seccomp else []
    if security.selinux:
        lines.append(f"lxc.selinux.context = system_u:system_r:{security.selinux}:s0")
    if security.read_only_root:
        lines += ["lxc.rootfs.options = ro", *writable_lines(home / "rootfs", "bind,rw,nosuid,nodev")]
    return lines


def _masking_mounts() -> list[str]:
    """Return mount entries that make the paths in READ_ONLY read-only, and hide those in MASKED."""
    options = "bind,ro,nosuid,noexec,nodev,optional"
    read_only = [f"{path} {path.strip('/')} none {options} 0 0" for path in container.READ_ONLY]
    masked = container.MASKED
    files = [f"/dev/null {path.strip('/')} none bind,optional 0 0" for path in masked if path.startswith("/proc")]
    directories = [f"tmpfs {path.strip('/')} tmpfs ro,optional 0 0" for path in masked if path.startswith("/sys")]
    return [*read_only, *files, *directories]


def seccomp_policy(profile: Mapping[str, Any]) -> str:
    """Convert an OCI filter to LXC's format (version 2). Raises: Unavailable when LXC has no such action."""
    default = _seccomp_action(profile["defaultAction"], profile.get("defaultErrnoRet"))
    lines = ["2", f"{'denylist' if default == 'allow' else 'allowlist'} {default}", "[all]"]
    for rule in profile.get("syscalls", ()):
        action = _seccomp_action(rule["action"], rule.get("errnoRet"))
        conditions = "".join(_seccomp_condition(argument) for argument in rule.get("args") or ())
        lines += [f"{name} {action} {conditions}".rstrip() for name in rule["names"]]
    return "\n".join(lines) + "\n"


def _seccomp_action(action: str, errno: int | None) -> str:
    if action not in _SECCOMP_ACTIONS:
        raise Unavailable(f"LXC's seccomp filters do not support the action {action}", "use another seccomp profile")
    word = _SECCOMP_ACTIONS[action]
    return f"errno {1 if errno is None else errno}" if word == "errno" else word


def _seccomp_condition(argument: Mapping[str, Any]) -> str:
    index, value, operator = argument["index"], argument["value"], argument["op"]
    if operator == "SCMP_CMP_MASKED_EQ":  # LXC puts the mask last
        return f"[{index},{argument.get('valueTwo', 0)},{operator},{value}]"
    return f"[{index},{value},{operator}]"


def first_error(log: str) -> str | None:
    """Return the first error in LXC's log, which causes the later ones; None if the log has no error."""
    match = re.search(r" ERROR .*? - \S+:\w+:\d+ - (.*)", log)
    return match[1] if match else None
