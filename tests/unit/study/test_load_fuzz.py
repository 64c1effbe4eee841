"""Whatever the text, `parse` returns a Study or raises a StudyError with one line: never anything else."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastro.errors import InputError, StudyError
from lastro.results.samples import Metric
from lastro.study.design import treatments
from lastro.study.load import load, parse
from lastro.study.model import Design, Exclusion, Factor, Study
from lastro.study.schema import DesignTable, ExcludeTable, ProfilesTable, StudyFile, StudyTable

from ...fuzz.targets import study as check
from ...support.study_schemas import CHAIN, KAGAMI, SCHEMAS

quickly = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], database=None)

_KAGAMI = KAGAMI.read_text(encoding="utf-8")
_LINES = _KAGAMI.splitlines(keepends=True)


# Documents out of nothing


@quickly
@given(st.binary(max_size=300))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "random.toml"
    file.write_bytes(data)
    with pytest.raises(StudyError):  # it would take a monkey longer than this to write a study
        load(file, SCHEMAS)


@quickly
@given(st.text(max_size=300))
def test_random_text(text: str) -> None:
    check(text)


_TABLES = (StudyFile, StudyTable, DesignTable, ExcludeTable, ProfilesTable)
_words = st.sampled_from([*CHAIN.parts, *CHAIN.settings, *(key for table in _TABLES for key in table.model_fields)])
_known = st.sampled_from([name for names in CHAIN.parts.values() for name in sorted(names)])
_strings = (
    st.sampled_from(
        ["chain", "throughput", "randomised-blocks", "cgroups+apparmor", "apparmor+cgroups", "+", "x" * 101]
    )
    | _known
    | st.text(max_size=5)
)
_scalars = (
    _strings
    | st.booleans()
    | st.integers()
    | st.integers(-3, 20)
    | st.floats()
    | st.dates()
    | st.times()
    | st.datetimes()
)
_keys = _words | _words | st.text(max_size=5)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


def toml(value: Any) -> str:
    """A value as TOML writes it inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def document(tables: dict[str, Any]) -> str:
    return "".join(f"{toml(key)} = {toml(value)}\n" for key, value in tables.items())


_shapes = st.fixed_dictionaries(
    {
        "study": st.fixed_dictionaries({"name": st.just("x"), "scenario": st.just("chain")}),
        "factors": st.dictionaries(st.sampled_from([*CHAIN.parts, *CHAIN.settings]), st.lists(_scalars, max_size=4)),
    },
    optional={name: st.dictionaries(_keys, _values, max_size=4) for name in ("settings", "design", "profiles")},
)


@settings(quickly, max_examples=300)
@given(_shapes | st.dictionaries(_keys, _values, max_size=6))
def test_random_documents(tables: dict[str, Any]) -> None:
    check(document(tables))


_sound: dict[str, Any] = {
    "study": {"name": "x", "scenario": "chain", "metrics": ["throughput", "jitter"]},
    "factors": {"platform": ["runc", "native"], "isolation": ["none", "cgroups+apparmor"], "tcp_s": [1, 2.5]},
    "settings": {"attachment": "veth-bridge", "udp_rate": "2M", "tcp_streams": 2},
    "design": {"replicates": 2, "seed": 7, "confidence": 0.9, "baseline": {"isolation": "none"}},
    "exclude": [{"when": {"platform": "native", "isolation": ["cgroups+apparmor"]}, "reason": "r"}],
    "profiles": {"quick": {"replicates": 1, "ping_s": 1}},
}


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, item in items for place in _places(item, (*path, key))]


def _change(tables: dict[str, Any], place: tuple[str | int, ...], value: Any) -> None:
    target: Any = tables
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value


def test_the_document_that_is_mutated_is_sound() -> None:
    assert len(treatments(parse(document(_sound), "s.toml", SCHEMAS))) == 6
    assert len(_places(_sound)) > 30


@settings(quickly, max_examples=600)
@given(st.sampled_from(_places(_sound)), _scalars | _strings | _values)
def test_one_value_put_in_anothers_place(place: tuple[str | int, ...], value: Any) -> None:
    tables = json.loads(json.dumps(_sound))
    _change(tables, place, value)
    check(document(tables))


