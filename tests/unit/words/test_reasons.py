"""Reasons that differ in numbers alone are one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lastro.words.reasons import merge_reasons


def test_numbers_become_a_range_and_names_stay_apart() -> None:
    reasons = [
        ("other processes used 0.94 CPUs (limit 0.3)", 4), ("other processes used 1.02 CPUs (limit 0.3)", 7),
        ("r0-1: no route to 2 networks", 5), ("r1-1: no route to 2 networks", 5),
        ("other processes used 0.98 CPUs (limit 0.3)", 4),
        ("iperf3 3.12 sent 100 bytes", 1), ("iperf3 3.12 sent 90 bytes", 2),
    ]  # fmt: skip
    assert merge_reasons(reasons) == [
        ("other processes used 0.94 to 1.02 CPUs (limit 0.3)", [4, 7, 4]),
        ("r0-1: no route to 2 networks", [5]),
        ("r1-1: no route to 2 networks", [5]),
        ("iperf3 3.12 sent 90 to 100 bytes", [1, 2]),
    ]
    assert merge_reasons([]) == []


@given(st.lists(st.tuples(st.text(max_size=20), st.integers(0, 3)), max_size=8))
def test_no_owner_is_lost_and_what_stands_alone_is_as_it_was(reasons: list[tuple[str, int]]) -> None:
    found = merge_reasons(reasons)
    assert sorted(owner for _, owners in found for owner in owners) == sorted(owner for _, owner in reasons)
    assert all(text in {each for each, _ in reasons} for text, owners in found if len(owners) == 1)
