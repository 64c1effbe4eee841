from __future__ import annotations

from lastro.words.language import language
from lastro.words.numbers import percent


def test_a_percentage_has_its_own_digits_or_those_that_are_asked_for() -> None:
    assert (percent(0.95), percent(0.995), percent(0.9999)) == ("95\xa0%", "99.5\xa0%", "99.99\xa0%")
    assert (percent(0.0752, digits=2), percent(1.304, digits=2)) == ("7.5\xa0%", "130\xa0%")
    assert (percent(0.7888, decimals=1), percent(0.7888, decimals=0)) == ("78.9\xa0%", "79\xa0%")
    assert percent(0.995, language("pt-BR")) == "99,5\xa0%"
    assert percent(0.7888, language("pt-BR"), decimals=1) == "78,9\xa0%"
