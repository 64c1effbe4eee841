"""The digits against which the workload `pi` is checked, found once more by another formula.

John Machin's of 1706, pi = 16 arctan(1/5) - 4 arctan(1/239), in whole numbers. `python tests/known/test_pi.py` does it
for a million digits too, which takes some minutes."""

from __future__ import annotations

import pytest

from lastro.instruments.pi import KNOWN

PRIME = 2**61 - 1
_GUARD = 20


def arctan_of_one_over(x: int, unit: int) -> int:
    """By its series, in multiples of 1/unit."""
    power = total = unit // x
    n, sign = 1, 1
    while power:
        power //= x * x
        n, sign = n + 2, -sign
        total += sign * (power // n)
    return total


def digits_of_pi(n: int) -> int:
    """The first n digits, the 3 included, as one number."""
    unit = 10 ** (n - 1 + _GUARD)
    return (16 * arctan_of_one_over(5, unit) - 4 * arctan_of_one_over(239, unit)) // 10**_GUARD


@pytest.mark.parametrize("n", [10, 100, 1000, 10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_known_digits_are_those_of_another_formula(n: int) -> None:
    assert digits_of_pi(n) % PRIME == KNOWN[n]


def test_the_first_digits_are_those_that_everybody_knows() -> None:
    assert digits_of_pi(30) == 314159265358979323846264338327


if __name__ == "__main__":
    for n in (n for n in KNOWN if n <= 1_000_000):
        print(n, digits_of_pi(n) % PRIME == KNOWN[n])
