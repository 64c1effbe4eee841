"""What every container sees alike, whichever tool makes it, so that platforms differ in the tool alone."""

from __future__ import annotations

from lastro.platforms.base import Security

# What Docker gives a container by default.
_USUAL_CAPABILITIES = (
    "CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
)  # fmt: skip
INIT = ("sleep", "infinity")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def capabilities(security: Security) -> list[str]:
    """All that an instance has, sorted."""
    usual = () if security.drop_capabilities else _USUAL_CAPABILITIES
    return sorted({*usual, *security.capabilities})
