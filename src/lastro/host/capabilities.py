"""Linux capabilities by name, and the masks in /proc/PID/status. Source: capabilities(7), linux/capability.h."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# In the kernel's order: the index of a name is its bit in a mask.
NAMES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
    "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN",
    "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
)  # fmt: skip


def mask(names: Iterable[str]) -> int:
    return sum(1 << NAMES.index(name) for name in set(names))


def names(mask: int) -> list[str]:
    """Return the names of the capabilities whose bits are set in `mask`; CAP_N for a bit N that NAMES lacks."""
    bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return [NAMES[bit] if bit < len(NAMES) else f"CAP_{bit}" for bit in bits]


def status_fields(status: str) -> Mapping[str, str]:
    """Parse the text of /proc/PID/status as {field: value}."""
    pairs = (line.partition(":") for line in status.splitlines())
    return {key: value.strip() for key, _, value in pairs}
