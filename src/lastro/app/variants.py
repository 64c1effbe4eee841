"""Run a study with variants until it is decided whether one is worse than the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lastro.analysis.variants import variant_test
from lastro.app import campaigns
from lastro.app.campaign_dirs import check_place, place_for
from lastro.app.messages import say
from lastro.app.rights import require_root
from lastro.app.studies import load_fleet, load_study, load_testbed
from lastro.errors import InputError, did_you_mean
from lastro.scenarios.base import scenario_of, schema
from lastro.stats.look_state import FEWEST_BLOCKS
from lastro.stats.variants import new_blocks
from lastro.study.model import MOST_BLOCKS, Study
from lastro.study.root_change import with_absolute_rootfs
from lastro.study.selection import Selection, with_variants

_MOST_UNTIL_DECIDED = 20  # blocks


@dataclass(frozen=True, slots=True)
class VariantOptions:
    """The options of `lastro ab`."""

    study: str
    selection: Selection
    a: tuple[str, ...] = ()  # changes such as 'cpus=1'; `b` alike
    b: tuple[str, ...] = ()
    metric: str | None = None
    margin: float | None = None
    blocks: int | None = None
    until_decided: bool = False
    within_s: float = 0.0  # 0 without a limit


def study_of(plan: VariantOptions) -> Study:
    """Return the study with its variants, test and design. Raises: InputError, StudyError."""
    study = load_study(plan.study, plan.selection)
    study = with_variants(study, schema(scenario_of(study)), plan.a, plan.b)
    here = str(Path.cwd())
    variants = {name: with_absolute_rootfs(changes, here) for name, changes in study.variants.items()}
    study = replace(study, variants=variants)
    known = {metric.name: metric for metric in study.all_metrics}
    if plan.metric is not None and plan.metric not in {metric.name for metric in study.metrics}:
        if plan.metric not in known:
            raise InputError(f"--metric: the study does not measure {plan.metric}", did_you_mean(plan.metric, known))
        study = replace(study, metrics=(*study.metrics, known[plan.metric]))
    usual_blocks = _MOST_UNTIL_DECIDED if plan.until_decided else max(FEWEST_BLOCKS, study.design.most_blocks)
    blocks = plan.blocks or usual_blocks
    if not FEWEST_BLOCKS <= blocks <= MOST_BLOCKS:
        raise InputError(f"--blocks {blocks} is not possible", f"give at least {FEWEST_BLOCKS}")
    first = FEWEST_BLOCKS if plan.until_decided else blocks
    test = replace(variant_test(study, plan.metric, plan.margin), first_look=first, last_look=blocks)
    most = blocks + new_blocks(blocks)
    design = replace(study.design, stopping="decided", replicates=first, max_replicates=most, within_s=plan.within_s)
    return replace(study, design=design, test=test)


def run(plan: VariantOptions, output: Path | None, testbed: Path | None, fleet: Path | None, *, wait: bool) -> Path:
    """Run the study in `output`, or a new directory, and return the directory. Raises: as `campaigns.begin`."""
    study = study_of(plan)
    if scenario_of(study).needs_root:
        require_root("ab")
    directory = output or place_for(study.name)
    check_place(directory)
    campaigns.begin(directory, study, wait=wait, file=load_testbed(testbed), fleet=load_fleet(fleet))
    say(f"the campaign is in {directory}")
    return directory
