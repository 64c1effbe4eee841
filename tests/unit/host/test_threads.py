"""Calls in threads: each comes to its end before an interruption goes on, and none begins after it."""

from __future__ import annotations

import threading
import time

import pytest

from lastro.host.threads import run_all

pytestmark = pytest.mark.processes


def test_results_come_in_the_order_of_the_calls() -> None:
    def call(n: int) -> int:
        time.sleep(0.01 * (5 - n))
        return n

    calls = [lambda n=n: call(n) for n in range(5)]
    assert [future.result() for future in run_all(calls, 3)] == list(range(5))


def test_an_error_is_its_calls_alone() -> None:
    good, bad = run_all([lambda: 1, lambda: 1 // 0], 2)
    assert good.result() == 1
    with pytest.raises(ZeroDivisionError):
        bad.result()


def test_without_threads_the_calls_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert [future.result() for future in run_all([lambda: 1, lambda: 2], 2)] == [1, 2]


def test_an_interruption_while_a_thread_is_started_waits_for_what_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread runs by then, and is not yet known to whoever started it."""
    real, begun, ended = threading.Thread.start, threading.Event(), []

    def interrupted(self: threading.Thread) -> None:
        real(self)
        begun.wait(5)
        raise KeyboardInterrupt

    def call() -> None:
        begun.set()
        time.sleep(0.2)
        ended.append(True)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all([call, call], 2)
    assert ended == [True]
