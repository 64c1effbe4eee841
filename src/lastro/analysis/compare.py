"""Compare two campaigns of one study, treatment by treatment: two hosts, two days, or before and after a change.

For each treatment and metric it computes the ratio of the means B / A with Fieller's interval, and the p-value of no
no difference (Welch), corrected by Holm over every cell that could be compared. Blocks of two campaigns are not paired.
Where a campaign has stored the spread between campaigns, it is part of the variance of both means (`stats.sampled`).
With a margin, the gate of `stats.margins` also tests for a regression of more than the margin (one-sided, corrected for
all cells that it judges). Pure: two reports in, frozen data out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from lastro.analysis.between import BetweenCampaigns, kept_between, seconds_between
from lastro.analysis.campaign import Cell, Report, Row
from lastro.analysis.trends import TrialOrder, correlated_orders
from lastro.analysis.verdicts import Verdict, direction
from lastro.errors import InputError, did_you_mean
from lastro.results.samples import Metric
from lastro.stats.adjust import holm
from lastro.stats.autocorrelation import LEAST_FACTOR
from lastro.stats.margins import Candidate, GateTest, RatioTest, gate, ratio_test
from lastro.stats.notes import N_
from lastro.stats.ratios import Ratio, ratio_of_means
from lastro.stats.sampled import Between, SampledMean
from lastro.study.model import PATIENCE, Level, Study

_WORST_FIRST: tuple[Verdict, ...] = ("worse", "higher", "lower", "same", "better", "")

Levels = tuple[tuple[str, Level], ...]
Side = Literal["A", "B"]
Outcome = Literal["regressed", "shown", "undecided", ""]


class Uncertainty(NamedTuple):
    """What makes means vary more than independent trials: {metric: correlated trials} of A and B, and a shift.

    `between` is {metric: the spread between equal campaigns}."""

    order_a: Mapping[str, TrialOrder]
    order_b: Mapping[str, TrialOrder]
    between: Mapping[str, Between]


class Absent(NamedTuple):
    """A campaign whose cell cannot be compared: it has no values, or some are only lower bounds."""

    side: Side
    row: Row
    cell: Cell


@dataclass(frozen=True, slots=True)
class Compared:
    """One treatment and metric in both campaigns: their values, the ratio of their means, and its test.

    `a` and `b` have one value for each valid trial, in the unit of the metric. `ratio` is None if the mean of A is
    negative; if that mean is zero, the ratio has no value. Both cases are tested as differences. `absent` lists the
    campaigns that lack comparable values. `no_test` is the reason why existing values cannot be tested, or empty.
    `judged` is the result of the gate, with its `margin`; None without a gate, or if the metric has no better
    direction. `lost` is true if A has values for this treatment and B has none. `factors` multiply the variances of
    both means, because neighbouring trials are correlated (`trends.TrialOrder`). `means` are those of A and B with
    their variances; None where a campaign lacks comparable values."""

    metric: Metric
    levels: Levels
    a: tuple[float, ...]
    b: tuple[float, ...]
    ratio: Ratio | None
    test: RatioTest | None
    absent: tuple[Absent, ...] = ()
    no_test: str = ""
    p_adjusted: float | None = None
    judged: GateTest | None = None
    margin: float = 0.0
    lost: bool = False
    alpha: float = 0.05
    factors: tuple[float, ...] = (1.0, 1.0)
    means: tuple[SampledMean, SampledMean] | None = None

    @property
    def regressed(self) -> bool:
        return self.judged is not None and self.judged.regressed

    @property
    def least_found(self) -> float:
        """The least loss that the gate would have found with a power of 80 %; infinite if it might miss any loss."""
        return math.inf if self.judged is None else self.judged.least_found

    @property
    def outcome(self) -> Outcome:
        """What the gate has shown: a regression, or that there is none; empty where it does not judge.

        There is none of more than the margin where the interval of the ratio excludes it."""
        if self.judged is None:
            return ""
        if self.judged.regressed:
            return "regressed"
        return "shown" if self.allowed_loss is not None and self.allowed_loss <= self.margin else "undecided"

    @property
    def verdict(self) -> Verdict:
        """The verdict by the corrected p; empty where nothing was tested."""
        if self.p_adjusted is None or self.test is None:
            return ""
        if self.p_adjusted > self.alpha:
            return "same"
        # Take the direction from the test: a mean of zero has no ratio.
        return direction(self.metric, math.inf if self.test.t > 0 else 0.0)

    @property
    def loss(self) -> float:
        """The loss from A to B, as a logarithm: positive if B is worse, infinite if a mean is zero.

        If the metric has no better direction, it is the absolute change."""
        value = self.ratio.value if self.ratio is not None else None
        if value is not None and value > 0:
            change = math.log(value)
        elif self.test is None:
            return -math.inf
        else:
            change = math.copysign(math.inf, self.test.t) if self.test.t else 0.0
        return {"lower": change, "higher": -change, "neither": abs(change)}[self.metric.better]

    @property
    def allowed_loss(self) -> float | None:
        """The largest relative loss that is within the interval of the ratio; infinite if the interval is unbounded.

        None if the gate does not judge this cell, or if it has no ratio."""
        if self.judged is None or self.ratio is None or self.ratio.value is None:
            return None
        if self.ratio.interval is None:
            return math.inf
        return self.ratio.interval.high - 1 if self.metric.better == "lower" else 1 - self.ratio.interval.low


@dataclass(frozen=True, slots=True)
class OneSided:
    """Treatments of one campaign that the other campaign does not have.

    `lacking` are the levels that the other campaign lacks. If it is empty, the other campaign has all of their levels
    but excludes these combinations of them."""

    only_in: Side
    levels: tuple[Levels, ...]
    lacking: Levels


class Different(NamedTuple):
    """A difference between the campaigns in provenance, settings or design.

    `a` and `b` are the values of the item `what`; None where a campaign does not have it."""

    kind: Literal["provenance", "profile", "setting", "design"]
    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two campaigns, A and B.

    `cells` are in order from worst to best; cells that could not be compared come last. `between` is the spread between
    equal campaigns that A has stored, or else B; None where neither has."""

    a: Report
    b: Report
    metrics: tuple[Metric, ...]
    cells: tuple[Compared, ...]
    one_sided: tuple[OneSided, ...]
    differences: tuple[Different, ...]
    confidence: float
    margin: float | None
    between: BetweenCampaigns | None = None

    @property
    def apart_s(self) -> float | None:
        """The time between the starts of the two campaigns, in seconds; None if it is not known."""
        return seconds_between(self.a.progress.first_utc, self.b.progress.first_utc)

    @property
    def without_spread(self) -> tuple[Metric, ...]:
        """The metrics for which the spread between equal campaigns is not known."""
        known = self.between.spreads if self.between else {}
        return tuple(metric for metric in self.metrics if metric.name not in known)

    @property
    def study(self) -> Study:
        return self.a.study

    @property
    def sides(self) -> tuple[tuple[Side, Report], ...]:
        return ("A", self.a), ("B", self.b)

    @property
    def alpha(self) -> float:
        return round(1 - self.confidence, 12)

    @property
    def n_tests(self) -> int:
        return sum(cell.p_adjusted is not None for cell in self.cells)

    @property
    def dependent(self) -> dict[tuple[Side, Metric], float]:
        """{(campaign, metric): the largest factor}, where neighbouring trials are correlated enough to matter."""
        found: dict[tuple[Side, Metric], float] = {}
        for cell in self.cells:
            for (side, _), factor in zip(self.sides, cell.factors, strict=True):
                found[side, cell.metric] = max(factor, found.get((side, cell.metric), 1.0))
        return {at: factor for at, factor in found.items() if factor > LEAST_FACTOR}

    @property
    def n_judged(self) -> int:
        return sum(cell.judged is not None for cell in self.cells)

    @property
    def not_judged(self) -> tuple[Compared, ...]:
        """The cells that the gate could not judge, of metrics with a better direction; empty without a gate."""
        return (
            ()
            if self.margin is None
            else tuple(cell for cell in self.cells if cell.judged is None and cell.metric.better != "neither")
        )

    @property
    def most_allowed(self) -> tuple[float, Compared] | None:
        """The largest regression that an interval does not exclude, as a fraction, and its cell."""
        found = [(loss, cell) for cell in self.cells if (loss := cell.allowed_loss) is not None and loss > 0]
        return max(found, key=lambda one: one[0], default=None)

    @property
    def sensitivity(self) -> tuple[Compared, ...]:
        """The cells that the gate judges, the smallest detectable loss first."""
        return tuple(sorted((cell for cell in self.cells if cell.judged), key=lambda cell: cell.least_found))

    @property
    def undecided(self) -> tuple[Compared, ...]:
        """The cells that may have regressed without being found: `Compared.outcome`, or not judged at all."""
        return (*(cell for cell in self.cells if cell.outcome == "undecided"), *self.not_judged)

    @property
    def outcome(self) -> Outcome:
        """The outcome of the gate: regressed if any cell is, and undecided if any other is; empty without a gate."""
        if self.margin is None:
            return ""
        return "regressed" if self.regressions else "undecided" if self.undecided else "shown"

    @property
    def regressions(self) -> tuple[Compared, ...]:
        return tuple(cell for cell in self.cells if cell.regressed)

    @property
    def lost(self) -> tuple[Compared, ...]:
        return tuple(cell for cell in self.cells if cell.lost)


