"""What each candidate costs against how it keeps each service level: the front of a decision."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.decision import SlaDecision, decision_of
from lastro.figures.matplotlib_types import Figure
from lastro.figures.scale import Ends, reach
from lastro.figures.style import DASHED, FAINT, GREY, PALETTE, axis_title
from lastro.figures.xy import Item, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotNote, PlotPanel, Whiskers, drawn
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.words.language import Language

_MOST_NAMED, _FEW = 12, 8
_LOOKS: dict[str, tuple[str, Look]] = {
    "accepted": (N_("holds all levels"), {"marker": "o", "color": PALETTE[2]}),
    "open": (N_("undecided"), {"marker": "D", "color": PALETTE[4], "mfc": "white", "mew": 1.2}),
    "rejected": (N_("does not hold them"), {"marker": "X", "color": PALETTE[7]}),
}


def draw_decision(report: CampaignResults, say: Language) -> Figure | None:
    """Draw cost against each service level, a panel for each; None without a cost, or for fewer than 2 candidates."""
    decision = decision_of(report)
    if decision is None or decision.question.cost is None:
        return None
    order = [at for at in decision.order() if not decision.choice.odds[at].missing]
    costs = {at: cost for at in order if (cost := decision.choice.odds[at].cost)}
    if len(costs) < 2:
        return None
    unit = next((m.unit for m in report.metrics if m.name == decision.question.cost.text), "")
    amount = Metric(decision.question.cost.text, unit, "lower", "")
    x = reach(amount, [mid for mid, _, _ in costs.values()], [(low, high) for _, low, high in costs.values()])
    panels = [_panel(decision, number, costs) for number in range(len(decision.question.levels))]
    names = [
        f"{number}  {decision.candidates[at].label}" for number, at in enumerate(order, 1) if number <= _MOST_NAMED
    ]
    how = [
        say("each candidate where it is worst, with its interval; the dashed line is the level"),
        say("grey line: the candidates that no other beats in both") if len(costs) > 2 else "",
        *x.words(decision.question.cost.text, say),
    ]
    plot = Plot(
        panels, say("Cost against service"), list(filter(None, how)),
        PlotAxis.of(x, say("cost: {what}", what=axis_title(amount))), PlotAxis(), 2.0,
        legend=[*_kinds(decision, order, say), *((name, {}) for name in names)],
    )  # fmt: skip
    return drawn(plot, say)


def _kinds(decision: SlaDecision, order: list[int], say: Language) -> Iterator[tuple[str, Look]]:
    there = {decision.choice.verdict(at) for at in order}
    yield from ((say(name), {**look, "linestyle": "none"}) for key, (name, look) in _LOOKS.items() if key in there)


def _panel(decision: SlaDecision, number: int, costs: dict[int, tuple[float, float, float]]) -> PlotPanel:
    level = decision.question.levels[number]
    odds_at = {at: odds for at in costs if (odds := decision.choice.odds[at].limits[number]) is not None}
    whiskers: list[Ends] = [(odds.low, odds.high) for odds in odds_at.values()]
    y = reach(level.metric, [level.limit, *(odds.mean for odds in odds_at.values())], whiskers)
    items: list[Item] = [PanelRule("y", level.limit, DASHED)]
    front, best = [], None
    for at in sorted(odds_at, key=lambda at: costs[at][0]):
        mean = odds_at[at].mean
        if best is None or (mean > best if level.at_least else mean < best):
            front.append((costs[at][0], mean))
            best = mean
    if len(costs) > 2:
        behind = {"color": FAINT, "linewidth": 1.2, "zorder": 1}
        items.append(PlotLine([cost for cost, _ in front], [mean for _, mean in front], behind))
    numbers = {at: str(position) for position, at in enumerate(costs, 1) if position <= _MOST_NAMED}
    width_pt = 1.2 if len(odds_at) <= _FEW else 0.5  # many intervals would hide each other
    for at, odds in odds_at.items():
        look = _LOOKS[decision.choice.verdict(at)][1]
        cost, low, high = costs[at]
        items += [
            Whiskers({cost: (odds.low, odds.high)}, look["color"], width_pt=width_pt),
            Whiskers({odds.mean: (low, high)}, look["color"], along="x", width_pt=width_pt),
            PlotLine([cost], [odds.mean], {**look, "linestyle": "none", "ms": 6, "zorder": 4}),
        ]
        if at in numbers:
            above = {"xytext": (5, 5), "textcoords": "offset points", "color": GREY, "va": "bottom"}
            items.append(PlotNote(cost, odds.mean, numbers[at], above, None))
    return PlotPanel(items, [level.text], y=PlotAxis.of(y, axis_title(level.metric)))
