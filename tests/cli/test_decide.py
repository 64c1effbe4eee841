"""`lastro decide`: the answer, what it is based on, and what a gate does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.campaigns import METRICS, Levels, make_campaign, make_study, plausible_value
from .conftest import is_error, lastro

LEVELS = ("--sla", "throughput >= 15 Gbit/s", "--sla", "latency_mean < 0.08 ms")
RATES = {"native": 21_000.0, "runc": 18_000.0, "docker": 14_000.0, "lxc": 15_700.0}
COSTS = {"native": 1.0, "runc": 0.4, "docker": 0.2, "lxc": 0.3}


def value(levels: Levels, block: int, metric: str) -> float:
    noise = plausible_value(levels, block, metric) / plausible_value(levels, 1, metric)
    name = str(levels["platform"])
    if metric == "throughput":
        return RATES[name] * noise * (0.94 if levels["anomaly"] == "cpu" else 1.0)
    return (COSTS[name] if metric == "jitter" else 0.04) * noise


def campaign(home: Path, **changes: object) -> Path:
    factors = {"platform": tuple(RATES), "anomaly": ("none", "cpu")}
    study = make_study(factors, replicates=6, metrics=METRICS[:3], **changes)  # type: ignore[arg-type]
    return make_campaign(home / "c", study, value=value)


def test_the_answer_names_the_cheapest_that_holds_and_what_may_be_cheaper(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    done = lastro("decide", directory, *LEVELS, "--cost", "jitter")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert text.startswith(
        "runc holds throughput ≥ 15000 Mbit/s and latency_mean ≤ 0.08 ms with a probability of > 99 %."
    )
    assert "It costs 0.4" in text and "lxc may cost less, but may not hold them" in text
    assert "4 candidates, in each of 2 conditions." in text
    found = lastro("decide", directory, *LEVELS, "--cost", "jitter", "--json").json
    assert (found["verdict"], found["recommended"]) == ("recommended", "runc")
    verdicts = {each["label"]: each["verdict"] for each in found["candidates"]}
    assert verdicts == {"runc": "holds", "native": "holds", "lxc": "undecided", "docker": "does not hold"}
    assert found["levels"][0] == {"metric": "throughput", "unit": "Mbit/s", "limit": 15000.0, "at_least": True}
    worst = next(each for each in found["candidates"] if each["label"] == "docker")["limits"][0]
    assert worst["condition"] == "anomaly = cpu" and worst["high"] < 15000


def test_only_the_conditions_that_are_asked_for_count(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    done = lastro("decide", directory, *LEVELS, "--under", "anomaly=none", "--json").json
    assert done["given"] == {"anomaly": "none"} and done["conditions"] == [""] and done["cost"] is None
    is_error(lastro("decide", directory, *LEVELS, "--under", "anomaly=dsk"), 2, "has no level 'dsk'")
    is_error(lastro("decide", directory, *LEVELS, "--under", "neighbor=cpu"), 2, "no factor 'neighbor'")
    is_error(lastro("decide", directory, *LEVELS, "--under", "cpu"), 2, "is not FACTOR=LEVEL")


def test_a_gate_fails_where_none_holds_and_where_nothing_is_decided(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    for level, code in (("15 Gbit/s", 0), ("40 Gbit/s", 4), ("20.3 Gbit/s", 8)):
        done = lastro("decide", directory, "--sla", f"throughput >= {level}", "--require", "95%")
        assert done.code == code, done.out
    done = lastro("decide", directory, "--sla", "throughput >= 40 Gbit/s")
    assert "No candidate holds throughput ≥ 40000 Mbit/s." in done.out


def test_levels_and_cost_are_those_of_the_study_unless_others_are_given(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    is_error(lastro("decide", directory), 2, "no service level to decide by")
    is_error(lastro("decide", directory, "--sla", "throughput >= 2 ms"), 2, "is not in Mbit/s")
    is_error(lastro("decide", directory, "--sla", "speed > 2"), 2, "has no metric 'speed'")


@pytest.mark.parametrize("n", [1])
def test_one_block_decides_nothing(tmp_path: Path, n: int) -> None:
    study = make_study({"platform": ("native", "runc")}, replicates=n, metrics=METRICS[:1])
    directory = make_campaign(tmp_path / "c", study)
    is_error(lastro("decide", directory, "--sla", "throughput > 1"), 2, "at least two blocks")


def test_it_answers_in_portuguese(tmp_path: Path) -> None:
    done = lastro("decide", campaign(tmp_path), *LEVELS, "--cost", "jitter", "--lang", "pt-BR")
    assert "runc cumpre throughput ≥ 15000 Mbit/s" in " ".join(done.out.split())


def test_a_campaign_of_a_study_with_levels_ends_with_the_decision(tmp_path: Path) -> None:
    levels = {"throughput": ">= 15 Gbit/s", "latency_mean": "< 0.08 ms"}
    directory = campaign(tmp_path, sla=levels, cost={"jitter": 1.0})
    sentence = "runc holds throughput ≥ 15000 Mbit/s and latency_mean ≤ 0.08 ms with a probability of > 99 %."
    for done in (lastro("decide", directory), lastro("results", directory)):
        assert sentence in " ".join(done.out.split())
    page, markdown, paper = (
        lastro("report", directory, "-o", "-", "--format", form).out for form in ("html", "md", "latex")
    )
    assert page.index('id="decision"') < page.index('id="trials"') and sentence.replace(">", "&gt;") in page
    assert "## Which one?" in markdown and "Which one?" in paper
