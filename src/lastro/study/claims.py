"""Claims about a study by a paper or a user, as frozen data: a campaign can confirm or contradict them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lastro.study.model import Level
from lastro.study.printed import PrintedFigure, PrintedTable
from lastro.study.sides import Levels, StandIn

Direction = Literal["higher", "lower", "alike"]
Measure = Literal["ratio", "difference", "share", "level"]


@dataclass(frozen=True, slots=True)
class Compare:
    """The mean of `metric` over the treatments of one side is higher than, lower than or like that of the other."""

    metric: str
    of: Levels
    to: Levels
    at: Levels
    direction: Direction


@dataclass(frozen=True, slots=True)
class Recovery:
    """The fraction of a loss that a protection recovers: (protected - without) / (ideal - without)."""

    metric: str
    ideal: Levels
    without: Levels
    protected: Levels
    at: Levels


@dataclass(frozen=True, slots=True)
class Order:
    """Levels of one factor in falling order of their means; levels of one group are not ordered among themselves.

    With `of` and `to`, the order is that of the difference between these two at each level; with `distance`, that of
    its absolute value. With `sides`, it is one of choices of levels of several factors, and `factor` and `falling` are
    empty."""

    metric: str
    factor: str
    falling: tuple[tuple[Level, ...], ...]
    of: Levels
    to: Levels
    at: Levels
    sides: tuple[tuple[Levels, ...], ...] = ()
    distance: bool = False


@dataclass(frozen=True, slots=True)
class Alike:
    """A statement that the means of any two of these levels differ by less than the claim's margin."""

    metric: str
    factor: str
    levels: tuple[Level, ...]
    at: Levels


@dataclass(frozen=True, slots=True)
class Additive:
    """Two factors do not interact: the means of their combinations are the sums of their main effects.

    No mean deviates from that sum by more than the claim's margin, a fraction of the grand mean."""

    metric: str
    factors: tuple[str, str]
    at: Levels


@dataclass(frozen=True, slots=True)
class Absolute:
    """The mean of `metric` lies between `low` and `high`, in `unit`; one of them is infinite for a bound.

    Unlike all other statements, it is not a comparison with another measurement, so it depends on the machine."""

    metric: str
    low: float
    high: float
    unit: str
    at: Levels


@dataclass(frozen=True, slots=True)
class Extreme:
    """The ratio of two means is as far from 1 as `ratio`, give or take `tolerance`, where it is farthest.

    So at one of the levels of `over` it comes near `ratio`, and at none of them it goes beyond. "Up to 40 % less" is a
    `ratio` of 0.6. With `also`, it is farthest among several metrics, too: `metric` and these."""

    metric: str
    of: Levels
    to: Levels
    over: Levels
    at: Levels
    ratio: float
    tolerance: float
    also: tuple[str, ...] = ()


Statement = Compare | Recovery | Order | Alike | Additive | Absolute | Extreme


@dataclass(frozen=True, slots=True)
class Published:
    """A published figure: a ratio, a share (both dimensionless) or a difference in `unit`; one of them is judged.

    A ratio takes precedence over a difference, which depends on the machine. `tolerance` is the allowed distance of a
    measured effect from the judged figure, in its unit. `printed` is the figure as the source prints it."""

    ratio: float | None = None
    share: float | None = None
    difference: float | None = None
    unit: str = ""
    tolerance: float | None = None
    printed: str = ""

    @property
    def judged(self) -> tuple[Measure, float]:
        """The measure by which an effect is judged against this figure, and the figure."""
        if self.share is not None:
            return "share", self.share
        if self.ratio is not None:
            return "ratio", self.ratio
        return "difference", self.difference or 0.0


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A passage of the same source that contradicts a claim: its sentence, the same by language code, its place."""

    says: str
    says_in: Mapping[str, str]
    where: str

    def text(self, language: str) -> str:
        """Return the sentence in a language, or in English where the file has no other."""
        return self.says_in.get(language, self.says)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: `says` is its sentence, `says_in` the same by language code, `where` its place in the source.

    `margin` is the largest relative difference that counts as alike: 0.05 means from 1/1.05 to 1.05 times. `slight` is
    the largest relative difference that is "slightly" more or less: 0.1 means up to 1.1 times, or down to 1/1.1. `note`
    says what differs between the claim as published and as judged, `note_in` the same by language code. With
    `contradicted_by`, the source is not consistent, and the verdict is on this passage alone. With `stand_in`, the
    claim is judged on its own levels where they were measured, and otherwise on others, which the verdict names."""

    id: str
    says: str
    says_in: Mapping[str, str]
    where: str
    statement: Statement
    published: Published | None = None
    margin: float | None = None
    contradicted_by: Contradiction | None = None
    stand_in: tuple[StandIn, ...] = ()
    slight: float | None = None
    note: str = ""
    note_in: Mapping[str, str] = field(default_factory=dict)

    def text(self, language: str) -> str:
        """Return the claim in a language, or in English where the file has no other."""
        return self.says_in.get(language, self.says)

    def noted(self, language: str) -> str:
        """Return the note in a language, or in English where the file has no other; empty without one."""
        return self.note_in.get(language, self.note)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the claims."""

    title: str = ""
    authors: str = ""
    year: int | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of one file, which are one family of tests, and the tables and figures of their source."""

    source: Source
    claims: tuple[Claim, ...]
    file: str = ""
    tables: tuple[PrintedTable, ...] = ()
    figures: tuple[PrintedFigure, ...] = ()
