"""Fractional factorials: textbook designs and data, and planted effects that come out where the aliases say."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from benches import statistics_promises as promises
from tests.support.campaigns import Levels, make_campaign, make_study

from lastro.analysis import analyse_metric
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.results.read import load_campaign
from lastro.results.samples import Metric
from lastro.results.store import Store
from lastro.stats.anova import anova
from lastro.study.design import treatments, why_no_fraction
from lastro.study.fraction import Fraction
from lastro.study.model import Exclusion, Factor, Study
from lastro.words.key_findings import key_findings
from lastro.words.language import ENGLISH

SPEED = (Metric("speed", "Mbit/s", "higher", "how fast"),)
LETTERS = "abcdefghijk"


def fraction_of(factors: dict[str, tuple[str | int, ...]], fraction: str, **others: object) -> Study:
    study = make_study(factors, metrics=SPEED, replicates=4, baseline={"a": factors["a"][0]}, **others)
    return replace(study, design=replace(study.design, fraction=fraction))


def two_levels(n: int) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(LETTERS[:n], (0, 1))


@pytest.mark.parametrize(
    ("n", "fraction", "lengths"),
    [
        (3, "1/2", [3]), (4, "1/2", [4]), (5, "1/2", [5]), (5, "1/4", [3, 3, 4]), (6, "1/4", [4, 4, 4]),
        (7, "1/4", [4, 5, 5]), (8, "1/4", [5, 5, 6]), (9, "1/4", [6, 6, 6]), (6, "1/8", [3, 3, 3, 3, 4, 4, 4]),
        (7, "1/8", [4] * 7), (8, "1/8", [4, 4, 4, 5, 5, 5, 5]), (9, "1/8", [4, 5, 5, 5, 5, 6, 6]),
        (10, "1/8", [5, 5, 5, 6, 6, 6, 7]),
    ],
)  # fmt: skip
def test_words_have_the_lengths_of_the_textbook(n: int, fraction: str, lengths: list[int]) -> None:
    """Montgomery (8th ed.), table 8.14; Box, Hunter and Hunter (2nd ed.), table 6.22."""
    study = fraction_of(two_levels(n), fraction)
    found, rows = Fraction.of(study), [each.levels for each in treatments(study)]
    assert [len(word) for word in found.words] == lengths and found.resolution == min(lengths)
    assert len(rows) * found.size == 2**n and why_no_fraction(study) == ""
    for first, second in product(rows[0], repeat=2):
        if first < second:
            assert sum(row[first] != row[second] for row in rows) * 2 == len(rows), "columns are orthogonal"


def test_a_design_of_five_factors_in_eight_treatments() -> None:
    """Box, Hunter and Hunter, section 6.6: the 2^(5-2) design, of resolution III."""
    found = Fraction.of(fraction_of(two_levels(5), "1/4"))
    assert {"".join(sorted(word)) for word in found.words} == {"acd", "bce", "abde"} and found.numeral == "III"
    assert found.chains() == {
        "a": "c × d", "b": "c × e", "c": "a × d, b × e", "d": "a × c", "e": "b × c", "a × b": "d × e",
        "a × e": "b × d",
    }  # fmt: skip


def test_the_filtration_rate_in_half_the_trials() -> None:
    """Montgomery (8th ed.), example 8.1: the 2^(4-1) design with I = ABCD."""
    rates = {"": 45, "ad": 100, "bd": 45, "ab": 65, "cd": 75, "ac": 60, "bc": 80, "abcd": 96}
    study = fraction_of(two_levels(4), "1/2")
    rows = [each.levels for each in treatments(study)]
    values = {"".join(name for name in "abcd" if row[name]): row for row in rows}
    assert values.keys() == rates.keys()
    found = anova(
        [rates[name] for name in values],
        {name: [row[name] for row in values.values()] for name in "abcd"},
        repeats=Fraction.of(study).repeats,
    )
    effects = {"a": 19.0, "b": 1.5, "c": 14.0, "d": 16.5, "a × b": -1.0, "a × c": -18.5, "a × d": 19.0}
    assert [effect.name for effect in found.effects] == list(effects)
    assert [effect.ss for effect in found.effects] == pytest.approx([2 * each**2 for each in effects.values()])


def test_factors_of_other_numbers_of_levels_are_crossed_with_the_fraction() -> None:
    study = fraction_of({**two_levels(4), "e": (1, 2, 3)}, "1/2")
    rows = [each.levels for each in treatments(study)]
    assert len(rows) == 24 and {sum(row["e"] == level for row in rows) for level in (1, 2, 3)} == {8}
    assert Fraction.of(study).aliases(["e"]) == [frozenset("abcde")]


def test_what_a_fraction_cannot_be() -> None:
    assert "needs 5 factors of two levels" in why_no_fraction(fraction_of(two_levels(4), "1/4"))
    part = fraction_of(two_levels(4), "1/2", exclusions=(Exclusion({"a": (1,), "b": (1,)}, "r"),))
    assert why_no_fraction(part) == "exclusions leave 6 of 8 treatments of the fraction, so that effects overlap"
    crossed = {**two_levels(4), "e": (1, 2, 3)}
    assert why_no_fraction(fraction_of(crossed, "1/2", exclusions=(Exclusion({"e": (2,)}, "r"),))) == ""
    study = fraction_of(crossed, "1/2")
    assert "3 factors of two levels that are choices" in why_no_fraction(replace(study, sla={"speed": ">= 1"}))
    sequential = replace(study.design, stopping="sequential")
    assert "needs ratios" in why_no_fraction(replace(study, design=sequential))
    assert why_no_fraction(replace(study, design=replace(sequential, baseline={"e": 1}))) == ""
    fixed = tuple(Factor(each.name, each.levels[:1] if each.name == "a" else each.levels) for each in study.factors)
    assert [len(word) for word in Fraction.of(replace(study, factors=fixed)).words] == [3]


def test_with_service_levels_each_candidate_in_the_fraction_is_in_every_condition() -> None:
    choices = dict.fromkeys(("platform", "attachment", "isolation"), ("x", "y"))
    study = fraction_of({"a": (0, 1), **choices, "b": (0, 1)}, "1/2", sla={"speed": ">= 1"})
    assert why_no_fraction(study) == "" and Fraction.of(study).words == (frozenset(choices),)
    candidates = Counter(tuple(row.levels[name] for name in choices) for row in treatments(study))
    assert list(candidates.values()) == [4] * 4


def planted(path: Path, study: Study, effects: dict[str, float], gone: Levels | None = None) -> CampaignResults:
    """A campaign whose values are products: of 1 + effect for each effect of which all factors have their level 1."""

    def value(levels: Levels, block: int, metric: str) -> float:
        noise = random.Random(f"{sorted(levels.items())}:{block}").gauss(0, 0.005)
        found = 100.0 * (1 + noise)
        for names, effect in effects.items():
            found *= 1 + effect if all(levels[name] == 1 for name in names) else 1
        return found

    def unavailable(levels: Levels) -> tuple[str, None] | None:
        return ("not here", None) if gone and gone.items() <= levels.items() else None

    directory = make_campaign(path / "c", study, value=value, unavailable=unavailable)
    with Store.open(directory, readonly=True) as store:
        return build_report(load_campaign(store))


def test_planted_effects_come_out(tmp_path: Path) -> None:
    """In a fraction of resolution IV, main effects are those of the full design."""
    study = fraction_of(two_levels(7), "1/8")
    found = analyse_metric(planted(tmp_path, study, {"a": 0.2, "d": -0.1}).views[0])
    ratios = {effect.factor: effect.ratio for effect in found.effects}
    truth = dict.fromkeys(LETTERS[:7], 1.0) | {"a": 1.2, "d": 0.9}
    assert len(treatments(study)) == 16
    for name, ratio in ratios.items():
        assert ratio.interval is not None and ratio.interval.low < truth[name] < ratio.interval.high
        assert ratio.value == pytest.approx(truth[name], rel=0.01)
    assert {effect.factor for effect in found.effects if effect.decision == "different"} == {"a", "d"}
    assert not any(effect.aliases for effect in found.effects)


@pytest.mark.parametrize(
    ("design", "noise", "n_blocks"),
    [("half of 2^4", "normal", 2), ("quarter of 2^5", "normal", 3), ("half of 2^4", "lasts from trial to trial", 5)],
)
def test_seldom_does_any_interval_of_a_fraction_miss_and_any_interaction_show(
    design: str, noise: str, n_blocks: int
) -> None:
    """benches/statistics_promises.py measures the same for more noises."""
    found = promises.of_fractions(noise, promises.FRACTIONS[design], n_blocks, 100)
    assert max(found) <= 0.06 + 3 * (0.06 * 0.94 / 100) ** 0.5, found


def test_a_planted_interaction_shows_where_its_alias_says(tmp_path: Path) -> None:
    """In the 2^(5-2) design, a × c is measured as d, and d says so."""
    report = planted(tmp_path, fraction_of(two_levels(5), "1/4"), {"ac": 0.2})
    found = analyse_metric(report.views[0])
    effects = {effect.factor: effect for effect in found.effects}
    assert effects["d"].decision == "different" and effects["d"].aliases == ("a × c",)
    assert effects["d"].kinds == ("aliased",) and effects["b"].decision != "different"
    assert found.anova is not None and ("a", "c") not in {effect.factors for effect in found.anova.effects}
    sentences = " ".join(key_findings(report, ENGLISH))
    assert "(together with a × c)" in sentences


def test_a_planted_interaction_of_resolution_four_names_the_other(tmp_path: Path) -> None:
    found = analyse_metric(planted(tmp_path, fraction_of(two_levels(4), "1/2"), {"cd": 0.3}).views[0])
    (interaction,) = found.interactions
    assert {interaction.given, interaction.shown} == {"a", "b"} and interaction.aliases == ("c × d",)
    assert all(effect.aliases == ("c × d",) for effect in interaction.effects)


def test_without_a_level_the_rest_is_a_smaller_fraction(tmp_path: Path) -> None:
    """Of I = abcd, trials with a = 0 alone are a fraction with I = bcd."""
    found = analyse_metric(planted(tmp_path, fraction_of(two_levels(4), "1/2"), {"b": 0.2}, {"a": 1}).views[0])
    effects = {effect.factor: effect for effect in found.effects}
    assert effects.keys() == {"b", "c", "d"} and effects["b"].aliases == ("c × d",)
    assert effects["b"].ratio.value == pytest.approx(1.2, rel=0.01)


def test_effects_that_overlap_are_not_estimated(tmp_path: Path) -> None:
    study = fraction_of({**two_levels(4), "e": (1, 2, 3)}, "1/2")
    found = analyse_metric(planted(tmp_path, study, {"a": 0.2}, {"a": 1, "b": 1, "e": 2}).views[0])
    assert found.anova is None and "overlap" in str(found.why_none)
    known = {effect.factor for effect in found.effects if effect.ratio.value is not None}
    assert known == {"e"}, "levels of a crossed factor are compared within combinations of the others"
