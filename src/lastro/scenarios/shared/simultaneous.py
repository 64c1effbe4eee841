"""Commands that begin together on several chains, and for how long all of them ran at the same time.

After exec into their instances, the senders wait for each other, and then start their commands together. The apparatus
notes when each command ran, so a trial knows for how long all commands ran at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Barrier, BrokenBarrierError, Lock
from typing import TypeVar

from lastro.errors import InstrumentError
from lastro.host.threads import run_all
from lastro.instruments.base import Watch
from lastro.results.samples import GENERATOR_LIMITED, Metric, Outcome
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.base import Config
from lastro.scenarios.shared.chain import Chain
from lastro.scenarios.shared.function_row import CHAINS
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.validity import Window

MIN_OVERLAP = Setting(
    "min_overlap_percent", 90.0, "time in which all chains carry their load, of that in which any does", 0, 100
)
OVERLAP = Metric(
    "chains_overlap", "%", "neither", "time in which all chains carried their load, of that in which any did"
)
MEMORY = Metric(
    "memory_per_chain", "MiB", "lower", "sum of the memory peaks of the instances under test, for each chain"
)
_WAIT_S = 60.0  # for exec into the instances of all chains

_Result = TypeVar("_Result")


class _OtherChainFailed(InstrumentError):
    """Error: the measurement on a chain did not begin because another chain failed; its error has the cause."""


class _CommonStart(Watch):
    """A watch of `n` commands that begin together; `inner` runs from their start until the last one has ended."""

    def __init__(self, inner: Watch, n: int) -> None:
        self._inner, self._n_running, self._lock = inner, n, Lock()
        self._barrier = Barrier(n, inner.__enter__, _WAIT_S)

    def __enter__(self) -> None:
        try:
            self._barrier.wait()
        except BrokenBarrierError:
            raise _OtherChainFailed(f"the measurement in another chain did not begin within {_WAIT_S:g} s") from None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._lock:
            self._n_running -= 1
            if not self._n_running:
                self._inner.__exit__(kind, *rest)

    def run(self, call: Callable[[Watch], _Result]) -> _Result:
        try:
            return call(self)
        except BaseException:
            self._barrier.abort()
            raise


def at_the_same_time(
    testbed: Testbed, calls: Sequence[Callable[[Watch], _Result]], watch: Watch
) -> tuple[list[_Result], list[Window]]:
    """Run the calls at the same time; return (their results in order, the times of their commands).

    Each call runs one command within the watch that it is given. `watch` runs from the common start of these commands
    until the last one has ended. Raises: the error of a call that failed by itself."""
    windows, before = testbed.apparatus.windows, len(testbed.apparatus.windows)
    if len(calls) == 1:
        return [calls[0](watch)], windows[before:]
    start = _CommonStart(watch, len(calls))
    futures = run_all([partial(start.run, call) for call in calls], len(calls))
    errors = [error for future in futures if (error := future.exception())]
    if errors:
        causes = [error for error in errors if not isinstance(error, _OtherChainFailed)]
        raise (causes or errors)[0]
    # In each window, the apparatus sends the messages of all commands.
    expected = sum(window.expected for window in windows[before:])
    windows[before:] = [replace(window, expected=expected) for window in windows[before:]]
    return [future.result() for future in futures], windows[before:]


def overlap_reasons(name: str, overlap_percent: float, config: Config) -> list[str]:
    """Return a reason if the chains carried their load at the same time for less than `min_overlap_percent`; else [].

    `overlap_percent` is a percentage of the time in which any chain carried load. `name` is the instrument's name."""
    limit = MIN_OVERLAP.of(config)
    if overlap_percent >= limit:
        return []
    fraction = f"{overlap_percent:.0f} % of the time in which any did (limit {limit:g} %)"
    return [f"{name}: all chains carried their load in {fraction}"]


@contextmanager
def prefixing_reasons(outcome: Outcome, chain: Chain, n_chains: int) -> Iterator[None]:
    """Prefix the reasons for invalidity that the block adds with the chain's number, if there are several."""
    n_before = len(outcome.invalid_because)
    yield
    if n_chains > 1:
        added = outcome.invalid_because[n_before:]
        outcome.invalid_because[n_before:] = [f"chain {chain.path.chain + 1}: {reason}" for reason in added]


def extend_marks(outcome: Outcome, metric: str, *computed: str) -> None:
    """Let each remark on `metric`, and the remark on its ceiling, also apply to the metrics `computed` from it."""
    outcome.extend_caveats(metric, *computed)
    for remark in remarks_of(outcome.notes):
        if remark.kind == GENERATOR_LIMITED and metric in remark.metrics:
            outcome.add_caveat(replace(remark, metrics=computed))


def has_several_chains(chosen: Mapping[str, object]) -> bool:
    """Return whether some treatment has several chains; `chosen` has constants, and factors as {name: levels}."""
    return exceeds(chosen.get(CHAINS.name, CHAINS.default), 1)


def exceeds(chosen: object, limit: float) -> bool:
    """Return whether `chosen`, a setting's value or the levels of a factor, has a number above `limit`."""
    levels = chosen if isinstance(chosen, Mapping | tuple | list) else (chosen,)
    return any(float(str(level)) > limit for level in levels)
