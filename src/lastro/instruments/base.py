"""An instrument measures the path between two instances under load, or a workload inside one instance."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from lastro.errors import CommandFailed, InstrumentError, LastroError
from lastro.host.base import Completed, Host
from lastro.image.rootfs import ImageAdditions
from lastro.platforms.base import Instance
from lastro.results.samples import TOO_SHORT, Metric, Reading, Remark
from lastro.study.model import Level
from lastro.study.parts import Part

WORK_DIR = "/var/tmp"  # on the instance's own disk on every platform, even with a read-only root
KILLED = 128 + 9
_INTERPRETERS = ("sh", "php")
_ENV_OPTIONS_WITH_VALUE = ("-C", "-u")  # options of env(1) whose value is the next word
PREPARATION_LIMIT_S = 600.0
_FEWEST_MESSAGES = 5  # a workload that takes less time than this number of messages is timed imprecisely
TIME_HOST = Metric(
    "time_host", "s", "lower", "time of the workload on the host's clock, from its start inside to its end"
)
TIME_TOOL = Metric("time_tool", "s", "lower", "time of the workload as its tool reports it, by the instance's clock")


class Watch:
    """A context manager that is entered after the exec of a measured command, and left before its output is read.

    The base class does nothing. A scenario has a subclass that reads meters."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None: ...


UNWATCHED = Watch()


class Instrument(Part):
    """An instrument that measures the path from a client to a server with one tool.

    `metrics` are what it measures. `version_argv` is a command that prints the tool's version, run inside an
    instance."""

    kind = "instrument"
    metrics: ClassVar[tuple[Metric, ...]]
    version_argv: ClassVar[tuple[str, ...]]

    @abstractmethod
    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        """Measure once, from `client` to the address `target` of `server`, and return the metrics and series.

        The measuring command runs by `Instance.measure` within `watch`; all other commands run outside it.

        Raises: InstrumentError when the tool's output cannot be a measurement; CommandFailed; CommandTimeout."""


