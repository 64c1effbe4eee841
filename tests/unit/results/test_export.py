"""Long rows as CSV and Parquet, and files that appear whole or not at all."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import duckdb
import pytest

from lastro.errors import OutputError
from lastro.results.export import columns, to_csv, to_parquet
from lastro.results.files import write_atomically
from lastro.results.read import CampaignData, load_campaign
from lastro.results.store import Store

from ...support.campaigns import make_campaign, make_study

NASTY = 'quoted "text", a comma;\nand a line, \\N, ünïcødé'


def data_of(directory: Path) -> CampaignData:
    with Store.open(directory, readonly=True) as store:
        return load_campaign(store)


@pytest.fixture
def mixed(tmp_path: Path) -> CampaignData:
    """Valid, invalid, unavailable and pending trials, hostile texts, and factors of every type."""
    factors = {"isolation": ("none", "cgroups", "apparmor"), "rate": (1, 2.5), "value": (True, False)}
    return data_of(
        make_campaign(
            tmp_path / "campaign",
            make_study(factors, replicates=2, baseline={"isolation": "none"}),
            doubts=lambda levels, block, attempt: [NASTY] if levels["isolation"] == "cgroups" else [],
            unavailable=lambda levels: (NASTY, None) if levels["isolation"] == "apparmor" else None,
            stop_after=17,
        )
    )


def test_csv_keeps_every_trial(mixed: CampaignData) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(mixed), newline="")))
    assert list(rows[0]) == list(columns(mixed))
    assert {int(row["trial"]) for row in rows} == {trial.number for trial in mixed.trials}
    assert {row["state"] for row in rows} == {"valid", "invalid", "unavailable", "pending"}
    for row in rows:
        if row["state"] == "unavailable":
            assert (row["attempt"], row["metric"], row["reasons"]) == ("", "", NASTY)
    assert {row["reasons"] for row in rows if row["valid"] == "false"} == {NASTY}
    assert {row["factor_value"] for row in rows} == {"true", "false"}, (
        "a factor named like a column keeps out of its way"
    )


def test_csv_values_are_exact(mixed: CampaignData) -> None:
    rows = csv.DictReader(io.StringIO(to_csv(mixed), newline=""))
    found = {(int(r["trial"]), int(r["attempt"]), r["metric"]): float(r["value"]) for r in rows if r["value"]}
    for attempt in mixed.attempts:
        for metric, value in attempt.measurements.items():
            assert found.pop((attempt.trial, attempt.attempt, metric)) == value
    assert not found


def test_parquet_without_duckdb_is_an_error_with_a_remedy(
    mixed: CampaignData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(OutputError, match="needs the package duckdb") as caught:
        to_parquet(mixed, tmp_path / "all.parquet")
    assert "lastro[parquet]" in str(caught.value.hint) and not (tmp_path / "all.parquet").exists()


def test_parquet_holds_the_same_rows(mixed: CampaignData, tmp_path: Path) -> None:
    file = tmp_path / "it's here" / "all.parquet"
    to_parquet(mixed, file)
    with duckdb.connect() as db:
        relation = db.from_parquet(str(file))
        types = dict(zip(relation.columns, map(str, relation.types), strict=True))
        rows = relation.fetchall()
    assert types == columns(mixed)
    assert types["rate"] == "DOUBLE" and types["factor_value"] == "BOOLEAN" and types["isolation"] == "VARCHAR"
    text = list(csv.DictReader(io.StringIO(to_csv(mixed), newline="")))
    assert len(rows) == len(text)
    for got, wanted in zip(rows, text, strict=True):
        by_name = dict(zip(types, got, strict=True))
        assert (by_name["reasons"] or "") == wanted["reasons"]
        assert by_name["value"] == (float(wanted["value"]) if wanted["value"] else None)
    assert [path.name for path in file.parent.iterdir()] == ["all.parquet"]


def test_an_unwritable_place_is_one_clear_error(mixed: CampaignData, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "x", tmp_path):
        with pytest.raises(OutputError, match="cannot be written"):
            write_atomically(place, "text")
        with pytest.raises(OutputError, match="cannot be written"):
            to_parquet(mixed, place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaign", "file"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    write_atomically(file, "first")
    write_atomically(file, b"second")
    assert file.read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
