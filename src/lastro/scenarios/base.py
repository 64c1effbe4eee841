"""The procedure of a trial. A scenario declares what a study may choose, and runs one trial of it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lastro import registry
from lastro.attachments.base import Attachment
from lastro.errors import ImageError, LastroError, Unavailable
from lastro.host.base import Host, Transcript
from lastro.image.rootfs import Needs
from lastro.instruments.base import WORK_DIR
from lastro.platforms.base import AVAILABLE, Availability, Instance, InstanceSpec, Platform, unavailable
from lastro.requirements import NOTHING, Requirements
from lastro.results.samples import Metric, Outcome
from lastro.scenarios._storage import storage
from lastro.study.levels import option_value, part_level, split_options
from lastro.study.model import Level, ScenarioSchema, Setting

if TYPE_CHECKING:
    from lastro.host.ledger import Session
    from lastro.testbed import Testbed

# Settings of every scenario that judges its hosts; `lastro.validity` and `lastro.campaign.quiet` read them.
HOST_LIMITS = (
    Setting("max_steal_percent", 5.0, "CPU time stolen from this host above which a trial is invalid", 0, 100),
    Setting("max_foreign_cpus", 0.3, "CPUs used by other processes above which a trial is invalid", 0, 4096),
    Setting("max_wait_s", 120.0, "longest wait for a quiet host before each trial; 0: do not wait", 0, 86400),
)

# Differences that remain between platforms although the study holds them equal: what to look at, and how.
_SEEN_INSIDE = {
    "kernel": "uname -sr",
    "CPUs": "nproc",
    "clock source": "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
    "open files": "ulimit -n",
    "capabilities": "sed -n 's/^CapEff:\\t//p' /proc/self/status",
    "seccomp mode": "sed -n 's/^Seccomp:\\t//p' /proc/self/status",
    "file system of /": "stat --file-system --format=%T /",
    "file system of /tmp": "stat --file-system --format=%T /tmp",
}

Config = Mapping[str, Level]  # the study's settings under the treatment's levels: all that a trial needs to know


class Scenario(ABC):
    """One object for a whole session. `parts` are the factors that are kinds of part."""

    kind = "scenario"
    name: ClassVar[str]
    summary: ClassVar[str]
    requirements: ClassVar[Requirements] = NOTHING  # of the host; `lastro setup` installs them
    parts: ClassVar[tuple[str, ...]] = ()
    combinable: ClassVar[frozenset[str]] = frozenset()
    settings: ClassVar[tuple[Setting, ...]] = ()
    metrics: ClassVar[tuple[Metric, ...]] = ()
    needs_root: ClassVar[bool] = True
    calibration_shapes: ClassVar[Mapping[str, Any]] = {}  # types of values, by what stands before a key's first slash
    roles: ClassVar[tuple[str, ...]] = ("dut",)  # of the testbed that it uses; a line of three has others

    def __init__(self, testbed: Testbed | None) -> None:
        self._testbed = testbed
        self._stack = ExitStack()

    @property
    def testbed(self) -> Testbed:
        assert self._testbed is not None, f"scenario {self.name} needs a testbed"
        return self._testbed

    @property
    def sessions(self) -> Sequence[Session]:
        """One of each host that trials use."""
        return () if self._testbed is None else self._testbed.sessions

    def close(self) -> None:
        """Withdraw what was prepared for the session, such as daemons."""
        self._stack.close()

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        """Parts of a kind that a study may choose; of instruments, say, those that this scenario can use."""
        return registry.names(kind)

    @classmethod
    def known_metrics(cls) -> tuple[Metric, ...]:
        """Everything that a trial may measure; more than `metrics` where parts bring metrics of their own."""
        return cls.metrics

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> Needs:
        """What the trials of a study need in the root filesystem beyond what every image has."""
        return Needs()

    @classmethod
    @abstractmethod
    def duration_s(cls, config: Config) -> float:
        """How long one trial is expected to take, set-up included."""

    @classmethod
    def probing_s(cls, configs: Sequence[Config]) -> float:
        """How long it may take to find out, at the start, which of these treatments can run; for plans alone."""
        if "platform" not in cls.parts:
            return 0.0
        return sum(0.3 + 2 * start_s({"platform": level}) for level in {platform_level(config) for config in configs})

    @abstractmethod
    def availability(self, config: Config) -> Availability:
        """Can this host run the treatment? Found by doing; the scenario remembers what it has tried."""

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        """What must be known before this trial: keys, and for each the configuration of the run that finds it."""
        return {}

    def can_do_without(self, key: str) -> bool:
        """Can a trial be valid although this calibration failed?"""
        return False

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        """What a calibration run has found, as plain data to keep; `calibration_shapes` has its type."""
        raise NotImplementedError

    @contextmanager
    def attempt(self) -> Iterator[Transcript]:
        """The transcript of what is done inside the block; nothing of it is left on the host afterwards.

        Raises: HostError when something is left that cannot be removed."""
        if self._testbed is None:
            yield Transcript()
            return
        with self._testbed.attempt() as transcript:
            yield transcript

    @abstractmethod
    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        """One trial. Raises: TrialError, which makes it invalid."""

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Provenance that only the scenario can tell, such as versions of the tools in the image.

        `configs` are those of the study's treatments."""
        return {}

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        """The transcript of what was made before the trial and is shared with others, such as a daemon."""
        return []

    def residuals(self, config: Config) -> dict[str, Any]:
        """What differs on this treatment's platform and links although the study holds it equal."""
        return {}


