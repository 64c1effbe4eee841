"""Histograms of trials in a campaign: they lie among the series, and are read and added up when a report needs them."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lastro import cli
from lastro.errors import StoreError
from lastro.results import hdr
from lastro.results.merge import merge_campaigns
from lastro.results.read import load_campaign
from lastro.results.samples import Outcome, PackedHistogram, Reading
from lastro.results.store import Store
from lastro.stats.histograms import Histogram

from ...support.campaigns import Levels, make_campaign

LATENCY = "latency 50%"


def of_block(levels: Levels, block: int) -> list[PackedHistogram]:
    values = [block * 1000] * 20
    return [PackedHistogram(LATENCY, "ns", hdr.to_bytes(Histogram.of(values, lost=block)))]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_campaign(tmp_path_factory.mktemp("histograms") / "c", histograms=of_block, stop_after=8)


def test_an_outcome_takes_the_histograms_of_its_readings() -> None:
    outcome = Outcome()
    outcome.add(Reading({}, histograms=tuple(of_block({}, 1))))
    assert [each.name for each in outcome.histograms] == [LATENCY]


def test_histograms_and_series_are_read_apart(campaign: Path) -> None:
    with Store.open(campaign, readonly=True) as store:
        assert [each.name for each in store.series(1, 1)] == ["throughput_per_s"]
        (found,) = store.histograms(1, 1)
    assert (found.name, found.unit, found.histogram.n, found.histogram.lost) == (LATENCY, "ns", 20, 1)
    assert found.histogram.quantile(0.5) == 1000


def test_a_report_reads_them_from_each_campaign(campaign: Path, tmp_path: Path) -> None:
    other = make_campaign(tmp_path / "other", stop_after=2)
    found = []
    for directory in (campaign, other):
        with Store.open(directory, readonly=True) as store:
            found.append(load_campaign(store))
    whole = merge_campaigns(found)
    of_first, of_last = whole.later_histograms([(1, 1), (whole.attempts[-1].trial, 1)])
    assert len(of_first) == 1 and of_last == []


def test_show_prints_them_for_other_tools(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(campaign), "1"]) == 0
    assert f"histogram {LATENCY}: 20 samples in ns, 1 lost" in capsys.readouterr().out
    assert cli.main(["show", str(campaign), "1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["attempts"][-1]["histograms"][LATENCY]
    assert shown["hdr"].startswith("HISTFAAA"), "as every log of HdrHistogram V2 begins"
    assert hdr.decode(base64.b64decode(shown["hdr"])).n == 20 and shown["lost"] == 1


@pytest.mark.parametrize("damage", ["substr(samples, 1, 20)", "CAST(samples || x'00' AS BLOB)", "x'1c849314'"])
def test_a_damaged_histogram_is_named(campaign: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    with (
        closing(sqlite3.connect(campaign / "campaign.db")) as whole,
        closing(sqlite3.connect(copy / "campaign.db")) as db,
    ):
        whole.backup(db)
        db.execute(f"UPDATE series SET samples = {damage} WHERE name = ?", (LATENCY,))
        db.commit()
    with Store.open(copy, readonly=True) as store:
        with pytest.raises(StoreError, match=f"table series, row '{LATENCY}', column samples: is"):
            store.histograms(1, 1)
        assert store.series(1, 1)
