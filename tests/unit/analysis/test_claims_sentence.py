"""The amounts in a claim's sentence: which must be figures of the claim, and which are only names."""

from __future__ import annotations

import pytest

from lastro.analysis.claims.load import parse_claims
from lastro.errors import StudyError

from ...support.campaigns import KAGAMI, make_study

FACTORS = KAGAMI | {"offered": ("20%", "80%"), "hello_s": (1, 10)}
STUDY = make_study(FACTORS, settings={"platform": "docker", "tcp_s": 15})
COMPARE = 'compare = { metric = "throughput", of = { anomaly = "cpu" }, to = { anomaly = "none" } }\n'
LOWER, HIGHER = f'{COMPARE}direction = "lower"\n', f'{COMPARE}direction = "higher"\n'
RATIO = LOWER + "published = { ratio = 0.8, tolerance = 0.1 }"
DIFFERENCE = LOWER + 'published = { difference = -100, tolerance = 50, unit = "Mbit/s" }'
RECOVERY = (
    'recovery = { metric = "jitter", ideal = { anomaly = "none" }, without = { anomaly = "io" }, '
    'protected = { anomaly = "cpu" } }\n'
)
HALF = RECOVERY + "published = { at_least = 0.5 }"
LEVEL = 'level = { metric = "throughput", at_least = 300, unit = "Mbit/s" }'
ALIKE = 'alike = { metric = "jitter", factor = "anomaly", levels = ["cpu", "io"] }\nmargin = 0.05'
ORDER = 'order = { metric = "jitter", factor = "anomaly", falling = ["cpu", "io"] }'
EXTREME = (
    'extreme = { metric = "throughput", of = { anomaly = "cpu" }, to = { anomaly = "none" }, '
    'over = { isolation = ["none", "cgroups"] } }\npublished = { ratio = 0.6, tolerance = 0.2 }'
)


def claims_text(says: str, statement: str, more: str = "") -> str:
    return f'[[claim]]\nid = "x"\nsays = "{says}"\n{more}{statement}\n'


def refusal(says: str, statement: str, more: str = "") -> StudyError:
    with pytest.raises(StudyError) as caught:
        parse_claims(claims_text(says, statement, more), "c.toml", STUDY)
    return caught.value


@pytest.mark.parametrize(
    ("says", "statement"),
    [
        ("throughput is 20 % lower", RATIO),
        ("throughput is 20.4 % lower", RATIO.replace("0.8", "0.796")),
        ("without the neighbour it is 25 % higher", RATIO),
        ("it carries four fifths of the throughput", RATIO),
        ("the neighbour takes a fifth of the throughput", RATIO),
        ("throughput falls to 80 percent of that without a neighbour", RATIO),
        ("throughput is 10 % to 30 % lower", RATIO),
        ("throughput is 10-30 % lower", RATIO),
        ("it carries half of what it carries without", HIGHER + "published = { ratio = 2, tolerance = 0.4 }"),
        ("throughput rises by a factor of 3", HIGHER + "published = { ratio = 3, tolerance = 1 }"),
        ("throughput rises threefold", HIGHER + "published = { ratio = 3, tolerance = 1 }"),
        ("throughput triples", HIGHER + "published = { ratio = 3, tolerance = 1 }"),
        ("throughput is up to 30 % lower", RATIO),
        ("throughput is about 21 % lower", RATIO),
        ("throughput is twice as high", HIGHER + "published = { ratio = 1.97, tolerance = 0.4 }"),
        ("throughput is 3 times higher", HIGHER + "published = { ratio = 3, tolerance = 1 }"),
        ("throughput is 100 Mbit/s lower", DIFFERENCE),
        ("throughput is 0.1 Gbit/s lower, or 100 Mbps", DIFFERENCE),
        ("at least 300 Mbit/s", LEVEL),
        ("cgroups recover at least half of the loss", HALF),
        ("cgroups recover most of the loss", HALF),
        ("cgroups recover 0.5 of the loss", HALF),
        ("jitter differs by less than 5 %", ALIKE),
        ("throughput is up to 40 % lower", EXTREME),
    ],
)
def test_an_amount_in_the_words_may_be_any_reading_of_the_figure(says: str, statement: str) -> None:
    assert len(parse_claims(claims_text(says, statement), "c.toml", STUDY).claims) == 1


