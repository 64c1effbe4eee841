"""The time of a block on a remote host: what it worked there counts, and the ways there and back do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.host import _exchanges
from lastro.host._exchanges import Exchange, Exchanges, waited_s

AHEAD_S = 5000.0  # of the remote host's clock


def exchange(sent_s: float, way_s: float, work_s: float) -> Exchange:
    begins_s = sent_s + way_s + AHEAD_S
    return Exchange(sent_s, sent_s + 2 * way_s + work_s, begins_s, begins_s + work_s)


def test_of_exchanges_one_after_the_other_all_ways_are_waited() -> None:
    assert exchange(10.0, 0.25, 1.0).one_way_s == pytest.approx(0.25)
    assert waited_s([exchange(10.0, 0.25, 1.0), exchange(12.0, 0.25, 0.5)]) == pytest.approx(1.0)
    assert waited_s([]) == 0


@pytest.mark.parametrize(
    ("second", "waited"),
    [(exchange(10.5, 0.25, 1.0), 0.5), (exchange(10.0, 0.25, 1.0), 0.5), (exchange(10.3, 0.1, 0.2), 0.5)],
)
def test_a_way_beside_the_work_of_another_is_not_waited(second: Exchange, waited: float) -> None:
    """The first is worked on from 10.25 to 11.25; of the second, only what sticks out counts."""
    assert waited_s([exchange(10.0, 0.25, 1.0), second]) == pytest.approx(waited)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 2), st.floats(0, 5)), max_size=12))
def test_what_is_waited_is_at_most_all_ways_and_what_no_work_covers(parts: list[tuple[float, float, float]]) -> None:
    exchanges = [exchange(*part) for part in parts]
    found, ways_s = waited_s(exchanges), 2 * sum(way_s for _, way_s, _ in parts)
    assert -1e-9 <= found <= ways_s + 1e-9
    if exchanges:
        begins_s, ends_s = min(each.sent_s for each in exchanges), max(each.received_s for each in exchanges)
        longest_s = max(work_s for _, _, work_s in parts)
        assert found <= ends_s - begins_s - longest_s + 1e-6


class Clock:
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_exchanges, "time", made)
    return made


def after(clock: Clock, exchanges: Exchanges, way_s: float, work_s: float) -> None:
    exchanges.add(exchange(clock.now_s, way_s, work_s))
    clock.now_s += 2 * way_s + work_s


def test_a_block_begins_and_ends_there_and_has_no_way_in_it(clock: Clock) -> None:
    exchanges, clock.now_s = Exchanges(), 100.0
    after(clock, exchanges, 1.0, 1.0)  # before the block
    with exchanges.timed(lambda: exchange(0.0, 0.0, 0.0)) as span:
        after(clock, exchanges, 0.5, 2.0)
        clock.now_s += 0.1  # of this machine's own
        after(clock, exchanges, 0.5, 3.0)
    after(clock, exchanges, 1.0, 1.0)
    assert span.took_s == pytest.approx(5.1)
    assert (span.began_s, span.ended_s) == (pytest.approx(5103.5), pytest.approx(5109.6))


def test_what_was_started_there_works_on_during_the_next_ways(clock: Clock) -> None:
    """As a machine that boots, while the next one is started."""
    exchanges = Exchanges()
    with exchanges.timed(lambda: exchange(0.0, 0.0, 0.0)) as span:
        after(clock, exchanges, 0.5, 1.0)
        exchanges.start_process()
        after(clock, exchanges, 0.5, 1.0)
        exchanges.start_process()
        after(clock, exchanges, 0.5, 1.0)
    assert span.took_s == pytest.approx(5.0)


def test_the_end_of_a_process_has_ways_as_the_exchange_before_it(clock: Clock) -> None:
    exchanges = Exchanges()
    exchanges.add_end(0.0)  # nothing is known of the way yet
    with exchanges.timed(lambda: exchange(0.0, 0.0, 0.0)) as span:
        after(clock, exchanges, 0.5, 1.0)
        clock.now_s += 4.0
        exchanges.add_end(2.0)
    assert span.took_s == pytest.approx(4.0)
    assert span.ended_s == pytest.approx(5005.5)


def test_a_block_without_an_exchange_has_a_place_on_the_clock(clock: Clock) -> None:
    with Exchanges().timed(lambda: exchange(7.0, 0.5, 0.0)) as span:
        clock.now_s += 1.0
    assert (span.began_s, span.ended_s, span.took_s) == (5007.5, 5007.5, 1.0)


def test_an_error_ends_a_block(clock: Clock) -> None:
    exchanges = Exchanges()
    with pytest.raises(LookupError), exchanges.timed(lambda: exchange(0.0, 0.0, 0.0)):
        raise LookupError
    assert exchanges._blocks == []
