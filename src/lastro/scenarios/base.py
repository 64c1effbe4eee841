"""The base of scenarios. A scenario declares what a study may choose, and runs one trial at a time."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from lastro import registry, validity
from lastro.errors import InputError, LastroError, Unavailable
from lastro.functions.base import Function
from lastro.functions.own import brought_function
from lastro.host.base import Host, Transcript
from lastro.image.rootfs import ImageAdditions
from lastro.isolation.base import Isolation, parts_of
from lastro.platforms.base import Availability, Platform
from lastro.requirements import NOTHING, Requirements
from lastro.results.additions import ScenarioFigure, SizedFactor
from lastro.results.samples import Metric, Outcome
from lastro.study.levels import functions_in, option_value, part_level, part_name, platforms_of_hops, split_options
from lastro.study.model import NAME_PATTERN, SYSCTL, VARIANT, Level, ScenarioSchema, Setting, Study
from lastro.study.parts import check_declared
from lastro.study.root_change import RootChange

if TYPE_CHECKING:
    from lastro.host.ledger import Session
    from lastro.testbed import Testbed

_TIME = re.compile(r"(?<!_per)_s$")  # the name of a setting in seconds, such as limit_s, but not rate_per_s
_MOST_STEPS = 4  # of a trial to which one time limit may apply
_SLOWER = 10.0  # how many times its expected duration a trial may take

Config = Mapping[str, Level]  # the study's settings under the treatment's levels: all that a trial needs to know


def _check_guest_name(text: str) -> None:
    if not re.fullmatch(NAME_PATTERN, text):
        why = f"'{text}' is not the name of a guest"
        raise InputError(why, "a testbed file has guests in its tables [guests.NAME]")


GUEST = Setting(
    "guest", "", "the guest of the testbed file that is the host, such as each of two kernels", check=_check_guest_name
)


def guest_of(config: Config) -> str:
    """Return the name of the guest that is the host of a treatment; empty if the study does not choose a guest."""
    return str(config.get(GUEST.name, ""))


def sysctls_of(config: Config) -> dict[str, str]:
    """Return {sysctl: value} as the variant of a treatment sets them."""
    return {name.removeprefix(SYSCTL): str(value) for name, value in config.items() if name.startswith(SYSCTL)}


@dataclass(frozen=True, slots=True)
class CalibrationKind:
    """A kind of calibration. `shape` is the type of its value.

    If `optional` is true, a trial can be valid although the calibration failed."""

    shape: Any
    optional: bool = False


class Declaration(ABC):
    """The choices that a scenario offers to a study, and the durations of its trials.

    Nothing here needs a testbed."""

    kind = "scenario"
    name: ClassVar[str]
    summary: ClassVar[str]
    requirements: ClassVar[Requirements] = NOTHING  # of the host; `lastro setup` installs them
    parts: ClassVar[tuple[str, ...]] = ()  # kinds of part that a study may choose
    usable: ClassVar[Mapping[str, tuple[type[Any], ...]]] = {}  # {kind: base classes of the parts that may be chosen}
    combinable: ClassVar[frozenset[str]] = frozenset()  # kinds whose parts may be joined by '+'
    chainable: ClassVar[frozenset[str]] = frozenset()  # kinds whose parts may be joined by '>'
    settings: ClassVar[tuple[Setting[Any], ...]] = ()
    metrics: ClassVar[tuple[Metric, ...]] = ()
    leads: ClassVar[tuple[str, ...]] = ()  # metrics that come first if a study names no metrics
    needs_root: ClassVar[bool] = True
    takes_sysctls: ClassVar[bool] = False  # whether its instances get the sysctls of a variant
    # The key of a calibration begins with one of these names and a slash.
    calibration_kinds: ClassVar[Mapping[str, CalibrationKind]] = {}
    figures: ClassVar[tuple[ScenarioFigure, ...]] = ()  # added to reports
    sized: ClassVar[SizedFactor | None] = None  # reports show how metrics grow with this factor
    roles: ClassVar[tuple[str, ...]] = ("dut",)  # of the testbed that the scenario uses; a three-node testbed has more

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        texts = dict.fromkeys(("parts", "leads", "roles"), str)
        tuples = {"settings": Setting, "metrics": Metric, "figures": ScenarioFigure, **texts}
        check_declared(cls, tuples, {"requirements": Requirements, "sized": SizedFactor | None})
        if unknown := set(cls.parts) - registry.KINDS.keys():
            raise TypeError(f"{cls.__name__}.parts: there are no parts of kind {', '.join(sorted(unknown))}")

    @classmethod
    def part_names(cls, kind: str) -> frozenset[str]:
        """Return the names of the parts of a kind that a study may choose, such as the instruments."""
        fitting = cls.usable.get(kind)
        infos = registry.parts(kind).values()
        return frozenset(info.name for info in infos if not fitting or (info.cls and issubclass(info.cls, fitting)))

    @classmethod
    def known_metrics(cls) -> tuple[Metric, ...]:
        """Return every metric that a trial may measure by default: `metrics`, and the metrics of parts."""
        return cls.metrics

    @classmethod
    def metrics_by(cls, chosen: Mapping[str, object]) -> tuple[Metric, ...]:
        """Return the metrics that the settings `chosen` add to `known_metrics`; empty for the default settings.

        `chosen` has the value of each constant, and for each factor a mapping whose keys are its levels."""
        return ()

    @classmethod
    def figures_for(cls, study: Study) -> tuple[ScenarioFigure, ...]:
        """Return the figures for the reports of a study: `figures`, unless the scenario derives them from settings."""
        return cls.figures

    @classmethod
    def image_needs(cls, host: Host, configs: Sequence[Config]) -> ImageAdditions:
        """Return what trials with these configurations need in the root filesystem beyond what every image has."""
        return ImageAdditions()

    @classmethod
    @abstractmethod
    def duration_s(cls, config: Config) -> float:
        """Estimate the seconds that one trial takes, including set-up."""

    @classmethod
    def longest_s(cls, config: Config) -> float:
        """Return a time in seconds that no trial exceeds unless its process hangs.

        Each setting in seconds may be the time limit of several steps of the trial, so it is added several times."""
        times = (float(value) for name, value in config.items() if _TIME.search(name))
        return _SLOWER * cls.duration_s(config) + _MOST_STEPS * sum(times)

    @classmethod
    def probing_s(cls, configs: Sequence[Config]) -> float:
        """Estimate the seconds that the probes of these treatments take at the start of a campaign, for plans only."""
        if "platform" not in cls.parts:
            return 0.0
        levels = {level for config in configs for level in platform_levels(config)}
        return sum(0.3 + 2 * platform_class(level).start_s for level in levels)

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        """Return {calibration key: configuration of the calibration run} for all calibrations that a trial needs."""
        return {}


class OnTestbed:
    """The state of a scenario in a session: its testbed, and the stack of what it has prepared there."""

    def __init__(self, testbed: Testbed | None) -> None:
        self._testbed = testbed
        self._stack = ExitStack()

    @property
    def testbed(self) -> Testbed:
        assert self._testbed is not None, f"{type(self).__name__} needs a testbed"
        return self._testbed

    @property
    def sessions(self) -> Sequence[Session]:
        """The sessions on the hosts that must be undisturbed, one for each; empty without a testbed."""
        return () if self._testbed is None else self._testbed.quiet_sessions

    def require_reachable(self) -> None:
        """Have each host of the testbed run a command that does nothing. Raises: TrialError if one does not answer."""
        for session in () if self._testbed is None else self._testbed.sessions:
            with session.host.recorded():
                session.host.run(["true"])

    def close(self) -> None:
        """Tear down what was prepared for the session, such as daemons."""
        self._stack.close()

    def judge_apparatus(self, outcome: Outcome) -> None:
        """Note Lastro's own CPU time and wake-ups during measurements since the last call; invalidate if too high."""
        windows = [] if self._testbed is None else self._testbed.apparatus_windows()
        complete = [window for window in windows if window.wake_ups is not None and window.cpu_s is not None]
        if complete:
            measured_s = sum(window.elapsed_s for window in complete)
            wake_ups = sum(window.wake_ups or 0 for window in complete)
            cpu_s = sum(window.cpu_s or 0.0 for window in complete)
            note = {"measured_s": measured_s, "wake_ups": wake_ups, "cpus": cpu_s / measured_s}
            if killed := sum(window.killed for window in windows):
                note["killed"] = killed
            outcome.notes["apparatus"] = {name: round(value, 6) for name, value in note.items()}
        outcome.invalidate(validity.apparatus_reasons(windows))

    def attempt(self) -> AbstractContextManager[Transcript]:
        """Record a transcript of the block; when the block ends, remove all objects that it made on the host.

        Without a testbed, the transcript is empty. Raises: HostError when an object cannot be removed."""
        return nullcontext(Transcript()) if self._testbed is None else self._testbed.attempt()


