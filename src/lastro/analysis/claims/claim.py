"""The model of claims: statements of a paper or a user about a study, which a campaign can reproduce or contradict.

A kind of claim is one module in `kinds`, with a subclass of `Statement`: the table in a claims file, its checks, its
contrasts, its words. The models are frozen, and pydantic reads them from TOML."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from lastro.analysis.claim_cells import Comparisons, Weights
from lastro.analysis.claim_effects import ClaimEffects, Measure
from lastro.stats.notes import N_, Note, Numeral, percent
from lastro.study.model import NAME_PATTERN, Level, Levels, Study
from lastro.study.printed import PrintedCell, PrintedColumn, PrintedFigure, PrintedTable
from lastro.study.problems import FieldError, shown
from lastro.study.schema import OneLine, Prose
from lastro.study.sides import AsTuple, Choice, FrozenTable, NonEmptyLine, StandIns

Change = Callable[[str, tuple[Level, ...]], tuple[Level, ...]]  # (factor, its levels) to other levels of the factor
MeanAt = Callable[[Levels], float | None]  # the mean of a metric in a campaign at some levels

BOTH_WAYS = "a claim can come out both ways: reproduced on some host, and contradicted on another"


class VerdictWords(NamedTuple):
    """The messages that explain the verdicts: why reproduced, why contradicted, or what the data cannot show."""

    reproduced: str
    contradicted: str
    undecided: str


DIRECTION = VerdictWords(
    N_("the effect is significant, in this direction"),
    N_("the effect is significant, in the opposite direction"),
    N_("no effect is distinguishable"),
)
EQUIVALENCE = VerdictWords(
    N_("the widest difference, {levels}, is within {figure}"),
    N_("{levels} differ by more than {figure}"),
    N_("the data cannot show whether {levels} differ by more than {figure}"),
)


def ends_of(at_least: float | None, at_most: float | None) -> tuple[float, float]:
    """Return both bounds of a range; infinite for None."""
    return -math.inf if at_least is None else at_least, math.inf if at_most is None else at_most


class Statement(FrozenTable):
    """What a claim states about a metric under the conditions `at`. Each kind is a subclass in a separate module.

    `key` is the name of the table in a claims file. `figures` are the kinds of published figures by which the effect
    may be judged. `states_figure` is True if the statement is about the published figure itself, so that its tests
    already judge the figure."""

    key: ClassVar[str] = ""
    figures: ClassVar[tuple[str, ...]] = ()
    states_figure: ClassVar[bool] = False

    metric: NonEmptyLine
    at: Choice = Field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics that the statement needs, `metric` first."""
        return (self.metric,)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The limits that the statement gives for the mean, in the metric's unit; None for a comparison."""
        return None

    @property
    def decisive_mean(self) -> Literal["mean", "worst"] | None:
        """Whether the mean over all conditions or the worst condition decides; None if the kind has no such choice."""
        return None

    def choices(self) -> Mapping[str, Levels]:
        """Return {key in the table: side} of the sides that the statement compares; all sides name the same factors."""
        return {}

    def listed_factors(self) -> tuple[str, Sequence[str]]:
        """Return (key, names) of the factors that the statement compares as a whole, in addition to its sides.

        The key is the one under which the table in the claims file names these factors."""
        return "factor", ()

    def is_equivalence(self, claim: Claim) -> bool:
        """Return whether the statement says that means are alike; such a claim has a margin."""
        return False

    def check(self, claim: Claim, study: Study) -> None:
        """Raise FieldError if keys of this kind of statement contradict each other or the claim."""

    def with_levels(self, change: Change) -> Self:
        """Return the statement with its levels replaced; `change` returns the new levels of a factor."""
        sides = {key: side for key, side in self if isinstance(side, dict)}
        return self.model_copy(update={key: changed(side, change) for key, side in sides.items()})

    def cells_of(self, table: PrintedTable, columns: Sequence[str]) -> list[tuple[PrintedColumn, PrintedCell]]:
        """Return the cells of a printed table from which the claim's figure is read, each with its column.

        Raises: FieldError if the table lacks them, or if this kind of statement does not read tables."""
        raise FieldError("only `compare` and `level` read a table")

    def effects(self, claim: Claim, cells: Comparisons, *also: Comparisons) -> ClaimEffects:
        """Return the contrasts by which the statement is tested.

        `cells` and `also` are the cells of each of `metrics`, in order.

        Raises: Untestable if the campaign lacks the data for them."""
        raise NotImplementedError

    def mark(self, claim: Claim, others: Sequence[Claim], mean: MeanAt) -> PublishedMark | None:
        """Return where the published value lies in a figure of means; None if it cannot be shown there.

        `others` are all claims of the file, and `mean` returns the campaign's mean of the metric at some levels."""
        return None

    def words(self, claim: Claim) -> VerdictWords:
        """Return the messages for each verdict; {levels} is to be filled with the levels of the part that decided."""
        return EQUIVALENCE if self.is_equivalence(claim) else DIRECTION

    def figure(self, claim: Claim) -> Note | Numeral:
        """Return the text that fills {figure} in the messages: the stated value or margin."""
        return percent(claim.margin)


