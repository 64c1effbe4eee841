"""The configuration files of a private Podman. Sources: containers.conf(5), storage.conf(5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lastro.testbed import Testbed


def containers_conf(
    runtime: str, program: str, ulimits: Sequence[str], conmon: str | None = None, networks: str = ""
) -> str:
    """Return a containers.conf for the OCI runtime at the path `program`, with the limits of `ulimits`.

    `networks` is the program that makes networks of Podman's own; if empty, Podman chooses it."""
    return "\n".join(
        [
            "[containers]",
            f"default_ulimits = {json.dumps(list(ulimits))}",
            "default_sysctls = []",
            "pids_limit = 0",  # no limit, as on other platforms
            "[engine]",
            'cgroup_manager = "cgroupfs"',
            'events_logger = "none"',
            f'runtime = "{runtime}"',
            *([f'conmon_path = ["{conmon}"]'] if conmon else []),
            "[engine.runtimes]",
            f'{runtime} = ["{program}"]',
            *(["[network]", f'network_backend = "{networks}"'] if networks else []),
            "",
        ]
    )


def ulimits(testbed: Testbed) -> list[str]:
    """Return this process's limits on files and processes, as NAME=SOFT:HARD, for Podman to apply to containers.

    Other tools pass on these limits by default, but Podman might request more than the host allows. Podman lowers its
    own limit on processes to pid_max before it starts a runtime, so a container cannot have a higher one."""
    pid_max = int(testbed.host.read_text("/proc/sys/kernel/pid_max"))
    argv = ["prlimit", "--nofile", "--nproc", "--noheadings", "--output=RESOURCE,SOFT,HARD"]
    ulimits = []
    for line in testbed.host.run(argv).text.splitlines():
        name, *limits = line.lower().split()
        numbers = [pid_max if limit == "unlimited" else int(limit) for limit in limits]
        if name == "nproc":
            numbers = [min(number, pid_max) for number in numbers]
        ulimits.append(f"{name}={':'.join(map(str, numbers))}")
    return ulimits


def storage_conf(root: Path, run: str, images: Path | None = None) -> str:
    """Return a storage.conf for a store below `root`, which may also use the images of the read-only store `images`."""
    lines = ["[storage]", 'driver = "overlay"', f'graphroot = "{root}"', f'runroot = "/run/containers/{run}"']
    lines += ["[storage.options]", f'additionalimagestores = ["{images}"]'] if images else []
    return "\n".join(lines) + "\n"
