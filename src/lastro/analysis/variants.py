"""Judge whether the variants of a study are worse than the reference that ran in the same blocks. Pure.

A pair is a variant and the reference, with the same levels of all other factors. `stats.variants` has the rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lastro.analysis.build import fit_model
from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.analysis.host_facts import differing_facts
from lastro.errors import InputError, did_you_mean
from lastro.results.looks import Look
from lastro.results.samples import Metric
from lastro.stats.intervals import alpha_of
from lastro.stats.look_state import FEWEST_BLOCKS
from lastro.stats.simultaneous import Pair, most_blocks
from lastro.stats.variants import Better, VariantChange, Verdict, confidence_at, is_confirmed, variant_changes
from lastro.study.margins import Margins
from lastro.study.model import VARIANT, Study, VariantTest
from lastro.study.root_change import RootChange

Outcome = Literal["worse", "no worse", "unconfirmed", "alarm", "undecided"]
CHANCE = 0.8  # probability that the stated number of further blocks is enough to decide


@dataclass(frozen=True, slots=True)
class VariantPair:
    """A variant and the reference, both with the levels of the other factors that `label` names."""

    variant: str
    label: str
    row: Row
    reference: Row
    change: VariantChange | None = None  # None if one of the two cannot be compared
    confirmed: bool = False  # whether the variant is worse by both steps of the rule in `stats.variants`
    missing: tuple[str, str] | None = None  # the name of the one that cannot be compared, and the reason

    @property
    def cells(self) -> tuple[int, int]:
        """The indices of the treatments of the variant and of the reference."""
        return self.row.treatment.index, self.reference.treatment.index

    @property
    def is_lost(self) -> bool:
        """True if the reference was measured, and the variant was not."""
        return self.change is None and bool(self.reference.n_valid)


@dataclass(frozen=True, slots=True)
class VariantAnswer:
    """The answer of a campaign with variants to the question `test`."""

    report: CampaignResults
    metric: Metric
    test: VariantTest
    reference: str  # name of the reference variant
    pairs: tuple[VariantPair, ...]
    confidence: float  # of the intervals; higher if there were earlier looks
    n_blocks: int
    looks: tuple[Look, ...] = ()  # the looks that count
    alarm: int | None = None  # number of blocks after which one of `looks` raised an alarm; None without an alarm

    @property
    def measured(self) -> list[tuple[VariantPair, VariantChange]]:
        """The pairs that could be compared, worst first."""

        def rank(measured: tuple[VariantPair, VariantChange]) -> tuple[bool, float, float]:
            pair, change = measured
            return not pair.confirmed, -change.low, -(change.loss.value or 0.0)

        return sorted(((pair, pair.change) for pair in self.pairs if pair.change is not None), key=rank)

    def verdict(self, pair: VariantPair) -> Verdict:
        """Return the verdict on a pair by its interval, without confirmation; "open" if it could not be compared."""
        return pair.change.verdict(self.test.margin) if pair.change else "open"

    @property
    def new_blocks(self) -> int:
        """The number of blocks since the alarm; 0 without an alarm."""
        return self.n_blocks - self.alarm if self.alarm else 0

    @property
    def stopped(self) -> bool:
        """True if no more looks will follow."""
        return not self.looks or bool(self.looks[-1].stop)

    @property
    def outcome(self) -> Outcome:
        """The outcome over all pairs.

        "worse" if any pair is confirmed. After an alarm, "alarm" while looks will follow, then "unconfirmed". Without
        an alarm, "no worse" if this holds for all pairs, else "undecided"."""
        if any(pair.confirmed for pair in self.pairs):
            return "worse"
        if self.alarm:
            return "unconfirmed" if self.stopped else "alarm"
        is_complete = bool(self.measured) and not any(pair.is_lost for pair in self.pairs)
        none_worse = all(change.verdict(self.test.margin) == "no worse" for _, change in self.measured)
        return "no worse" if is_complete and none_worse else "undecided"

    @property
    def more_blocks(self) -> int | None:
        """The number of further blocks with which all open comparisons are decided with probability `CHANCE`.

        None if no comparison is open, or if an open one would need too many blocks."""
        needed: list[int | None] = []
        for _, change in self.measured:
            if change.verdict(self.test.margin) == "open":
                pair = Pair(change.comparison, 1.0, 1, alpha_of(self.confidence))
                has_spread = change.comparison.critical is not None and math.isfinite(change.comparison.critical)
                needed.append(pair.blocks_to_decide(self.test.margin, CHANCE) if has_spread else None)
        most = most_blocks(needed)
        return None if most is None else max(1, most - self.n_blocks)


def variant_test(study: Study, metric: str | None = None, margin: float | None = None) -> VariantTest:
    """Return the question about the variants of a study; `metric` and `margin` are by default those in the study file.

    The looks of a campaign only answer the question in this file; any other question is answered after the campaign.
    Raises: InputError for a study without variants, and for a metric that is unknown or has no better direction."""
    if VARIANT.name not in {factor.name for factor in study.factors}:
        raise InputError(
            "this study has no variants", "`lastro ab STUDY --a NAME=VALUE --b NAME=VALUE` runs one with two"
        )
    of_file, blocks = study.test, max(FEWEST_BLOCKS, study.design.most_blocks)
    directed = [known.name for known in study.metrics if known.better != "neither"]
    name = metric or (of_file.metric if of_file else next(iter(directed), None))
    if name is None:
        raise InputError("no metric of the study declares which direction is better", "list one that does in `metrics`")
    if name not in directed:
        is_known = any(known.name == name for known in study.metrics)
        why = "declares no better direction" if is_known else "is not a metric of this study"
        raise InputError(f"--metric: {name} {why}", did_you_mean(name, directed))
    if of_file and name == of_file.metric and (not margin or margin == of_file.margin):
        return of_file
    return VariantTest(name, margin or Margins.of_studies(study).of(name), blocks, blocks)


def judge_variants(report: CampaignResults, test: VariantTest, looks: Sequence[Look] | None = None) -> VariantAnswer:
    """Judge the pairs of a campaign; `looks` count by default only if the campaign's looks asked this question."""
    looks = (report.looks if report.study.test == test else ()) if looks is None else looks
    view = next(view for view in report.views if view.metric.name == test.metric)
    reference, pairs = _pairs(report, view)
    raised = next((look for look in looks if look.rejected), None)
    first_step = [look.block for look in looks if raised is None or look.block <= raised.block]
    confidence = report.study.design.confidence
    if first_step:
        confidence = confidence_at(first_step, test.last_look, confidence)
    comparable = [number for number, pair in enumerate(pairs) if not pair.missing]
    if view.model is not None and comparable:
        cells = [pairs[number].cells for number in comparable]
        changes = variant_changes(view.model, cells, _better(view.metric), confidence)  # one family
        of_pairs = dict(zip(comparable, changes, strict=True))
        pairs = [replace(pair, change=of_pairs.get(number)) for number, pair in enumerate(pairs)]
    if raised is not None and looks[-1].stop:
        pairs = _confirm(view, pairs, raised)
    elif report.study.test != test:  # the campaign had no looks at this question, so its blocks need no confirmation
        pairs = [
            replace(pair, confirmed=pair.change is not None and pair.change.verdict(test.margin) == "worse")
            for pair in pairs
        ]
    return VariantAnswer(
        report, view.metric, test, reference, tuple(pairs), confidence, view.n_blocks, tuple(looks),
        raised.block if raised else None,
    )  # fmt: skip


