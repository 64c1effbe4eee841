"""What the scenario of a study adds to its report, as the scenario declares it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.growth import Growths, growths
from lastro.results.additions import ScenarioFigure

if TYPE_CHECKING:
    from lastro.scenarios.base import Scenario


def figures_of(report: CampaignResults) -> tuple[ScenarioFigure, ...]:
    """Return the figures that the scenario declares for the study of a report; empty without any."""
    return _scenario(report).figures_for(report.study)


def growth_of(report: CampaignResults) -> Growths | None:
    """Return how metrics grow with the sizes of the scenario; None unless at least two sizes were measured."""
    sized = _scenario(report).sized
    return (growths(report, sized) or None) if sized else None


def _scenario(report: CampaignResults) -> type[Scenario]:
    from lastro.scenarios.base import Scenario, installed_scenario  # loads what every scenario imports

    return installed_scenario(report.study) or Scenario