def compare(
    a: Report,
    b: Report,
    *,
    metrics: Sequence[str] = (),
    margin: float | None = None,
    confidence: float | None = None,
) -> Comparison:
    """Compare B with A; `metrics` by name (default: the study's own), `confidence` by default that of A's study.

    Raises: InputError when the two are not campaigns of one study, or when a metric is unknown."""
    _check_same_study(a.study, b.study)
    _check_two_campaigns(a, b)
    chosen = _metrics(a, b, metrics)
    confidence = a.study.design.confidence if confidence is None else confidence
    alpha = round(1 - confidence, 12)
    rows_a, rows_b = ({_levels(row, a.study): row for row in report.rows} for report in (a, b))
    order_a, order_b = (correlated_orders(report.views, alpha) for report in (a, b))
    between = kept_between(a.noise_floor) or kept_between(b.noise_floor)
    noise = Uncertainty(order_a, order_b, between.spreads if between else {})
    cells = [
        _compared(metric, levels, _cell(rows_a[levels], metric), _cell(rows_b[levels], metric), noise, confidence)
        for metric in chosen
        for levels in rows_a
        if levels in rows_b
    ]
    cells = _corrected(cells, alpha)
    if margin is not None:
        cells = _gated(cells, margin, alpha)
    return Comparison(
        a=a,
        b=b,
        metrics=chosen,
        cells=tuple(sorted(cells, key=_badness)),
        one_sided=(*_one_sided("A", a.study, rows_a, rows_b), *_one_sided("B", b.study, rows_b, rows_a)),
        differences=tuple(_differences(a, b)),
        confidence=confidence,
        margin=margin,
        between=between,
    )


