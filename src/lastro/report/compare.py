"""Compare two campaigns of one study, treatment by treatment: two hosts, two days, or before and after a change.

For each treatment and metric: the ratio of the means B / A with Fieller's interval, and the p of no difference (Welch),
corrected by Holm over every cell that could be compared. Blocks of two campaigns are not pairs, so nothing is paired.
With a margin, also the gate of `stats.margins`: a one-sided test for a regression of more than the margin, corrected
for all cells that it judges. Pure: two reports in, frozen data out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lastro.analysis.campaign import Cell, Report, Row
from lastro.errors import InputError, did_you_mean
from lastro.report.language import ENGLISH
from lastro.report.numbers import STATUS_WORDS, count, direction
from lastro.report.remark_words import meaning
from lastro.results.samples import GENERATOR_LIMITED, Metric
from lastro.stats.adjust import holm
from lastro.stats.intervals import sample_mean
from lastro.stats.margins import Candidate, Judged, RatioTest, gate, ratio_test
from lastro.stats.ratios import Ratio, unpaired_ratio
from lastro.study.model import PATIENCE, Level, Study

Verdict = Literal["worse", "better", "higher", "lower", "same", ""]
_WORST_FIRST: tuple[Verdict, ...] = ("worse", "higher", "lower", "same", "better", "")

Levels = tuple[tuple[str, Level], ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """One treatment and metric of both campaigns; values in the metric's unit, one for each valid trial.

    If the mean of A is below zero, there is no ratio; if it is zero, the ratio has no value. Such cells are still
    tested, as differences. `not_compared` says why there is no test. `judged` is the gate's judgement: None without a
    gate, or if neither direction of the metric is better. `lost`: A has values for this treatment, and B has none."""

    metric: Metric
    levels: Levels
    a: tuple[float, ...]
    b: tuple[float, ...]
    ratio: Ratio | None
    test: RatioTest | None
    not_compared: str | None
    p_adjusted: float | None = None
    judged: Judged | None = None
    lost: bool = False
    alpha: float = 0.05

    @property
    def label(self) -> str:
        return " · ".join(str(level) for _, level in self.levels) or "the treatment"

    @property
    def regressed(self) -> bool:
        return self.judged is not None and self.judged.regressed

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
        """How much worse B is, as a logarithm; infinite if a mean is zero.

        If neither direction of the metric is better, it is the absolute change."""
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
        """The largest relative loss that the interval of the ratio allows; infinite where it is unbounded.

        None where the gate does not judge, or where there is no ratio."""
        if self.judged is None or self.ratio is None or self.ratio.value is None:
            return None
        if self.ratio.interval is None:
            return math.inf
        return self.ratio.interval.high - 1 if self.metric.better == "lower" else 1 - self.ratio.interval.low


@dataclass(frozen=True, slots=True)
class OneSided:
    """Treatments that only one of the campaigns has, and the reason why the other lacks them."""

    only_in: Literal["A", "B"]
    levels: tuple[Levels, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two campaigns, A and B.

    `cells` are in order from worst to best; cells that could not be compared come last. `differences` are (what, value
    in A, value in B)."""

    a: str
    b: str
    study: Study
    metrics: tuple[Metric, ...]
    cells: tuple[Compared, ...]
    one_sided: tuple[OneSided, ...]
    differences: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]
    confidence: float
    margin: float | None

    @property
    def alpha(self) -> float:
        return round(1 - self.confidence, 12)

    @property
    def n_tests(self) -> int:
        return sum(cell.p_adjusted is not None for cell in self.cells)

    @property
    def n_judged(self) -> int:
        return sum(cell.judged is not None for cell in self.cells)

    @property
    def not_judged(self) -> tuple[Compared, ...]:
        """The cells that the gate could not judge, of metrics with a better direction."""
        return tuple(cell for cell in self.cells if cell.judged is None and cell.metric.better != "neither")

    @property
    def most_allowed(self) -> tuple[float, Compared] | None:
        """The largest regression that an interval does not exclude, as a fraction, and its cell."""
        found = [(loss, cell) for cell in self.cells if (loss := cell.allowed_loss) is not None and loss > 0]
        return max(found, key=lambda one: one[0], default=None)

    @property
    def inconclusive(self) -> tuple[Compared, ...]:
        """The cells that may have an undetected regression of more than the margin.

        Their interval allows one, or they could not be judged at all. Empty without a gate."""
        if self.margin is None:
            return ()
        open_ = [
            cell
            for cell in self.cells
            if cell.judged is not None
            and not cell.regressed
            and (cell.allowed_loss is None or cell.allowed_loss > self.margin)
        ]
        return (*open_, *self.not_judged)

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
    cells = [
        _compared(metric, levels, _cell(rows_a[levels], metric), _cell(rows_b[levels], metric), confidence)
        for metric in chosen
        for levels in rows_a
        if levels in rows_b
    ]
    cells = _corrected(cells, alpha)
    if margin is not None:
        cells = _gated(cells, margin, alpha)
    return Comparison(
        a=a.directory,
        b=b.directory,
        study=a.study,
        metrics=chosen,
        cells=tuple(sorted(cells, key=_badness)),
        one_sided=(*_one_sided("A", a.study, rows_a, rows_b), *_one_sided("B", b.study, rows_b, rows_a)),
        differences=tuple(_differences(a, b)),
        notes=tuple(_notes(a, b)),
        confidence=confidence,
        margin=margin,
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


def _compared(metric: Metric, levels: Levels, a: tuple[Row, Cell], b: tuple[Row, Cell], confidence: float) -> Compared:
    values_a, values_b = (tuple(point.value for point in cell.points) for _, cell in (a, b))
    absent = [f"{side}: {why}" for side, (row, cell) in (("A", a), ("B", b)) if (why := _why_not_compared(row, cell))]
    ratio = test = None
    if not absent and sample_mean(values_a) >= 0:
        ratio = unpaired_ratio(values_b, values_a, confidence)
    if not absent:
        try:
            test = ratio_test(values_b, values_a, 1.0, "either")
        except ValueError as error:
            absent = [str(error)]
    lost = bool(values_a) and not values_b
    return Compared(metric, levels, values_a, values_b, ratio, test, "; ".join(absent) or None, lost=lost)


def _why_not_compared(row: Row, cell: Cell) -> str:
    if cell.bounded:
        return f"only a lower bound in {cell.bounded} of {count(len(cell.points), 'trial')}"
    return "" if cell.points else _why_none(row)


def _why_none(row: Row) -> str:
    if row.status == "unavailable" and row.reason:
        return f"unavailable: {row.reason}"
    return "not measured" if row.n_valid else STATUS_WORDS[row.status]


def _corrected(cells: Sequence[Compared], alpha: float) -> list[Compared]:
    adjusted = holm([None if cell.test is None else cell.test.p for cell in cells])
    return [replace(cell, p_adjusted=p, alpha=alpha) for cell, p in zip(cells, adjusted, strict=True)]


def _gated(cells: Sequence[Compared], margin: float, alpha: float) -> list[Compared]:
    candidates = {
        at: Candidate(cell.b, cell.a, cell.metric.better)
        for at, cell in enumerate(cells)
        if cell.test is not None and cell.metric.better != "neither"
    }
    judged = dict(zip(candidates, gate(list(candidates.values()), margin, alpha), strict=True))
    return [replace(cell, judged=judged.get(at)) for at, cell in enumerate(cells)]


def _badness(cell: Compared) -> tuple[bool, int, float]:
    return (not cell.regressed, _WORST_FIRST.index(cell.verdict), -cell.loss)


def _one_sided(
    side: Literal["A", "B"], study: Study, here: Mapping[Levels, Row], there: Mapping[Levels, Row]
) -> Iterable[OneSided]:
    """Yield the treatments that the other campaign lacks, grouped by the levels that it does not have."""
    other = "B" if side == "A" else "A"
    known = [{levels[at][1] for levels in there} for at in range(len(study.factors))]
    groups: dict[str, list[Levels]] = {}
    for levels in here:
        if levels not in there:
            foreign = [f"{name} = {level}" for at, (name, level) in enumerate(levels) if level not in known[at]]
            groups.setdefault(", ".join(foreign), []).append(levels)
    for lacking, found in groups.items():
        reason = f"{other} has no {lacking}" if lacking else f"{other}'s study excludes this combination"
        yield OneSided(side, tuple(found), reason)


# The paragraphs above the table

_PROVENANCE = (
    ("host", ("host", "hostname")),
    ("kernel", ("host", "kernel")),
    ("CPU model", ("host", "cpu_model")),
    ("CPUs", ("host", "cpus")),
    ("root filesystem", ("root_filesystem", "sha256")),
    ("Lastro", ("lastro", "version")),
)


def _differences(a: Report, b: Report) -> Iterable[tuple[str, str, str]]:
    """Yield the differences in provenance, settings and design between the campaigns."""
    for name, keys in _PROVENANCE:
        was, is_ = (_at(report.provenance, keys) for report in (a, b))
        if was != is_:
            yield name, was[:40], is_[:40]
    if a.study.profile != b.study.profile:
        yield "profile", a.study.profile or "none", b.study.profile or "none"
    for name in {**a.study.settings, **b.study.settings}:
        was, is_ = (str(report.study.settings.get(name, "not set")) for report in (a, b))
        if was != is_ and name not in PATIENCE:
            yield name, was, is_
    if a.study.design.stopping != b.study.design.stopping:
        yield "stopping", a.study.design.stopping, b.study.design.stopping
    if a.study.design.replicates != b.study.design.replicates:
        yield "replicates", str(a.study.design.replicates), str(b.study.design.replicates)


def _at(data: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    value: Any = data
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return "not recorded" if value is None else str(value)


def _notes(a: Report, b: Report) -> Iterable[str]:
    for side, report in (("A", a), ("B", b)):
        counts = report.progress.counts
        if not report.progress.finished:
            left = counts.get("pending", 0) + counts.get("running", 0)
            yield f"{side} is unfinished: {left:,} of {report.progress.n_trials:,} trials have not run"
        if report.n_limited:
            yield f"{side}: the generator was the bottleneck in some trials of {count(report.n_limited, 'treatment')}"
        for kind in report.kinds_of_marks:
            if kind != GENERATOR_LIMITED:
                yield f"{side}: some numbers are marked '{kind}': {meaning(kind, ENGLISH)}"
    own_a, own_b = ({metric.name for metric in report.study.metrics} for report in (a, b))
    for side, alone in (("A", own_a - own_b), ("B", own_b - own_a)):
        if alone:
            yield f"metrics only in {side}'s study: {', '.join(sorted(alone))}"
