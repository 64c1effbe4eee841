"""The values of one metric by treatment and stratum, and the comparisons that test statements about them.

A stratum is one combination of the levels of all factors that a statement does not compare."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from lastro.analysis.build import common_levels, fit_model
from lastro.analysis.campaign import CampaignResults, Row, by_block, comparable_cells
from lastro.analysis.noise_floor import applicable_floor
from lastro.grouping import by_key
from lastro.results.members import campaigns_of_blocks
from lastro.results.samples import Metric
from lastro.stats.contrasts import MeanComparison, compare_one, one_sided_p, p_above, ratio_of_sums, sum_of_means
from lastro.stats.intervals import Estimate
from lastro.stats.noise_floor import is_below_floor
from lastro.stats.notes import N_, Note
from lastro.stats.recovery import RecoveryEstimate
from lastro.stats.weights import minus
from lastro.study.model import Level, Levels

if TYPE_CHECKING:
    from lastro.stats.block_model import BlockModel

Weights = Mapping[Any, float]  # {index of a treatment: its weight}
Key = frozenset[tuple[str, object]]
DID_YOU_MEAN = N_("did you mean {level}?")
NOT_ABOVE_ZERO = N_("there is no ratio: {metric} is not above zero")
Strata = Mapping[Key, Sequence[Sequence[int]]]
_MOST_NAMED = 3  # treatments to list by name if they have no level in common


class Untestable(Exception):
    """A statement that this campaign cannot test; `why` are the reasons, to be joined by semicolons."""

    def __init__(self, *why: Note) -> None:
        super().__init__("; ".join(why))
        self.why = why


def not_varied(factor: str) -> Untestable:
    """Return the exception to raise for a statement about a factor that the study does not vary."""
    return Untestable(Note(N_("this study does not vary {factor}"), factor=factor))


class Comparisons(Protocol):
    """The comparisons that test statements: in one campaign (`MetricCells`) or across several hosts (`HostCells`).

    The methods take weights from `sides` or `conditions`, or differences of such weights (`stats.weights`)."""

    @property
    def metric(self) -> Metric: ...
    @property
    def confidence(self) -> float: ...
    @property
    def factors(self) -> Mapping[str, Mapping[object, Level]]: ...

    def sides(self, sides: Sequence[Levels], at: Levels) -> tuple[list[Weights], int, int]: ...
    def conditions(self, sides: Sequence[Levels], at: Levels) -> tuple[dict[str, list[Weights]], int]: ...
    def compared(self, of: Weights, to: Weights) -> MeanComparison: ...
    def sum_of_means(self, weights: Weights) -> Estimate: ...
    def ratio_of_sums(self, of: Weights, to: Weights) -> Estimate: ...
    def recovered(self, ideal: Weights, without: Weights, protected: Weights) -> RecoveryEstimate: ...
    def one_sided_p(self, of: Weights, to: Weights, bound: float) -> float | None: ...
    def p_above(self, of: Weights, level: float) -> float | None: ...
    def is_positive(self, side: Weights) -> bool: ...
    def slack(self, weights: Weights) -> tuple[bool, bool]: ...
    def under_floor(self, weights: Weights, deviation: float | None) -> bool: ...
    def gap_under_floor(self, weights: Weights, gap: float | None) -> bool: ...


class MetricCells:
    """The valid values of one metric by treatment, and the strata to which they belong.

    `metric` is the name of the metric. `confidence` is the confidence of the intervals, by default the study's. Raises:
    Untestable if the metric was not measured."""

    def __init__(self, report: CampaignResults, metric: str, confidence: float | None = None) -> None:
        view = next((view for view in report.views if view.metric.name == metric), None)
        if view is None:
            raise Untestable(Note(N_("{metric} was not measured"), metric=metric))
        self.report, self.metric = report, view.metric
        self.confidence = view.confidence if confidence is None else confidence
        self.floor = applicable_floor(view)
        self.rows = {
            frozenset((name, _plain(level)) for name, level in row.treatment.levels.items()): row for row in report.rows
        }
        self.factors = {
            factor.name: {_plain(level): level for level in factor.levels} for factor in report.study.factors
        }
        self._points = {row.treatment.index: cell.points for row, cell in view}
        self.values = comparable_cells({index: by_block(points) for index, points in self._points.items()})
        self.bounded = {row.treatment.index: row for row, cell in view if cell.bounded}
        self.exact = view.model
        self.used: set[int] = set()

    @cached_property
    def model(self) -> BlockModel:
        """The model of the metric, in which values that are only lower bounds count as exact."""
        model = self.exact
        if self.bounded:
            points = {index: self._points[index] for index in self.values}
            model = fit_model(self.metric, points, campaigns_of_blocks(self.report.members))
        assert model is not None, "a stratum was measured"
        return model

    def sides(self, sides: Sequence[Levels], at: Levels) -> tuple[list[Weights], int, int]:
        """Return the weights of each side's mean over the measured strata, the number of measured strata, and of all.

        A side is {factor: levels}. `at` restricts the strata to these levels of other factors. The treatments with a
        weight are added to `used`. Raises: Untestable if no stratum was measured."""
        strata, total = self.strata(sides, at)
        weights = mean_weights(strata.values())
        self.used.update(*weights)
        return weights, len(strata), total

    def conditions(self, sides: Sequence[Levels], at: Levels) -> tuple[dict[str, list[Weights]], int]:
        """Return {label of a measured stratum: the weights of each side's mean}, and the number of all strata.

        A label has the levels in which strata differ; it is empty for a single stratum. Raises: as `sides`."""
        strata, total = self.strata(sides, at)
        labels = condition_labels(strata, self.factors)
        by_label = {label: mean_weights([rows]) for label, rows in zip(labels, strata.values(), strict=True)}
        self.used.update(*(weights for of_sides in by_label.values() for weights in of_sides))
        return by_label, total

    def strata(self, sides: Sequence[Levels], at: Levels) -> tuple[Strata, int]:
        """Return {measured stratum: the treatments of each side}, and the number of all strata. Raises: as `sides`."""
        wanted = [self._canonical(side) for side in sides]
        compared = set().union(*wanted)
        fixed = self._canonical(at, condition=True)
        others = {name: fixed.get(name, tuple(levels)) for name, levels in self.factors.items() if name not in compared}
        rows_of_sides: dict[Key, list[list[int]]] = {}
        lost = []
        for stratum in _combinations(others):
            keys = [[stratum | choice for choice in _combinations(side)] for side in wanted]
            if any(key not in self.rows for side in keys for key in side):
                continue  # not part of the design
            rows = [[self.rows[key] for key in side] for side in keys]
            if missing := [row for side in rows for row in side if row.treatment.index not in self.values]:
                lost.append(missing)
                continue
            rows_of_sides[stratum] = [[row.treatment.index for row in side] for side in rows]
        if not rows_of_sides:
            raise Untestable(*self._reasons([row for rows in lost for row in rows]))
        return rows_of_sides, len(rows_of_sides) + len(lost)

    def bounds_used(self) -> str:
        """Return as text the levels of compared treatments whose values are only lower bounds; empty without any."""
        rows = [row for index, row in self.bounded.items() if index in self.used]
        return _describe_levels(self.report, "", rows) if rows else ""

    def slack(self, weights: Weights) -> tuple[bool, bool]:
        """Return whether the true contrast may lie above the measured one, and whether it may lie below.

        It may lie above if a mean with a positive weight is only a lower bound, below if one with a negative one is."""
        unbounded = [weight for index, weight in weights.items() if index in self.bounded]
        return any(weight > 0 for weight in unbounded), any(weight < 0 for weight in unbounded)

    def _canonical(self, side: Levels, *, condition: bool = False) -> dict[str, tuple[object, ...]]:
        """Return the levels of a side, or of a condition, in canonical form.

        A condition is left out for a factor that the study holds constant at one of its levels. Raises: Untestable for
        a factor or level that the study does not have."""
        canonical: dict[str, tuple[object, ...]] = {}
        for name, levels in side.items():
            known = self.factors.get(name)
            if known is None:
                if (constant := self.report.study.settings.get(name)) is None:
                    raise not_varied(name)
                if not condition or _plain(constant) not in {_plain(level) for level in levels}:
                    text = N_("this study holds {factor} at {level}, and does not vary it")
                    raise Untestable(Note(text, factor=name, level=str(constant)))
                continue
            if absent := [level for level in levels if _plain(level) not in known]:
                words = [level for level in known.values() if isinstance(level, str)]  # a number has no misspelling
                near = difflib.get_close_matches(str(absent[0]), words, n=1)
                why = Note(N_("the study has no {factor} {level}"), factor=name, level=str(absent[0]))
                raise Untestable(why, *(Note(DID_YOU_MEAN, level=level) for level in near))
            canonical[name] = tuple(dict.fromkeys(_plain(level) for level in levels))
        return canonical

    def _reasons(self, rows: Sequence[Row]) -> list[Note]:
        """Return why these treatments do not have enough values, each reason once."""
        unavailable = by_key((row.reason or "", row) for row in rows if row.status == "unavailable")
        reasons = []
        for reason, group in unavailable.items():
            levels = _describe_levels(self.report, reason, group)
            reasons.append(Note(N_("{levels} is unavailable: {reason}"), levels=levels, reason=reason))
        if any(row.status == "pending" for row in rows):
            reasons.append(Note(N_("trials that it needs have not run yet")))
        if any(row.status == "invalid" for row in rows):
            reasons.append(Note(N_("every attempt at a treatment that it needs was invalid")))
        if any(row.status in ("measured", "partly") for row in rows):
            text = N_("treatments that it needs have fewer than two values of {metric}")
            reasons.append(Note(text, metric=self.metric.name))
        return reasons or [Note(N_("the design has no treatments to test it on"))]

    def compared(self, of: Weights, to: Weights) -> MeanComparison:
        """Compare two means by the model of the metric."""
        return compare_one(self.model, of, to, self.confidence)

    def sum_of_means(self, weights: Weights) -> Estimate:
        """Return the weighted sum of the treatments' arithmetic means."""
        return sum_of_means(self.model, weights, self.confidence)

    def ratio_of_sums(self, of: Weights, to: Weights) -> Estimate:
        """Return the ratio of two weighted sums of arithmetic means."""
        return ratio_of_sums(self.model, of, to, self.confidence)

    def recovered(self, ideal: Weights, without: Weights, protected: Weights) -> RecoveryEstimate:
        """Return the loss from `ideal` to `without` protection, the gain of `protected`, and the recovered fraction.

        Gain and fraction are both computed from arithmetic means, so that they agree."""
        loss, gain = self.compared(ideal, without).difference, minus(protected, without)
        return RecoveryEstimate(loss, self.sum_of_means(gain), self.ratio_of_sums(gain, minus(ideal, without)))

    def one_sided_p(self, of: Weights, to: Weights, bound: float) -> float | None:
        """Return the p-value of mean `of` being at most `bound` times mean `to`; None without a standard error."""
        return one_sided_p(self.model, of, to, bound)

    def p_above(self, of: Weights, level: float) -> float | None:
        """Return the p-value of the hypothesis that the arithmetic mean `of` is at most `level`."""
        return p_above(self.model, of, level)

    def is_positive(self, side: Weights) -> bool:
        """Return whether the mean of a side is above zero, so that it can be the denominator of a ratio."""
        return (self.sum_of_means(side).value or 0.0) > 0

    def under_floor(self, weights: Weights, deviation: float | None) -> bool:
        """Return whether a relative deviation is smaller than the noise floor of the contrast with these weights.

        For the deviation of the ratio `of` / `to` from 1, the weights are `of` minus `to`. False if no floor is known.
        """
        return bool(is_below_floor(self.floor.share if self.floor else None, deviation, weights.values()))

    def gap_under_floor(self, weights: Weights, gap: float | None) -> bool:
        """Return whether a difference `gap`, relative to the mean of its cells, is smaller than the noise floor."""
        total = math.fsum(map(abs, weights.values()))
        mean = self.sum_of_means({index: abs(weight) / total for index, weight in weights.items()})
        return bool(gap is not None and mean.value and mean.value > 0 and self.under_floor(weights, gap / mean.value))


def mean_weights(strata: Collection[Sequence[Sequence[int]]]) -> list[Weights]:
    """Return for each side the weights of its mean over the strata: strata count equally, as do cells within one."""
    sides = zip(*strata, strict=True)
    return [{index: 1 / len(cells) / len(strata) for cells in side for index in cells} for side in sides]


def condition_labels(strata: Iterable[Key], factors: Mapping[str, Mapping[object, Level]]) -> list[str]:
    """Return a label for each stratum: its levels of those factors in which the strata differ."""
    all_levels = [dict(stratum) for stratum in strata]
    varied = [name for name in factors if len({levels.get(name) for levels in all_levels}) > 1]
    return [" · ".join(str(factors[name][levels[name]]) for name in varied) for levels in all_levels]


def _plain(level: Level) -> object:
    """Return a level in canonical form: if it has several parts, joined by '+', they are sorted."""
    return "+".join(sorted(part.strip() for part in level.split("+"))) if isinstance(level, str) else level


def _combinations(levels: Mapping[str, Iterable[object]]) -> Iterator[Key]:
    """Yield every combination of one level of each factor, as a set of (factor, level)."""
    for combination in itertools.product(*levels.values()):
        yield frozenset(zip(levels, combination, strict=True))


def _describe_levels(report: CampaignResults, reason: str, rows: Sequence[Row]) -> str:
    """Describe the treatments that are unavailable for this reason by their common levels: 'isolation = apparmor'.

    If no treatment is unavailable for this reason, describe `rows` by their common levels, or else by their names."""
    where = next((gap.where for gap in report.gaps if gap.reason == reason and gap.where), "")
    where = where or common_levels(report.study, [row.treatment for row in rows])
    names = [row.treatment.label for row in rows]
    return where or "; ".join([*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])])
