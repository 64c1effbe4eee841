"""`lastro pool` from the run to the page: three campaigns of one study, whose provenance names three hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Bench, is_error, lastro
from .suites import CLAIMS
from .test_foreign_campaigns import change

HOSTS = ("edge-1", "edge-2", "edge-3")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three campaigns that ran, each on a host of its own as far as their provenance says."""
    found = []
    for more, host in enumerate(HOSTS):  # values depend on the block alone, so each host has some of its own
        bench = Bench(tmp_path_factory.mktemp(host))
        assert bench.run({"level": ["a", "b"]}, replicates=4 + more, baseline={"level": "a"}).code == 0
        sql = "UPDATE meta SET value = json_set(value, '$.host.hostname', ?) WHERE key = 'provenance'"
        change(bench.directory, sql, host)
        found.append(bench.directory)
    (found[0] / "claims.toml").write_text(CLAIMS)
    return found


def test_three_hosts_give_a_mean_a_spread_and_a_prediction(hosts: list[Path]) -> None:
    done = lastro("pool", *hosts, "--json")
    assert done.code == 0 and done.err == ""
    found = done.json
    assert found["format"] == "lastro-pool/1" and [host["name"] for host in found["hosts"]] == [*HOSTS]
    assert [effect["metric"] for effect in found["effects"]] == ["speed", "delay"]
    for effect in found["effects"]:
        assert (effect["factor"], effect["level"], effect["reference"]) == ("level", "b", "a")
        ratios, mean = [one["ratio"] for one in effect["hosts"]], effect["mean"]
        assert min(ratios) <= mean["value"] <= max(ratios) and (mean["hosts"], mean["df"]) == (3, 2)
        low, high = (effect["prediction"][end] for end in ("low", "high"))
        assert low <= mean["interval"]["low"] < mean["interval"]["high"] <= high
        assert effect["tau"]["interval"]["low"] <= effect["tau"]["value"] <= effect["tau"]["interval"]["high"]
        assert effect["apart"] is None and effect["reason"] is None and effect["p_adjusted"] >= effect["p"]
    assert [claim["over_hosts"]["id"] for claim in found["claims"]] == ["b-is-faster", "b-is-slower"]
    assert [one["host"] for one in found["claims"][0]["on_each"]] == [*HOSTS]


def test_the_tables_in_the_terminal_and_in_markdown(hosts: list[Path]) -> None:
    text = lastro("pool", *hosts, "--metric", "speed").out
    assert text.startswith("On average over hosts, ") and "new host ×" in text and "delay (ms)" not in text
    assert "A new host will see speed ×" in text
    assert "speed (Mbit/s) on each host; --all shows them" in text
    assert "speed (Mbit/s) on each host\n" in lastro("pool", *hosts, "--all").out
    shown = lastro("pool", *hosts, "--format", "md", "--lang", "pt-BR", "--tau-squared", "paule-mandel").out
    assert shown.startswith("# ") and "nova máquina" in shown and "método de Paule e Mandel" in shown
    assert max(map(len, text.splitlines())) <= 100


def test_a_page_with_forest_plots(hosts: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "pool.html"
    done = lastro("pool", *hosts, "--format", "html", "-o", page)
    assert done.code == 0 and done.out == f"{page}\n"
    html = page.read_text()
    assert html.count("<svg") == 4, "two metrics, each for a wide and a narrow page"
    assert all(host in html for host in HOSTS) and "mean over hosts" in html
    assert "src=" not in html and 'href="http' not in html
    lastro("pool", *hosts, "--format", "html", "-o", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == html


def test_forest_plots_as_files_beside_a_document(hosts: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "pool.md"
    done = lastro("pool", *hosts, "--metric", "speed", "--format", "md", "-o", page, "--figures")
    drawn = tmp_path / "figures" / "forest-speed-level.svg"
    assert done.out.splitlines() == [str(page), *(str(drawn.with_suffix(kind)) for kind in (".svg", ".png", ".pdf"))]
    assert "(<figures/forest-speed-level.svg>)" in page.read_text() and "mean over hosts" in drawn.read_text()
    assert drawn.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert drawn.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    is_error(lastro("pool", *hosts, "--figures"), 2, "--figures needs a file", "-o FILE")


def test_two_hosts_are_compared_and_nothing_is_averaged(hosts: list[Path]) -> None:
    text = " ".join(lastro("pool", *hosts[:2]).out.split())
    assert text.startswith("Two hosts cannot show how much hosts differ") and "second / first ×" in text
    assert "mean over hosts ×" not in text and "new host ×" not in text
    effect = lastro("pool", *hosts[:2], "--json").json["effects"][0]
    assert effect["mean"] is effect["tau"] is effect["prediction"] is effect["verdict"] is None
    assert effect["apart"]["interval"]["low"] < effect["apart"]["value"]
    assert effect["reason"].startswith("too few hosts")


def test_bad_input_is_one_error(hosts: list[Path], tmp_path: Path) -> None:
    is_error(lastro("pool", hosts[0]), 2, "one campaign is of one host")
    is_error(lastro("pool", *hosts, "--metric", "sped"), 2, "metric 'sped' is not in every campaign", "speed")
    bench = Bench(tmp_path)
    bench.run({"step": [1, 2]})
    is_error(lastro("pool", *hosts, bench.directory), 2, "are not campaigns of one study")
    is_error(lastro("pool", hosts[0], tmp_path / "no"), 2, "no")