class Scenario(Declaration, OnTestbed):
    """The base class of scenarios; one object serves a session.

    If several guests share the treatments of a campaign, `guests` maps the name of each guest to its scenario, and this
    object is one of these scenarios. `roots` has one scenario for each change of a variant that needs a testbed of its
    own. `versions` are the parts that this object uses, if they come from a revision."""

    guests: Mapping[str, Scenario] = {}
    roots: Mapping[RootChange, Scenario] = {}
    versions: registry.PartsByKind = {}

    def at(self, config: Config) -> Scenario:
        """Return the scenario object that runs a treatment.

        It belongs to the treatment's guest or to the root filesystem of its variant, or else is this object."""
        scenario = self.guests.get(guest_of(config), self)
        return scenario.roots.get(RootChange.of(config), scenario)

    def with_its_parts(self) -> AbstractContextManager[None]:
        """Return a context inside which all code uses the parts of this object, `versions`."""
        return registry.using_versions(self.versions)

    def availability_at(self, config: Config) -> Availability:
        """Return whether the treatment's host can run it; unavailable if `availability` returns an invalid object."""
        if self.guests and (name := guest_of(config)) not in self.guests:
            return Availability(f"the testbed has no guest named '{name}'", f"add a table [guests.{name}] to its file")
        scenario = self.at(config)
        with scenario.with_its_parts():
            answer: object = scenario.availability(config)
        if isinstance(answer, Availability):
            contents: tuple[object, ...] = (answer.reason, answer.remedy)
            if all(isinstance(text, str | None) for text in contents):
                return answer
        else:
            contents = (answer,)
        why = f"scenario {self.name} does not say whether it can run: {contents!r}"
        return Availability(why, "correct the scenario")

    @abstractmethod
    def availability(self, config: Config) -> Availability:
        """Return whether this host can run the treatment, by trying its parts; each try is made once in a session."""

    @classmethod
    def can_do_without(cls, key: str) -> bool:
        """Return whether a trial can be valid although the calibration with this key failed."""
        kind = cls.calibration_kinds.get(key.partition("/")[0])
        return kind is not None and kind.optional

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        """Return the result of a calibration run as plain data, to be stored.

        The type of the result is the `shape` of the calibration's kind. Raises: TrialError when the outcome, although
        valid, does not contain the result."""
        raise NotImplementedError

    @abstractmethod
    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        """Run one trial. Raises: TrialError, which makes the trial invalid."""

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Return provenance that only the scenario knows, such as versions of the tools in the image.

        `configs` are the configurations of the study's treatments."""
        return {}

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        """Return the transcript of preparations that the trial shares with other trials, such as starting a daemon."""
        return []

    def residuals(self, config: Config) -> dict[str, Any]:
        """Return, by name, properties of platform and links that the study did not choose, such as the MTU."""
        return {}


