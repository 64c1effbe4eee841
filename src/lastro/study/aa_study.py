"""The A/A study of a study: only its baseline treatments, each twice for every block of the study."""

from __future__ import annotations

from dataclasses import replace

from lastro.errors import InputError
from lastro.study.design import combinations, treatments
from lastro.study.model import Exclusion, Factor, Study

LEFT_OUT = "left out to keep the A/A campaign short"


def aa_study(study: Study) -> Study:
    """Return the A/A study: the baseline's factors have only its levels, and there are twice as many blocks.

    Settings, metrics and seed are those of the study. Raises: InputError if the study has no baseline, excludes it, or
    has only one block."""
    if not study.design.baseline:
        hint = 'name one in [design], such as baseline = { platform = "native" }'
        raise InputError(f"the study {study.name} names no baseline to run against itself", hint)
    if study.design.replicates < 2:
        hint = "a noise floor needs at least two: raise `replicates`"
        raise InputError(f"the study {study.name} has only one block", hint)
    baseline = study.design.baseline
    aa = replace(
        study,
        name=f"{study.name}-noise-floor"[:64],
        title=f"A/A: {study.title or study.name}",
        factors=tuple(
            Factor(factor.name, (baseline[factor.name],) if factor.name in baseline else factor.levels)
            for factor in study.factors
        ),
        design=replace(study.design, replicates=2 * study.design.replicates, stopping="fixed", fraction="1"),
        source=f"# An A/A campaign: only the baseline of the study below, in twice as many blocks.\n{study.source}",
    )
    if not treatments(aa):
        raise InputError(f"the study {study.name} excludes its own baseline", "remove that [[exclude]]")
    return aa


def first_treatments(study: Study, n: int) -> Study:
    """Return the study with all but its first n treatments excluded, with `LEFT_OUT` as the reason."""
    left_out = list(combinations(study))[n:]
    return replace(study, exclusions=(*study.exclusions, *(Exclusion.of(levels, LEFT_OUT) for levels in left_out)))
