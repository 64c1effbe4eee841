"""Testbeds of a fleet as `lastro doctor --fleet` finds them, without asking any."""

from __future__ import annotations

import copy
from typing import Any

from lastro.analysis.host_facts import AskedTestbed

ROLES = {role: {"reached": "root@h", "cpu_set": "all", "links": {}} for role in ("client", "dut", "server")}
PROVENANCE: dict[str, Any] = {
    "host": {
        "hostname": "h", "kernel": "6.1.0", "distribution": "Debian", "cpu_model": "EPYC", "cpus": 2, "microcode": "",
        "virtual_machine": True, "governor": "performance", "memory_bytes": 4 << 30, "swap_bytes": 0,
    },
    "lastro": {"version": "1", "python": "3.11"},
    "kernel": {"version": "#1", "command_line": "root=x", "clock_source": "tsc", "mitigations": {"meltdown": "PTI"}},
    "network": {"core.rmem_max": "212992"},
    "isolation": {"cgroup_version": 2, "security_modules": "lockdown", "apparmor": "Y", "seccomp_actions": "kill"},
    "tools": {"runc": {"version": "runc 1.1.5", "path": "/usr/sbin/runc", "sha256": "00"}},
    "root_filesystem": {"sha256": "ab" * 32},
    "testbed": {"file": "fleet.toml", "roles": ROLES},
}  # fmt: skip
LOST = AskedTestbed("lost", ("h9:22",), None, reason="it cannot be reached", remedy="is it up?")


def asked(name: str, **changed: Any) -> AskedTestbed:
    """A testbed whose provenance has other values; `chapter__key` names a place."""
    found = copy.deepcopy(PROVENANCE)
    found["host"]["hostname"] = name
    found["kernel"]["command_line"] = f"root={name}"
    for place, value in changed.items():
        chapter, _, key = place.partition("__")
        found[chapter][key] = value
    return AskedTestbed(name, (f"{name}:22",), found, frozenset({name}))
