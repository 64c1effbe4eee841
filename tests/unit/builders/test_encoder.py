"""One encoder for all JSON documents: a field is a key, unless a document says otherwise, and describes each key."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.claims import judge
from lastro.analysis.claims.load import parse_claims
from lastro.analysis.compare import compare
from lastro.analysis.gate_plan import gate_plan
from lastro.builders import gate_plan as planned_gate
from lastro.builders.claims import JudgedClaims
from lastro.builders.data import claims as claims_document
from lastro.builders.data import comparison as compare_document
from lastro.builders.data import results as document
from lastro.builders.data import statistics as analysis_document
from lastro.builders.data.encoder import as_object, encode, pick
from lastro.study.design import treatments
from lastro.study.margins import Margins

from ...support.campaigns import Levels, make_campaign, make_study
from ..figures.test_figures import report_of

# Their keys are names: of factors, levels, metrics, platforms or verdicts.
NAMED = {
    "factors", "settings", "baseline", "levels", "given", "panel", "means", "sizes", "really", "tally", "metrics",
    "analysis", "blocks_to_find", "margins",
}  # fmt: skip
CLAIM = """
[[claim]]
id = "c"
says = "it"
compare = { metric = "throughput", of = { platform = "runc" }, to = { platform = "native" } }
direction = "lower"
published = { ratio = 0.9, tolerance = 0.1 }
"""


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    size: float


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    several: tuple[Inner, ...]
    ratio: float | None = None


def test_a_field_is_a_key_unless_a_form_says_otherwise() -> None:
    outer = Outer(Inner("a", math.inf), (Inner("b", 1.0),))
    assert encode({"found": outer}, {}) == {
        "found": {"inner": {"name": "a", "size": None}, "several": [{"name": "b", "size": 1.0}], "ratio": None}
    }
    forms = {Outer: lambda one: as_object(one, "ratio", several="all"), Inner: lambda one: pick(one, "size")}
    assert encode({"found": outer}, forms) == {"found": {"inner": {"size": None}, "all": [{"size": 1.0}]}}
    with pytest.raises(TypeError, match="Inner has no sise"):
        as_object(outer.inner, "sise")


def keys(value: Any) -> Iterator[str]:
    for key, each in value.items() if isinstance(value, dict) else ():
        yield key
        for inner in each.values() if key in NAMED and isinstance(each, dict) else (each,):
            yield from keys(inner)
    for each in value if isinstance(value, list) else ():
        yield from keys(each)


def speed(levels: Levels, block: int, metric: str) -> float:
    n = int(levels["streams"])
    platform = str(levels["platform"])
    return 100 * n / (1 + 0.05 * (n - 1) + 0.02 * n * (n - 1)) * (1 + 0.01 * ((block * n + len(platform)) % 5))


def test_each_document_describes_its_keys(tmp_path: Path) -> None:
    study = make_study({"platform": ("native", "runc"), "streams": (1, 2, 4, 8)}, baseline={"platform": "native"})
    report = report_of(make_campaign(tmp_path / "a", study, value=speed))
    other = report_of(make_campaign(tmp_path / "b", study, value=lambda *of: 2 * speed(*of)))
    claims = parse_claims(CLAIM, "claims.toml", study)
    plan = gate_plan(study, treatments(study), report, Margins(0.05), float, ("throughput",))
    for found, modules in (
        (document.document(report), (document, analysis_document)),
        (claims_document.claims_document(JudgedClaims(claims, judge(claims, report), report)), (claims_document,)),
        (compare_document.document(compare(report, other, margins=Margins(0.05))), (compare_document,)),
        (planned_gate.gate_plan_document(plan), (planned_gate,)),
    ):
        described = set(re.findall(r"\w+", " ".join(str(module.__doc__) for module in modules)))
        assert set(keys(found)) - described == set()