# Checks that both campaigns are of one study


def _check_same_study(a: Study, b: Study) -> None:
    hint = "compare takes two campaigns of the same study: same scenario, same factors, same metrics"
    if a.scenario != b.scenario:
        raise InputError(f"A runs scenario {a.scenario}, B runs {b.scenario}: they cannot be compared", hint)
    names_a, names_b = ({factor.name for factor in study.factors} for study in (a, b))
    if names_a != names_b:
        only = [f"only {side} has {', '.join(sorted(more))}" for side, more in
                (("A", names_a - names_b), ("B", names_b - names_a)) if more]  # fmt: skip
        raise InputError(f"the two studies have different factors: {'; '.join(only)}", hint)


def _check_two_campaigns(a: Report, b: Report) -> None:
    """Reject a copy of a campaign: it has the same attempts at the same times, with the same values."""
    points = [[cell.points for row in report.rows for cell in row.cells] for report in (a, b)]
    if a.timeline and a.timeline == b.timeline and points[0] == points[1] and a.directory != b.directory:
        raise InputError(f"{b.directory} is a copy of {a.directory}", "give two different campaigns of the same study")


def _metrics(a: Report, b: Report, names: Sequence[str]) -> tuple[Metric, ...]:
    known_a, known_b = ({metric.name: metric for metric in report.metrics} for report in (a, b))
    own = [metric.name for metric in a.study.metrics if metric.name in {m.name for m in b.study.metrics}]
    for name in names:
        if name not in known_a or name not in known_b:
            raise InputError(f"metric '{name}' is not in both campaigns", did_you_mean(name, known_a.keys() & known_b))
    chosen = list(dict.fromkeys(names)) or own
    if not chosen:
        raise InputError(
            "the two studies have no metric in common",
            f"A has {', '.join(known_a) or 'none'}; B has {', '.join(known_b) or 'none'}",
        )
    for name in chosen:
        first, second = known_a[name], known_b[name]
        if (first.unit, first.better) != (second.unit, second.better):
            raise InputError(
                f"metric {name} differs between A and B: {first.unit}, {first.better} is better in A; "
                f"{second.unit}, {second.better} in B",
                "run both campaigns again with this version of Lastro",
            )
    return tuple(known_a[name] for name in chosen)


# Cells


def _levels(row: Row, study: Study) -> Levels:
    """Return the levels in the order of A's factors, so that the order in B's file does not matter."""
    return tuple((factor.name, row.treatment.levels[factor.name]) for factor in study.factors)


