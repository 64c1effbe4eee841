"""Claims files: what a sound one becomes, and what is said of one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lastro
from lastro.analysis.claims import kinds
from lastro.analysis.claims.claim import Claims
from lastro.analysis.claims.kinds.additive import Additive
from lastro.analysis.claims.kinds.alike import Alike
from lastro.analysis.claims.kinds.compare import Compare
from lastro.analysis.claims.kinds.extreme import Extreme
from lastro.analysis.claims.kinds.order import Order
from lastro.analysis.claims.kinds.recovery import Recovery
from lastro.analysis.claims.load import load_claims, parse_claims
from lastro.errors import StudyError

from ...support.campaigns import KAGAMI, make_study

STUDY = make_study(KAGAMI, settings={"platform": "docker", "tcp_s": 15})
HEAD = '[[claim]]\nid = "x"\nsays = "s"\n'
COMPARE = 'compare = { metric = "throughput", of = { anomaly = "cpu" }, to = { anomaly = "none" } }\n'
EXTREME = (
    'extreme = { metric = "throughput", of = { attachment = "macvlan-bridge" }, to = { attachment = "veth-bridge" }, '
    'over = { isolation = ["none", "cgroups"] } }\n'
)
NEAR = "published = { ratio = 0.6, tolerance = 0.2 }"


def read(text: str) -> Claims:
    return parse_claims(text, "c.toml", STUDY)


def refusal(text: str) -> StudyError:
    with pytest.raises(StudyError) as caught:
        read(text)
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith("c.toml: ")
    assert "\n" not in caught.value.message
    return caught.value


def test_each_kind_of_statement() -> None:
    kinds = {
        f'{COMPARE}direction = "lower"': Compare,
        'recovery = { metric = "jitter", ideal = { isolation = "none" }, without = { isolation = "cgroups" }, '
        'protected = { isolation = "apparmor" } }': Recovery,
        'order = { metric = "jitter", factor = "function", falling = ["nat", ["dpi", "firewall"]] }': Order,
        'alike = { metric = "jitter", factor = "function", levels = ["nat", "dpi"] }\nmargin = 0.1': Alike,
        'additive = { metric = "jitter", factors = ["function", "anomaly"] }\nmargin = 0.1': Additive,
        EXTREME + NEAR: Extreme,
    }
    for text, kind in kinds.items():
        (claim,) = read(HEAD + text).claims
        assert isinstance(claim.statement, kind)


def test_a_kind_of_claim_is_one_module_that_no_other_one_names() -> None:
    found = {file.stem for file in Path(kinds.__file__).parent.glob("*.py")} - {"__init__"}
    assert len(kinds.KINDS) == len(found) == 7
    assert {kind.__module__ for kind in kinds.KINDS.values()} == {f"{kinds.__name__}.{name}" for name in found}
    naming = [file for file in Path(lastro.__file__).parent.rglob("*.py") if f"{kinds.__name__}." in file.read_text()]
    assert naming == []


def test_a_level_alone_is_a_list_of_one() -> None:
    (claim,) = read(f'{HEAD}{COMPARE}direction = "lower"').claims
    assert isinstance(claim.statement, Compare)
    assert claim.statement.of == {"anomaly": ("cpu",)}
    (claim,) = read(
        f'{HEAD}order = {{ metric = "jitter", factor = "anomaly", falling = ["io", ["cpu", "disk"]] }}'
    ).claims
    assert isinstance(claim.statement, Order)
    assert claim.statement.falling == (("io",), ("cpu", "disk"))


def test_a_level_that_the_study_lacks_and_a_constant_are_no_errors() -> None:
    text = COMPARE.replace('"cpu"', '"network"').replace("} }", '}, at = { platform = "docker" } }')
    assert len(read(f'{HEAD}{text}direction = "lower"').claims) == 1


WRONG = {
    COMPARE.replace("throughput", "thruput") + 'direction = "lower"': (
        "claim[0].compare.metric: study small has no metric 'thruput'",
        "did you mean 'throughput'?",
    ),
    COMPARE.replace("{ anomaly", "{ anomoly") + 'direction = "lower"': (
        "claim[0].compare.of.anomoly: study small has no factor 'anomoly'",
        "did you mean 'anomaly'?",
    ),
    COMPARE: ("claim[0].direction: is missing", '"higher", "lower" or "alike"'),
    COMPARE + 'direction = "up"': ("claim[0].direction: must be 'higher', 'lower' or 'alike', but is 'up'", ""),
    COMPARE + 'direction = "alike"': ("claim[0].margin: is missing", "0.05"),
    COMPARE + 'direction = "lower"\nmargin = 0.1': ("claim[0].margin: applies only to `alike`", "tolerance"),
    COMPARE + 'direction = "alike"\nmargin = 0.1\nslight = 0.1': ("claim[0].slight: applies only to", "`margin`"),
    COMPARE + 'direction = "lower"\nslight = 0.1\npublished = { ratio = 0.9, tolerance = 0.05 }': (
        "claim[0].slight: is a second magnitude", "one of the two",
    ),
    'level = { metric = "jitter", at_most = 1, unit = "ms" }\nslight = 0.1': ("claim[0].slight: applies only to", ""),
    "": ("claim[0]: states nothing", "exactly one of additive, alike, compare, extreme, level, order, recovery"),
    'level = { metric = "jitter", unit = "ms" }': ("claim[0].level: has no figure", "value, at_most, at_least"),
    'level = { metric = "jitter", at_most = 1, at_least = 0, unit = "ms" }': ("has at_most and at_least", "one of"),
    'level = { metric = "jitter", value = 1, unit = "ms" }': ("claim[0].level: tolerance is missing", "`value`"),
    'level = { metric = "jitter", at_most = 1, tolerance = 1, unit = "ms" }': (
        "tolerance does not apply to at_most", "",
    ),
    EXTREME: ("claim[0].extreme: needs `published` with a ratio and a tolerance", "tolerance = 0.2"),
    EXTREME.replace("over", 'also = ["jittre"], over') + NEAR: (
        "claim[0].extreme.also: study small has no metric 'jittre'", "'jitter'",
    ),
    EXTREME.replace('["none", "cgroups"]', '"none"') + NEAR: ("claim[0].extreme: `over` has one level", "farthest"),
    EXTREME + NEAR.replace("0.2", "0.4"): ("the tolerance 0.4 is too large for the ratio 0.6", "distance from 1"),
    EXTREME.replace("over = { isolation", "over = { attachment") + NEAR: (
        "claim[0].extreme: names 'attachment' twice", "",
    ),
    'level = { metric = "jitter", at_least = 0, unit = "ms" }': (
        "claim[0].level: no value violates the bound: jitter is never below zero", "can come out both ways",
    ),
    'level = { metric = "jitter", value = -2, tolerance = 1, unit = "ms" }': (
        "claim[0].level: no value lies within the bound", "can come out both ways",
    ),
    'level = { metric = "jitter", at_most = inf, unit = "ms" }': ("claim[0].level.at_most: must be a finite", ""),
    'order = { metric = "jitter", factor = "function", falling = ["nat", ["dpi", "nat"]] }': (
        "claim[0].order: compares 'nat' with itself", "can come out both ways",
    ),
    'alike = { metric = "jitter", factor = "function", levels = ["nat", "nat"] }\nmargin = 0.1': (
        "claim[0].alike: compares 'nat' with itself", "can come out both ways",
    ),
    EXTREME.replace('["none", "cgroups"]', '["none", "none"]') + NEAR: (
        "claim[0].extreme: compares 'none' with itself", "can come out both ways",
    ),
    'recovery = { metric = "jitter", ideal = { isolation = "none" }, without = { isolation = "cgroups" }, '
    'protected = { isolation = "none" } }': (
        "claim[0].recovery: `ideal` and `protected` are the same", "can come out both ways",
    ),
    'level = { metric = "throughput", at_most = 1, unit = "s" }': ("is in 's', but throughput is in", "convert"),
    COMPARE + 'additive = { metric = "jitter", factors = ["function", "anomaly"] }': (
        "claim[0]: has additive and compare", "exactly one",
    ),
    COMPARE.replace("compare", "comapre") + 'direction = "lower"': ("claim[0].comapre: unknown key", "'compare'"),
    COMPARE.replace("metric", "metrik") + 'direction = "lower"': ("claim[0].compare.metrik: unknown key", "'metric'"),
    COMPARE.replace('to = { anomaly = "none" }', 'to = { function = "nat" }') + 'direction = "lower"': (
        "claim[0].compare: of, to must name the same factors", "`at`",
    ),
    COMPARE.replace('"none"', '"cpu"') + 'direction = "lower"': ("claim[0].compare: `of` and `to` are the same", ""),
    COMPARE.replace("} }", '}, at = { anomaly = "io" } }') + 'direction = "lower"': (
        "claim[0].compare: `at` names 'anomaly' again", "",
    ),
    COMPARE + 'direction = "lower"\npublished = { ratio = 1.1, tolerance = 0.1 }': (
        "claim[0].published: the figure contradicts the direction 'lower'", "",
    ),
    COMPARE + 'direction = "lower"\npublished = { ratio = 0.9 }': ("claim[0].published: tolerance is missing", "ratio"),
    COMPARE + 'direction = "lower"\npublished = { ratio = 0.9, tolerance = 0.11 }': (
        "claim[0].published: the tolerance 0.11 is larger than the effect itself, 0.1", "a smaller one",
    ),
    'recovery = { metric = "jitter", ideal = { anomaly = "none" }, without = { anomaly = "io" }, '
    'protected = { anomaly = "cpu" } }\npublished = { share = 0.4, tolerance = 2 }': (
        "claim[0].published: the tolerance 2 is larger than all of the loss, 1", "a smaller one",
    ),
    COMPARE + 'direction = "lower"\npublished = { tolerance = 0.9 }': (
        "claim[0].published: has a tolerance but no figure", "",
    ),
    COMPARE + 'direction = "lower"\npublished = { share = 0.9, tolerance = 0.1 }': (
        "claim[0].published: share does not apply to compare", "difference, ratio",
    ),
    COMPARE + 'direction = "lower"\npublished = { difference = -3, tolerance = 1 }': (
        "claim[0].published: a difference needs a unit", "",
    ),
    COMPARE + 'direction = "lower"\npublished = { difference = -3, unit = "ms", tolerance = 1 }': (
        "claim[0].published: is in 'ms', but throughput is in 'Mbit/s'", "convert",
    ),
    COMPARE + 'direction = "lower"\npublished = { ratio = 0.9, tolerance = 0 }': (
        "claim[0].published.tolerance: must be above 0, but is 0", "",
    ),
    'recovery = { metric = "jitter", ideal = { anomaly = "none" }, without = { anomaly = "io" }, '
    'protected = { anomaly = "cpu" } }\npublished = { share = 0.4, tolerance = 0.1, at_least = 0.2 }': (
        "claim[0].published: has share and at_least", "give one of them",
    ),
    COMPARE + 'direction = "lower"\npublished = { at_least = 0.4 }': (
        "claim[0].published: at_least does not apply to compare", "difference, ratio",
    ),
    'level = { metric = "jitter", at_most = 1, unit = "ms", over = "median" }': (
        "claim[0].level.over: must be 'mean' or 'worst', but is 'median'", "",
    ),
    'order = { metric = "jitter", factor = "function", falling = ["nat"] }': (
        "claim[0].order: `falling` must have at least 2 entries", "",
    ),
    'order = { metric = "jitter", sides = [{ function = "nat" }] }': (
        "claim[0].order: `sides` must have at least 2 entries", "",
    ),
    'order = { metric = "jitter", factor = "function", falling = ["nat", "dpi"], distance = true }': (
        "claim[0].order: `distance` is between two sides", "give `of` and `to`",
    ),
    'order = { metric = "jitter", factor = "function" }': (
        "claim[0].order: must have exactly one of two forms", "`sides` alone",
    ),
    'order = { metric = "jitter", factor = "function", falling = ["nat", "dpi"], sides = [{ anomaly = "io" }, '
    '{ anomaly = "cpu" }] }': ("claim[0].order: must have exactly one of two forms", "`factor` and `falling`"),
    'order = { metric = "jitter", sides = [{ function = "nat" }, { anomaly = "io" }] }': (
        "claim[0].order: side 1, side 2 must name the same factors", "`at`",
    ),
    'order = { metric = "jitter", factor = "function", falling = ["nat", "dpi"], of = { function = "nat" }, '
    'to = { function = "dpi" } }': ("claim[0].order: names 'function' twice", ""),
    'alike = { metric = "jitter", factor = "function", levels = ["nat", "dpi"] }\nmargin = 0.1\ndirection = "lower"': (
        "claim[0].direction: does not apply to `alike`", "",
    ),
    'additive = { metric = "jitter", factors = ["function", "function"] }\nmargin = 0.1': (
        "claim[0].additive: names 'function' twice", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named_with_its_place_and_a_hint(text: str) -> None:
    message, hint = WRONG[text]
    error = refusal(HEAD + text)
    assert message in error.message
    assert hint in (error.hint or "")


def test_two_claims_of_one_name_and_another_problem() -> None:
    one = f'{HEAD}{COMPARE}direction = "lower"\n'
    error = refusal(one + one + HEAD.replace("x", "y"))
    assert "claim[1].id: 'x' is already the id of a claim above" in error.message
    assert str(error.hint).startswith("c.toml: claim[2]: states nothing (a claim has exactly one of ")


@pytest.mark.parametrize(
    ("text", "message"), [("", "claim: is missing"), ("claim = 3", "must be a list"), ("x", "TOML")]
)
def test_no_claims_file_at_all(text: str, message: str) -> None:
    assert message in refusal(text).message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text("")
    with pytest.raises(StudyError, match="there is no such file") as caught:
        load_claims(tmp_path / "claim.toml", STUDY)
    assert "did you mean 'claims.toml'?" in (caught.value.hint or "")


@given(st.text(max_size=80), st.sampled_from([COMPARE, *WRONG]))
def test_whatever_the_text_it_is_claims_or_one_error(noise: str, text: str) -> None:
    for mixed in (noise, HEAD + text + noise, HEAD + text.replace('"cpu"', repr(noise))):
        try:
            read(mixed)
        except StudyError as error:
            assert "\n" not in error.message
