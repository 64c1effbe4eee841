"""Whether a variant of a study is worse than the reference, in the blocks that both share. Pure.

A pair is a variant and the reference, with the same levels of all other factors. `stats.variants` has the rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lastro.analysis.build import fit_model
from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.analysis.host_facts import differing
from lastro.errors import InputError, did_you_mean
from lastro.results.looks import Look
from lastro.results.samples import Metric
from lastro.stats.intervals import alpha_of
from lastro.stats.settled import FEWEST_BLOCKS
from lastro.stats.simultaneous import Pair
from lastro.stats.variants import Better, VariantChange, Verdict, changes, confidence_at, is_confirmed
from lastro.study.model import VARIANT, Study, VariantTest
from lastro.study.root_change import RootChange

Outcome = Literal["worse", "no worse", "unconfirmed", "alarm", "undecided"]
MARGIN = 0.03
CHANCE = 0.8  # of a decision, for which more blocks are counted


@dataclass(frozen=True, slots=True)
class VariantPair:
    """A variant against the reference. `change` is None where one has no values: `missing` are its name, and why."""

    variant: str
    label: str
    row: Row
    reference: Row
    change: VariantChange | None = None
    confirmed: bool = False
    missing: tuple[str, str] | None = None

    @property
    def cells(self) -> tuple[int, int]:
        """The treatments of the variant and of the reference, by number."""
        return self.row.treatment.index, self.reference.treatment.index

    @property
    def is_lost(self) -> bool:
        """True if the reference was measured, and the variant was not."""
        return self.change is None and bool(self.reference.n_valid)


@dataclass(frozen=True, slots=True)
class VariantAnswer:
    """The answer of a campaign with variants. `alarm` is the block after which one was raised; `test` is its question.

    `confidence` is that of the intervals, which the looks before have made wider. `looks` are those of the campaign."""

    report: CampaignResults
    metric: Metric
    test: VariantTest
    reference: str
    pairs: tuple[VariantPair, ...]
    confidence: float
    n_blocks: int
    looks: tuple[Look, ...] = ()
    alarm: int | None = None

    @property
    def measured(self) -> list[tuple[VariantPair, VariantChange]]:
        """The pairs that could be compared, worst first."""
        found = [(pair, pair.change) for pair in self.pairs if pair.change is not None]
        return sorted(found, key=lambda each: (not each[0].confirmed, -each[1].low, -(each[1].loss or 0.0)))

    def verdict(self, pair: VariantPair) -> Verdict:
        return pair.change.verdict(self.test.margin) if pair.change else "open"

    @property
    def new_blocks(self) -> int:
        return self.n_blocks - self.alarm if self.alarm else 0

    @property
    def stopped(self) -> bool:
        return not self.looks or bool(self.looks[-1].stop)

    @property
    def outcome(self) -> Outcome:
        if any(pair.confirmed for pair in self.pairs):
            return "worse"
        if self.alarm:
            return "unconfirmed" if self.stopped else "alarm"
        sure = bool(self.measured) and not any(pair.is_lost for pair in self.pairs)
        done = all(change.verdict(self.test.margin) == "no worse" for _, change in self.measured)
        return "no worse" if sure and done else "undecided"

    @property
    def more_blocks(self) -> int | None:
        """The number of further blocks with which all open comparisons are decided with probability `CHANCE`.

        None if no comparison is open, or no reasonable number suffices."""
        needed = [
            _blocks(change, self.test.margin, self.confidence)
            for _, change in self.measured
            if change.verdict(self.test.margin) == "open"
        ]
        needed_blocks = max((math.inf if n is None else n for n in needed), default=math.inf)
        return None if needed_blocks == math.inf else max(1, int(needed_blocks) - self.n_blocks)


def _blocks(change: VariantChange, margin: float, confidence: float) -> int | None:
    if change.comparison.critical is None or not math.isfinite(change.comparison.critical):
        return None
    return Pair(change.comparison, 1.0, 1, alpha_of(confidence)).blocks_to_decide(margin, CHANCE)


def default_metric(study: Study) -> str:
    """Return the first metric of a study that declares which direction is better. Raises: InputError without any."""
    directed = [metric.name for metric in study.metrics if metric.better != "neither"]
    if not directed:
        raise InputError("no metric of the study declares which direction is better", "list one that does in `metrics`")
    return directed[0]


def question(study: Study, metric: str | None = None, margin: float | None = None) -> VariantTest:
    """Return the question of a study, or that of an answer after the fact. Raises: InputError for a wrong metric."""
    if VARIANT.name not in {factor.name for factor in study.factors}:
        raise InputError(
            "this study has no variants", "`lastro ab STUDY --a NAME=VALUE --b NAME=VALUE` runs one with two"
        )
    own, blocks = study.test, max(FEWEST_BLOCKS, study.design.most_blocks)
    name = metric or (own.metric if own else default_metric(study))
    known = {each.name: each for each in study.metrics}
    if name not in known or known[name].better == "neither":
        why = "declares no better direction" if name in known else "is not a metric of this study"
        directed = [each for each in known if known[each].better != "neither"]
        raise InputError(f"--metric: {name} {why}", did_you_mean(name, directed))
    wanted = margin or (own.margin if own else MARGIN)
    if own and (name, wanted) == (own.metric, own.margin):
        return own
    return VariantTest(name, wanted, blocks, blocks)


def answer(report: CampaignResults, test: VariantTest, looks: Sequence[Look] | None = None) -> VariantAnswer:
    """Judge the pairs of a campaign; `looks` are those that count, by default its own if it asked this question."""
    looks = (report.looks if report.study.test == test else ()) if looks is None else looks
    view = next(view for view in report.views if view.metric.name == test.metric)
    reference, pairs = _pairs(report, view)
    raised = next((each for each in looks if each.rejected), None)
    first_step = [each.block for each in looks if raised is None or each.block <= raised.block]
    confidence = report.study.design.confidence
    if first_step:
        confidence = confidence_at(first_step, test.last_look, confidence)
    found = _compared(view, pairs, confidence)
    if raised is not None and looks[-1].stop:
        found = _confirmed(view, found, raised)
    elif report.study.test != test:  # nobody has looked, so that no block is new
        found = [
            replace(pair, confirmed=pair.change is not None and pair.change.verdict(test.margin) == "worse")
            for pair in found
        ]
    return VariantAnswer(
        report, view.metric, test, reference, tuple(found), confidence, view.n_blocks, tuple(looks),
        raised.block if raised else None,
    )  # fmt: skip


def _pairs(report: CampaignResults, view: MetricView) -> tuple[str, list[VariantPair]]:
    """Return the name of the reference, and all pairs in the order of the study, whether measured or not."""
    levels = next(factor.levels for factor in report.study.factors if factor.name == VARIANT.name)
    reference = str(report.study.design.baseline.get(VARIANT.name, levels[0]))
    others = [factor.name for factor in report.study.factors if factor.name != VARIANT.name]
    shown = [factor.name for factor in report.varying if factor.name != VARIANT.name]
    pairs = []
    for rows in report.by_levels(others).values():
        of = {str(row.treatment.levels[VARIANT.name]): row for row in rows}
        if (base := of.pop(reference, None)) is None:
            continue
        for variant, row in of.items():
            label = " · ".join(str(row.treatment.levels[name]) for name in shown)
            pairs.append(VariantPair(variant, label, row, base, missing=_missing(view, row, base, variant, reference)))
    return reference, pairs


def _missing(view: MetricView, row: Row, base: Row, variant: str, reference: str) -> tuple[str, str] | None:
    """Return which side cannot be compared, and why; None if both can."""
    for name, each in ((variant, row), (reference, base)):
        cell = view.of(each)
        if not cell.points or cell.bounded:
            return name, "bounded" if cell.bounded else each.reason or each.status
    return None


def _compared(view: MetricView, pairs: Sequence[VariantPair], confidence: float) -> list[VariantPair]:
    there = [number for number, pair in enumerate(pairs) if not pair.missing]
    if view.model is None or not there:
        return list(pairs)
    cells = [pairs[number].cells for number in there]
    found = dict(zip(there, changes(view.model, cells, _better(view.metric), confidence), strict=True))
    return [replace(pair, change=found.get(number)) for number, pair in enumerate(pairs)]


def _confirmed(view: MetricView, pairs: Sequence[VariantPair], raised: Look) -> list[VariantPair]:
    """Judge the pairs that raised the alarm once more, by the blocks after it alone."""
    points = {row.treatment.index: cell.points for row, cell in view if not cell.bounded}
    new = {index: [point for point in own if point.block > raised.block] for index, own in points.items()}
    model = fit_model(view.metric, {index: own for index, own in new.items() if own}, None)
    better = _better(view.metric)
    return [
        replace(pair, confirmed=number in raised.rejected and is_confirmed(model, *pair.cells, better))
        for number, pair in enumerate(pairs)
    ]


def _better(metric: Metric) -> Better:
    assert metric.better != "neither", "`question` refuses it"
    return metric.better


def differing_tools(report: CampaignResults) -> dict[str, tuple[str | None, ...]]:
    """Return the tools that have other versions in the root filesystem of a variant, with the version in each."""
    files = _mapping(report.provenance, "root_filesystem")
    roots = [_mapping(each) for each in _mapping(files, "variants").values()]
    if any(not RootChange.of(changes) for changes in report.study.variants.values()):
        roots.insert(0, report.provenance)  # the root filesystem of the study is that of a variant, too
    return differing(
        [{str(name): _short(text) for name, text in _mapping(each, "image_tools").items()} for each in roots]
    )


def _short(version: object) -> str:
    """Return the version of a tool without what its build adds in parentheses."""
    return str(version).partition("(")[0].strip()


def _mapping(value: Any, key: str = "") -> Mapping[str, Any]:
    """Return a part of what a campaign recorded, which may have any shape."""
    found = value.get(key) if key and isinstance(value, Mapping) else value
    return found if isinstance(found, Mapping) else {}
