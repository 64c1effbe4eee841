"""The base of anomalies that hold open files or sockets: the program, the limit for the host, and the dose."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from lastro.anomalies.base import OVER_LIMIT, Anomaly, Demand, Dose, KernelUse, put_program
from lastro.errors import PlatformError
from lastro.host.base import Host
from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance

HELD = 16_000  # that the workers hold together, unless limited
LEAST_SHARE = 0.5
HOST_SHARE = 4  # the load starts only if it takes at most this part of the files that the host has left: one quarter
_PROGRAM = Path(__file__).with_name("hold.pl")


class HeldResourceAnomaly(Anomaly):
    """An anomaly that holds many kernel objects, and closes and reopens them without pause.

    `held` is the name of the objects in the plural. The limit on the open files of a process applies to each worker
    separately."""

    held: ClassVar[str]
    program = "perl"

    @abstractmethod
    def taken(self, instance: Instance) -> KernelUse:
        """Return how many of the objects the neighbour holds now, in the field `held`."""

    def argv(self, demand: Demand) -> list[str]:
        per_worker = math.ceil(HELD / demand.n_workers)
        return ["perl", _PROGRAM.name, self.held, str(demand.n_workers), str(per_worker), f"{demand.timeout_s:.0f}"]

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        """Write the program into the neighbour; yield a function that returns how many objects it holds.

        Raises: PlatformError when the load would take more than a quarter of the files that the host can still
        open."""
        if neighbour.shares_kernel:
            _require_room(neighbour.testbed.host, self.name)
        put_program(neighbour, _PROGRAM)
        with super().prepared(neighbour) as taken:
            yield taken

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        held = f"the neighbour held {dose.held} {self.held}"
        allowed = limits.open_files * demand.n_workers if limits.open_files else HELD
        if limits.open_files and dose.held > OVER_LIMIT * allowed:
            return f"{held}, more than its limit of {allowed} allows: the limit is not in force"
        wanted = min(HELD, allowed)
        return f"{held}, less than half of {wanted}" if dose.held < LEAST_SHARE * wanted else None


def _require_room(host: Host, name: str) -> None:
    """Check that the load takes at most a quarter of the files that the host can still open. Source: proc_sys_fs(5).

    `name` is the name of the anomaly. Raises: PlatformError when the load would take more."""
    allocated, _, most = (int(word) for word in host.read_text("/proc/sys/fs/file-nr").split())
    if (most - allocated) // HOST_SHARE < HELD:
        raise PlatformError(
            f"the anomaly '{name}' did not start: the host has {most - allocated} open files left, and it would take"
            f" {HELD}, more than a quarter",
            f"set the sysctl fs.file-max to {allocated + HOST_SHARE * HELD} or more",
        )
