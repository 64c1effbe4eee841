"""Find the baseline of a study from campaigns that each measured a part of it, perhaps without the baseline. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastro.study.document import parse_toml
from lastro.study.model import Level, Study, among


def common_baseline(studies: Sequence[Study]) -> dict[str, Level]:
    """Return the baseline of one study from parts of the study, each of which has some of the levels.

    A part that leaves out the study's baseline level of a factor uses the first of its own levels instead
    (`model.among`). So the study's level is one that some part uses, and with which every other part agrees
    (`accepts`). If several levels are possible, it is the level in the study file, or else that of the earliest part. A
    factor is left out if the parts contradict each other."""
    baseline = {}
    for name in studies[0].design.baseline:
        of_parts = dict.fromkeys(study.design.baseline[name] for study in studies if name in study.design.baseline)
        possible = [level for level in of_parts if all(accepts(study, name, level) for study in studies)]
        if possible:
            in_files = (_level_in_file(study, name) for study in studies)
            baseline[name] = next((level for level in in_files if level in possible), possible[0])
    return baseline


def accepts(study: Study, name: str, level: Level) -> bool:
    """Return whether the baseline of a part of a study agrees with this level of the whole study's baseline."""
    return study.design.baseline.get(name) in (level, among({name: level}, study.factors)[name])


def _level_in_file(study: Study, name: str) -> Any:
    """Return the level that the text of the study file names as the baseline of a factor; None if it names none."""
    try:
        design = parse_toml(study.source).get("design")
    except ValueError:
        return None
    baseline = design.get("baseline") if isinstance(design, dict) else None
    return baseline.get(name) if isinstance(baseline, dict) else None
