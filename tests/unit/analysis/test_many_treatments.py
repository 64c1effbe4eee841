"""A study of thousands of treatments: what reads it takes time in proportion to them, and a figure shows a part."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lastro.analysis import analyse
from lastro.analysis.campaign import CampaignResults
from lastro.builders.content import Content
from lastro.builders.results import results_blocks
from lastro.figures import plans
from lastro.figures.style import WIDE_IN, style
from lastro.stats import families
from lastro.study.model import Level
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH

from ...known.test_families import against_first, errors
from ...support.campaigns import METRICS, make_campaign, make_study
from ..figures.test_figures import report_of

FEW, MANY = 500, 2000
MOST_TIMES = 8  # four times the treatments; of what grows with their square, it would be 16, and 64 was usual


def report(place: Path, levels: tuple[Level, ...]) -> CampaignResults:
    study = make_study({"step": levels}, replicates=2, metrics=METRICS[:1], baseline={"step": levels[0]})
    return report_of(make_campaign(place, study))


def seconds(place: Path, n: int) -> float:
    """Return the processor time of table and analysis."""
    found = report(place / str(n), tuple(range(n)))
    began_s = time.process_time()
    list(results_blocks(Content(found, None, ENGLISH), "terminal"))
    analyse(found)
    return time.process_time() - began_s


@pytest.mark.slow
def test_time_grows_with_the_treatments_and_not_with_their_square(tmp_path: Path) -> None:
    seconds(tmp_path, 20)  # imports
    assert seconds(tmp_path, MANY) < MOST_TIMES * seconds(tmp_path, FEW)


def test_a_sentence_on_thousands_of_levels_names_a_few(tmp_path: Path) -> None:
    found = report(tmp_path / "c", tuple(range(300)))
    sentences = key_findings(found, ENGLISH, analyse(found))
    assert sentences and max(map(len, sentences)) < 500
    assert "step = 7 and 292 others" in " ".join(sentences)


def drawn(found: CampaignResults, *kinds: str) -> list[Figure]:
    with style(WIDE_IN):
        return [plan.draw() for plan in plans(found, analyse(found)) if plan.kind in kinds]


def test_a_figure_of_thousands_of_effects_shows_the_largest(tmp_path: Path) -> None:
    (figure,) = drawn(report(tmp_path / "c", tuple(range(300))), "effects")
    assert figure is not None and figure.get_size_inches()[1] < 40
    assert "the 100 largest of 299 effects" in " ".join(text.get_text() for text in figure.texts)


def test_a_curve_of_many_numbers_has_few_artists(tmp_path: Path) -> None:
    (figure,) = drawn(report(tmp_path / "c", tuple(range(300))), "curve")
    (axes,) = figure.axes
    assert len(axes.get_lines()) < 10 and len(axes.get_xticks()) < 50


@pytest.mark.parametrize(("n", "places"), [(150, 150), (300, 1)])
def test_more_levels_than_a_page_can_show_share_a_place(tmp_path: Path, n: int, places: int) -> None:
    (figure,) = drawn(report(tmp_path / "c", tuple(f"level{at}" for at in range(n))), "distribution")
    assert len(figure.axes[0].get_yticks()) == places


def test_a_large_family_has_the_critical_values_of_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = errors(against_first(120))
    usual = families.Family(loads)
    wanted = [usual.critical(confidence, df) for confidence in (0.9, 0.95, 0.99) for df in (10, 1000)]
    monkeypatch.setattr(families, "_MANY", 100)
    large = families.Family(loads)
    found = [large.critical(confidence, df) for confidence in (0.9, 0.95, 0.99) for df in (10, 1000)]
    assert np.allclose(found, wanted, rtol=0.01)
