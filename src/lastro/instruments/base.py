"""An instrument measures: the path between two instances under load, or one instance by a workload inside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from statistics import median
from typing import ClassVar, Self

from lastro.errors import CommandFailed, InstrumentError
from lastro.host.base import Completed, Host
from lastro.image.rootfs import Needs
from lastro.platforms.base import Instance
from lastro.requirements import NOTHING, Requirements
from lastro.results.samples import TOO_SHORT, Metric, Reading, Remark
from lastro.study.model import Level, Setting

WORK_DIR = "/var/tmp"  # on the instance's own disk on every platform, under a read-only root too
KILLED = 128 + 9
_INTERPRETERS = ("sh", "php")
_ENTERINGS = 3
PREPARATION_LIMIT_S = 600.0
_CLEARLY = 5  # times of entering: what is shorter has too much of its variation in its time
TIME_HOST = Metric("time_host", "s", "lower", "time of the workload on the host's clock, without entering the instance")
TIME_TOOL = Metric("time_tool", "s", "lower", "time of the workload as its tool tells it, by the instance's clock")


class Instrument(ABC):
    """`metrics` are what it measures; `version_argv` prints its version, run inside an instance."""

    kind = "instrument"
    name: ClassVar[str]
    summary: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    version_argv: ClassVar[tuple[str, ...]]

    @abstractmethod
    def measure(self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level]) -> Reading:
        """One measurement from `client` to address `target`, which is `server`'s.

        Raises: InstrumentError when the tool's output cannot be a measurement; CommandFailed; CommandTimeout."""


class Watch:
    """Stands around the one command that is a workload; this one does nothing, a scenario's own reads its meters.

    `through` becomes what enters the instance, and puts it where its CPU time is not taken for somebody else's."""

    through: Sequence[str] = ()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None: ...

    def entering(self) -> AbstractContextManager[None]:
        """Stands around a command that does nothing, before the workload: what it takes is the entering's."""
        return nullcontext()


UNWATCHED = Watch()


