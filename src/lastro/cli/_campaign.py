"""Running what remains of a campaign: what `run` and `resume` share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from lastro.campaign import progress, runner
from lastro.errors import LastroError
from lastro.results.store import Store
from lastro.scenarios.base import Scenario


def run_here(store: Store, scenario: Scenario, event: str) -> None:
    """Run the rest of a campaign with progress; its log tells how it went."""
    study = store.study
    counts = store.counts()
    total = sum(counts.values())
    headline = tuple((metric.name, metric.unit) for metric in study.metrics)
    observer = (progress.Bar if sys.stderr.isatty() else progress.Plain)(
        total, counts["valid"] + counts["invalid"], headline
    )
    store.log(runner.utc_now(), event, f"{counts['pending'] + counts['running']} trials to run")
    try:
        with _one_interrupt(), observer:
            runner.run(store, scenario, observer)
    except KeyboardInterrupt as interrupt:
        _log(store, "interrupted", type(interrupt).__name__)
        interrupt.args = (f"{_done(store)}; continue with `lastro resume {store.directory}`",)
        raise
    except LastroError as error:
        _log(store, "stopped", error.message)
        raise
    store.log(runner.utc_now(), "finished", _done(store))


def _log(store: Store, event: str, text: str) -> None:
    """What ended the campaign may be the database itself: then that is the error to tell."""
    with suppress(LastroError):
        store.withdraw_running()
        store.log(runner.utc_now(), event, text)


def _done(store: Store) -> str:
    counts = store.counts()
    return f"{counts['valid']} valid, {counts['invalid']} invalid, {counts['pending'] + counts['running']} to go"


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the campaign; further ones must not cut the clean-up short."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def first(number: int, frame: FrameType | None) -> None:
        for each in handlers:
            signal.signal(each, signal.SIG_IGN)
        print("\ncleaning up …", file=sys.stderr, flush=True)
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt

    for number in handlers:
        signal.signal(number, first)
    try:
        yield
    finally:
        if all(signal.getsignal(number) is first for number in handlers):
            for number, handler in handlers.items():
                signal.signal(number, handler)
