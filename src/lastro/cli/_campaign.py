"""Run the remaining trials of a campaign: shared by `run` and `resume`."""

from __future__ import annotations

import sys
from contextlib import suppress

from lastro.campaign import progress, runner
from lastro.errors import LastroError
from lastro.results.store import Store
from lastro.scenarios.base import Scenario


def run_here(store: Store, scenario: Scenario, event: str, place: progress.Place = progress.alone) -> None:
    """Run the remaining trials with progress, and log how the campaign ended. `place` is its position in a suite."""
    study = store.study
    counts = store.counts()
    total = sum(counts.values())
    headline = tuple((metric.name, metric.unit) for metric in study.metrics)
    observer = (progress.Bar if sys.stderr.isatty() else progress.Plain)(
        total, counts["valid"] + counts["invalid"], headline, place
    )
    store.take(runner.utc_now())
    store.log(runner.utc_now(), event, f"{counts['pending'] + counts['running']} trials to run")
    try:
        with observer:
            runner.run(store, scenario, observer)
    except KeyboardInterrupt as interrupt:
        _log(store, "interrupted", type(interrupt).__name__)
        interrupt.args = (f"{_done(store)}; continue with `lastro resume {store.directory}`",)
        raise
    except LastroError as error:
        _log(store, "stopped", error.message)
        raise
    finally:
        with suppress(LastroError):
            store.let_go()
    store.log(runner.utc_now(), "finished", _done(store))


def _log(store: Store, event: str, text: str) -> None:
    """Log why the campaign ended. If the database itself failed, the caller reports that error instead."""
    with suppress(LastroError):
        store.withdraw_running()
        store.log(runner.utc_now(), event, text)


def _done(store: Store) -> str:
    counts = store.counts()
    return f"{counts['valid']} valid, {counts['invalid']} invalid, {counts['pending'] + counts['running']} to go"