class OnPlatforms(Scenario):
    """One whose instances are of a pool's platforms."""

    pool: PlatformPool

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*self.testbed.preparation, *self.pool.preparations.get(platform_level(config), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return dict(self.pool.residuals(platform_level(config)))


class OnLinks(OnPlatforms):
    """One whose instances are joined by a pool's links too."""

    attachments: AttachmentPool

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*super().preparation(config), *self.attachments.preparations.get(str(config["attachment"]), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return {**super().residuals(config), **self.attachments.residuals(str(config["attachment"]))}


def platform_level(config: Config) -> str:
    """The platform of a treatment with all that was chosen of it."""
    return part_level(config, "platform")


def start_s(config: Config) -> float:
    """How long an instance takes to start and to end on the treatment's platform, about."""
    info = registry.parts("platform").get(split_options(str(config["platform"]))[0])
    return float(info.cls.start_s) if info and info.cls else Platform.start_s


def make_part(kind: str, level: str) -> Any:
    """A part with the options of its level.

    Raises: Unavailable when the part has no option of a name; InputError when it may not have the value."""
    name, texts = split_options(level)
    part = registry.get(kind, name)
    known = {option.name: option for option in part.options}
    for option in texts:
        if option not in known:
            raise Unavailable(
                f"{kind} {name} has no option '{option}'",
                f"exclude this treatment, or write the option into a level, such as 'NAME:{option}={texts[option]}',"
                f" or as a constant of one {kind}, '{kind}.NAME.{option}'",
            )
    return part(**{option: option_value(known[option], text) for option, text in texts.items()})


@dataclass(frozen=True, slots=True)
class Missing:
    """A platform that cannot be had here, and the seconds that it took to find out."""

    found: Availability
    took_s: float


class PlatformPool:
    """Platforms of a session, each prepared on first use and withdrawn with the session.

    They go by their levels: `docker` and `docker:storage=vfs` are two. `missing` are those that cannot be had: what is
    in it is not probed again. `spared_s` are the seconds that this has saved."""

    def __init__(self, testbed: Testbed, stack: ExitStack) -> None:
        self._testbed, self._stack = testbed, stack
        self.missing: dict[str, Missing] = {}
        self.spared_s = 0.0
        self._ready: dict[str, Platform] = {}
        self._probed: dict[str, Availability] = {}
        self._residuals: dict[str, dict[str, str]] = {}
        self.preparations: dict[str, list[dict[str, Any]]] = {}  # transcripts, by platform

    def get(self, name: str) -> Platform:
        """A prepared platform. Raises: whatever its preparation raises."""
        if name not in self._ready:
            platform: Platform = make_part("platform", name)
            if self._testbed.host.far and not platform.over_ssh:
                raise Unavailable(
                    f"{platform.name} runs only on the machine where Lastro runs, and the DUT is reached by SSH",
                    "run Lastro on the DUT itself, and reach the other roles from there",
                )
            with self._testbed.host.recorded() as transcript:
                self._stack.enter_context(platform.prepare(self._testbed))
            self._ready[name] = platform
            self.preparations[name] = transcript.records
        return self._ready[name]

    def availability(self, name: str) -> Availability:
        if name not in self._probed:
            self._probed[name] = self._recalled(name) if name in self.missing else self._found(name)
        return self._probed[name]

    def _recalled(self, name: str) -> Availability:
        self.spared_s += self.missing[name].took_s
        return self.missing[name].found

    def _found(self, name: str) -> Availability:
        session = self._testbed.session
        began_s, built_s = time.monotonic(), session.built_s
        try:
            found = self.get(name).probe(self._testbed)
        except ImageError as error:  # of this study's image: another may do
            return unavailable(error)
        except LastroError as error:
            found = unavailable(error)
        if not found:
            self.missing[name] = Missing(found, time.monotonic() - began_s - (session.built_s - built_s))
        return found

    def residuals(self, name: str) -> dict[str, str]:
        """What an undisturbed instance of a platform sees, and where the platform keeps its files; found once."""
        if name not in self._residuals:
            try:
                platform = self.get(name)
                spec = InstanceSpec("residuals", "probe")
                with self._testbed.host.recorded(), platform.start(self._testbed, spec) as instance:
                    under = {f"under {WORK_DIR}": storage(platform, instance)["in short"]}
                    self._residuals[name] = {**_seen_inside(instance), **under, **platform.residuals(self._testbed)}
            except LastroError:  # what only describes a trial must not spoil it; the next one asks again
                return {}
        return self._residuals[name]


class AttachmentPool:
    """Attachments of a session, each prepared on first use and withdrawn with the session."""

    def __init__(self, testbed: Testbed, stack: ExitStack) -> None:
        self._testbed, self._stack = testbed, stack
        self._ready: dict[str, Attachment] = {}
        self.preparations: dict[str, list[dict[str, Any]]] = {}  # transcripts, by attachment

    def get(self, name: str) -> Attachment:
        """A prepared attachment. Raises: whatever its preparation raises."""
        if name not in self._ready:
            attachment: Attachment = registry.get("attachment", name)()
            with self._testbed.host.recorded() as transcript:
                self._stack.enter_context(attachment.prepare(self._testbed))
            self._ready[name] = attachment
            self.preparations[name] = transcript.records
        return self._ready[name]

    def residuals(self, name: str) -> dict[str, str]:
        """What differs with these links, under their name; nothing when they cannot be had."""
        found = self._ready[name].residuals(self._testbed) if name in self._ready else {}
        return {f"{name}: {what}": text for what, text in found.items()}


def _seen_inside(instance: Instance) -> dict[str, str]:
    """What an instance sees of its surroundings. A line that cannot be read is empty, and left out."""
    script = "\n".join(f"echo $({command} 2>/dev/null)" for command in _SEEN_INSIDE.values())
    lines = instance.run(["sh"], stdin=script + "\n").text.splitlines()
    return {name: line for name, line in zip(_SEEN_INSIDE, lines, strict=False) if line}


def first_unavailable(*probes: Availability) -> Availability:
    return next((found for found in probes if not found), AVAILABLE)


def schema(scenario: type[Scenario]) -> ScenarioSchema:
    return ScenarioSchema(
        name=scenario.name,
        summary=scenario.summary,
        parts={kind: scenario.part_names(kind) for kind in scenario.parts},
        options={kind: _options(kind, scenario.part_names(kind)) for kind in scenario.parts},
        combinable=scenario.combinable,
        settings={setting.name: setting for setting in scenario.settings},
        metrics={metric.name: metric for metric in scenario.known_metrics()},
        metrics_of={kind: found for kind in scenario.parts if (found := _metrics_of(kind, scenario))},
    )


def _metrics_of(kind: str, scenario: type[Scenario]) -> dict[str, frozenset[str]]:
    """Metrics that parts bring and the scenario itself does not have, by part."""
    own = {metric.name for metric in scenario.metrics}
    infos = [info for info in registry.parts(kind).values() if info.name in scenario.part_names(kind)]
    brought = {info.name: frozenset(metric.name for metric in getattr(info.cls, "metrics", ())) for info in infos}
    return {name: names - own for name, names in brought.items() if names - own}


def _options(kind: str, names: frozenset[str]) -> dict[str, dict[str, Setting]]:
    """What can be chosen of each of these parts that can be imported."""
    infos = [info for info in registry.parts(kind).values() if info.name in names]
    offered = {info.name: getattr(info.cls, "options", ()) for info in infos}
    return {name: {option.name: option for option in options} for name, options in offered.items() if options}


def schemas() -> dict[str, ScenarioSchema]:
    """What every known scenario offers to a study."""
    return {name: schema(registry.get("scenario", name)) for name in registry.parts("scenario")}