@settings(quickly, max_examples=300)
@given(st.sampled_from(_places(_sound)[:-1]), _keys, _values)
def test_one_key_too_many(place: tuple[str | int, ...], key: str, value: Any) -> None:
    tables = json.loads(json.dumps(_sound))
    target: Any = tables
    for step in place:
        target = target[step]
    if isinstance(target, dict):
        target[key] = value
    elif isinstance(target, list):
        target.append(value)
    check(document(tables))


# The paper's study, damaged


@settings(quickly, max_examples=300)
@given(
    st.integers(0, len(_KAGAMI)), st.integers(0, 40), st.text(max_size=8) | st.sampled_from(list(string.punctuation))
)
def test_characters_replaced(start: int, length: int, put: str) -> None:
    check(_KAGAMI[:start] + put + _KAGAMI[start + length :])


@quickly
@given(st.integers(0, len(_KAGAMI.encode()) - 1), st.integers(0, 255))
def test_one_byte_changed(tmp_path_factory: pytest.TempPathFactory, at: int, byte: int) -> None:
    data = bytearray(_KAGAMI.encode())
    data[at] = byte
    file = tmp_path_factory.getbasetemp() / "mutated.toml"
    file.write_bytes(data)
    try:
        study = load(file, SCHEMAS)
    except InputError as error:
        assert error.message.startswith(str(file))
    else:
        assert study.scenario == "chain"


@settings(quickly, max_examples=200)
@given(st.data())
def test_lines_deleted_doubled_and_swapped(data: st.DataObject) -> None:
    lines = list(_LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        first, second = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["delete", "double", "swap"])):
            case "delete":
                del lines[first]
            case "double":
                lines.insert(second, lines[first])
            case _:
                lines[first], lines[second] = lines[second], lines[first]
    check("".join(lines))


@quickly
@given(
    st.lists(
        st.sampled_from(["a", ".", "[", "]", "{", "}", "=", '"', "'", "\n", " ", ",", "1", "#", "\\"]), max_size=60
    )
)
def test_soups_of_tomls_own_signs(signs: list[str]) -> None:
    check("".join(signs))


# The model as plain data

_names = st.text(string.ascii_lowercase, min_size=1, max_size=6)
_levels = (
    st.text(max_size=8)
    | st.integers(-(2**62), 2**62)
    | st.booleans()
    | st.floats(-1e99, 1e99)  # beyond, a study file is refused
)
_metrics = st.builds(Metric, _names, st.text(max_size=5), st.sampled_from(["higher", "lower", "neither"]), st.text())
_studies = st.builds(
    Study,
    name=_names,
    title=st.text(),
    description=st.text(),
    scenario=_names,
    factors=st.lists(
        st.builds(Factor, _names, st.lists(_levels, min_size=1, max_size=4).map(tuple)),
        max_size=4,
        unique_by=lambda factor: factor.name,
    ).map(tuple),
    settings=st.dictionaries(_names, _levels, max_size=5),
    metrics=st.lists(_metrics, max_size=3, unique_by=lambda metric: metric.name).map(tuple),
    design=st.builds(
        Design,
        replicates=st.integers(1, 10_000),
        seed=st.integers(0, 2**63 - 1),
        confidence=st.floats(0.5, 0.9999),
        baseline=st.dictionaries(_names, _levels, max_size=3),
    ),
    exclusions=st.lists(
        st.builds(Exclusion, st.dictionaries(_names, st.lists(_levels, max_size=3).map(tuple), max_size=3), st.text()),
        max_size=3,
    ).map(tuple),
    profiles=st.dictionaries(_names, st.dictionaries(_names, _levels, max_size=3), max_size=3),
    profile=st.none() | _names,
    source=st.text(),
    file=st.text(),
)


@quickly
@given(_studies)
def test_a_study_survives_json(study: Study) -> None:
    again = Study.from_dict(json.loads(json.dumps(study.to_dict())))
    assert again == study
    assert repr(again) == repr(study)  # equality alone would take 1 for true
