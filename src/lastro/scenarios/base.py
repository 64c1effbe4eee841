"""The procedure of a trial: a scenario declares what a study may choose, and runs one trial at a time."""

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
from lastro.scenarios.shared.storage import storage
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

# What may differ between platforms although the study holds everything equal, and the command that shows it.
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
    """The base class of scenarios; one object serves a session. `parts` are the factors that are kinds of part."""

    kind = "scenario"
    name: ClassVar[str]
    summary: ClassVar[str]
    requirements: ClassVar[Requirements] = NOTHING  # of the host; `lastro setup` installs them
    parts: ClassVar[tuple[str, ...]] = ()
    combinable: ClassVar[frozenset[str]] = frozenset()
    settings: ClassVar[tuple[Setting, ...]] = ()
    metrics: ClassVar[tuple[Metric, ...]] = ()
    needs_root: ClassVar[bool] = True
    calibration_shapes: ClassVar[Mapping[str, Any]] = {}  # types of values, by key up to its first slash
    roles: ClassVar[tuple[str, ...]] = ("dut",)  # of the testbed that it uses; a three-node testbed has more

    def __init__(self, testbed: Testbed | None) -> None:
        self._testbed = testbed
        self._stack = ExitStack()

    @property
    def testbed(self) -> Testbed:
        assert self._testbed is not None, f"scenario {self.name} needs a testbed"
        return self._testbed

    @property
    def sessions(self) -> Sequence[Session]:
        """One session for each host that trials use."""
        return () if self._testbed is None else self._testbed.sessions

    def close(self) -> None:
        """Tear down what was prepared for the session, such as daemons."""
        self._stack.close()

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        """Return the parts of a kind that a study may choose, such as the instruments that this scenario can use."""
        return registry.names(kind)

    @classmethod
    def known_metrics(cls) -> tuple[Metric, ...]:
        """Return every metric that a trial may measure: `metrics`, and those that parts bring."""
        return cls.metrics

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> Needs:
        """Return what a study's trials need in the root filesystem beyond what every image has."""
        return Needs()

    @classmethod
    @abstractmethod
    def duration_s(cls, config: Config) -> float:
        """Return how long one trial is expected to take, including set-up."""

    @classmethod
    def probing_s(cls, configs: Sequence[Config]) -> float:
        """Estimate how long it takes to probe, at the start, which of these treatments can run; for plans only."""
        if "platform" not in cls.parts:
            return 0.0
        return sum(0.3 + 2 * start_s({"platform": level}) for level in {platform_level(config) for config in configs})

    @abstractmethod
    def availability(self, config: Config) -> Availability:
        """Return whether this host can run the treatment, by trying it; the scenario remembers what it has tried."""

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        """Return the calibrations that a trial needs: by key, the configuration of the run that measures each."""
        return {}

    def can_do_without(self, key: str) -> bool:
        """Return whether a trial can be valid although this calibration failed."""
        return False

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        """Return the result of a calibration run, as plain data to keep; `calibration_shapes` has its type."""
        raise NotImplementedError

    @contextmanager
    def attempt(self) -> Iterator[Transcript]:
        """Record a transcript of what is done inside the block, and leave nothing of it on the host afterwards.

        Raises: HostError when something is left that cannot be removed."""
        if self._testbed is None:
            yield Transcript()
            return
        with self._testbed.attempt() as transcript:
            yield transcript

    @abstractmethod
    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        """Run one trial. Raises: TrialError, which makes the trial invalid."""

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Return provenance that only the scenario knows, such as versions of the tools in the image.

        `configs` are those of the study's treatments."""
        return {}

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        """Return the transcript of what was prepared for this and other trials, such as a daemon."""
        return []

    def residuals(self, config: Config) -> dict[str, Any]:
        """Return what differs on this treatment's platform and links although the study holds it equal."""
        return {}


