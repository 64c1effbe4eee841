"""What the scenario of a study adds to its report, as the scenario declares it."""

from __future__ import annotations

from lastro.analysis.campaign import Report
from lastro.analysis.growth import Growths, growths
from lastro.results.additions import ScenarioFigure
from lastro.scenarios.base import scenario_of


def figures_of(report: Report) -> tuple[ScenarioFigure, ...]:
    return scenario_of(report.study).figures


def growth_of(report: Report) -> Growths | None:
    """Return the growth of the metrics; None where the scenario has no sizes, or nothing was measured at two."""
    sized = scenario_of(report.study).sized
    return (growths(report, sized) or None) if sized else None
