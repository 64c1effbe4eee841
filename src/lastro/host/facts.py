"""Provenance: facts about a host that readers need to judge its results, and with which later runs are compared."""

from __future__ import annotations

import hashlib
import hmac
import platform
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lastro import __version__
from lastro.errors import LastroError
from lastro.host import cgroups
from lastro.host.base import Host

_VULNERABILITIES = "/sys/devices/system/cpu/vulnerabilities"
_NETWORK = (
    "ipv4.tcp_congestion_control", "ipv4.tcp_rmem", "ipv4.tcp_wmem", "core.rmem_max", "core.wmem_max",
    "core.default_qdisc", "core.netdev_max_backlog", "netfilter.nf_conntrack_max",
)  # fmt: skip
_TOOLS = {
    "ip": ("ip", "-V"),
    "nft": ("nft", "--version"),
    "unshare": ("unshare", "--version"),
    "nsenter": ("nsenter", "--version"),
    "ethtool": ("ethtool", "--version"),
    "docker": ("docker", "--version"),
    "runc": ("runc", "--version"),
    "dockerd": ("dockerd", "--version"),
    "containerd": ("containerd", "--version"),
    "mmdebstrap": ("mmdebstrap", "--version"),
}


def collect(host: Host) -> dict[str, Any]:
    """Collect nested, JSON-able facts by chapter. Facts that the host does not report are left out."""
    return {
        **machine(host),
        "lastro": {"version": __version__, "python": platform.python_version()},
        "kernel": {
            "version": _read(host, "/proc/sys/kernel/version"),
            "command_line": _read(host, "/proc/cmdline"),
            "clock_source": _read(host, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "mitigations": {
                name: _read(host, f"{_VULNERABILITIES}/{name}") for name in host.view.names(_VULNERABILITIES)
            },
        },
        "network": {name: _read(host, f"/proc/sys/net/{name.replace('.', '/')}") for name in _NETWORK},
        "isolation": isolation(host),
        "tools": tools(host, _TOOLS),
    }


def machine(host: Host) -> dict[str, Any]:
    """Return the chapter that identifies a host, without running any command."""
    memory = _meminfo(host)
    return {
        "host": {
            "hostname": _read(host, "/proc/sys/kernel/hostname"),
            "kernel": _read(host, "/proc/sys/kernel/osrelease"),
            "distribution": _distribution(host),
            **_cpu(host),
            "memory_bytes": memory.get("MemTotal", 0),
            "swap_bytes": memory.get("SwapTotal", 0),
        }
    }


def controller() -> dict[str, str]:
    """Identify the machine on which Lastro itself runs, whichever machine is measured.

    `machine` is a keyed hash of the ID that machine-id(5) asks to keep confidential; empty without that ID."""
    files = {"hostname": "/proc/sys/kernel/hostname", "machine": "/etc/machine-id"}
    found = dict.fromkeys(files, "")
    for name, file in files.items():
        with suppress(OSError):
            found[name] = Path(file).read_text().strip()
    secret = found["machine"].encode()
    return found | {"machine": hmac.digest(secret, b"lastro", "sha256").hex()[:16] if secret else ""}


def _distribution(host: Host) -> str:
    """Return the name of the distribution. Source: os-release(5)."""
    lines = (line.partition("=") for line in _read(host, "/etc/os-release").splitlines())
    named = {name: shlex.split(value) for name, _, value in lines if name == "PRETTY_NAME"}
    return " ".join(named.get("PRETTY_NAME", []))


def tools(host: Host, commands: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return version, path and SHA-256 of each program that is installed."""
    found: dict[str, Any] = {}
    for name, argv in commands.items():
        path = host.which(argv[0])
        if path is None:
            continue
        with suppress(LastroError):
            words = host.run(argv, timeout_s=20, check=False)
            lines = (words.text or words.error_text).strip().splitlines()
            found[name] = {"version": lines[0] if lines else "", "path": path, "sha256": _sha256(host, path)}
    return found


def _sha256(host: Host, path: str) -> str:
    if host.remote:
        return host.run(["sha256sum", path]).text.split()[0]
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cpu(host: Host) -> dict[str, Any]:
    pairs = (line.partition(":") for line in _read(host, "/proc/cpuinfo").split("\n\n")[0].splitlines())
    first = {key.strip(): value.strip() for key, _, value in pairs}
    governor = _read(host, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "cpu_model": first.get("model name", platform.machine()),
        "cpus": sum(line.startswith("processor") for line in _read(host, "/proc/cpuinfo").splitlines()),
        "microcode": first.get("microcode", ""),
        "virtual_machine": "hypervisor" in first.get("flags", "").split(),
        "governor": governor or "unknown (no cpufreq)",
    }


def isolation(host: Host) -> dict[str, Any]:
    """Return the chapter on what the kernel offers to isolate instances."""
    return {
        "cgroup_version": cgroups.detect(files=host.view).version,
        "security_modules": _read(host, "/sys/kernel/security/lsm") or "unknown",
        "apparmor": _read(host, "/sys/module/apparmor/parameters/enabled") or "absent",
        "seccomp_actions": _read(host, "/proc/sys/kernel/seccomp/actions_avail"),
    }


def _meminfo(host: Host) -> dict[str, int]:
    lines = (line.split() for line in _read(host, "/proc/meminfo").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def _read(host: Host, path: str) -> str:
    try:
        return host.read_text(path).strip()
    except OSError:
        return ""


def offloads(host: Host, netns: str, link: str) -> dict[str, str]:
    """Return the offloads of a link by ethtool's names; they affect comparisons between attachments."""
    wanted = ("tx-checksumming", "scatter-gather", "tcp-segmentation-offload", "generic-segmentation-offload",
              "generic-receive-offload", "tx-udp-segmentation")  # fmt: skip
    text = host.run(["ip", "netns", "exec", netns, "ethtool", "-k", link], check=False).text
    features = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line)
    return {name: features[name].split()[0] for name in wanted if name in features}
