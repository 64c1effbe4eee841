"""A neighbour that fills the process table: it forks without pause, and reaps children only above a fixed number.

An internal denial of service, in the words of Kagami and Gaspary (2017): all containers share the process table of the
kernel, so one that fills it keeps the others from starting a process. stress has no such load, so stress-ng makes it,
regardless of the study's tool. The load never runs without a limit on the processes of the neighbour's group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lastro.anomalies.base import LEAST_SHARE, Anomaly, Demand, Dose, KernelUse
from lastro.errors import PlatformError
from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance
from lastro.testbed import IN_A_GUEST

N_PROCESSES = 1000  # that the workers hold together, unless limited
_LEAST_PER_S = 50  # forks; one worker with a tenth of a CPU makes about 200


class Fork(Anomaly):
    name = "fork"
    program = "stress-ng"
    summary = f"forks without pause and holds {N_PROCESSES:,} processes, or as many as its limit allows"

    def argv(self, demand: Demand) -> list[str]:
        per_worker = math.ceil(N_PROCESSES / demand.n_workers)
        load = ["--zombie", str(demand.n_workers), "--zombie-max", str(per_worker)]
        return ["stress-ng", *load, "--timeout", f"{demand.timeout_s:.0f}"]

    def taken(self, instance: Instance) -> KernelUse:
        """Return the processes in the neighbour's cgroup (`held`), and the forks of the whole host since boot (`used`).

        `refused` counts the forks that the limit refused. For a virtual machine, `held` and `used` are those of its
        own kernel, read inside it, and `refused` is 0."""
        if not instance.shares_kernel:
            lines = instance.run(["cat", "/proc/loadavg", "/proc/stat"]).text.splitlines()
            return KernelUse(held=int(lines[0].split()[3].partition("/")[2]), used=_forks(lines))
        tasks = instance.testbed.cgroups.tasks(instance.cgroup)
        lines = instance.testbed.host.read_text("/proc/stat").splitlines()
        return KernelUse(held=tasks.held, used=_forks(lines), refused=tasks.refused)

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        wanted = min(N_PROCESSES, limits.pids or N_PROCESSES)
        if dose.held < LEAST_SHARE * wanted:
            return f"the neighbour held {dose.held} processes, less than half of {wanted}"
        least = _LEAST_PER_S * dose.elapsed_s
        return f"{dose.used} processes were created, fewer than {least:.0f}" if dose.used < least else None

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        """Check that processes are limited, unless the neighbour has its own kernel. Raises: PlatformError if not."""
        if neighbour.shares_kernel:
            file = neighbour.testbed.cgroups.pids_directory(neighbour.cgroup) / "pids.max"
            try:
                limit = neighbour.testbed.host.read_text(str(file)).strip()
            except OSError as error:
                limit = f"not readable ({error.strerror})"
            if limit != str(neighbour.spec.resources.pids):
                raise PlatformError(
                    f"the anomaly 'fork' did not start: {file} is {limit}, so the host could run out of processes",
                    "use a platform and a kernel that limit the processes of a container (cgroup controller `pids`),"
                    f" {IN_A_GUEST}",
                )
        with super().prepared(neighbour) as taken:
            yield taken


def _forks(lines: list[str]) -> int:
    """Return the forks since boot from the lines of /proc/stat (proc_stat(5)); 0 if the kernel does not count them."""
    return next((int(line.split()[1]) for line in lines if line.startswith("processes ")), 0)