class OnPlatforms(Scenario):
    """A scenario whose instances run on the platforms of a pool."""

    pool: PlatformPool

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*self.testbed.preparation, *self.pool.preparations.get(platform_level(config), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return dict(self.pool.residuals(platform_level(config)))


class OnLinks(OnPlatforms):
    """A scenario whose instances are also joined by the links of a pool."""

    attachments: AttachmentPool

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*super().preparation(config), *self.attachments.preparations.get(str(config["attachment"]), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return {**super().residuals(config), **self.attachments.residuals(str(config["attachment"]))}


def platform_level(config: Config) -> str:
    """Return the level of a treatment's platform: its name with its options."""
    return part_level(config, "platform")


def start_s(config: Config) -> float:
    """Estimate how long an instance takes to start and to stop on the treatment's platform."""
    info = registry.parts("platform").get(split_options(str(config["platform"]))[0])
    return float(info.cls.start_s) if info and info.cls else Platform.start_s


def make_part(kind: str, level: str) -> Any:
    """Return a part with the options of its level.

    Raises: Unavailable when the part has no such option; InputError when the option does not allow the value."""
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
    """A platform that is not available here, and the seconds that it took to find out."""

    found: Availability
    took_s: float


class PlatformPool:
    """The platforms of a session, each prepared on first use and torn down with the session.

    Platforms are keyed by level: `docker` and `docker:storage=vfs` are two. Those in `missing` are not available and
    are not probed again; `spared_s` is the number of seconds that this has saved."""

    def __init__(self, testbed: Testbed, stack: ExitStack) -> None:
        self._testbed, self._stack = testbed, stack
        self.missing: dict[str, Missing] = {}
        self.spared_s = 0.0
        self._ready: dict[str, Platform] = {}
        self._probed: dict[str, Availability] = {}
        self._residuals: dict[str, dict[str, str]] = {}
        self.preparations: dict[str, list[dict[str, Any]]] = {}  # transcripts, by platform

    def get(self, name: str) -> Platform:
        """Return a prepared platform. Raises: any error of its preparation."""
        if name not in self._ready:
            platform: Platform = make_part("platform", name)
            if self._testbed.host.far and not platform.over_ssh:
                raise Unavailable(
                    f"{platform.name} runs only on the machine where Lastro runs, but the DUT is reached by SSH",
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
        except ImageError as error:  # the fault of this study's image: another may work
            return unavailable(error)
        except LastroError as error:
            found = unavailable(error)
        if not found:
            self.missing[name] = Missing(found, time.monotonic() - began_s - (session.built_s - built_s))
        return found

    def residuals(self, name: str) -> dict[str, str]:
        """Return what an undisturbed instance sees, and where its platform keeps its files; each is read once."""
        if name not in self._residuals:
            try:
                platform = self.get(name)
                spec = InstanceSpec("residuals", "probe")
                with self._testbed.host.recorded(), platform.start(self._testbed, spec) as instance:
                    under = {f"under {WORK_DIR}": storage(platform, instance)["in short"]}
                    self._residuals[name] = {**_seen_inside(instance), **under, **platform.residuals(self._testbed)}
            except LastroError:  # a description must not invalidate a trial; the next one tries again
                return {}
        return self._residuals[name]


class AttachmentPool:
    """The attachments of a session, each prepared on first use and torn down with the session."""

    def __init__(self, testbed: Testbed, stack: ExitStack) -> None:
        self._testbed, self._stack = testbed, stack
        self._ready: dict[str, Attachment] = {}
        self.preparations: dict[str, list[dict[str, Any]]] = {}  # transcripts, by attachment

    def get(self, name: str) -> Attachment:
        """Return a prepared attachment. Raises: any error of its preparation."""
        if name not in self._ready:
            attachment: Attachment = registry.get("attachment", name)()
            with self._testbed.host.recorded() as transcript:
                self._stack.enter_context(attachment.prepare(self._testbed))
            self._ready[name] = attachment
            self.preparations[name] = transcript.records
        return self._ready[name]

    def residuals(self, name: str) -> dict[str, str]:
        """Return what differs with these links, with their name in each key; empty unless they are prepared."""
        found = self._ready[name].residuals(self._testbed) if name in self._ready else {}
        return {f"{name}: {what}": text for what, text in found.items()}


def _seen_inside(instance: Instance) -> dict[str, str]:
    """Return what an instance sees of its surroundings; what cannot be read is left out."""
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
    """Return, by part, the metrics that the part brings and the scenario itself does not have."""
    own = {metric.name for metric in scenario.metrics}
    infos = [info for info in registry.parts(kind).values() if info.name in scenario.part_names(kind)]
    brought = {info.name: frozenset(metric.name for metric in getattr(info.cls, "metrics", ())) for info in infos}
    return {name: names - own for name, names in brought.items() if names - own}


def _options(kind: str, names: frozenset[str]) -> dict[str, dict[str, Setting]]:
    """Return the options of each of the named parts that can be imported."""
    infos = [info for info in registry.parts(kind).values() if info.name in names]
    offered = {info.name: getattr(info.cls, "options", ()) for info in infos}
    return {name: {option.name: option for option in options} for name, options in offered.items() if options}


def schemas() -> dict[str, ScenarioSchema]:
    """Return what every known scenario offers to a study, by the scenario's name."""
    return {name: schema(registry.get("scenario", name)) for name in registry.parts("scenario")}
