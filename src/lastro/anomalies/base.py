"""Anomalies: the misbehaviour of a neighbour, made by stress-ng or, as in the study of 2017, by stress.

Loads that neither tool can make are made by small Perl programs in this package: every root filesystem has Perl."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from lastro.errors import CommandFailed
from lastro.host.base import Process
from lastro.host.cgroups import Resources, Usage, parse_cpus
from lastro.platforms.base import Instance
from lastro.study.model import Level, Setting
from lastro.study.parts import Part

_START_S = 60.0
_MOMENT_S = 0.25
LEAST_SHARE = 0.5  # of the load that a neighbour should make: below it, the dose is too small
OVER_LIMIT = 1.25  # a dose of more than this times a limit shows that the limit is not in force
_WORKING_DIRECTORY = "/var/tmp"  # not /, where it may not be allowed to write


@dataclass(frozen=True, slots=True)
class Demand:
    """The load that the neighbour makes."""

    tool: str  # stress-ng or stress
    workers: int  # number of processes; 0: one per CPU
    memory_bytes: int
    timeout_s: float  # the load ends after this time at the latest
    bandwidth_bps: int = 1 << 31  # bytes per second, in memory
    writes_bps: int = 32 << 20  # bytes per second, to the disk
    frames_per_s: int = 50_000
    # Number of CPUs that the neighbour may use on its host, which may be another machine than this one.
    usable_cpus: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))

    @property
    def n_workers(self) -> int:
        return self.workers or self.usable_cpus


@dataclass(frozen=True, slots=True)
class KernelUse:
    """How much an anomaly has taken of a kernel resource, such as processes, sockets or frames on a link."""

    held: int = 0  # units that it holds now
    used: int = 0  # units that it has taken so far, or that were taken on the whole host since boot
    refused: int = 0  # requests so far that a limit has refused or delayed
    moved_bytes: int = 0  # sent over a link, or moved in memory, so far


@dataclass(frozen=True, slots=True)
class NeighbourReading:
    """The resources that a neighbour has used so far, read at the time `read_s` of the monotonic clock."""

    read_s: float
    usage: Usage
    written_bytes: int
    taken: KernelUse


@dataclass(frozen=True, slots=True)
class Dose:
    """The load that the neighbour really applied while the chain was measured."""

    elapsed_s: float
    cpus: float  # CPU seconds per second
    memory_peak_bytes: int
    written_bytes: int  # handed to the file system, whether or not it reached the disk in time
    alive: bool
    written_in_all_bytes: int = 0  # the same since the load began, including the time to settle
    held: int = 0  # units of the kernel's resource: at the beginning or at the end, whichever is less
    used: int = 0
    refused: int = 0
    moved_bytes: int = 0


class Anomaly(Part):
    """A load in a neighbour; a new anomaly defines `name` and `summary`, like every part, and `argv`."""

    kind = "anomaly"
    program: ClassVar[str] = ""  # makes the load, regardless of the study's tool; empty if that tool makes it
    script: ClassVar[Path | None] = None  # that program's file in this package, which `prepared` copies
    prepares: ClassVar[bool] = False  # `prepared` sets up more than a program: each platform must be probed for it
    on_chain: bool = False  # the neighbour must be attached to a link of the chain, see `over`; may depend on options

    @abstractmethod
    def argv(self, demand: Demand) -> list[str]:
        """Return the command line that makes the load in the neighbour; empty when it does nothing."""

    def command(self, demand: Demand) -> list[str]:
        """Return the command that runs in the neighbour: `argv`, or a wrapper that restarts it if it is killed."""
        return self.argv(demand)

    def fitted(self, demand: Demand, neighbour: Instance) -> Demand:
        """Return the demand adapted to the neighbour's host and limits; by default, unchanged."""
        return demand

    def through(self, function: Instance) -> Anomaly | None:
        """Return a copy of this anomaly that sends its packets through `function`, which tracks connections.

        Return None, the default, if the anomaly does not load connection tables."""
        return None

    def over(self, device: str, target: str) -> Anomaly:
        """Return a copy of this anomaly that sends over `device` of the neighbour, a link of the chain, to `target`.

        An anomaly that sends nothing returns itself. `target` is an IP address on the link."""
        return self

    def unmet(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        """Return why `dose`, under the `limits` on the neighbour, is not the dose of this anomaly; None if it is.

        The reason is that the load ended too early, or one from `too_little`."""
        if not dose.alive:
            return "the neighbour's load ended before the measurement did"
        return self.too_little(dose, demand, limits)

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        """Return why a neighbour that still runs did too little, or exceeded `limits`; None, the default, if not."""
        return None

    def taken(self, instance: Instance) -> KernelUse:
        """Return how much the neighbour has taken of the kernel resource that this anomaly exhausts, if any."""
        return KernelUse()

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        """Set up what the load needs for the duration of the block.

        Yield a function that returns how much the neighbour has taken so far, as `taken` does. Raises: LastroError when
        the set-up fails, or when the host has too little left for the load."""
        if self.script:
            put_program(neighbour, self.script)
        yield partial(self.taken, neighbour)

    @contextmanager
    def at_work(self, neighbour: Instance, demand: Demand) -> Iterator[Neighbour]:
        """Run the load in the neighbour while the block runs, for at most `demand.timeout_s`.

        The block begins when the load has reached its dose, has ended, or has run for a minute. A tool outside of the
        page cache takes long to start if reading from the disk is limited: stress-ng has 33 MB."""
        demand = self.fitted(demand, neighbour)
        with self.prepared(neighbour) as taken:
            process = neighbour.spawn(["env", f"--chdir={_WORKING_DIRECTORY}", *self.command(demand)])
            try:
                load = Neighbour(neighbour, demand, process, taken)
                deadline_s = time.monotonic() + _START_S
                while time.monotonic() < deadline_s and process.alive() and not self._has_begun(load, demand):
                    pass
                yield load
            finally:
                process.stop()

    def _has_begun(self, load: Neighbour, demand: Demand) -> bool:
        """Measure the load for a quarter of a second, and return whether it reaches its dose."""
        before = load.reading()
        time.sleep(_MOMENT_S)
        dose = load.dose_since(before)
        return self.unmet(dose, demand, load.instance.spec.resources) is None


class Neighbour:
    """A misbehaving instance and its running load, with methods to read how much it does."""

    def __init__(self, instance: Instance, demand: Demand, process: Process, taken: Callable[[], KernelUse]) -> None:
        self.instance, self.demand, self._process, self._taken = instance, demand, process, taken

    def reading(self) -> NeighbourReading:
        return NeighbourReading(time.monotonic(), self.instance.usage(), self.instance.written_bytes(), self._taken())

    def dose_since(self, earlier: NeighbourReading) -> Dose:
        """Return the dose of the neighbour since an earlier reading. The load keeps running meanwhile."""
        now = self.reading()
        elapsed_s = now.read_s - earlier.read_s
        used = now.usage.since(earlier.usage)
        return Dose(
            elapsed_s=elapsed_s,
            cpus=used.cpu_s / elapsed_s,
            memory_peak_bytes=used.memory_peak_bytes,
            written_bytes=max(0, now.written_bytes - earlier.written_bytes),
            alive=self._process.alive(),
            written_in_all_bytes=now.written_bytes,
            held=min(earlier.taken.held, now.taken.held),
            used=now.taken.used - earlier.taken.used,
            refused=now.taken.refused - earlier.taken.refused,
            moved_bytes=now.taken.moved_bytes - earlier.taken.moved_bytes,
        )

    def require_alive(self) -> None:
        """Check that the load still runs. Raises: CommandFailed, with the error text of the tool, if it has ended."""
        if not self._process.alive():
            done = self._process.stop()
            raise CommandFailed(done.argv, done.returncode, done.error_text or done.text)


DOSE = Setting("dose", 100, "percent of that load, within 10 % or the trial is invalid; 100: all it gets", 0, 100)
WHOLE = 100
TOLERANCE = 0.1  # of a dose that is asked for in percent


def dose_fraction(chosen: Mapping[str, Level]) -> float | None:
    """Return the option `dose` among the `chosen` options as a fraction, from 0 to below 1; None for 100 %.

    A dose of 100 % is not a fixed load: the anomaly takes all it gets."""
    dose = DOSE.of(chosen)
    return dose / WHOLE if dose < WHOLE else None


def off_dose(did: float, asked: float, text: Callable[[float], str]) -> str | None:
    """Return why `did` differs by over 10 % from the dose `asked`, else None. `text` formats a dose with its unit."""
    if abs(did - asked) <= TOLERANCE * asked:
        return None
    return f"the neighbour did {text(did)}, {'more' if did > asked else 'less'} than {text(asked)} by more than 10 %"


def allowed_cpus(demand: Demand, limits: Resources) -> float:
    """Return the number of CPUs that the workers of `demand` can keep busy under `limits`."""
    pinned = len(parse_cpus(limits.cpuset)) if limits.cpuset else float("inf")
    return min(demand.n_workers, demand.usable_cpus, pinned, limits.cpus or float("inf"))


def put_program(neighbour: Instance, program: Path) -> None:
    """Write a program into the directory in which the neighbour's load starts."""
    neighbour.run(["sh", "-c", f"cat > {_WORKING_DIRECTORY}/{program.name}"], stdin=program.read_text(encoding="utf-8"))
