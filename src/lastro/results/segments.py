"""The segments of a campaign: it continued although a program, the kernel or a setting of its host had changed.

Trials before and after such a change must not be paired. So the trials of one block that lie in different segments are
analysed as different blocks, and a change of the host becomes an effect of blocks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lastro.results.rows import Attempt


@dataclass(frozen=True, slots=True)
class HostSegment:
    """The attempts after the first `after` ones, by number; of a fleet, only those on `testbed`, if it is not empty.

    `changes` are {fact: [before, since]}."""

    after: int
    at_utc: str
    changes: Mapping[str, list[str]]
    testbed: str = ""

    @property
    def text(self) -> str:
        """The changes as one line."""
        return "; ".join(told(self.changes))


def told(changes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return changes as text: 'kernel was 6.1, is 6.2'."""
    return [f"{name} was {was}, is {is_}" for name, (was, is_) in changes.items()]


def within(
    segments: Iterable[HostSegment], attempts: Sequence[Attempt], trials: Collection[int]
) -> tuple[HostSegment, ...]:
    """Return the segments of some of the trials of a campaign; their attempts are numbered anew."""
    kept = [attempt.trial in trials for attempt in attempts]
    return tuple(replace(each, after=sum(kept[: each.after])) for each in segments)


def apart(attempts: Sequence[Attempt], segments: Sequence[HostSegment]) -> tuple[list[Attempt], dict[int, int]]:
    """Return the attempts, with blocks of their own for those of a block that lie in a later segment.

    Also return {new block: its old number}. `attempts` are all of a campaign, in running order."""
    found, new = list(attempts), dict[tuple[int, int], int]()
    first: dict[int, int] = {}
    highest = max((attempt.block for attempt in attempts), default=0)
    for at, attempt in enumerate(attempts if segments else ()):
        segment = sum(at >= each.after and each.testbed in ("", attempt.testbed) for each in segments)
        if segment == first.setdefault(attempt.block, segment):
            continue
        number = new.setdefault((attempt.block, segment), highest + len(new) + 1)
        found[at] = replace(attempt, block=number)
    return found, {number: block for (block, _), number in new.items()}
