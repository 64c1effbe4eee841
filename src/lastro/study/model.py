"""The study as frozen data: the content of a valid study file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from lastro.errors import InputError
from lastro.results.samples import Metric
from lastro.shapes import MisshapenData, from_plain
from lastro.stats.intervals import alpha_of
from lastro.stats.look_state import FEWEST_BLOCKS
from lastro.study.own_function import OwnFunction

Level = str | int | float | bool
Levels = Mapping[str, tuple[Level, ...]]  # {factor: levels}; more than one level means the mean over them

NAME_PATTERN = r"[a-z0-9][a-z0-9._-]*"  # of the name of a study, which is also the name of directories
DAY_S = 86_400  # the maximum of settings in seconds
SYSCTL = "sysctl."  # prefix of the kernel's network settings in the configuration of a treatment
T = TypeVar("T", bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A quantity that a study may set as a constant or vary as a factor. The name contains the unit.

    All values have the type of the default."""

    name: str
    default: T
    summary: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[str], object] | None = None  # raises InputError for a text that cannot be used
    by_profile: bool = False  # a profile may change the setting: an amount of work, a tool, or CPUs
    listed: bool = False  # a study may write a list, whose entries are joined by commas
    prints: str = ""  # for the path of a program: the pattern with which the first line of its --version begins

    def of(self, config: Mapping[str, Level]) -> T:
        """Return the value in the configuration of a treatment. Raises: KeyError if the configuration has none."""
        return type(self.default)(config[self.name])

    @property
    def in_profiles(self) -> bool:
        """True if a profile may change the setting: a duration, or a setting with `by_profile`."""
        return self.by_profile or self.name.endswith("_s")


@dataclass(frozen=True, slots=True)
class ScenarioSchema:
    """The choices that a scenario offers to a study."""

    name: str
    summary: str
    parts: Mapping[str, frozenset[str]]  # {kind of part: names of the parts}; each kind may be a factor
    combinable: frozenset[str]  # part factors whose levels may be joined by "+", such as isolation
    settings: Mapping[str, Setting[Any]]
    metrics: Mapping[str, Metric]  # {name: metric}; those that depend on settings, for the default settings
    # {kind: {part: {name: option}}}
    options: Mapping[str, Mapping[str, Mapping[str, Setting[Any]]]] = field(default_factory=dict)
    # {kind: {part: names of metrics that only this part yields}}
    metrics_of: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    # Returns the metrics that depend on settings, for the choices of a study.
    metrics_by: Callable[[Mapping[str, object]], tuple[Metric, ...]] = lambda chosen: ()
    leads: tuple[str, ...] = ()  # names of the metrics that come first in a study that does not list metrics
    # Settings of the testbed: they have no default, and a study may leave them out.
    placed: Mapping[str, Setting[Any]] = field(default_factory=dict)
    chainable: frozenset[str] = frozenset()  # part factors whose levels may be chains, such as 'firewall>nat'
    sysctls: bool = False  # whether a variant may change kernel settings in the network namespaces of instances
    roots: bool = False  # whether a variant may change the root filesystem of instances

    def metrics_for(self, chosen: Mapping[str, object]) -> dict[str, Metric]:
        """Return {name: metric} of a study; `chosen` has its constants, and its factors as {name: levels}."""
        of_defaults = {metric.name for metric in self.metrics_by({})}
        by_name = {name: metric for name, metric in self.metrics.items() if name not in of_defaults}
        by_name |= {metric.name: metric for metric in self.metrics_by(chosen)}
        return {name: by_name[name] for name in self.leads if name in by_name} | by_name

    def with_functions(self, functions: Collection[OwnFunction]) -> ScenarioSchema:
        """Return the schema with the functions that a study defines added to its parts."""
        if not functions:
            return self
        names = {function.name for function in functions}
        return replace(self, parts={**self.parts, "function": self.parts["function"] | names})


