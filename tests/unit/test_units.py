"""Rates, sizes, durations and numbers, as people write and read them; and the nearest valid name."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.errors import InputError, StudyError, did_you_mean
from lastro.units import (
    human_bytes,
    human_duration,
    parse_age_s,
    parse_duration_s,
    parse_rate_bps,
    parse_size_bytes,
    significant,
)


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("10M", 10e6),
        ("1.5G", 1.5e9),
        ("64k", 64e3),
        ("9600", 9600),
        ("1 Gbit/s", 1e9),
        ("5mbit", 5e6),
        (" 2Tbps ", 2e12),
    ],
)
def test_rates_have_decimal_prefixes(text: str, bps: float) -> None:
    assert parse_rate_bps(text) == pytest.approx(bps)


@pytest.mark.parametrize(("text", "seconds"), [("30min", 1800), ("90 s", 90), ("1.5h", 5400), ("0.5s", 0.5)])
def test_durations_have_units(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("128M", 128 * 2**20), ("1G", 2**30), ("4KiB", 4096), ("4kB", 4096), ("1.5k", 1536), ("17", 17), ("2 T", 2**41)],
)
def test_sizes_have_binary_prefixes(text: str, n_bytes: int) -> None:
    assert parse_size_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "M", "-1M", "1e6", "1,5M", "1P", "ten", "1M M", "٣x"])
def test_what_is_neither_rate_nor_size_is_refused_with_an_example(text: str) -> None:
    for parse, example in ((parse_rate_bps, "10M"), (parse_size_bytes, "128M"), (parse_duration_s, "30min")):
        with pytest.raises(InputError) as caught:
            parse(text)
        assert repr(text)[1:-1] in caught.value.message
        assert example in str(caught.value.hint)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (128 * 2**20, "128.0 MiB"),
        (2**40, "1.0 TiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_human_bytes(n_bytes: float, text: str) -> None:
    assert human_bytes(n_bytes) == text


@given(st.integers(0, 2**45))
def test_human_bytes_can_be_read_back(n_bytes: int) -> None:
    assert parse_size_bytes(human_bytes(n_bytes)) == pytest.approx(n_bytes, rel=0.06)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.25, "250 ms"),
        (1, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (75, "1 min 15 s"),
        (3600, "1 h 00 min"),
        (129_600, "36 h 00 min"),
    ],
)
def test_human_duration(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3012.4, "3012"),
        (0.045932, "0.04593"),
        (-12.3456, "-12.35"),
        (0, "0"),
        (1, "1.000"),
        (123456, "123456"),
        (1e12, "1.000e+12"),
        (1e-9, "1.000e-09"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_significant(value: float, text: str) -> None:
    assert significant(value) == text


@given(st.floats(1e-5, 1e8))
def test_significant_keeps_four_digits(value: float) -> None:
    assert float(significant(value)) == pytest.approx(value, rel=5.1e-4)


def test_the_nearest_name_is_asked_for() -> None:
    assert did_you_mean("veth-brige", ["veth-bridge", "veth-direct"]) == "did you mean 'veth-bridge'?"


def test_all_names_are_told_when_none_is_near() -> None:
    assert did_you_mean("zzz", ["runc", "docker"]) == "valid names: docker, runc"
    assert did_you_mean("zzz", []) == "valid names: none"


def test_a_prefix_is_meant_rather_than_a_near_name_and_words_of_the_field_are_known() -> None:
    assert did_you_mean("macvlan", ["macvtap", "macvlan-bridge"]) == "did you mean 'macvlan-bridge'?"
    ovs = ["ovs-dpdk", "ovs-kernel", "veth-bridge"]
    assert did_you_mean("ovs", ovs) == "did you mean 'ovs-dpdk' or 'ovs-kernel'?"
    names = ["anomaly", "platform", "attachment", "neighbour_cpus"]
    assert did_you_mean("neighbours", names) == "did you mean 'anomaly'?"
    assert did_you_mean("container", names) == "did you mean 'platform'?"


def test_of_many_names_the_nearest_are_told() -> None:
    hint = did_you_mean("zeta", [f"name{number}" for number in range(40)])
    assert hint.endswith(" and 10 more") and hint.count(",") == 29


def test_a_study_error_says_where() -> None:
    assert StudyError("is empty", file="s.toml", where="factors.a").message == "s.toml: factors.a: is empty"
    assert StudyError("is empty", file="s.toml").message == "s.toml: is empty"
    assert StudyError("is empty").message == "is empty"


def test_an_age_is_in_days_or_a_duration() -> None:
    assert (parse_age_s("30d"), parse_age_s("0d"), parse_age_s("12h")) == (30 * 86_400, 0, 43_200)
    for text in ("30", "d", "-1d", "1.5d", "999999d"):
        with pytest.raises(InputError, match="is not an age"):
            parse_age_s(text)
