"""A figure of a decision: the cost of each candidate against how it keeps each service level."""

from __future__ import annotations

from lastro.analysis.decision import SlaDecision
from lastro.figures.matplotlib_types import Figure
from lastro.figures.scale import Ends, axis_ends
from lastro.figures.style import DASHED, FAINT, PALETTE, axis_title
from lastro.figures.xy import Item, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotNote, PlotPanel, Whiskers, draw_plot
from lastro.results.samples import Metric
from lastro.stats.notes import N_
from lastro.words.language import Language

_MOST_NAMED = 8
_LOOKS: dict[str, tuple[str, Look]] = {
    "accepted": (N_("holds all levels"), {"marker": "o", "color": PALETTE[2]}),
    "open": (N_("undecided"), {"marker": "D", "color": PALETTE[4], "mfc": "white", "mec": PALETTE[4], "mew": 1.2}),
    "rejected": (N_("does not hold them"), {"marker": "X", "color": PALETTE[7]}),
}


def draw_decision(decision: SlaDecision | None, say: Language) -> Figure | None:
    """Draw the cost of each candidate against each service level, a panel for each level.

    At most eight candidates have a number: the recommended one and those that may cost no more. Without a recommended
    candidate, they are the first in the order of the decision.

    None without a decision on a cost, or if fewer than two candidates have a known cost."""
    if decision is None or decision.question.cost is None:
        return None
    order = [at for at in decision.order() if not decision.choice.odds[at].missing]
    costs = {at: cost.spread for at in order if (cost := decision.choice.odds[at].cost)}
    if len(costs) < 2:
        return None
    unit = next((m.unit for m in decision.report.metrics if m.name == decision.question.cost.text), "")
    amount = Metric(decision.question.cost.text, unit, "lower", "")
    x = axis_ends(amount, [mid for mid, _, _ in costs.values()], [(low, high) for _, low, high in costs.values()])
    choice = decision.choice
    answer = {choice.recommended, *choice.alike, *choice.open_cheaper} if choice.recommended is not None else {*costs}
    named = [at for at in costs if at in answer][:_MOST_NAMED]
    panels = [_panel(decision, number, costs, named) for number in range(len(decision.question.levels))]
    names = [f"{number}  {decision.candidates[at].label}" for number, at in enumerate(named, 1)]
    how = [
        say("each candidate where it is worst, with its interval; the dashed line is the level"),
        say("with a number: the first candidates of the answer") if len(named) < len(costs) else "",
        say("grey line: the candidates that no other beats in both") if len(costs) > 2 else "",
        *x.words(decision.question.cost.text, say),
    ]
    verdicts = {choice.verdict(at) for at in order}
    kinds = [(say(name), {**look, "linestyle": "none"}) for key, (name, look) in _LOOKS.items() if key in verdicts]
    plot = Plot(
        panels, say("Cost against service"), list(filter(None, how)),
        PlotAxis.of(x, say("cost: {what}", what=axis_title(amount))), PlotAxis(), 2.0,
        legend=[*kinds, *((name, {}) for name in names)],
    )  # fmt: skip
    return draw_plot(plot, say)


def _panel(
    decision: SlaDecision, number: int, costs: dict[int, tuple[float, float, float]], named: list[int]
) -> PlotPanel:
    level = decision.question.levels[number]
    means = {at: odds.mean.spread for at in costs if (odds := decision.choice.odds[at].limits[number]) is not None}
    whiskers: list[Ends] = [(low, high) for _, low, high in means.values()]
    values = [level.limit, *(mean for mean, _, _ in means.values())]
    y = axis_ends(level.metric, values, whiskers, values)
    items: list[Item] = [PanelRule("y", level.limit, DASHED)]
    front, best = [], None
    for at in sorted(means, key=lambda at: costs[at][0]):
        mean = means[at][0]
        if best is None or (mean > best if level.at_least else mean < best):
            front.append((costs[at][0], mean))
            best = mean
    if len(costs) > 2:
        behind = {"color": FAINT, "linewidth": 1.2, "zorder": 1}
        items.append(PlotLine([cost for cost, _ in front], [mean for _, mean in front], behind))
    for at, (mean, bottom, top) in means.items():
        look, is_named = _LOOKS[decision.choice.verdict(at)][1], at in named
        cost, low, high = costs[at]
        width_pt = 1.2 if is_named else 0.5  # many intervals would hide each other
        items += [
            Whiskers({cost: (bottom, top)}, look["color"], width_pt=width_pt),
            Whiskers({mean: (low, high)}, look["color"], along="x", width_pt=width_pt),
            PlotLine([cost], [mean], {**look, "linestyle": "none", "ms": 10 if is_named else 3, "zorder": 4}),
        ]
        if is_named:
            inside = {"ha": "center", "va": "center", "fontsize": 7, "color": look.get("mec", "white"), "zorder": 5}
            items.append(PlotNote(cost, mean, str(1 + named.index(at)), inside, None))
    return PlotPanel(items, [level.text], y=PlotAxis.of(y, axis_title(level.metric)))