def _cell(row: Row, metric: Metric) -> tuple[Row, Cell]:
    return row, next(cell for cell in row.cells if cell.metric.name == metric.name)


def _compared(
    metric: Metric,
    levels: Levels,
    a: tuple[Row, Cell],
    b: tuple[Row, Cell],
    noise: Uncertainty,
    confidence: float,
) -> Compared:
    values_a, values_b = (tuple(point.value for point in cell.points) for _, cell in (a, b))
    sides: tuple[tuple[Side, tuple[Row, Cell]], ...] = (("A", a), ("B", b))
    absent = tuple(Absent(side, *found) for side, found in sides if found[1].bounded or not found[1].points)
    ratio, test, no_test, means = None, None, "", None
    orders = [orders.get(metric.name) for orders in (noise.order_a, noise.order_b)]
    factors = tuple(
        order.variance_factor(cell) if order else 1.0 for order, (_, cell) in zip(orders, (a, b), strict=True)
    )
    if not absent:
        between = noise.between.get(metric.name)
        means = SampledMean.of(values_a, factors[0], between), SampledMean.of(values_b, factors[1], between)
        if means[0].value >= 0:
            ratio = ratio_of_means(means[1], means[0], confidence)
        try:
            test = ratio_test(means[1], means[0], 1.0, "either")
        except ValueError as error:
            no_test = str(error)
    lost = bool(values_a) and not values_b
    return Compared(
        metric, levels, values_a, values_b, ratio, test, absent, no_test, lost=lost, factors=factors, means=means
    )


def _corrected(cells: Sequence[Compared], alpha: float) -> list[Compared]:
    adjusted = holm([None if cell.test is None else cell.test.p for cell in cells])
    return [replace(cell, p_adjusted=p, alpha=alpha) for cell, p in zip(cells, adjusted, strict=True)]


def _gated(cells: Sequence[Compared], margin: float, alpha: float) -> list[Compared]:
    candidates = {
        at: Candidate(cell.means[1], cell.means[0], cell.metric.better)
        for at, cell in enumerate(cells)
        if cell.means is not None and cell.test is not None and cell.metric.better != "neither"
    }
    judged = dict(zip(candidates, gate(list(candidates.values()), margin, alpha), strict=True))
    return [replace(cell, judged=judged.get(at), margin=margin) for at, cell in enumerate(cells)]


def _badness(cell: Compared) -> tuple[bool, int, float]:
    return (not cell.regressed, _WORST_FIRST.index(cell.verdict), -cell.loss)


def _one_sided(side: Side, study: Study, here: Mapping[Levels, Row], there: Mapping[Levels, Row]) -> Iterable[OneSided]:
    """Yield the treatments that the other campaign lacks, grouped by the levels that it does not have."""
    known = [{levels[at][1] for levels in there} for at in range(len(study.factors))]
    groups: dict[Levels, list[Levels]] = {}
    for levels in here:
        if levels not in there:
            lacking = tuple((name, level) for at, (name, level) in enumerate(levels) if level not in known[at])
            groups.setdefault(lacking, []).append(levels)
    for lacking, found in groups.items():
        yield OneSided(side, tuple(found), lacking)


# Provenance, settings and design

_PROVENANCE = (
    (N_("host"), ("host", "hostname")),
    (N_("kernel"), ("host", "kernel")),
    (N_("CPU model"), ("host", "cpu_model")),
    (N_("CPUs"), ("host", "cpus")),
    (N_("root filesystem"), ("root_filesystem", "sha256")),
    ("Lastro", ("lastro", "version")),
)


def facts(provenance: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the facts by which two campaigns may differ, apart from their studies; None for those not recorded."""
    return {name: _at(provenance, keys) for name, keys in _PROVENANCE}


def _differences(a: Report, b: Report) -> Iterator[Different]:
    found = [
        *(
            Different("provenance", name, of_a, of_b)
            for (name, of_a), of_b in zip(facts(a.provenance).items(), facts(b.provenance).values(), strict=True)
        ),
        Different("profile", "profile", a.study.profile or None, b.study.profile or None),
        *(
            Different("setting", name, _setting(a.study, name), _setting(b.study, name))
            for name in {**a.study.settings, **b.study.settings}
            if name not in PATIENCE
        ),
        Different("design", "stopping", a.study.design.stopping, b.study.design.stopping),
        Different("design", "replicates", str(a.study.design.replicates), str(b.study.design.replicates)),
    ]
    return (each for each in found if each.a != each.b)


def _at(data: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    value: Any = data
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else str(value)


def _setting(study: Study, name: str) -> str | None:
    return str(study.settings[name]) if name in study.settings else None