@pytest.mark.parametrize(
    "says",
    [
        "an 802.1Q link on 2 CPUs with IPv4 carries less than in 2017",
        "throughput is lower on 3 of 4 hosts, in 10 s and with 1 neighbour",
        "throughput is lower at an offered load of 80 % and a hello interval of 10 s",
        "a third platform carries less, half-duplex as well",
        "throughput is lower, at 95 % confidence",
        "cgroups recover the most throughput of 4 neighbours",
    ],
)
def test_a_number_that_is_a_name_or_a_level_needs_no_figure(says: str) -> None:
    for statement in (LOWER, RECOVERY, ORDER):
        parse_claims(claims_text(says, statement), "c.toml", STUDY)


@pytest.mark.parametrize(
    ("says", "statement", "amount", "hint"),
    [
        ("throughput is 15 % lower", LOWER, "15 %", "ratio = 0.8, tolerance = 0.1"),
        ("throughput is 15 % lower", LOWER + 'published = { printed = "15%" }', "15 %", "ratio = 0.8"),
        ("throughput is twice as high", HIGHER, "twice", "ratio = 0.8"),
        ("throughput is 300 Mbit/s lower", LOWER, "300 Mbit/s", "ratio = 0.8"),
        ("cgroups recover at least half of the loss", RECOVERY, "half", "at_least = 0.5"),
        ("cgroups recover most of the loss", RECOVERY, "most of", "at_least = 0.5"),
        ("cgroups recover two thirds of the loss", RECOVERY, "two thirds", "at_least = 0.5"),
        ("cgroups recover 0.9 of the loss", RECOVERY, "0.9", "at_least = 0.5"),
        ("jitter is 30 % higher beside cpu than beside io", ORDER, "30 %", "a claim of its own"),
    ],
)
def test_an_amount_without_a_figure_is_an_error(says: str, statement: str, amount: str, hint: str) -> None:
    """Without a figure, an effect of any size would reproduce the claim."""
    error = refusal(says, statement)
    assert error.message == f"c.toml: claim[0].says: the sentence says '{amount}', and the claim has no figure for it"
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    ("says", "statement", "stated"),
    [
        ("throughput is 15 % lower", RATIO, "×0.8"),
        ("throughput is 30 % lower", RATIO, "×0.8"),  # an end of the tolerance is not the figure
        ("throughput is 80 % lower", RATIO, "×0.8"),
        ("throughput is twice as high", HIGHER + "published = { ratio = 3, tolerance = 1 }", "×3"),
        ("throughput is 120 Mbit/s lower", DIFFERENCE, "-100 Mbit/s"),
        ("at least 400 Mbit/s", LEVEL, "300 Mbit/s"),
        ("cgroups recover at least half of the loss", HALF.replace("0.5", "0.1"), "0.1"),
        ("cgroups recover most of the loss", HALF.replace("0.5", "0.1"), "0.1"),
        ("jitter differs by less than 10 %", ALIKE, "0.05"),
    ],
)
def test_an_amount_that_is_not_the_figure_is_an_error(says: str, statement: str, stated: str) -> None:
    assert refusal(says, statement).message.endswith(f", but the claim states {stated}")


@pytest.mark.parametrize(
    ("says", "amount"),
    [
        ("a vazão é um terço menor", "um terço"),
        ("a vazão cai à metade", "metade"),
        ("a vazão é 3 vezes menor", "3 vezes"),
        ("a vazão é 15,5% menor", "15,5%"),
    ],
)
def test_translations_are_read_too(says: str, amount: str) -> None:
    translation = f'says_in = {{ pt-BR = "{says}" }}\n'
    assert f"claim[0].says_in.pt-BR: the sentence says '{amount}'" in refusal("lower", LOWER, translation).message
    assert amount in refusal("20 % lower", RATIO, translation).message
