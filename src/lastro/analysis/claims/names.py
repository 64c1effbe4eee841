"""Check the names in a claims file against its study: metrics, factors and units. Levels may be unknown."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from lastro.errors import did_you_mean
from lastro.study.model import Study
from lastro.study.problems import FieldError, shown


def factors_of(study: Study) -> set[str]:
    """Return the names that may occur in a choice of levels: the study's factors and its constants."""
    return {factor.name for factor in study.factors} | set(study.settings)


def units_of(study: Study) -> dict[str, str]:
    """Return {metric: unit} for all metrics of the study and of its scenario."""
    return {metric.name: metric.unit for metric in (*study.all_metrics, *study.metrics)}


def check_metric(name: str, study: Study) -> None:
    """Check that the study has a metric. Raises: FieldError with the nearest name if not."""
    if name not in (units := units_of(study)):
        raise FieldError(f"study {study.name} has no metric {shown(name)}", partial(did_you_mean, name, units))


def check_factor(name: str, factors: Iterable[str], study: Study) -> None:
    """Check that a factor is among `factors`. Raises: FieldError with the nearest name if not."""
    if name not in factors:
        raise FieldError(f"study {study.name} has no factor {shown(name)}", partial(did_you_mean, name, factors))


def check_unit(unit: str, metric: str, study: Study) -> None:
    """Check that a figure is in the unit of its metric. Raises: FieldError if not."""
    units = units_of(study)
    if unit != units.get(metric, unit):
        raise FieldError(f"is in {shown(unit)}, but {metric} is in {shown(units[metric])}", "convert the figure")
