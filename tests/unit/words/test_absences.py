"""The tables of a partial campaign, in a terminal and on a page: what is not there yet, and why, once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lastro.analysis.build import build_report
from lastro.app.contents import content_of
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.words.absences import ALONE
from lastro.words.language import ENGLISH

from ...support.campaigns import make_campaign, make_study
from ...support.documents import render_html, render_terminal

NO_RATIOS = "No ratios: no baseline has a value."
NO_RATIO = "— below a mean: no ratio, because the baseline has no value."


def shown(directory: Path, width: int) -> str:
    with Store.open(directory, readonly=True) as store:
        lines = [line.plain for line in render_terminal(build_report(load_campaign(store)), width)]
    assert all(len(line) <= width for line in lines)
    return "\n".join(lines)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    ("trials", "said"),
    [
        (0, set()),
        (1, {NO_RATIOS, ALONE}),
        (4, {NO_RATIO, ALONE}),
        (8, {ALONE}),
        (14, set()),
    ],
)
def test_what_is_not_there_yet_is_said_once(tmp_path: Path, trials: int, said: set[str], width: int) -> None:
    text = shown(make_campaign(tmp_path, stop_after=trials), width)
    flowing = " ".join(text.split())
    page = " ".join(re.sub("<[^>]*>", " ", render_html(content_of([tmp_path], ENGLISH, all_metrics=False))).split())
    for form in (flowing, page):
        for sentence in (NO_RATIOS, NO_RATIO, ALONE):
            assert form.count(sentence) == (sentence in said)
        assert not any(words in form for words in ("no interval (", "no baseline value"))
        assert ("✕ not run yet" in form) == (trials < 6)
        assert ("± is" in form) == (trials > 6) and ("× is the ratio" in form) == (trials > 1)


def test_a_finished_campaign_waits_for_nothing(tmp_path: Path) -> None:
    alone = shown(make_campaign(tmp_path / "one", make_study(replicates=1, baseline={"isolation": "none"})), 80)
    assert ALONE in " ".join(alone.split())
    lost = make_campaign(tmp_path / "lost", value=lambda levels, *_: None if levels["isolation"] == "none" else 3.0)
    assert NO_RATIOS in shown(lost, 120)
    for text in (alone, shown(lost, 80)):
        assert " yet" not in text
