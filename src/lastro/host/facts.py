"""Provenance: the facts about a host that readers need to judge results, and that show whether runs are comparable."""

from __future__ import annotations

import hmac
import os
import platform
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lastro import __version__
from lastro.errors import HostUnfit, LastroError
from lastro.grouping import by_key
from lastro.host import cgroups
from lastro.host.activity import meminfo
from lastro.host.base import Host
from lastro.host.files import LocalFiles, file_sha256

T = TypeVar("T")
_HOSTNAME, _KERNEL = "/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease"
_MACHINE_ID, _BOOT_ID = "/etc/machine-id", "/proc/sys/kernel/random/boot_id"
_ARCHITECTURE = "/proc/sys/kernel/arch"  # from Linux 6.1 on
_OS, _CPUS, _MEMORY = "/etc/os-release", "/proc/cpuinfo", "/proc/meminfo"
_AUTOGROUP, _AUTOGROUPS_COUNT = "/proc/self/autogroup", "/proc/sys/kernel/sched_autogroup_enabled"
_OWN_GROUPS, _WEIGHT = "/proc/self/cgroup", "/sys/fs/cgroup{}/cpu.weight"
_LOW_POLICIES = {os.SCHED_BATCH: "SCHED_BATCH", os.SCHED_IDLE: "SCHED_IDLE"}
_SMT = "/sys/devices/system/cpu/smt/control"
_POLICIES = "/sys/devices/system/cpu/cpufreq"
_BOOST, _NO_TURBO = f"{_POLICIES}/boost", "/sys/devices/system/cpu/intel_pstate/no_turbo"
_VULNERABILITIES = "/sys/devices/system/cpu/vulnerabilities"
_NETWORK = (
    "ipv4.tcp_congestion_control", "ipv4.tcp_rmem", "ipv4.tcp_wmem", "core.rmem_max", "core.wmem_max",
    "core.default_qdisc", "core.netdev_max_backlog", "netfilter.nf_conntrack_max",
)  # fmt: skip
_PROGRAMS = (
    "nft", "unshare", "nsenter", "ethtool", "docker", "runc", "dockerd", "containerd", "mmdebstrap", "ovs-vswitchd",
)  # fmt: skip
TOOLS = {"ip": ("ip", "-V"), **{name: (name, "--version") for name in _PROGRAMS}}


def collect(host: Host, commands: Mapping[str, tuple[str, ...]] = TOOLS) -> dict[str, Any]:
    """Return the facts of a host as JSON-serializable data: {chapter: {fact: value}}.

    Facts that the host does not report are left out or empty. The chapter `not_read` has {fact: reason}.

    `commands` maps each tool to the command that prints its version. All of TOOLS take half a second of CPU time."""
    flaws = {name: f"{_VULNERABILITIES}/{name}" for name in host.view.names(_VULNERABILITIES)}
    network = {name: f"/proc/sys/net/{name.replace('.', '/')}" for name in _NETWORK}
    kernel = {
        "version": "/proc/sys/kernel/version",
        "command_line": "/proc/cmdline",
        "clock_source": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "transparent_hugepages": "/sys/kernel/mm/transparent_hugepage/enabled",
        "same_page_merging": "/sys/kernel/mm/ksm/run",
        "numa_balancing": "/proc/sys/kernel/numa_balancing",
    }
    texts = _texts(host, *kernel.values(), *flaws.values(), *network.values())
    problems: dict[str, str] = {}
    programs = tools(host, commands, problems)
    this = machine(host)
    problems |= this.pop("not_read", {})
    return {
        **this,
        "lastro": {"version": __version__, "python": platform.python_version()},
        "kernel": {
            **{name: texts[path] for name, path in kernel.items()},
            "mitigations": {name: texts[path] for name, path in flaws.items()},
        },
        "network": {name: texts[path] for name, path in network.items()},
        "isolation": isolation(host),
        "tools": programs,
        **({"not_read": problems} if problems else {}),
    }


