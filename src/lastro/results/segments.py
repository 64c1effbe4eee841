"""The segments of a campaign that continued although a program, the kernel or a setting of its host had changed.

Trials before and after such a change must not be paired. So the trials of a block that are in different segments are
analysed as different blocks, and a change of the host becomes an effect of blocks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lastro.results.rows import Attempt


@dataclass(frozen=True, slots=True)
class HostSegment:
    """A segment of a campaign: all attempts except the first `after`, up to the next segment.

    `changes` maps each fact that changed to [its value before, its value since]. If `testbed` is not empty, only
    attempts on this testbed of the fleet are in the segment."""

    after: int
    at_utc: str
    changes: Mapping[str, list[str]]
    testbed: str = ""

    @property
    def text(self) -> str:
        """The changes as one line."""
        return "; ".join(change_texts(self.changes))


def change_texts(changes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one text for each change: 'kernel was 6.1, is 6.2'."""
    return [f"{name} was {was}, is {is_}" for name, (was, is_) in changes.items()]


def segments_of_trials(
    segments: Iterable[HostSegment], attempts: Sequence[Attempt], trials: Collection[int]
) -> tuple[HostSegment, ...]:
    """Return the segments for only the attempts at `trials`: `after` is changed to count only these attempts.

    `attempts` are all attempts of the campaign, in running order."""
    is_selected = [attempt.trial in trials for attempt in attempts]
    return tuple(replace(segment, after=sum(is_selected[: segment.after])) for segment in segments)


def split_blocks(attempts: Sequence[Attempt], segments: Sequence[HostSegment]) -> tuple[list[Attempt], dict[int, int]]:
    """Split blocks where a segment begins: return the attempts with new block numbers, and {new block: old block}.

    The attempts of a block that are in the segment in which the block began keep its number. Attempts in a later
    segment get a new one. `attempts` must be all attempts of a campaign, in running order."""
    if not segments:
        return list(attempts), {}
    split, new_blocks = list(attempts), dict[tuple[int, int], int]()
    first_segment: dict[int, int] = {}
    highest = max((attempt.block for attempt in attempts), default=0)
    for position, attempt in enumerate(attempts):
        on_testbed = [segment for segment in segments if segment.testbed in ("", attempt.testbed)]
        number = sum(position >= segment.after for segment in on_testbed)
        if number != first_segment.setdefault(attempt.block, number):
            new_block = new_blocks.setdefault((attempt.block, number), highest + len(new_blocks) + 1)
            split[position] = replace(attempt, block=new_block)
    return split, {new_block: block for (block, _), new_block in new_blocks.items()}
