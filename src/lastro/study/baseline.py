"""Find the baseline of a study from campaigns that each measured a part of the study. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastro.study.document import parse_toml
from lastro.study.model import Level, Study, baseline_among


def common_baseline(studies: Sequence[Study]) -> dict[str, Level]:
    """Return the baseline of one study, given parts of the study, each of which has some of the levels.

    A part that does not have the study's baseline level of a factor uses the first of its own levels instead
    (`model.baseline_among`). So the study's level is one that some part uses, and with which all parts are compatible.
    If several levels are possible, the level in the study file counts, or else that of the earliest part. A factor is
    left out if the parts contradict each other."""
    baseline = {}
    for name in studies[0].design.baseline:
        used = dict.fromkeys(study.design.baseline[name] for study in studies if name in study.design.baseline)
        possible = [level for level in used if all(is_compatible(study, name, level) for study in studies)]
        if possible:
            in_files = (_level_in_file(study, name) for study in studies)
            baseline[name] = next((level for level in in_files if level in possible), possible[0])
    return baseline


def is_compatible(study: Study, name: str, level: Level) -> bool:
    """Return whether a part of a study may have its baseline if this is the level of the whole study's baseline."""
    return study.design.baseline.get(name) in (level, baseline_among({name: level}, study.factors)[name])


def _level_in_file(study: Study, name: str) -> Any:
    """Return the baseline level of a factor that the text of the study file names; None if it names none."""
    try:
        design = parse_toml(study.source).get("design")
    except ValueError:
        return None
    baseline = design.get("baseline") if isinstance(design, dict) else None
    return baseline.get(name) if isinstance(baseline, dict) else None
