"""Which CPUs share a core: by the kernel's topology, or by the speed of loops where it says nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from lastro.app.contents import content_of, report_of
from lastro.builders.data.results import document
from lastro.host.base import Completed
from lastro.host.local import LocalHost
from lastro.host.processors import CPUS, shared_cores, speeds
from lastro.words.language import language

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ...support.documents import render_markdown, render_terminal
from ...support.recording import RecordingHost, answer

# What the program printed on two threads of a core, and on two cores, one of which another program disturbed.
THREADS = "alone 0.019081722\n1 0.011604954\nalone 0.018662323\n1 0.011390349\nalone 0.018710810\n1 0.012061272\n"
CORES = "alone 0.017836412\n1 0.018324214\nalone 0.019081722\n1 0.010895619\nalone 0.018882537\n1 0.018806954\n"


class Files:
    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def read(self, paths: Any) -> dict[str, str]:
        return {path: self.texts[path] for path in paths if path in self.texts}


def host_of(lists: list[str], printed: Completed | str = "") -> RecordingHost:
    host = RecordingHost(lambda argv: printed if isinstance(printed, Completed) else answer(printed))
    files = {f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": f"{text}\n" for cpu, text in enumerate(lists)}
    host.view = Files(files)  # type: ignore[assignment]
    return host


@pytest.mark.parametrize("virtual", [False, True])
def test_threads_of_a_core_are_those_of_the_topology(virtual: bool) -> None:
    host = host_of(["0,2", "1,3", "0,2", "1,3"])
    assert shared_cores(host, range(4), virtual=virtual) == {"shared": ["0,2", "1,3"], "known_by": "topology"}
    assert shared_cores(host, [0, 1, 2], virtual=virtual) == {"shared": ["0,2"], "known_by": "topology"}
    assert host.commands == [], "what is known is not measured"


def test_a_real_machine_whose_cpus_are_cores_is_believed() -> None:
    host = host_of(["0", "1"])
    assert shared_cores(host, [0, 1], virtual=False) == {"shared": [], "known_by": "topology"}
    assert shared_cores(host_of(["0-1", "0-1"]), [1], virtual=False) == {"shared": [], "known_by": "topology"}
    assert host.commands == []


@pytest.mark.parametrize(
    ("printed", "shared", "speed"), [(THREADS, ["0,1"], 0.63), (CORES, [], 0.99), (CORES + "what else\n", [], 0.99)]
)
@pytest.mark.parametrize("lists", [["0", "1"], []])
def test_a_virtual_machine_is_calibrated(lists: list[str], printed: str, shared: list[str], speed: float) -> None:
    host = host_of(lists, printed)
    found = {"shared": shared, "known_by": "calibration", "speed_beside": {"1": speed}}
    assert shared_cores(host, [0, 1], virtual=True) == found
    assert host.commands == [["perl", "-", "3", "40", "0", "1"]]


def test_of_many_cpus_the_next_and_the_half_are_tried() -> None:
    host = host_of([str(cpu) for cpu in range(16)], "alone 0.02\n1 0.02\n8 0.012\n2 0.02\n3 0.02\n")
    assert shared_cores(host, range(16), virtual=True)["shared"] == ["0,8"]
    assert host.commands == [["perl", "-", "3", "40", "0", "1", "8", "2", "3"]]


@pytest.mark.parametrize("printed", [answer(code=127), "", "alone 0.0\n1 0.2\n", "1 0.2\n"])
def test_where_nothing_can_be_measured_it_stays_unknown(printed: Completed | str) -> None:
    assert shared_cores(host_of(["0", "1"], printed), [0, 1], virtual=True) == {"shared": [], "known_by": "unknown"}
    assert shared_cores(host_of([], printed), [0], virtual=True) == {"shared": [], "known_by": "unknown"}


@pytest.mark.processes
def test_the_program_measures_within_a_second_of_its_own() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU")
    before = time.process_time()
    host = LocalHost()
    host.view = Files({})  # type: ignore[assignment]
    found = shared_cores(host, cpus, virtual=True)
    assert found["known_by"] == "calibration" and all(0 < speed < 3 for speed in found["speed_beside"].values())
    assert time.process_time() - before < 1


def campaign(directory: Path, cores: object, cpus: float = 1.0, idle: str = "awake") -> Path:
    def notes(levels: Levels, block: int) -> dict[str, Any]:
        return {} if levels["anomaly"] == "none" else {"doses": {"elapsed_s": 10.0, "cpus": cpus}}

    metrics = tuple(metric for metric in METRICS if metric.name != "jitter" or idle == "as-is")
    study = make_study({"anomaly": ("none", "cpu")}, replicates=2, metrics=metrics, settings={"cpus_idle": idle})
    return make_campaign(directory, study, notes=notes, provenance={"cores": cores})


@pytest.mark.parametrize(
    ("cores", "code", "words"),
    [
        ({"shared": ["0,1"], "known_by": "topology"}, "en", "CPUs 0,1 share a core. What"),
        ({"shared": ["0,1"], "known_by": "calibration", "speed_beside": {"1": 0.63}}, "en", "63 % of its speed"),
        (
            {"shared": ["0,1"], "known_by": "calibration", "speed_beside": {"1": 0.63}},
            "pt-BR",
            "63 % de sua velocidade",
        ),
        ({"shared": ["0,1"], "known_by": "calibration"}, "en", "share a core. What"),
    ],
)
def test_a_neighbour_on_a_shared_core_is_a_caveat(tmp_path: Path, cores: object, code: str, words: str) -> None:
    directory = campaign(tmp_path, cores)
    assert words in " ".join(render_markdown(content_of([directory], language(code), all_metrics=False)).split())
    report = report_of(directory)
    assert len(document(report)["caveats"]) == 1
    assert "share a core" in " ".join(" ".join(line.plain for line in render_terminal(report, 100)).split())


@pytest.mark.parametrize(
    ("cores", "cpus"),
    [({"shared": [], "known_by": "topology"}, 1.0), ({"shared": ["0,1"]}, 0.01), ({}, 1.0)],
)
def test_without_a_shared_core_or_a_load_there_is_none(tmp_path: Path, cores: object, cpus: float) -> None:
    assert document(report_of(campaign(tmp_path, cores, cpus)))["caveats"] == []


def test_a_neighbour_that_keeps_cpus_awake_is_a_caveat_of_paced_packets(tmp_path: Path) -> None:
    (caveat,) = document(report_of(campaign(tmp_path / "a", {}, idle="as-is")))["caveats"]
    assert "change in jitter, latency_mean, latency_max is not an effect on the function" in caveat
    assert document(report_of(campaign(tmp_path / "b", {}, cpus=0.01, idle="as-is")))["caveats"] == []


def test_only_numbers_are_rates() -> None:
    assert speeds("alone 1.0\nalone -1\n1 nan\n2 0.5\n99999999 0.1\n") == {2: 0.5}