class OverConditions(Statement):
    """A statement on means over all conditions or, with `over = "worst"`, on the means of each condition.

    A condition is a combination of the levels of all factors that the statement does not compare. The worst condition
    is the one with the weakest evidence for the statement."""

    over: Literal["mean", "worst"] = "mean"

    @property
    def decisive_mean(self) -> Literal["mean", "worst"]:
        return self.over

    def places(self, sides: Sequence[Levels], cells: Comparisons) -> tuple[Mapping[str, Sequence[Weights]], int, int]:
        """Return {condition: the weights of each side}, the number of measured conditions, and of all.

        For the mean over all conditions, there is a single entry without a name. Raises: Untestable if there is no
        condition in which all sides were measured."""
        if self.over == "mean":
            weights, n_measured, n_conditions = cells.sides(sides, self.at)
            return {"": weights}, n_measured, n_conditions
        by_condition, n_conditions = cells.conditions(sides, self.at)
        return by_condition, len(by_condition), n_conditions


@dataclass(frozen=True, slots=True)
class PublishedMark:
    """The published figure of a claim in the unit of a campaign's metric, at the levels that it describes.

    `bound` is "≤" or "≥" if the source states a bound, else empty. `relative` is true if the value was computed from a
    published ratio or difference and a mean of this campaign."""

    claim: Claim
    levels: Levels
    value: float
    bound: str
    relative: bool


class PublishedFigure(FrozenTable):
    """A published figure: a ratio, a share (a fraction) or a difference in `unit`; one of them is judged.

    A ratio takes precedence over a difference, which depends on the machine. A share may have a bound, `at_least` or
    `at_most`, instead of a value with a tolerance."""

    table: OneLine = ""  # the table of the file from which the figure is read, if any
    columns: Annotated[tuple[OneLine, ...], AsTuple] = ()  # metrics whose cells are shown; for a claim about a level
    ratio: float | None = Field(default=None, gt=0)
    share: float | None = None
    at_least: float | None = Field(default=None, gt=0, le=1)
    at_most: float | None = Field(default=None, gt=0, le=1)
    difference: float | None = None
    unit: OneLine = ""
    # Allowed distance of a measured effect from the judged figure, in the unit of the figure.
    tolerance: float | None = Field(default=None, gt=0)
    printed: OneLine = ""  # as the source prints it

    @property
    def given(self) -> list[str]:
        """The names of the figures that are set: ratio, share, at_least, at_most, difference."""
        return [name for name in _FIGURES if getattr(self, name) is not None]

    @property
    def judged(self) -> tuple[Measure, float]:
        """The measure by which an effect is compared with this figure, and the published value in this measure."""
        if self.ratio is not None:
            return "ratio", self.ratio
        if self.difference is not None:
            return "difference", self.difference
        return "share", next((end for end in (self.share, self.at_least, self.at_most) if end is not None), 0.0)

    @property
    def tolerated(self) -> tuple[float, float]:
        """The smallest and the largest effect that agree with the figure; infinite without one."""
        if self.tolerance is not None:
            _, figure = self.judged
            return figure - self.tolerance, figure + self.tolerance
        return ends_of(self.at_least, self.at_most)


