"""The baseline of several campaigns of one study, some of which leave out its level. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.study.document import parse_toml
from lastro.study.model import Level, Study, among


def common_baseline(studies: Sequence[Study]) -> dict[str, Level]:
    """Return the baseline of one study from parts of it, each of which has some of the levels.

    A part that leaves out the level of the baseline has the first of its own levels instead (`model.among`). So the
    level of a factor is the baseline of a part, and all other parts have it or what replaces it. If there are several,
    it is the one that the study's file names, else that of the earliest part. A factor on which the parts contradict
    each other is left out."""
    found = {}
    for name in studies[0].design.baseline:
        own = dict.fromkeys(study.design.baseline[name] for study in studies if name in study.design.baseline)
        if possible := [level for level in own if all(accepts(study, name, level) for study in studies)]:
            found[name] = possible[0] if len(possible) == 1 else _chosen(possible, studies, name)
    return found


def accepts(study: Study, name: str, level: Level) -> bool:
    """Return whether a part of a study has the baseline that follows if the whole study has this level of a factor."""
    return study.design.baseline.get(name) in (level, among({name: level}, study.factors)[name])


def _chosen(possible: Sequence[Level], studies: Sequence[Study], name: str) -> Level:
    """Return the first level that the file of a study names, else the first."""
    named = [_in_file(study, name) for study in studies]
    return min(possible, key=lambda level: named.index(level) if level in named else len(named))


def _in_file(study: Study, name: str) -> object:
    """Return the level of the baseline in the text of the study's file; None without one."""
    try:
        design = parse_toml(study.source).get("design")
    except ValueError:
        return None
    baseline = design.get("baseline") if isinstance(design, dict) else None
    return baseline.get(name) if isinstance(baseline, dict) else None
