from __future__ import annotations

import pytest

from lastro.stats.intervals import Estimate, Interval
from lastro.words.language import language
from lastro.words.numbers import percent, ratio_text


def test_a_percentage_has_its_own_digits_or_those_that_are_asked_for() -> None:
    assert (percent(0.95), percent(0.995), percent(0.9999)) == ("95\xa0%", "99.5\xa0%", "99.99\xa0%")
    assert (percent(0.0752, digits=2), percent(1.304, digits=2)) == ("7.5\xa0%", "130\xa0%")
    assert (percent(0.7888, decimals=1), percent(0.7888, decimals=0)) == ("78.9\xa0%", "79\xa0%")
    assert percent(0.995, language("pt-BR")) == "99,5\xa0%"
    assert percent(0.7888, language("pt-BR"), decimals=1) == "78,9\xa0%"


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.62, 0.9964), "×0.790 [0.620, 0.996]"),
        ((0.62, 1.0004), "×0.79 [0.62, 1.00]"),
        ((0.62, 0.9999999), "×0.79000 [0.62000, 1.00000]"),
        ((1.002, 1.6), "×0.790 [1.002, 1.600]"),
    ],
)
def test_an_interval_that_excludes_1_does_not_read_as_if_it_ended_there(ends: tuple[float, float], text: str) -> None:
    assert ratio_text(Estimate(0.79, Interval(*ends, 0.95), 5)) == text
