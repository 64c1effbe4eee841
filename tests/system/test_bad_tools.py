"""Whatever a tool does, on every kind of platform: a trial with the reason, no instance left, the campaign goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from lastro import registry
from lastro.campaign import runner
from lastro.instruments.base import WORK_DIR, Workload
from lastro.platforms.base import Instance
from lastro.registry import PartInfo
from lastro.results import store
from lastro.results.samples import Metric, Reading
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.scenarios.compute import ComputeScenario
from lastro.study import design
from lastro.study.load import parse
from lastro.study.model import Setting
from lastro.testbed import Testbed

from ..cli.conftest import study_text
from ..support.scenarios import TOLERANT
from ..support.smalldisk import small_disk

pytestmark = pytest.mark.root

WELL = "well"
FATES = {
    WELL: (["sleep", "0.1"], ""),
    "killed": (["sh", "-c", "kill -9 $$"], "fated was killed: the instance has 192 MiB of memory"),
    "memory": (["tail", "/dev/zero"], "tail was killed: the instance has 192 MiB of memory"),
    "disk": (["sh", "-c", f"cat /dev/zero > {WORK_DIR}/file"], "fated filled the instance's disk"),
    "endless": (["sh", "-c", "while :; do :; done"], "did not end within 2 s"),
}


ENDLESS, ENDED = ("endless", WELL), ("killed", "memory", "disk", WELL)


class Fated(Workload):
    """Its short version is well, as those are that fail only when they are let loose."""

    name = "fated"
    summary = "for tests: a tool of a chosen fate"
    options = (Setting("fate", WELL, "how it ends", choices=tuple(FATES)),)
    metrics = (Metric("fated_ends", "1", "neither", "good ends"),)

    def argv(self) -> list[str]:
        return FATES[str(self.chosen["fate"])][0]

    def prepare(self, instance: Instance) -> None:
        if self.chosen["fate"] == "disk":
            small_disk(instance)

    def read(self, text: str) -> Reading:
        return Reading({"fated_ends": 1.0})

    def expected_s(self, cpus: float, slowdown: float) -> float:
        return 0.1

    def brief(self) -> Self:
        return type(self)(fate=WELL)


class Watching:
    """An observer: what is owned after each trial, and nothing else."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed, self.marks = testbed, list[int]()

    def finished(self, *args: Any) -> None:
        self.marks.append(self._testbed.session.mark())

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None


@pytest.fixture
def fated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.parts("instrument"), "fated", PartInfo("instrument", "fated", "", __name__, Fated))
    monkeypatch.setattr(store, "MAX_ATTEMPTS", 1)
    yield


@pytest.mark.parametrize(
    ("fates", "limit_s", "platforms"),
    [
        (ENDLESS, 2.0, ("runc",)),
        pytest.param(ENDLESS, 2.0, ("native", "docker", "qemu-tcg:machine=microvm"), marks=pytest.mark.slow),
        (ENDED, 60.0, ("runc",)),
        pytest.param(ENDED, 60.0, ("native", "docker", "qemu-tcg:machine=microvm"), marks=pytest.mark.slow),
    ],
)
def test_a_campaign_goes_on_whatever_its_tools_do(
    testbed: Testbed, tmp_path: Path, fated: None, fates: tuple[str, ...], limit_s: float, platforms: tuple[str, ...]
) -> None:
    settings = {**TOLERANT, "memory": "192M", "limit_s": limit_s}
    factors = {"platform": list(platforms), "instrument": [f"fated:fate={fate}" for fate in fates]}
    text = study_text(factors, scenario="compute", replicates=1, isolation="none", **settings)
    study = parse(text.replace("[factors]", 'metrics = ["fated_ends"]\n[factors]'), "test", schemas())
    treatments = design.treatments(study)
    scenario, watching = ComputeScenario(testbed), Watching(testbed)
    try:
        trials = design.trials(study, len(treatments))
        with Store.create(tmp_path / "campaign", study, treatments, trials, {}) as campaign:
            runner.run(campaign, scenario, watching)  # type: ignore[arg-type]
            levels = {trial.number: treatments[trial.treatment].levels for trial in campaign.trials()}
            attempts = campaign.attempts()
    finally:
        scenario.close()
    assert len(attempts) == len(platforms) * len(fates)
    assert len(set(watching.marks)) == 1, "no trial leaves anything"
    for attempt in attempts:
        fate = str(levels[attempt.trial]["instrument"]).rpartition("=")[2]
        assert attempt.valid is (fate == WELL), (levels[attempt.trial], attempt.reasons)
        assert FATES[fate][1] in "; ".join(attempt.reasons)