def scenario_of(study: Study) -> type[Scenario]:
    """Return the class of a study's scenario. Raises: LastroError if it is not installed, or cannot be imported."""
    return registry.get(Scenario, study.scenario)


def installed_scenario(study: Study) -> type[Scenario] | None:
    """Return the class of a study's scenario; None if it cannot be used, since a campaign can be read without."""
    try:
        return scenario_of(study)
    except LastroError:
        return None


def platform_level(config: Config) -> str:
    """Return the level of a treatment's platform: its name with its options."""
    return part_level(config, "platform")


def platform_levels(config: Config) -> list[str]:
    """Return the level of the treatment's platform, then the levels of other platforms that its functions name."""
    return list(dict.fromkeys([platform_level(config), *(platforms_of_hops(config) if "function" in config else ())]))


def links_level(config: Config) -> str:
    """Return the level of a treatment's attachment: its name with its options."""
    return part_level(config, "attachment")


def isolation_level(config: Config) -> str:
    """Return the level of a treatment's isolation: one or more, joined by "+"."""
    return part_level(config, "isolation")


def platform_of(config: Config) -> type[Platform]:
    """Return the class of the treatment's platform; `Platform` if it is unknown or cannot be imported."""
    return platform_class(platform_level(config))


def platform_class(level: str) -> type[Platform]:
    """Return the class of a platform's level; `Platform` if it is unknown or cannot be imported."""
    info = registry.parts("platform").get(split_options(level)[0])
    return info.cls if info and info.cls else Platform


def shares_kernel(config: Config) -> bool:
    """Return whether the treatment's platform, with its options, runs instances on the host's kernel.

    Raises: as `make_part`."""
    return chosen_part(Platform, config).shares_kernel


def start_s(config: Config) -> float:
    """Estimate the seconds that an instance takes to start and to stop on the treatment's platform."""
    return platform_of(config).start_s


def slowdown(config: Config) -> float:
    """Estimate the factor by which the treatment's platform slows down a computation."""
    return platform_of(config).slowdown


