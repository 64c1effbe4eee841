"""Campaigns from Python: `lastro.open`, its tables, its answers, and the notebook in `examples`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import lastro
from lastro.api import Columns
from lastro.app.contents import load_data
from lastro.errors import InputError, OutputError
from lastro.results.export import to_csv

from ..support.campaigns import PROVENANCE, Levels, make_campaign, make_study, plausible_value

NOTEBOOK = Path(__file__).parents[2] / "examples" / "campaign.ipynb"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("api") / "c1"
    make_campaign(home, make_study(replicates=4))
    return home


@pytest.fixture(scope="module")
def campaign(directory: Path) -> lastro.Campaign:
    return lastro.open(directory)


def test_values_are_those_of_the_csv(campaign: lastro.Campaign, directory: Path) -> None:
    of_csv = list(csv.DictReader(io.StringIO(to_csv(load_data(directory)))))
    every = campaign.values(invalid=True)
    assert list(every) == list(of_csv[0]) and len(every["value"]) == len(of_csv)
    valid = campaign.values()
    assert set(valid["valid"]) == {True} and None not in valid["metric"]
    assert len(valid["value"]) == sum(row["valid"] == "true" and row["metric"] != "" for row in of_csv)
    one = campaign.values("throughput")
    assert set(one["metric"]) == {"throughput"} and one.rows()[0]["value"] == one["value"][0]


def test_means_and_effects_are_those_of_the_report(campaign: lastro.Campaign) -> None:
    means, treatments = campaign.means("throughput").rows(), campaign.document["treatments"]
    found = {each["id"]: each["metrics"]["throughput"] for each in treatments if "throughput" in each["metrics"]}
    assert {row["treatment"]: row["mean"] for row in means} == {name: each["mean"] for name, each in found.items()}
    assert all(row["low"] < row["mean"] < row["high"] for row in means if row["low"] is not None)  # type: ignore[operator]
    effects = campaign.effects().rows()
    assert {row["metric"] for row in effects} == set(campaign.metrics)
    own = campaign.document["analysis"]["throughput"]["effects"]
    assert [row["p"] for row in effects if row["metric"] == "throughput"] == [each["p_adjusted"] for each in own]
    assert campaign.treatments["treatment"] == [each["id"] for each in treatments]


def test_a_treatment_without_values_is_not_hidden(tmp_path: Path) -> None:
    study = make_study(replicates=2)

    def value(levels: Levels, block: int, metric: str) -> float | None:
        return None if levels["isolation"] == "cgroups" else plausible_value(levels, block, metric)

    campaign = lastro.open(make_campaign(tmp_path / "c", study, value=value))
    means = campaign.means("throughput")
    assert means["treatment"] == campaign.treatments["treatment"] and 0 in means["n"]
    assert all((n == 0) == (mean is None) for n, mean in zip(means["n"], means["mean"], strict=True))


def test_tables_of_a_guest_say_that_they_are_of_a_guest(tmp_path: Path, campaign: lastro.Campaign) -> None:
    guest = {"title": "a guest in software (2G)", "emulated": True}
    measured = lastro.open(make_campaign(tmp_path / "c", provenance={**PROVENANCE, "guest": guest}))
    for table in (measured.means(), measured.effects()):
        assert set(table["measured_in"]) == {guest["title"]}
    assert "measured_in" not in campaign.means() and "measured_in" not in campaign.effects()


def test_an_answer_is_that_of_the_command(campaign: lastro.Campaign) -> None:
    answer = campaign.decide("throughput >= 1 Mbit/s", under={"isolation": "none"})
    assert answer.outcome == "recommended" and answer.recommended
    assert answer.recommended.keys() <= campaign.factors.keys()
    candidates = answer.candidates()
    assert candidates["candidate"][0] == answer.document["recommended"]
    assert duckdb.from_arrow(candidates.arrow()).fetchall() == list(zip(*candidates.values(), strict=True))
    assert str(answer).startswith(str(answer.document["recommended"]))
    assert answer._repr_markdown_().startswith("# ")
    assert campaign.decide("throughput >= 1 Tbit/s").recommended is None


def test_figures_are_found_by_name(campaign: lastro.Campaign, tmp_path: Path) -> None:
    drawn = campaign.figure("effects")
    assert drawn.name == "effects-throughput" and drawn.title == campaign.figures[drawn.name]
    drawn.save(tmp_path / "effects.svg")
    assert (tmp_path / "effects.svg").read_text(encoding="utf-8") == drawn.svg
    assert drawn._repr_html_().startswith("<svg ")


def test_what_is_wrong_is_an_input_error(campaign: lastro.Campaign, tmp_path: Path) -> None:
    for wrong in (
        lambda: campaign.figure("efects"),
        lambda: campaign.values("throughputs"),
        lambda: campaign.means("throughputs"),
        lambda: campaign.decide("throughputs > 1"),
        lambda: campaign.decide(),
        lambda: lastro.open(tmp_path),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(AttributeError, match="no attribute 'opens'"):
        lastro.opens  # noqa: B018


def test_tables_show_themselves() -> None:
    table = Columns.of({"a": "BIGINT", "<b>": "DOUBLE"}, iter([(n, None if n else 1 / 3) for n in range(100)]))
    shown = table._repr_html_()
    assert "&lt;b&gt;" in shown and "<td>0.333333</td>" in shown and "and 40 more rows" in shown
    assert Columns.of(dict.fromkeys("ab", "DOUBLE"), iter(())) == {"a": [], "b": []}


def test_a_table_for_arrow_has_types_and_nulls(campaign: lastro.Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1, None, True, None, "é"), (None, None, None, None, None), (3, None, False, None, "\udc80\\N")]
    table = Columns.of({"n": "BIGINT", "text": "VARCHAR", "b": "BOOLEAN", "x": "DOUBLE", 'q"q': "VARCHAR"}, iter(rows))
    table["added"] = [1, 2.5, None]
    arrow = duckdb.from_arrow(table.arrow())
    assert list(map(str, arrow.types)) == ["BIGINT", "VARCHAR", "BOOLEAN", "DOUBLE", "VARCHAR", "DOUBLE"]
    assert arrow.fetchall() == [(*rows[0], 1.0), (*rows[1], 2.5), (*rows[2][:4], "?\\N", None)]
    empty = duckdb.from_arrow(Columns.of(table.types, iter(())).arrow())
    assert empty.columns == [*table.types] and empty.fetchall() == []
    for each in (campaign.values(invalid=True), campaign.means(), campaign.effects(), campaign.treatments):
        arrow = duckdb.from_arrow(each.arrow())
        assert dict(zip(arrow.columns, map(str, arrow.types), strict=True)) == each.types
        assert arrow.fetchall() == list(zip(*each.values(), strict=True))
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(OutputError, match="a table for Arrow needs the package duckdb") as caught:
        table.arrow().__arrow_c_stream__()
    assert "lastro[parquet]" in str(caught.value.hint)


def test_commands_do_not_wait_for_it() -> None:
    code = "import sys, lastro; assert 'lastro.api' not in sys.modules; lastro.open; assert 'lastro.api' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_notebook_runs(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell, as a notebook does; what a cell shows last must know how to show itself."""
    monkeypatch.chdir(directory.parent)
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    shown = 0
    for cell in book["cells"]:
        lines = "".join(cell["source"]).splitlines()
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        *before, last = lines
        try:
            value = compile(last, "cell", "eval")
        except SyntaxError:
            exec("\n".join(lines), names)
            continue
        exec("\n".join(before), names)
        result = eval(value, names)
        how = getattr(result, "_repr_html_", None) or getattr(result, "_repr_markdown_", None)
        shown += bool(how and how())
    assert shown >= 5


def test_the_page_names_what_there_is() -> None:
    page = (NOTEBOOK.parents[1] / "docs" / "howto-python.md").read_text(encoding="utf-8")
    public = {name for name in dir(lastro.Campaign) if not name.startswith("_")} - {"directory"}
    assert [name for name in sorted(public) if f"c.{name}" not in page] == []
