"""What a hop of a chain costs, in words: by lines over lengths, with a bend where there is one, and few CPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.campaign import CampaignResults
from lastro.builders.tables import growth_tables
from lastro.results.samples import Metric
from lastro.words.caveats import caveats
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH, language
from lastro.words.opening import opening

from ...support.campaigns import PROVENANCE, Levels, make_campaign, make_study
from ..figures.test_figures import report_of

COST = Metric("cpu_per_gbit", "s/Gbit", "lower", "for a test")
RATE = Metric("throughput", "Mbit/s", "higher", "for a test")
EACH_S = {"native": 0.1, "runc": 0.12, "docker": 0.15, "lxc": 0.16, "crun": 0.17}


def wobble(block: int, length: int) -> float:
    return 1 + 0.004 * ((block * 7 + length * 3) % 5 - 2)


def value(levels: Levels, block: int, metric: str) -> float:
    """A hop costs the same each time, except on docker, where the eighth costs more than the second."""
    platform, length = str(levels.get("platform", "native")), int(levels.get("length", 1))
    cost = 0.4 + EACH_S[platform] * length ** (2 if platform == "docker" else 1)
    return (cost if metric == COST.name else 5000 - 300 * length) * wobble(block, length)


def reported(
    tmp_path: Path, factors: dict[str, Any], metric: Metric = COST, cpus: int = 2, **more: Any
) -> CampaignResults:
    settings = {"function": "firewall", "placement": "each", "platform": "native", "anomaly": "none", **more}
    study = make_study(factors, metrics=(metric,), settings=settings)
    host = PROVENANCE["host"] | {"cpus": cpus}
    return report_of(make_campaign(tmp_path / "c", study, value=value, provenance=PROVENANCE | {"host": host}))


def test_the_opening_sentence_says_what_a_hop_costs_and_where_it_costs_more(tmp_path: Path) -> None:
    report = reported(tmp_path, {"platform": ("native", "docker"), "length": (1, 2, 4)})
    first, *rest = key_findings(report, ENGLISH)
    assert first.startswith("In cpu_per_gbit, each further hop costs 0.10") and "s/Gbit [" in first
    assert " with native and " in first and " on average with docker; " in first
    assert first.endswith("of more hops, each costs more (docker).")
    assert not any("length" in each for each in rest), "the sentence of the hops is that of the factor"
    assert opening(report, language("pt-BR"))[0].startswith("Em cpu_per_gbit, cada salto a mais custa 0,10")


def test_a_rate_that_falls_is_a_cost(tmp_path: Path) -> None:
    first, *_ = key_findings(reported(tmp_path, {"length": (1, 2, 4)}, RATE), ENGLISH)
    assert first.startswith(("In throughput, each further hop costs 30", "In throughput, each further hop costs 29"))
    assert first.endswith("].")


def test_of_many_conditions_the_least_and_the_most_are_told(tmp_path: Path) -> None:
    first, *_ = key_findings(reported(tmp_path, {"platform": tuple(EACH_S), "length": (1, 2, 3)}), ENGLISH)
    assert first.startswith("In cpu_per_gbit, each further hop costs between 0.1")
    assert "with native and " in first and "with docker" in first and "lxc" not in first


def test_two_lengths_have_no_line(tmp_path: Path) -> None:
    found = key_findings(reported(tmp_path, {"length": (1, 2)}), ENGLISH)
    assert not any("further hop" in each for each in found) and any("length" in each for each in found)


def test_the_report_has_the_line_of_each_metric(tmp_path: Path) -> None:
    table, *_ = growth_tables(reported(tmp_path, {"platform": ("native", "docker"), "length": (1, 2, 4)}), ENGLISH)
    assert table.columns == ("platform", "length (hops)", "growth", "with the hops")
    by = {row[0]: row[-1] for row in table.rows}
    assert by["native"].startswith("yes: consistent with a line; 0.10") and "for 1 more" in by["native"]
    assert by["docker"].startswith("not on a line: it bends upwards")


@pytest.mark.parametrize(
    ("cpus", "settings", "told"),
    [
        (2, {}, "Up to 6 instances in a row share 2 CPUs."),
        (6, {}, ""),
        (2, {"placement": "together"}, ""),
        (8, {"function": "firewall>nat>dpi"}, "Up to 14 instances in a row share 8 CPUs."),
    ],
)
def test_on_few_cpus_hops_take_turns(tmp_path: Path, cpus: int, settings: dict[str, str], told: str) -> None:
    found = [
        each
        for each in caveats(reported(tmp_path, {"length": (1, 2, 4)}, cpus=cpus, **settings), ENGLISH)
        if "hop" in each
    ]
    assert [each.partition(" What")[0] for each in found] == ([told] if told else [])


@pytest.mark.parametrize(("cpus", "told"), [(2, "Up to 8 instances of several chains share 2 CPUs."), (8, "")])
def test_on_few_cpus_chains_take_turns(tmp_path: Path, cpus: int, told: str) -> None:
    report = reported(tmp_path, {"chains": (1, 2)}, cpus=cpus, function="firewall>nat")
    found = [each for each in caveats(report, ENGLISH) if "chains" in each]
    assert [each.partition(" What")[0] for each in found] == ([told] if told else [])
