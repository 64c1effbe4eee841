"""A flow of echo requests across a failure: the answers, the losses and the outage."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lastro.errors import LastroError, PlatformError
from lastro.host.base import Process
from lastro.platforms.base import Instance
from lastro.scenarios.routing.network import wall_offset_s

_SEQUENCE_NUMBERS = 65_536  # of echo requests, before they wrap around
_END_S = 2.0
ANSWER = "bytes from"  # in each line of an answer, and not in that of an error


@dataclass(frozen=True, slots=True)
class Flow:
    """A steady flow of echo requests from one router to another. `process` is the ping, from `Instance.during`."""

    source: Instance
    process: Process
    interval_ms: int

    def answered(self) -> list[tuple[float, int]]:
        """End the flow; return (time on the host's monotonic clock, number of the request) of each answer."""
        self.process.send("give")
        self.process.ended_within(_END_S)
        text, offset_s = self.process.stop().text, wall_offset_s(self.source)
        return [(at_s - offset_s, number) for at_s, number in answers(text, self.interval_ms)]


def answers(text: str, interval_ms: int) -> list[tuple[float, int]]:
    """Return (time on ping's wall clock, number of the request) of each answer in the output of `ping -D`.

    Numbers continue when the 16-bit sequence numbers wrap around. The time since the previous answer shows how often
    they wrapped, even after losses."""
    answered: list[tuple[float, int]] = []
    for at, sequence in re.findall(r"^\[([\d.]+)\] .*icmp_seq=(\d+) ttl=", text, re.MULTILINE):
        at_s, number = float(at), int(sequence)
        if answered:
            last_s, last = answered[-1]
            first_s, first = answered[0]
            # `ping` sends more slowly than asked; answers that were queued come faster than their requests were sent.
            spacing_s = max(interval_ms / 1000, (last_s - first_s) / (last - first) if last > first else 0.0)
            expected = last + (at_s - last_s) / spacing_s
            number += _SEQUENCE_NUMBERS * round((expected - number) / _SEQUENCE_NUMBERS)
        answered.append((at_s, number))
    return answered


def count_lost(answered: Sequence[int]) -> int:
    """Return how many requests between the first and the last answered one have no answer.

    `answered` has the numbers of the answered requests."""
    return max(answered) - min(answered) + 1 - len(set(answered)) if answered else 0


def outage_s(answered: Sequence[tuple[float, int]]) -> float:
    """Return the seconds without answers: of each gap between answers, the part that unanswered requests take.

    `answered` has pairs (time, number of the request). The gaps are measured, since the interval is not exact:
    `ping` of iputils sends every 25 ms when asked for 20 ms."""
    times_s: dict[int, float] = {}  # of the first answer to each request
    for at_s, number in sorted(answered):
        times_s.setdefault(number, at_s)
    return sum((times_s[b] - times_s[a]) * (b - a - 1) / (b - a) for a, b in pairwise(sorted(times_s)))


def ping_argv(source: str, target: str, interval_s: float, most_s: float) -> list[str]:
    """Return a `ping` command that ends after a number of requests, at `most_s` or a little later.

    A `ping` with a deadline, or for a single answer, would end as soon as a router reports a missing route."""
    number = math.ceil(most_s / interval_s)
    return ["ping", "-n", "-D", "-I", source, "-i", f"{interval_s:g}", "-c", str(number), target]


def wait_for_answer(process: Process, within_s: float, otherwise: str) -> str:
    """Return the first line with an answer that a ping prints, not errors of routers that cannot forward a request.

    Raises: PlatformError, whose message begins with `otherwise`, without an answer within `within_s`."""
    try:
        return process.wait_line(ANSWER, within_s)
    except LastroError as error:
        raise PlatformError(f"{otherwise}: {error.message}") from error
