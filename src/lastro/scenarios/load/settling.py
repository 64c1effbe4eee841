"""The end of a probe: its generator has ended, but frames may still be in queues.

RFC 2544, section 23, waits for two seconds after each trial for late frames, and for five more before the next trial.
Here, counters show when the path is empty, so a probe waits only while frames move, and at most that long. A function
that stops for longer than `_PAUSE_S` after the last frame was sent, and then continues, has lost what it held."""

from __future__ import annotations

import time
from collections.abc import Callable

from lastro.errors import InstrumentError
from lastro.meters.interfaces import Counters

RESIDUAL_S, RESTABILIZED_S = 2.0, 5.0
_PAUSE_S = 0.1  # without a frame, and the path is empty
_PERIODS = 3  # of the offered rate, at least: a generator may still have frames to send in its own queue


def at_rest(
    first: Counters,
    read: Callable[[], Counters],
    frames: Callable[[Counters], tuple[int, ...]],
    is_over: Callable[[Counters], bool],
    rate_fps: float,
) -> Counters:
    """Return the last reading in which frames count: when all have arrived, or when nothing has moved for a while.

    `first` is the reading after the end of the generator, `frames` the part of a reading that must stand still. Frames
    that arrive after two seconds are lost.

    Raises: InstrumentError when frames still move after another five seconds."""
    counted = last = first
    pause_s = max(_PAUSE_S, _PERIODS / rate_fps)
    began_s = time.monotonic()
    while not is_over(last):
        time.sleep(pause_s)
        now, elapsed_s = read(), time.monotonic() - began_s
        if frames(now) == frames(last):
            break
        if elapsed_s > RESIDUAL_S + RESTABILIZED_S:
            raise InstrumentError(
                f"frames moved for {elapsed_s:.1f} s in which none was offered: foreign traffic, or a function that"
                " needs longer to empty its queues",
                "keep other traffic off the links of the chain, or search at smaller loads, by `most_fps`",
            )
        last, counted = now, now if elapsed_s <= RESIDUAL_S else counted
    return counted