class Workload(Part):
    """An instrument that runs inside one instance: one tool, its options as levels of a study, and its metrics.

    `options` are chosen like those of a platform, `sysbench-cpu:primes=200000` or `"instrument.threads" = [1, 2]`.
    `packages` are Debian packages that the tool needs in the image. Metrics are measured by the instance's clock,
    except those named in `by_host_clock`. Override `run` if one command is not enough."""

    kind = "instrument"
    metrics: ClassVar[tuple[Metric, ...]]
    packages: ClassVar[tuple[str, ...]] = ()
    version_argv: ClassVar[tuple[str, ...]] = ()
    by_host_clock: frozenset[str] = frozenset({TIME_HOST.name})
    past_caches: ClassVar[frozenset[str]] = frozenset()  # metrics that caches do not affect
    short: ClassVar[Mapping[str, Level]] = {}  # options of its short version; override `brief` if they are not fixed
    probe_limit_s: ClassVar[float] = 120.0  # time limit for its short version, on any platform

    @classmethod
    def needs(cls, host: Host) -> ImageAdditions:
        """Return the packages and programs that the image must contain for this workload.

        Return nothing to add if this host cannot provide a program; the probe then reports that it is missing."""
        with suppress(LastroError):
            return ImageAdditions(cls.packages, cls.programs(host))
        return ImageAdditions()

    @classmethod
    def programs(cls, host: Host) -> tuple[str, ...]:
        """Return the paths, on this host, of programs to copy into the image: the user's, or built from our source.

        Raises: Unavailable if this host lacks something to build or copy them, such as a compiler."""
        return ()

    @abstractmethod
    def expected_s(self, cpus: float, slowdown: float) -> float:
        """Estimate the seconds of preparation and run on `cpus` ordinary CPUs, for plans only.

        `slowdown` is the factor by which the platform slows a computation; a workload of fixed duration ignores it."""

    def brief(self) -> Self:
        """Return a workload with options for a run of about a second, which the probe runs as a test."""
        if not self.short:
            raise NotImplementedError(f"{type(self).__name__}: state `short`, or define `brief`")
        return type(self)(**{**self.chosen, **self.short})

    def argv(self) -> list[str]:
        """Return the command that is measured; empty if `run` is overridden and runs several commands."""
        return []

    def read(self, text: str) -> Reading:
        """Parse the command's output. A pure function. Raises: InstrumentError, and nothing else."""
        raise NotImplementedError

    @classmethod
    def require(cls, host: Host) -> None:
        """Raise Unavailable if this host lacks what `programs` builds or copies."""
        cls.programs(host)

    def least_memory_bytes(self, host: Host, cpuset: str | None) -> int:
        """Return the bytes of memory that the workload's data takes in an instance on the host CPUs `cpuset`.

        Return 0 if the data is small. `cpuset` is None for all CPUs of the host."""
        return 0

    def prepare(self, instance: Instance) -> None:
        """Prepare the instance before the measured time, for example make a file below WORK_DIR. Raises: as `run`.

        By default, only 0 `threads` are replaced by the number of CPUs of the instance."""
        threads = next((option for option in self.options if option.name == "threads"), None)
        if threads:
            self.chosen[threads.name] = threads.of(self.chosen) or _cpus_inside(instance)

    @contextmanager
    def prepared(self, instance: Instance, limit_s: float = PREPARATION_LIMIT_S) -> Iterator[None]:
        """Prepare the instance, and keep helper processes of the workload, such as a server, running inside the block.

        `limit_s` is the time limit of a preparation that may be long. Raises: as `run`."""
        self.prepare(instance)
        yield

    def run(self, instance: Instance, limit_s: float, watch: Watch = UNWATCHED) -> Reading:
        """Run the workload in a prepared instance within `limit_s` seconds, and return its metrics.

        `watch` is entered only for the command of the workload, not for commands before or after it.

        Raises: InstrumentError when the tool was killed, filled the disk, or printed anything but a measurement;
        CommandFailed; CommandTimeout."""
        timed = run_timed(instance, self.argv(), limit_s, watch=watch, name=self.name)
        return with_host_time(self.read(timed.done.text), timed)


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """A command that ran in an instance, and how long it ran by the host's clock.

    `host_s` is this time in seconds; None if the command took less time than a message to the instance.
    `message_s` is how long a message takes. An instance with another clock than the host's is timed by a message at the
    start and one at the end of the command. If the instance has the host's clock, `message_s` is 0."""

    done: Completed
    host_s: float | None
    message_s: float = 0.0

    @property
    def too_short(self) -> str:
        """The reason why `host_s` is imprecise; empty if it is precise.

        An imprecise time is still reported, because leaving out short times would bias the mean of a treatment."""
        if self.host_s is None:
            return "the workload took less time than a message to the instance: it has no time on the host's clock"
        if self.host_s < _FEWEST_MESSAGES * self.message_s:
            return (
                f"the workload took {self.host_s:.3f} s, less than {_FEWEST_MESSAGES} times a message to the instance"
                f" ({self.message_s:.3f} s), which varies"
            )
        return ""


def run_timed(
    instance: Instance, argv: Sequence[str], limit_s: float, *, watch: Watch = UNWATCHED, name: str = ""
) -> TimedCommand:
    """Run a command in an instance by `Instance.measure`, and return its output and its time.

    If the command is a shell script, errors call it `name`.

    Raises: as `Workload.run`."""
    measured = instance.measure(argv, timeout_s=limit_s, check=False, watch=watch)
    done, message_s = measured.done, measured.message_s
    if done.returncode != 0:
        raise failure(instance, argv, done, name)
    return TimedCommand(done, done.duration_s if done.duration_s > message_s else None, message_s)


def failure(
    instance: Instance, argv: Sequence[str], done: Completed, name: str = ""
) -> InstrumentError | CommandFailed:
    """Return the error that explains why a tool failed: a full disk, too many threads, a kill, or CommandFailed.

    The caller raises it. If the command is a shell script, the error calls it `name`."""
    output, tool = f"{done.error_text}\n{done.text}", _tool_name(argv, name)
    if "No space left on device" in output:
        return InstrumentError(f"{tool} filled the instance's disk", "give it a larger disk, or less to write")
    if "Thread creation failed" in output or "Resource temporarily unavailable" in output:
        hint = "use fewer threads, or more memory: the kernel of a machine allows threads in proportion to it"
        return InstrumentError(f"{tool} could not start all of its threads in this instance", hint)
    if done.returncode == KILLED:
        limit = instance.spec.resources.memory_bytes
        bound = f": the instance has {limit >> 20} MiB of memory" if limit else ""
        return InstrumentError(f"{tool} was killed{bound}", "give it more memory, or a smaller task")
    return CommandFailed(argv, done.returncode, done.error_text or done.text)