def _pairs(report: CampaignResults, view: MetricView) -> tuple[str, list[VariantPair]]:
    """Return the name of the reference, and all pairs in the order of the study, each with `change` None."""
    levels = next(factor.levels for factor in report.study.factors if factor.name == VARIANT.name)
    reference = str(report.study.design.baseline.get(VARIANT.name, levels[0]))
    others = [factor.name for factor in report.study.factors if factor.name != VARIANT.name]
    shown = [factor.name for factor in report.varying if factor.name != VARIANT.name]
    pairs = []
    for rows in report.by_levels(others).values():
        by_variant = {str(row.treatment.levels[VARIANT.name]): row for row in rows}
        base = by_variant.pop(reference, None)
        if base is None:
            continue
        for variant, row in by_variant.items():
            label, missing = " · ".join(str(row.treatment.levels[name]) for name in shown), None
            for name, side in ((reference, base), (variant, row)):  # the variant's own reason replaces the reference's
                cell = view.of(side)
                if not cell.points or cell.bounded:
                    missing = name, "bounded" if cell.bounded else side.reason or side.status
            pairs.append(VariantPair(variant, label, row, base, missing=missing))
    return reference, pairs


def _confirm(view: MetricView, pairs: Sequence[VariantPair], raised: Look) -> list[VariantPair]:
    """Return the pairs, with those `confirmed` that raised the alarm and are worse again in the blocks after it."""
    new = {}
    for row, cell in view:
        points = [point for point in cell.points if point.block > raised.block]
        if points and not cell.bounded:
            new[row.treatment.index] = points
    model = fit_model(view.metric, new, None)
    better = _better(view.metric)
    return [
        replace(pair, confirmed=number in raised.rejected and is_confirmed(model, *pair.cells, better))
        for number, pair in enumerate(pairs)
    ]


def _better(metric: Metric) -> Better:
    assert metric.better != "neither", "`variant_test` refuses it"
    return metric.better


def differing_tools(report: CampaignResults) -> dict[str, tuple[str | None, ...]]:
    """Return {tool: its version in each root filesystem} for tools whose versions differ between variants.

    Variants that do not change the root filesystem use the study's, which then comes first. Versions are without the
    build details in parentheses."""
    provenance = report.provenance
    roots = [variant.image_tools for variant in provenance.root_filesystem.variants.values()]
    if any(not RootChange.of(changes) for changes in report.study.variants.values()):
        roots.insert(0, provenance.image_tools)  # the root filesystem of the study is that of a variant, too
    return differing_facts([{name: text.partition("(")[0].strip() for name, text in tools.items()} for tools in roots])