def isolations_of(config: Config) -> list[Isolation]:
    """Return the isolations of a treatment."""
    return [registry.get(Isolation, part)() for part in parts_of(isolation_level(config))]


def chosen_class(kind: type[registry.P], config: Config) -> type[registry.P]:
    """Return the class of the part of this kind that a treatment uses. Raises: as `registry.get`."""
    return registry.get(kind, part_name(config, kind.kind))


def chosen_part(kind: type[registry.P], config: Config) -> registry.P:
    """Return the part of this kind that a treatment uses, with its options. Raises: as `make_part`."""
    return make_part(kind, part_level(config, kind.kind))


def make_part(kind: type[registry.P], level: str) -> registry.P:
    """Make the part that `level` names, with the options in `level`.

    Raises: Unavailable when the part has no such option; InputError when the option does not allow the value."""
    name, texts = split_options(level)
    part: Callable[..., registry.P] = _class_of(kind, name)
    known: dict[str, Setting[Any]] = {option.name: option for option in getattr(part, "options", ())}
    for option in texts:
        if option not in known:
            raise Unavailable(
                f"{kind.kind} {name} has no option '{option}'",
                f"exclude this treatment, or write the option into a level, such as 'NAME:{option}={texts[option]}',"
                f" or as a constant of one {kind.kind}, '{kind.kind}.NAME.{option}'",
            )
    return part(**{option: option_value(known[option], text) for option, text in texts.items()})


def _class_of(kind: type[registry.P], name: str) -> type[registry.P]:
    """Return the class of a part. An unknown function is one that the study brings."""
    info = registry.parts(kind.kind).get(name)
    is_function = info is not None and (info.cls is None or issubclass(info.cls, Function))
    if issubclass(kind, Function) and not is_function:
        return cast(type[registry.P], brought_function(name))
    return registry.get(kind, name)


def make_parts(kind: type[registry.P], level: str) -> list[registry.P]:
    """Make the parts of a level, in order; the level may be a row such as 'firewall>nat'. Raises: as `make_part`."""
    return [make_part(kind, part) for part in functions_in(level)]


def schema(scenario: type[Scenario]) -> ScenarioSchema:
    return ScenarioSchema(
        name=scenario.name,
        summary=scenario.summary,
        parts={kind: scenario.part_names(kind) for kind in scenario.parts},
        options={kind: _options(kind, scenario.part_names(kind)) for kind in scenario.parts},
        combinable=scenario.combinable,
        chainable=scenario.chainable,
        settings={setting.name: setting for setting in scenario.settings},
        metrics={metric.name: metric for metric in scenario.known_metrics()},
        metrics_of={kind: metrics for kind in scenario.parts if (metrics := _metrics_of(kind, scenario))},
        metrics_by=scenario.metrics_by,
        leads=scenario.leads,
        placed={VARIANT.name: VARIANT} | ({GUEST.name: GUEST} if scenario.needs_root else {}),
        sysctls=scenario.takes_sysctls,
        roots=scenario.needs_root,
    )


def _metrics_of(kind: str, scenario: type[Scenario]) -> dict[str, frozenset[str]]:
    """Return {part: names of its metrics that the scenario itself does not have}, without parts that have none."""
    usable = scenario.part_names(kind)
    of_scenario = {metric.name for metric in scenario.metrics}
    further: dict[str, frozenset[str]] = {}
    for info in registry.parts(kind).values():
        names = frozenset(metric.name for metric in getattr(info.cls, "metrics", ())) - of_scenario
        if info.name in usable and names:
            further[info.name] = names
    return further


def _options(kind: str, names: frozenset[str]) -> dict[str, dict[str, Setting[Any]]]:
    """Return {part: {option name: option}} for the parts in `names` that have options."""
    infos = [info for info in registry.parts(kind).values() if info.name in names]
    offered = {info.name: getattr(info.cls, "options", ()) for info in infos}
    return {name: {option.name: option for option in options} for name, options in offered.items() if options}


class Schemas(Mapping[str, ScenarioSchema]):
    """The schemas of all scenarios by name, each made on access, so that a broken scenario does not hide the others.

    Raises: as `registry.get`, for a scenario whose module cannot be used."""

    def __getitem__(self, name: str) -> ScenarioSchema:
        if name not in registry.parts("scenario"):
            raise KeyError(name)
        return schema(registry.get(Scenario, name))

    def __iter__(self) -> Iterator[str]:
        return (name for name, info in registry.parts("scenario").items() if info.cls)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def schemas() -> Mapping[str, ScenarioSchema]:
    return Schemas()