_FIGURES = ("ratio", "share", "at_least", "at_most", "difference")


class Contradiction(FrozenTable):
    """A passage of the same source that contradicts a claim: its sentence, translations by language code, its place."""

    says: NonEmptyLine
    says_in: dict[str, OneLine] = Field(default_factory=dict)
    where: NonEmptyLine

    def text(self, language: str) -> str:
        """Return the sentence in a language, or in English if the file has no translation."""
        return self.says_in.get(language, self.says)


class Claim(FrozenTable):
    """A claim: a sentence of a source, and a statement that can be judged.

    The statement is in a field that `kinds` adds, with the name `key` of the kind."""

    id: str = Field(pattern=f"^{NAME_PATTERN}$", max_length=64)
    says: NonEmptyLine  # its sentence
    says_in: dict[str, OneLine] = Field(default_factory=dict)  # {language code: translation of `says`}
    where: OneLine = ""  # its place in the source
    direction: Literal["higher", "lower", "alike"] | None = None  # of a comparison
    # The largest relative difference that counts as alike: 0.05 means from 1/1.05 to 1.05 times.
    margin: float | None = Field(default=None, gt=0, le=10)
    # The largest relative difference that is "slightly" more or less: 0.1 means up to 1.1 times, or down to 1/1.1.
    slight: float | None = Field(default=None, gt=0, le=1)
    note: Prose = ""  # how the judged claim differs from the published one
    note_in: dict[str, Prose] = Field(default_factory=dict)  # {language code: translation of `note`}
    published: PublishedFigure | None = None
    contradicted_by: Contradiction | None = None  # by the same source; the verdict ignores it
    stand_in: StandIns = ()  # levels to use if published levels were not measured; the verdict names them

    @property
    def statements(self) -> list[Statement]:
        """The statements in the fields of the claim, of which a valid claim has exactly one."""
        return [value for _, value in self if isinstance(value, Statement)]

    @property
    def statement(self) -> Statement:
        return self.statements[0]

    def with_statement(self, statement: Statement) -> Self:
        """Return the claim with its statement replaced by another."""
        return self.model_copy(update={self.statement.key: None, statement.key: statement})

    def text(self, language: str) -> str:
        """Return the sentence of the claim in a language, or in English if the file has no translation."""
        return self.says_in.get(language, self.says)

    def note_text(self, language: str) -> str:
        """Return the note in a language, or in English if the file has no translation; empty without a note."""
        return self.note_in.get(language, self.note)


class Source(FrozenTable):
    """The source of the claims."""

    title: OneLine = ""
    authors: OneLine = ""
    year: int | None = Field(default=None, ge=1900, le=2200)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of one file, and the tables and figures of their source. All claims are one family of tests."""

    source: Source
    claims: tuple[Claim, ...]
    file: str = ""
    tables: tuple[PrintedTable, ...] = ()
    figures: tuple[PrintedFigure, ...] = ()


def changed(side: Levels, change: Change) -> Levels:
    """Return a side with its levels replaced; `change` returns the new levels of a factor."""
    return {factor: change(factor, levels) for factor, levels in side.items()}


def check_distinct(levels: Sequence[Level]) -> None:
    """Raise FieldError if a level occurs twice, since a claim about a level and itself always or never holds."""
    if twice := [level for level in levels if levels.count(level) > 1]:
        raise FieldError(f"compares {shown(twice[0])} with itself", BOTH_WAYS)
