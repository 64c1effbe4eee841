"""A system call filter: calls that a network function does not need fail with EPERM.

The filter is the same on every platform, so that they can be compared; that of Docker changes between releases."""

from __future__ import annotations

from typing import Any

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Instance, InstanceSpec

DENIED = (
    "acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module",
    "fsconfig", "fsmount", "fsopen", "fspick", "init_module", "ioperm", "iopl", "kcmp", "kexec_file_load",
    "kexec_load", "keyctl", "lookup_dcookie", "mount", "mount_setattr", "move_mount", "move_pages", "nfsservctl",
    "open_by_handle_at", "open_tree", "perf_event_open", "personality", "pidfd_getfd", "pivot_root",
    "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "reboot", "request_key", "setns", "settimeofday",
    "swapoff", "swapon", "sysfs", "syslog", "umount2", "unshare", "uselib", "userfaultfd", "vmsplice",
)  # fmt: skip
_FILTERED = 2  # "Seccomp:" in /proc/PID/status: 0 off, 1 strict, 2 filter


def filter_profile() -> dict[str, Any]:
    """Return the filter in the form that the OCI runtime specification and Docker share."""
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_AARCH64"],
        "syscalls": [{"names": list(DENIED), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
    }


class Seccomp(Isolation):
    name = "seccomp"
    summary = "a filter that denies about fifty dangerous system calls"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec.with_security(seccomp=filter_profile())

    def verify(self, instance: Instance) -> str | None:
        status = instance.run(["cat", "/proc/self/status"]).text
        mode = next((line.split()[1] for line in status.splitlines() if line.startswith("Seccomp:")), "absent")
        if mode != str(_FILTERED):
            return f"the seccomp mode of its processes is {mode}"
        if instance.run(["unshare", "--user", "true"], check=False).returncode == 0:
            return "a denied system call (unshare) succeeded"
        return None
