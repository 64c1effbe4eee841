"""What the bench of HTTP loads takes for the most that an open loop is answered, of a server whose limit is known."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.instruments.http_load import LoadOrigin, OpenLoad
from lastro.instruments.vegeta import Vegeta
from lastro.results.samples import OVERLOADED, Reading, Remark

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
bench = importlib.import_module("http_load")
STOOD: Any = SimpleNamespace(client=None, origin=SimpleNamespace(page=None))


@pytest.mark.parametrize("limit_per_s", [40.0, 199.0, 730.0, 5100.0])
@pytest.mark.parametrize("invalid", [False, True])
@pytest.mark.parametrize("own_delay", [(), ("the generator was the bottleneck: its delay in short answers",)])
def test_the_ceiling_is_what_was_answered_and_close_to_the_limit(
    limit_per_s: float, invalid: bool, own_delay: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond its limit the server answers no more of them, whatever is sent."""
    asked = []

    def measure(self: Vegeta, station: Any, load: OpenLoad) -> Reading:
        asked.append(load.rate_per_s)
        values = {"open_rate": load.rate_per_s, "open_requests_per_s": min(limit_per_s, 0.99 * load.rate_per_s)}
        if load.rate_per_s <= limit_per_s:
            return Reading(values, invalid_because=own_delay)
        return Reading({}, invalid_because=("late",)) if invalid else Reading(values, remarks=(Remark(OVERLOADED, ""),))

    monkeypatch.setattr(Vegeta, "measure", measure)
    monkeypatch.setattr(LoadOrigin, "beside", lambda client: None)
    found = bench._open(STOOD, False)
    assert 0.94 * limit_per_s < found < limit_per_s, "of the rate, less than all were answered"
    assert len(asked) <= 14 and max(asked) <= max(200, 2 * limit_per_s)


@pytest.mark.parametrize(("took_s", "words"), [(19.9, "< 20 s: met"), (20.1, "< 20 s: missed")])
def test_a_row_tells_whether_many_proxies_were_up_in_time(
    took_s: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stands:
        starter = SimpleNamespace(began_s=1.0, ended_s=1.0 + took_s)

        def __enter__(self) -> Stands:
            return self

        def __exit__(self, *exc: object) -> None:
            pass

    monkeypatch.setattr(bench, "standing", lambda chosen: Stands())
    rows = bench.together(32, 2)
    assert [row.split("|")[1].split()[3] for row in rows] == ["runc,", "docker,"]
    assert all(words in row for row in rows)