class Workload(ABC):
    """An instrument that runs inside one instance: one tool, its options as levels of a study, its metrics.

    `options` are chosen like those of a platform, `sysbench-cpu:primes=200000` or `"instrument.threads" = [1, 2]`.
    `packages` are Debian packages that it needs in the image. All metrics are by the instance's clock, except those
    named in `by_host_clock`. Where a command of its own is not enough, override `run`."""

    kind = "instrument"
    name: ClassVar[str]
    summary: ClassVar[str]
    requirements: ClassVar[Requirements] = NOTHING  # of the host; `lastro setup` installs them
    metrics: ClassVar[tuple[Metric, ...]]
    options: ClassVar[tuple[Setting, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()
    version_argv: ClassVar[tuple[str, ...]] = ()
    by_host_clock: frozenset[str] = frozenset({TIME_HOST.name})
    past_caches: ClassVar[frozenset[str]] = frozenset()  # of a disk's metrics, those that no cache changes
    probe_limit_s: ClassVar[float] = 120.0  # after which its short version is given up, on any platform

    def __init__(self, **chosen: Level) -> None:
        self.chosen: dict[str, Level] = {option.name: option.default for option in self.options} | chosen

    def number(self, option: str) -> int:
        return int(self.chosen[option])

    @classmethod
    def needs(cls, host: Host) -> Needs:
        """What it needs in the image: packages, and programs of the user's or made from our own source on this host.

        A program that cannot be had is left out: the probe then finds that it is missing."""
        return Needs(cls.packages)

    @abstractmethod
    def expected_s(self, cpus: float, slowdown: float) -> float:
        """How long it runs on so many ordinary CPUs, preparation included, for the plan.

        `slowdown`: by what factor the platform makes a computation longer; what is bound by time ignores it."""

    @abstractmethod
    def brief(self) -> Self:
        """Itself made short, a second or so: the probe runs it to see that it works."""

    def argv(self) -> list[str]:
        """The command; empty where it is more than one."""
        return []

    def read(self, text: str) -> Reading:
        """What the command's output says. A pure function. Raises: InstrumentError, and nothing else."""
        raise NotImplementedError

    @classmethod  # noqa: B027 - most need nothing
    def require(cls, host: Host) -> None:
        """Raises: Unavailable when this host lacks what the tool is made of or taken from: a compiler, say."""

    def least_memory_bytes(self, host: Host, cpuset: str | None) -> int:
        """What it needs of the instance's memory for its data alone, on these CPUs of the host; 0: little."""
        return 0

    def prepare(self, instance: Instance) -> None:  # noqa: B027 - most need nothing
        """Before the time that is measured, such as a file to work on, below WORK_DIR. Raises: as `run`."""

    @contextmanager
    def prepared(self, instance: Instance, limit_s: float = PREPARATION_LIMIT_S) -> Iterator[None]:
        """The instance prepared, with what the workload needs beside it, such as a server, until the block ends.

        `limit_s` is when to give up a preparation that may be long. Raises: as `run`."""
        self.prepare(instance)
        yield

    def run(self, instance: Instance, limit_s: float, watch: Watch = UNWATCHED) -> Reading:
        """The workload, in an instance that is prepared; `limit_s` is when to give up.

        `watch` is entered for the command that is the workload, and for nothing before or after it: by `run_timed`.

        Raises: InstrumentError when the tool was killed, filled the disk, or printed what cannot be a measurement;
        CommandFailed; CommandTimeout."""
        timed = run_timed(instance, self.argv(), limit_s, watch=watch, name=self.name)
        return with_host_time(self.read(timed.done.text), timed)


@dataclass(frozen=True, slots=True)
class Timed:
    """A command that ran in an instance. `host_s` is on the host's clock, less what entering the instance takes;

    None for a command that took less time than that, and so cannot be told from it. `entering_s` is the median of a
    few: the least of them would leave in `host_s` what entering usually takes beyond it, more where it varies more."""

    done: Completed
    host_s: float | None
    entering_s: float

    @property
    def too_short(self) -> str:
        """Why its time is not well known; empty where it is. A time that is known stays: to drop the short ones of a

        treatment would leave a mean of its long ones."""
        if self.host_s is None:
            return "the workload took less time than entering the instance: it has no time on the host's clock"
        if self.host_s < _CLEARLY * self.entering_s:
            return (
                f"the workload took {self.host_s:.3f} s, less than {_CLEARLY} times of entering the instance"
                f" ({self.entering_s:.3f} s), which varies"
            )
        return ""


def run_timed(
    instance: Instance,
    argv: Sequence[str],
    limit_s: float,
    *,
    stdin: str | bytes | None = None,
    watch: Watch = UNWATCHED,
    name: str = "",
) -> Timed:
    """Run a command in an instance against the host's clock. Entering is timed before, by one that does nothing.

    `name` is what errors call a command that is a shell's script.

    Raises: as `Workload.run`."""
    entering_s = median(_entering_s(instance, watch) for _ in range(_ENTERINGS))
    with watch:
        done = instance.run(argv, stdin=stdin, timeout_s=limit_s, check=False, through=watch.through)
    if done.returncode != 0:
        raise failure(instance, argv, done, name)
    inside_s = done.duration_s - entering_s
    return Timed(done, inside_s if inside_s > entering_s else None, entering_s)


def watched(instance: Instance, argv: Sequence[str], limit_s: float, watch: Watch) -> Completed:
    """A command under watch, whatever it ends with. What entering takes is found before, where somebody watches."""
    if watch is not UNWATCHED:
        for _ in range(_ENTERINGS):
            _entering_s(instance, watch)
    with watch:
        return instance.run(argv, timeout_s=limit_s, check=False, through=watch.through)


def _entering_s(instance: Instance, watch: Watch) -> float:
    with watch.entering():
        return instance.run(["true"], through=watch.through).duration_s


def failure(
    instance: Instance, argv: Sequence[str], done: Completed, name: str = ""
) -> InstrumentError | CommandFailed:
    """Why a tool ended with an error, as far as it can be known."""
    words, tool = f"{done.error_text}\n{done.text}", _tool(argv, name)
    if "No space left on device" in words:
        return InstrumentError(f"{tool} filled the instance's disk", "give it more room, or less to write")
    if "Thread creation failed" in words or "Resource temporarily unavailable" in words:
        hint = "give it more memory, by which a machine's kernel measures how many it allows, or fewer threads"
        return InstrumentError(f"{tool} could not start all of its threads in this instance", hint)
    if done.returncode == KILLED:
        limit = instance.spec.resources.memory_bytes
        bound = f": the instance has {limit >> 20} MiB of memory" if limit else ""
        return InstrumentError(f"{tool} was killed{bound}", "give it more memory, or a smaller task")
    return CommandFailed(argv, done.returncode, done.error_text or done.text)


def _tool(argv: Sequence[str], name: str) -> str:
    """The program that `env` is asked to run, or the first word; of a script, `name` where it is given."""
    words = [word for word in argv if "=" not in word and not word.startswith(("-", "/"))]
    program = (words[1] if words[0] == "env" and len(words) > 1 else words[0]).rpartition("/")[2]
    return name if name and program in _INTERPRETERS else program


def with_host_time(reading: Reading, timed: Timed, *others: str) -> Reading:
    """The reading with the host's time beside the tool's, and a remark on it, and on `others` that are made of it,

    where it is not well known."""
    known = {} if timed.host_s is None else {TIME_HOST.name: timed.host_s}
    remarks = (Remark(TOO_SHORT, timed.too_short, (TIME_HOST.name, *others)),) if timed.too_short else ()
    measured = {**known, **reading.measurements}
    return replace(reading, measurements=measured, remarks=(*reading.remarks, *remarks))


def time_reasons(tool_s: float, host_s: float) -> tuple[str, ...]:
    """Why the two times cannot both be right. Only for an instance whose clock is known to run well.

    A tool cannot work for longer than its process lives. `host_s` is as wrong as entering the instance took longer or
    shorter than it usually does, so a host that was busy in just that moment may be the reason, too."""
    if tool_s <= 1.05 * host_s + 0.05:
        return ()
    return (
        f"the tool reports {tool_s:.3f} s of work, but on the host's clock only {host_s:.3f} s were left for it"
        " after entering the instance",
    )


def positive(name: str, value: float) -> float:
    """Raises: InstrumentError for a result that is zero, negative, or no number."""
    if not 0 < value < float("inf"):
        raise InstrumentError(f"{name} cannot be {value:g}")
    return value
