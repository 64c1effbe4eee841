"""The base of anomalies that hold open files or sockets: the program, the limit for the host, and the dose."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from lastro.anomalies.base import LEAST_SHARE, OVER_LIMIT, Anomaly, Demand, Dose, KernelUse
from lastro.errors import PlatformError
from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance

N_OBJECTS = 16_000  # that the workers hold together, unless limited
_LEAST_FREE = 4 * N_OBJECTS  # files that the host can still open: the load takes at most a quarter
_FILE_COUNTS = "/proc/sys/fs/file-nr"  # allocated, free, most. Source: proc_sys_fs(5)
_SCRIPT = Path(__file__).with_name("hold.pl")


class HeldResourceAnomaly(Anomaly):
    """An anomaly that holds many kernel objects, and closes and reopens them without pause."""

    objects: ClassVar[str]  # their name in the plural
    program = "perl"
    script = _SCRIPT

    @abstractmethod
    def taken(self, instance: Instance) -> KernelUse:
        """Return how many objects the neighbour holds now, in the field `held`."""

    def argv(self, demand: Demand) -> list[str]:
        per_worker = math.ceil(N_OBJECTS / demand.n_workers)
        return ["perl", _SCRIPT.name, self.objects, str(demand.n_workers), str(per_worker), f"{demand.timeout_s:.0f}"]

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        """Check that the host has room for the load, and yield a function that returns how many objects it holds.

        Raises: PlatformError when the load would take more than a quarter of the files that are left on the host."""
        if neighbour.shares_kernel:
            allocated, _, most = map(int, neighbour.testbed.host.read_text(_FILE_COUNTS).split())
            if most - allocated < _LEAST_FREE:
                raise PlatformError(
                    f"the anomaly '{self.name}' did not start: the host can open {most - allocated} more files, and the"
                    f" load would take {N_OBJECTS}, more than a quarter of them",
                    f"set the sysctl fs.file-max to {allocated + _LEAST_FREE} or more",
                )
        with super().prepared(neighbour) as taken:
            yield taken

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        held = f"the neighbour held {dose.held} {self.objects}"
        allowed = limits.open_files * demand.n_workers if limits.open_files else N_OBJECTS
        if limits.open_files and dose.held > OVER_LIMIT * allowed:
            return f"{held}, more than its limit of {allowed} allows: the limit is not in force"
        wanted = min(N_OBJECTS, allowed)
        return f"{held}, less than half of {wanted}" if dose.held < LEAST_SHARE * wanted else None