def machine(host: Host) -> dict[str, Any]:
    """Return the chapters `host`, which identifies a host, and `not_read`, as in `collect`. No command is run."""
    texts = _texts(host, _HOSTNAME, _KERNEL, _OS, _CPUS, _ARCHITECTURE, _MEMORY)
    problems: dict[str, str] = {}

    def parsed_value(fact: str, parse: Callable[[str], T], path: str, default: T) -> T:
        try:
            return parse(texts[path])
        except (ValueError, LookupError) as error:
            problems[fact] = f"{path}: {error}"
            return default

    memory = parsed_value("memory", meminfo, _MEMORY, dict[str, int]())
    chapter = {
        "hostname": texts[_HOSTNAME],
        "kernel": texts[_KERNEL],
        "distribution": parsed_value("distribution", _distribution, _OS, ""),
        **parsed_value("processor", _processor, _CPUS, _processor("")),
        **_speeds(host),
        "memory_bytes": memory.get("MemTotal", 0),
        "swap_bytes": memory.get("SwapTotal", 0),
    }
    if chapter.get("cpu_model") == "":
        chapter["cpu_model"] = texts[_ARCHITECTURE] or "unknown"
    return {"host": chapter, **({"not_read": problems} if problems else {})}


def controller() -> dict[str, str]:
    """Return facts of the machine on which Lastro itself runs, even if it measures another one.

    `machine` is a keyed hash of the machine ID, which machine-id(5) asks to keep confidential; empty without an ID.
    `low_priority` says why the kernel prefers other processes to Lastro, if it does."""
    texts = LocalFiles().read((_HOSTNAME, _MACHINE_ID))
    hostname, secret = (texts.get(file, "").strip() for file in (_HOSTNAME, _MACHINE_ID))
    return {
        "hostname": hostname,
        "machine": hmac.digest(secret.encode(), b"lastro", "sha256").hex()[:16] if secret else "",
        "low_priority": low_priority(),
    }


def low_priority() -> str:
    """Return why the kernel prefers other processes to this one, such as "nice 10"; empty if it does not.

    Where the kernel groups processes by session, only the nice value of the session counts; and neither counts in a
    cgroup that has a weight of its own. Source: sched(7)."""
    files = LocalFiles()
    texts = files.read((_OWN_GROUPS, _AUTOGROUP, _AUTOGROUPS_COUNT))
    for line in texts.get(_OWN_GROUPS, "").splitlines():
        _, controllers, group = line.split(":", 2)
        groups = [str(place) for place in (Path(group), *Path(group).parents) if place != Path("/")]
        if (groups and "cpu" in controllers.split(",")) or any(files.exists(_WEIGHT.format(place)) for place in groups):
            return ""
    session = re.search(r" nice (-?\d+)$", texts.get(_AUTOGROUP, "").strip())
    if session and texts.get(_AUTOGROUPS_COUNT, "").strip() == "1":
        return f"nice {session[1]} of its session" if int(session[1]) > 0 else ""
    nice, policy = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    return f"nice {nice}" if nice > 0 else _LOW_POLICIES.get(policy, "")


def fingerprint(host: Host) -> str:
    """Return a hash of a host's machine ID and host name, which identifies the host at any of its addresses.

    Both are needed: clones of a machine have the same ID, and in some labs all machines have the same host name. If a
    host has no machine ID, the ID of its current boot replaces it."""
    texts = _texts(host, _HOSTNAME, _MACHINE_ID, _BOOT_ID)
    secret = f"{texts[_MACHINE_ID] or texts[_BOOT_ID]} {texts[_HOSTNAME]}"
    return hmac.digest(secret.encode(), b"lastro", "sha256").hex()[:16]


def same_host(testbed: str) -> HostUnfit:
    """Return the error for a testbed that uses the same host as the testbed named `testbed`."""
    return HostUnfit(
        f"it uses the same host as testbed {testbed}",
        "in the fleet file, give each host to one testbed, whose name stays; clones of a machine need host names of"
        " their own",
    )


def _distribution(os_release: str) -> str:
    """Return the distribution's PRETTY_NAME from the text of os-release(5); empty if the text has none."""
    lines = (line.partition("=") for line in os_release.splitlines())
    named = {name: shlex.split(value) for name, _, value in lines if name == "PRETTY_NAME"}
    return " ".join(named.get("PRETTY_NAME", []))