@dataclass(frozen=True, slots=True)
class Factor:
    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A rule that leaves out the treatments in which every factor of `when` has one of the levels listed for it."""

    when: Mapping[str, tuple[Level, ...]]
    reason: str

    @classmethod
    def of(cls, levels: Mapping[str, Level], reason: str) -> Exclusion:
        """Return the rule that leaves out only the treatment with these levels."""
        return cls({name: (level,) for name, level in levels.items()}, reason)

    def matches(self, levels: Mapping[str, Level]) -> bool:
        return all(levels.get(factor) in wanted for factor, wanted in self.when.items())


@dataclass(frozen=True, slots=True)
class Design:
    """The design of a study: replicated randomised complete blocks, and when to stop.

    With "fixed" `stopping`, there are `replicates` blocks. With "sequential", blocks are added until the ratios to the
    baseline have intervals of at most `precision`, or until there are `max_replicates` blocks. With "decided", blocks
    are added until the service levels or the variants are decided, until there are `max_replicates` blocks, or until
    another block would exceed `within_s` seconds."""

    replicates: int = 5  # in a campaign, it grows with its blocks
    seed: int = 1
    order: str = "randomised-blocks"
    confidence: float = 0.95
    # {factor: level}; ratios are taken against the treatments with these levels.
    baseline: Mapping[str, Level] = field(default_factory=dict)
    stopping: Literal["fixed", "sequential", "decided"] = "fixed"
    precision: float = 0.05  # largest half width of an interval; 0.05 is plus or minus 5 %
    max_replicates: int = 40
    precise_metrics: tuple[str, ...] = ()  # the only metrics whose ratios count for "sequential"; empty: all
    # "adaptive": added blocks have only the candidates that are still open.
    allocation: Literal["equal", "adaptive"] = "equal"
    within_s: float = 0.0  # 0: no limit
    # Fraction of the combinations of two-level factors that are treatments.
    fraction: Literal["1", "1/2", "1/4", "1/8"] = "1"

    def until_decided(self, within_s: float = 0.0) -> Design:
        """Return the design that looks at the data after each block from the second on, with the same maximum."""
        return replace(self, stopping="decided", within_s=within_s).with_blocks(self.most_blocks)

    def with_blocks(self, n_blocks: int) -> Design:
        """Return the design with this number of blocks, or at most this number if a decision ends the campaign."""
        if self.stopping == "decided":
            return replace(self, replicates=min(FEWEST_BLOCKS, n_blocks), max_replicates=n_blocks)
        return replace(self, replicates=n_blocks, stopping="fixed")

    @property
    def alpha(self) -> float:
        """The level of significance of tests."""
        return alpha_of(self.confidence)

    @property
    def sequential(self) -> bool:
        return self.stopping == "sequential"

    @property
    def most_blocks(self) -> int:
        """The maximum number of blocks."""
        return self.replicates if self.stopping == "fixed" else self.max_replicates


MOST_BLOCKS = 1_000_000  # in a campaign that is read; the limit of a study file is far lower
MOST_OF_FRACTION = 100  # factors in a fractional design, since the aliases of all their pairs are listed
PATIENCE = frozenset({"max_wait_s"})  # settings that do not affect what is measured


def _check_variant_name(text: str) -> None:
    if not re.fullmatch(NAME_PATTERN, text):
        raise InputError(f"'{text}' is not the name of a variant", "a study has variants in its tables [variants.NAME]")


VARIANT = Setting(
    "variant", "", "what differs, such as before and after: tables [variants.NAME]", check=_check_variant_name
)


@dataclass(frozen=True, slots=True)
class VariantTest:
    """The question of `lastro ab`: whether a variant is worse than the reference in `metric` by more than `margin`.

    There is a look after each block from number `first_look` to number `last_look`. An alarm after n blocks must be
    confirmed by n new blocks."""

    metric: str
    margin: float
    first_look: int
    last_look: int


@dataclass(frozen=True, slots=True)
class Study:
    """The content of a valid study file, after the choices of the command line (`changes`)."""

    name: str
    title: str
    description: str
    scenario: str
    factors: tuple[Factor, ...]
    settings: Mapping[str, Level]  # constants, with defaults filled in; includes kinds of parts that are not factors
    metrics: tuple[Metric, ...]  # those that the study is about, in the order in which they are reported
    design: Design
    all_metrics: tuple[Metric, ...] = ()  # everything that the scenario measures
    exclusions: tuple[Exclusion, ...] = ()
    profiles: Mapping[str, Mapping[str, Level]] = field(default_factory=dict)
    profile_exclusions: Mapping[str, tuple[Exclusion, ...]] = field(default_factory=dict)  # in addition to `exclusions`
    profile_levels: Mapping[str, Mapping[str, tuple[Level, ...]]] = field(default_factory=dict)  # the levels to keep
    profile: str | None = None
    changes: tuple[str, ...] = ()  # options of the command line that changed the study, such as ("--replicates", "4")
    source: str = ""  # the text of the file
    file: str = ""
    sla: Mapping[str, str] = field(default_factory=dict)  # {metric: '>= 2 Gbit/s'}, all of which must hold
    cost: Mapping[str, float] = field(default_factory=dict)  # {metric or resource: weight} of a sum
    require: Mapping[str, bool | str] = field(default_factory=dict)  # {property: true, false or '>= 8'} of a candidate
    wish: Mapping[str, bool | str] = field(default_factory=dict)  # as `require`, but optional for a candidate
    margins: Mapping[str, float] = field(default_factory=dict)  # {metric: the relative change that matters}
    functions: tuple[OwnFunction, ...] = ()  # the functions that the study defines
    variants: Mapping[str, Mapping[str, Level]] = field(default_factory=dict)  # {variant: {setting: new value}}
    test: VariantTest | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)  # on entries of the file that have no effect

    def config(self, levels: Mapping[str, Level]) -> dict[str, Level]:
        """Return the configuration of a treatment: the study's constants, its levels, and its variant's changes."""
        return {**self.settings, **levels, **self.variants.get(str(levels.get(VARIANT.name)), {})}

    @property
    def constants(self) -> dict[str, Level]:
        """The constants, and the changes of each variant under names such as 'variants.after.tcp_s'."""
        constants = dict(self.settings)
        for variant, changes in self.variants.items():
            constants |= {f"variants.{variant}.{name}": value for name, value in changes.items()}
        return constants

    def with_profile(self, name: str) -> Study:
        """Return the study with one of its profiles applied: other durations and replicates, and maybe fewer levels.

        A factor that the profile names has only the level or levels given there; if these leave out the level of the
        baseline, the first of them replaces it. The exclusions of the profile are added to those of the study. A
        profile with `replicates` but without `max_replicates` has a fixed number of blocks, even in a sequential study.
        """
        changes = dict(self.profiles[name])
        levels = {factor.name: factor.levels for factor in self.factors} | dict(self.profile_levels.get(name, {}))
        levels |= {factor.name: (changes.pop(factor.name),) for factor in self.factors if factor.name in changes}
        factors = tuple(Factor(factor.name, levels[factor.name]) for factor in self.factors)
        design = replace(self.design, baseline=baseline_among(self.design.baseline, factors))
        blocks, most = (changes.pop(key, None) for key in ("replicates", "max_replicates"))
        if most is not None:
            design = replace(design, replicates=int(blocks or design.replicates), max_replicates=int(most))
        elif blocks is not None:
            design = design.with_blocks(int(blocks))
        return replace(
            self,
            factors=factors,
            settings={**self.settings, **changes},
            design=design,
            exclusions=(*self.exclusions, *self.profile_exclusions.get(name, ())),
            profile=name,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the study as JSON-serializable data, for the campaign's database; `from_dict` is the inverse.

        The notes are left out: they are for users who plan or run the study."""
        data = asdict(self)
        del data["notes"]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Study:
        """Return the study from data of `to_dict`. Raises: MisshapenData for other data."""
        study: Study = from_plain(cls, data)
        design = study.design
        is_absent = {  # {problem: True if the study does not have it}
            "a factor has no levels": all(factor.levels for factor in study.factors),
            "two factors have the same name": _have_unique_names(study.factors),
            "two metrics have the same name": all(map(_have_unique_names, (study.metrics, study.all_metrics))),
            "design.replicates is out of range": 1 <= design.replicates <= MOST_BLOCKS,
            "design.max_replicates is out of range": 1 <= design.max_replicates <= MOST_BLOCKS,
            "design.confidence is not between 0 and 1": 0 < design.confidence < 1,
            "design.precision is not positive": design.precision > 0,
            "design.within_s is negative": design.within_s >= 0,
            "test.first_look is not from 2 to last_look": study.test is None
            or 2 <= study.test.first_look <= study.test.last_look <= MOST_BLOCKS,
            "a margin is not between 0 and 1": all(0 < margin < 1 for margin in study.margins.values()),
            "test.margin is not between 0 and 1": study.test is None or 0 < study.test.margin < 1,
            "design.fraction is of too many factors": design.fraction == "1" or len(study.factors) <= MOST_OF_FRACTION,
        }
        for problem, absent in is_absent.items():
            if not absent:
                raise MisshapenData(problem)
        return study


def baseline_among(baseline: Mapping[str, Level], factors: Sequence[Factor]) -> Mapping[str, Level]:
    """Return the baseline; if a factor does not have its baseline level, its first level takes that place."""
    instead = {factor.name: factor.levels[0] for factor in factors if baseline.get(factor.name) not in factor.levels}
    return {name: instead.get(name, level) for name, level in baseline.items()}


def _have_unique_names(items: Collection[Factor | Metric]) -> bool:
    return len({item.name for item in items}) == len(items)
