"""A gate that is planned from the noise of a pilot."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.gate_plan import GatePlan, gate_plan
from lastro.app.contents import report_of
from lastro.builders.gate_plan import gate_plan_blocks, gate_plan_document
from lastro.errors import InputError
from lastro.render.terminal import terminal_lines
from lastro.study.design import treatments
from lastro.study.margins import Margins
from lastro.study.model import Study
from lastro.words.language import ENGLISH

from ...support.campaigns import METRICS, SMALL, Levels, make_campaign, make_study

NOISE = {"throughput": 0.01, "jitter": 0.06, "latency_mean": 0.03, "latency_max": 0.03}


def noisy(levels: Levels, block: int, metric: str) -> float:
    """Values whose spread depends on the metric alone, with a block effect of 1 %."""
    block_effect = random.Random(f"{block}").gauss(0, 0.01)
    own = random.Random(f"{sorted(levels.items())}:{block}:{metric}").gauss(0, NOISE[metric])
    return 100 * (1 + block_effect + own)


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    directory = tmp_path_factory.mktemp("pilot") / "c"
    return report_of(make_campaign(directory, make_study(replicates=12), value=noisy), all_metrics=True)


def planned(pilot: CampaignResults, study: Study | None = None, *metrics: str, margin: float = 0.05) -> GatePlan:
    study = study or pilot.study
    return gate_plan(study, treatments(study), pilot, Margins(margin), lambda blocks: 60.0 * blocks, metrics)


def test_each_metric_is_planned_by_its_own_margin(pilot: CampaignResults) -> None:
    study, names = pilot.study, [metric.name for metric in pilot.study.metrics]
    small, of_jitter = planned(pilot, margin=0.03), Margins.of_studies(replace(study, margins={"jitter": 0.5}))
    own = gate_plan(study, treatments(study), pilot, of_jitter, lambda blocks: 60.0 * blocks)
    assert own.judged_margins == {name: 0.5 if name == "jitter" else 0.03 for name in names}
    assert (own.blocks_to_find["jitter"] or 0) < (small.blocks_to_find["jitter"] or 0)
    assert {**own.blocks_to_find, "jitter": 0} == {**small.blocks_to_find, "jitter": 0}
    assert "Gate: over 3 % (throughput, latency_mean, latency_max), 50 % (jitter), " in text(own)


def text(plan: GatePlan) -> str:
    return " ".join(" ".join(terminal_lines(gate_plan_blocks(plan, ENGLISH), 100, ENGLISH)).split())


def test_the_noise_of_each_cell_is_that_of_the_pilot(pilot: CampaignResults) -> None:
    plan = planned(pilot)
    assert plan.tests == len(plan.cells) == 24 and plan.noisiest.metric.name == "jitter"
    for metric, spread in NOISE.items():
        found = [cell.spread for cell in plan.cells if cell.metric.name == metric]
        assert sum(found) / len(found) == pytest.approx((spread**2 + 0.01**2) ** 0.5, rel=0.2)
    assert all(11 < cell.df <= 66 for cell in plan.cells), "drawn to the pooled spread, so known better than alone"


def test_more_blocks_find_a_smaller_loss_and_show_more_often(pilot: CampaignResults) -> None:
    powers = planned(pilot).powers
    assert [power.blocks for power in powers] == [5, 10, 12, 20, 40]
    for few, many in itertools.pairwise(powers):
        assert few.median > many.median > 0.05 and few.noisiest > many.noisiest > many.median
        assert few.shown <= many.shown and few.duration_s < many.duration_s == 60 * many.blocks


def test_the_least_number_of_blocks_is_where_the_power_reaches_80_percent(pilot: CampaignResults) -> None:
    plan = planned(pilot)
    needed = plan.blocks_to_find
    assert list(needed) == list(NOISE)
    for metric, blocks in needed.items():
        assert blocks
        cells = [cell for cell in plan.cells if cell.metric.name == metric]
        alpha = 0.05 / plan.tests
        least, less = (min(c.precision(n).finds(0.10, 0.05, alpha) for c in cells) for n in (blocks, blocks - 1))
        assert less < 0.8 <= least
    assert (needed["throughput"] or 0) < (needed["latency_mean"] or 0) < (needed["jitter"] or 0)
    assert plan.blocks_to_show and plan.blocks_to_show > 12
    one = planned(pilot, None, "throughput")
    assert one.tests == 6 and (one.blocks_to_find["throughput"] or 0) <= (needed["throughput"] or 0)


def test_it_reads_as_the_answer_to_the_question(pilot: CampaignResults) -> None:
    plan = planned(pilot)
    said = text(plan)
    assert said.startswith("Gate: over 5 %, 6 treatments and 4 metrics: 24 tests.")
    blocks = plan.blocks_to_find["jitter"]
    assert "To find a loss of 10 % (twice the margin) in any one cell with 80 % power: throughput, " in said
    assert f"jitter, {blocks} blocks (" in said and f"the noisiest is jitter of {plan.noisiest.treatment}." in said
    assert "What changes between two days is not included" in said
    assert "lacks" not in said and "other settings" not in said and "shows no noise of" not in said
    found = gate_plan_document(plan)
    assert found["format"] == "lastro-gate-plan/1" and len(found["noise"]) == found["tests"] == 24
    assert found["blocks_to_find"] == plan.blocks_to_find and found["powers"][0]["blocks"] == 5


def test_what_the_pilot_lacks_is_said(tmp_path: Path, pilot: CampaignResults) -> None:
    """A treatment that it did not run is taken to be as noisy as its noisiest; a metric without trials is named."""

    def no_jitter(levels: Levels, block: int, metric: str) -> float | None:
        return None if metric == "jitter" else noisy(levels, block, metric)

    few = make_campaign(tmp_path / "c", make_study(replicates=6), value=no_jitter)
    more = make_study({**SMALL, "platform": (*SMALL["platform"], "docker")}, settings={"tcp_s": 30})
    plan = planned(report_of(few, all_metrics=True), more)
    assumed = [cell for cell in plan.cells if cell.assumed]
    assert len(assumed) == 3 * 3 and {"docker" in cell.treatment for cell in assumed} == {True}
    for cell in assumed:
        assert cell.spread == max(each.spread for each in plan.cells if each.metric == cell.metric)
    said = text(plan)
    assert plan.tests == 9 * 4, "jitter is judged too"
    assert "It lacks 3 treatments, taken to be as noisy as its noisiest. It shows no noise of jitter." in said
    assert "It ran with other settings (anomaly, platform, tcp_s), so its noise may differ." in said


def test_a_noise_too_large_for_any_gate_is_said_to_be(tmp_path: Path) -> None:
    def wild(levels: Levels, block: int, metric: str) -> float:
        return 100 * random.Random(f"{sorted(levels.items())}:{block}:{metric}").lognormvariate(0, 1.5)

    metrics = (METRICS[0],)
    pilot = report_of(make_campaign(tmp_path / "c", make_study(replicates=4, metrics=metrics), value=wild))
    plan = planned(pilot)
    said = text(plan)
    assert plan.blocks_to_find == {"throughput": None} and plan.blocks_to_show is None
    assert "any may be missed" in said and said.count("more than 1,000 blocks") == 2 and "under 1 %" in said


def test_a_pilot_of_one_block_or_of_another_study_is_refused(tmp_path: Path, pilot: CampaignResults) -> None:
    one = report_of(make_campaign(tmp_path / "c", make_study(replicates=1)), all_metrics=True)
    with pytest.raises(InputError, match="shows no noise"):
        planned(one, pilot.study)
    for other in (make_study({"platform": ("native", "runc")}), make_study(scenario="compute")):
        with pytest.raises(InputError, match="not a campaign of small: its scenario or its factors differ"):
            planned(pilot, other)
    with pytest.raises(InputError, match="does not judge a metric 'jittr'") as refused:
        planned(pilot, None, "jittr")
    assert "jitter" in (refused.value.hint or "")


def test_every_metric_needs_a_better_direction(pilot: CampaignResults) -> None:
    from dataclasses import replace

    neither: Any = tuple(replace(metric, better="neither") for metric in METRICS)
    with pytest.raises(InputError, match="declares what is better"):
        planned(pilot, make_study(metrics=neither))