def _tool_name(argv: Sequence[str], name: str) -> str:
    """Return the name of the program in `argv`, without its directory; `env`, its options and variables are skipped.

    If the program is an interpreter, such as sh, return `name` instead, unless it is empty."""
    words = list(argv)
    if words[0] == "env":
        while len(words) > 1 and (words[0] == "env" or words[0].startswith("-") or "=" in words[0]):
            del words[: 2 if words[0] in _ENV_OPTIONS_WITH_VALUE else 1]
    program = words[0].rpartition("/")[2]
    return name if name and program in _INTERPRETERS else program


def with_host_time(reading: Reading, timed: TimedCommand, *others: str) -> Reading:
    """Return the reading with the metric `time_host` added, if the time is known.

    If the time is imprecise, a remark is added on `time_host` and on the metrics `others`, which are computed from
    it."""
    host_time = {} if timed.host_s is None else {TIME_HOST.name: timed.host_s}
    remarks = (Remark(TOO_SHORT, timed.too_short, (TIME_HOST.name, *others)),) if timed.too_short else ()
    measured = {**host_time, **reading.measurements}
    return replace(reading, measurements=measured, remarks=(*reading.remarks, *remarks))


def time_reasons(tool_s: float, host_s: float) -> tuple[str, ...]:
    """Return a reason for invalidity if the tool reports more time than its process ran on the host's clock; else ().

    Use it only for instances whose clock is known to be right. If the instance has another clock than the host,
    `host_s` may be wrong by the difference between two messages. So the cause may also be that the host was busy at
    that moment."""
    if tool_s <= 1.05 * host_s + 0.05:
        return ()
    ran = f"on the host's clock its process ran for only {host_s:.3f} s"
    return (f"the tool reports {tool_s:.3f} s of work, but {ran}",)


def positive(name: str, value: float) -> float:
    """Return `value` unchanged. Raises: InstrumentError if it is zero, negative, infinite or not a number."""
    if not 0 < value < float("inf"):
        raise InstrumentError(f"{name} cannot be {value:g}")
    return value


# The unit of a metric determines its bound: a time is at most the length of the test, a percentage at most 100, and a
# rate at most what any hardware does today. Bounds are wide: a number may be unusual, but not impossible.
LONGEST_S = 86_400.0  # assumed for a test of unknown duration
_LATE_S = 10.0  # a tool waits for the last answers
_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
MOST: Mapping[str, float] = {
    "%": 100.0,
    "Mbit/s": 1e8,  # 100 Tbit/s
    "MB/s": 1e8,  # 100 TB/s
    "MiB/s": 1e11,  # sysbench counts blocks that it does not touch
    "1/s": 1e12,
    "1": 2.0**53,  # counts that a double holds exactly
}


def largest_possible(unit: str, lasted_s: float = LONGEST_S) -> float:
    """Return the largest possible value in `unit`, in a test of `lasted_s` seconds; infinity for an unknown unit."""
    return (lasted_s + _LATE_S) / _SECONDS[unit] if unit in _SECONDS else MOST.get(unit, math.inf)


def bounded(metrics: Iterable[Metric], reading: Reading, lasted_s: float = LONGEST_S) -> Reading:
    """Return the reading unchanged. Raises: InstrumentError if a measurement or a value of a series is impossible.

    `metrics` have the units of the measurements; a measurement of any other name may be any number from 0."""
    units = {metric.name: metric.unit for metric in metrics}
    for name, value in reading.measurements.items():
        require_possible(name, value, units.get(name, ""), lasted_s)
    for series in reading.series:
        if series.values:
            require_possible(series.name, min(series.values), series.unit, lasted_s)
            require_possible(series.name, max(series.values), series.unit, lasted_s)
    return reading


def require_possible(name: str, value: float, unit: str, lasted_s: float = LONGEST_S) -> None:
    """Raise InstrumentError if no test of `lasted_s` seconds could have yielded this value."""
    if not 0 <= value <= largest_possible(unit, lasted_s):
        where = f" in a test of {lasted_s:g} s" if unit in _SECONDS and lasted_s != LONGEST_S else ""
        hint = "the tool, or the clock of the machine below, does not work here; repeat the trial or use another tool"
        raise InstrumentError(f"impossible number: {name} of {value:g} {unit}{where}".rstrip(), hint)


def _cpus_inside(instance: Instance) -> int:
    text = instance.run(["nproc"]).text.strip()
    if not text.isdigit():
        raise InstrumentError(f"the instance did not report its CPUs: {text[-80:]!r}")
    return int(text)