def tools(
    host: Host, commands: Mapping[str, tuple[str, ...]], problems: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return {name: its `version`, `path` and `sha256`} of those programs in `commands` that are installed.

    `commands` is {name: command that prints the version}. Failures are in `problems` instead, as {name: reason}."""
    installed: dict[str, Any] = {}
    for name, argv in commands.items():
        path = host.which(program(argv))
        if path is None:
            continue
        try:
            first_line = version(host, argv)
            digest = host.run(["sha256sum", path]).text.split()[0] if host.remote else file_sha256(Path(path))
            installed[name] = {"version": first_line, "path": path, "sha256": digest}
        except (LastroError, OSError, LookupError) as error:
            if problems is not None:
                problems[name] = f"{path}: {error}"
    return installed


def program(argv: Sequence[str]) -> str:
    """Return the program whose version the command `argv` prints: its first word, or NAME of `sh -c SCRIPT NAME`."""
    return argv[3] if argv[0] == "sh" and len(argv) > 3 else argv[0]


def version(host: Host, argv: Sequence[str]) -> str:
    """Return the first line that a command prints, with the version. Raises: LastroError when it cannot be run."""
    done = host.run(argv, timeout_s=20, check=False)
    lines = (done.text or done.error_text).strip().splitlines()
    return lines[0] if lines else ""


def _processor(cpuinfo: str) -> dict[str, Any]:
    pairs = (line.partition(":") for line in cpuinfo.split("\n\n")[0].splitlines())
    first = {key.strip(): value.strip() for key, _, value in pairs}
    return {
        "cpu_model": _cpu_model(first),
        "cpus": sum(line.startswith("processor") for line in cpuinfo.splitlines()),
        "microcode": first.get("microcode", ""),
        "virtual_machine": "hypervisor" in first.get("flags", "").split(),
    }


def _speeds(host: Host) -> dict[str, str]:
    """Return the settings that determine CPU speed: the frequency governor (per CPU if they differ), boost, and SMT.

    Sources: the kernel's admin-guide/pm/cpufreq and admin-guide/pm/intel_pstate, sysfs-devices-system-cpu."""
    names = [name for name in host.view.names(_POLICIES) if name.startswith("policy")]
    policies = [f"{_POLICIES}/{name}" for name in sorted(names, key=lambda name: (len(name), name))]
    files = [f"{policy}/{name}" for policy in policies for name in ("scaling_governor", "affected_cpus")]
    texts = _texts(host, _SMT, _BOOST, _NO_TURBO, *files)
    by_policy = ((texts[f"{policy}/scaling_governor"], texts[f"{policy}/affected_cpus"]) for policy in policies)
    governors = by_key((governor, cpus) for governor, cpus in by_policy if governor)
    with_cpus = [f"{governor} (CPUs {' '.join(cpus)})" for governor, cpus in governors.items()]
    return {
        "governor": ", ".join(governors if len(governors) == 1 else with_cpus) or "unknown (no cpufreq)",
        "boost": {"0": "on", "1": "off"}.get(texts[_NO_TURBO]) or {"1": "on", "0": "off"}.get(texts[_BOOST], ""),
        "smt": texts[_SMT],
    }


def _cpu_model(first: Mapping[str, str]) -> str:
    """Return the CPU model from the fields of the first CPU in /proc/cpuinfo; empty if none of them names it.

    ARM has numbers of implementer and part (Linux, arch/arm64/kernel/cpuinfo.c), POWER has `cpu`, RISC-V `uarch`."""
    for key in ("model name", "cpu", "uarch"):
        if first.get(key):
            return first[key]
    numbers = [f"{key.removeprefix('CPU ')} {first[key]}" for key in ("CPU implementer", "CPU part", "CPU variant")
               if key in first]  # fmt: skip
    return f"ARM {', '.join(numbers)}" if numbers else ""


def isolation(host: Host) -> dict[str, Any]:
    """Return the chapter `isolation`: the mechanisms of the kernel that can isolate instances."""
    modules, apparmor, seccomp = _texts(
        host,
        "/sys/kernel/security/lsm",
        "/sys/module/apparmor/parameters/enabled",
        "/proc/sys/kernel/seccomp/actions_avail",
    ).values()
    return {
        "cgroup_version": cgroups.detect(files=host.view).version,
        "security_modules": modules or "unknown",
        "apparmor": apparmor or "absent",
        "seccomp_actions": seccomp,
    }


def _texts(host: Host, *paths: str) -> dict[str, str]:
    """Return {path: text of the file}, read in one query; the text is empty if a file cannot be read."""
    texts = host.view.read(paths)
    return {path: texts.get(path, "").strip() for path in paths}


def offloads(host: Host, netns: str, link: str) -> dict[str, str]:
    """Return {offload: "on" or "off"} of a link, by ethtool's names; they affect comparisons of attachments."""
    wanted = ("tx-checksumming", "scatter-gather", "tcp-segmentation-offload", "generic-segmentation-offload",
              "generic-receive-offload", "tx-udp-segmentation")  # fmt: skip
    text = host.run(["ip", "netns", "exec", netns, "ethtool", "-k", link], check=False).text
    features = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line)
    return {name: features[name].split()[0] for name in wanted if name in features}
