"""What the scenario of a study adds to its report, as the scenario declares it."""

from __future__ import annotations

from lastro.analysis.campaign import CampaignResults
from lastro.results.additions import ScenarioFigure


def figures_of(report: CampaignResults) -> tuple[ScenarioFigure, ...]:
    from lastro.scenarios.base import scenario_of  # loads what every scenario imports

    return scenario_of(report.study).figures_for(report.study)
