"""Check that functions which share an instance also share its platform. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.study.design import combinations
from lastro.study.levels import FUNCTION, ON, platforms_of_hops
from lastro.study.model import Level, Study
from lastro.study.problems import FieldError

PLACEMENT, EACH, TOGETHER = "placement", "each", "together"
_HINT = f'name one platform for all of them, use {PLACEMENT} = "{EACH}", or exclude these treatments'


def contradiction(config: Mapping[str, Level]) -> str:
    """Return why the functions of a treatment cannot share one instance; empty if they can, or if they do not share."""
    platforms = dict.fromkeys(platforms_of_hops(config)) if config.get(PLACEMENT) == TOGETHER else ()
    if len(platforms) < 2:
        return ""
    return f'{PLACEMENT} = "{TOGETHER}" puts {config[FUNCTION]} into one instance, but names {" and ".join(platforms)}'


def check_placement(study: Study) -> None:
    """Raise FieldError if a treatment has functions in one instance, but on several platforms."""
    levels = [*(level for factor in study.factors for level in factor.levels), study.settings.get(FUNCTION, "")]
    if not any(ON in str(level) for level in levels):
        return
    for treatment in combinations(study):
        if why := contradiction(study.config(treatment)):
            raise FieldError(why, _HINT)
