"""Packets of OSPF over time: every trial aligned by the second of its moment, and nothing where nothing was counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from lastro.analysis import analyse
from lastro.figures import plans
from lastro.figures.scenario import draw_aligned
from lastro.figures.style import style
from lastro.results.additions import AlignedSeries
from lastro.results.samples import Series
from lastro.scenarios.routing.additions import FIGURES
from lastro.words.language import ENGLISH, language

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from .test_figures import report_of

KINDS = ("hello", "database description", "link-state request", "link-state update", "link-state acknowledgement")
CPU, BEGIN, CUT = (figure for figure in FIGURES if isinstance(figure, AlignedSeries))
CUT_S = {1: 20, 2: 24, 3: 22}
LENGTH_S = 40


BUSY = Series("host CPU", "%", (100.0, 100.0, 50.0, *[1.0] * (LENGTH_S - 3)))


def counted(levels: Levels, block: int) -> list[Series]:
    """Two hellos a second; nine updates in the second after the cut; one acknowledgement and one request a second."""
    burst = ("link-state update", CUT_S[block] + 1)
    of = {"hello": 2.0, "link-state acknowledgement": 1.0, "link-state request": 1.0}
    return [
        Series(
            f"{kind} packets", "1/s",
            tuple(9.0 if (kind, at) == burst else of.get(kind, 0.0) for at in range(LENGTH_S)),
        )
        for kind in KINDS
    ]  # fmt: skip


def marks(levels: Levels, block: int) -> dict[str, Any]:
    cut_s = CUT_S[block] + 0.4
    return {
        "timeline_s": {"begin": 0.0, "converged": 8.2 + block, "cut": cut_s, "back": cut_s + 6, "recovered": cut_s + 9}
    }


def of(directory: Path, **more: Any) -> Any:
    study = make_study({"topology": ("3x3", "4x4")}, metrics=METRICS[:1], replicates=3, scenario="routing")
    return report_of(make_campaign(directory / "c", study, **({"series": counted, "notes": marks} | more)))


def lines(figure: Figure, panel: int) -> dict[str, tuple[list[float], list[float]]]:
    labels = [str(line.get_label()) for line in figure.axes[0].lines]
    return {
        label: (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for label, line in zip(labels, figure.axes[panel].lines, strict=True)
    }


def test_trials_are_aligned_by_the_second_of_the_cut(tmp_path: Path) -> None:
    with style():
        figure = draw_aligned(CUT, of(tmp_path), ENGLISH)
    assert figure is not None
    for panel in range(2):
        at, updates = lines(figure, panel)["link-state update"]
        assert {second: mean for second, mean in zip(at, updates, strict=True) if mean} == {1: 9.0}
        assert (at[0], at[-1]) == (-5, 9)
        assert set(lines(figure, panel)["other OSPF packets"][1]) == {2.0} and set(
            lines(figure, panel)["hello"][1]
        ) == {2.0}
    assert "n = 3" in figure.axes[0].get_title(loc="left")
    assert [round(float(line.get_xdata()[0]), 6) for line in figure.axes[0].lines[-2:]] == [0, 6]  # type: ignore[index]


def test_what_is_drawn_of_the_start_ends_with_the_first_convergence(tmp_path: Path) -> None:
    with style():
        figure = draw_aligned(BEGIN, of(tmp_path), ENGLISH)
    assert figure is not None
    at, _ = lines(figure, 0)["hello"]
    assert (at[0], at[-1]) == (0, 9)


def test_invalid_trials_are_in_no_mean(tmp_path: Path) -> None:
    report = of(tmp_path, doubts=lambda levels, block, attempt: ["died"] if levels["topology"] == "4x4" else [])
    with style():
        figure = draw_aligned(CUT, report, ENGLISH)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes if axes.lines] == ["3x3\nn = 3"]


@pytest.mark.parametrize(
    "more",
    [
        {"series": lambda levels, block: []}, {"notes": lambda levels, block: {}},
        {"notes": lambda levels, block: {"timeline_s": {"begin": "now", "cut": float("inf")}}},
        {"notes": lambda levels, block: {"timeline_s": {"begin": 900, "cut": 900}}},
        {"notes": lambda levels, block: {"timeline_s": [1]}},
    ],
)  # fmt: skip
def test_without_counts_or_moments_there_is_no_figure(tmp_path: Path, more: dict[str, Any]) -> None:
    report = of(tmp_path, **more)
    assert draw_aligned(BEGIN, report, ENGLISH) is None and draw_aligned(CUT, report, ENGLISH) is None


@pytest.mark.parametrize("code", ["en", "pt-BR"])
def test_all_three_figures_are_planned_and_speak_the_language(tmp_path: Path, code: str) -> None:
    report = of(tmp_path, series=lambda levels, block: [BUSY, *counted(levels, block)])
    say = language(code)
    planned = [plan.picture() for plan in plans(report, analyse(report), say) if plan.kind == "scenario"]
    found = [picture for picture in planned if picture]
    assert [picture.name for picture in found] == ["traffic-cpu", "traffic-begin", "traffic-cut"]
    assert all(len(picture.svg()) < 200_000 for picture in found)


def test_the_cpu_of_the_host_has_a_figure_from_the_first_start_to_the_convergence(tmp_path: Path) -> None:
    report = of(tmp_path, series=lambda levels, block: [BUSY])
    with style():
        figure = draw_aligned(CPU, report, ENGLISH)
    assert figure is not None and draw_aligned(BEGIN, report, ENGLISH) is None
    at, means = lines(figure, 0)["host CPU"]
    assert at == list(range(10)) and means[:4] == [100, 100, 50, 1]
    assert draw_aligned(CPU, of(tmp_path / "none"), ENGLISH) is None
