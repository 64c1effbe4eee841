"""The parts that `lastro doctor` tries, and the display of its progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from lastro.plain import plain, unfiltered
from lastro.scenarios.base import start_s
from lastro.units import human_duration

_WIDTH = 80


@dataclass(frozen=True, slots=True)
class PartsToTry:
    """The parts that `lastro doctor` tries: platforms with their options, and {kind: names} of all other parts.

    `linked` are the attachments whose properties are found by linking instances."""

    platforms: Sequence[str]
    names: Mapping[str, Sequence[str]]
    linked: Sequence[str] = ()
    in_click: bool = False  # also try the functions' implementation in Click


class ProbeProgress:
    """Progress on standard error: on a terminal, one line that changes; otherwise, a line for each platform.

    The remaining time is estimated from the usual start times of the platforms that start, and from the pace so far."""

    def __init__(self, wanted: PartsToTry) -> None:
        self._n_platforms, self._in_click = len(wanted.platforms), wanted.in_click
        self._parts_per_platform = sum(map(len, wanted.names.values()))
        self._start_s = {name: start_s({"platform": name}) for name in wanted.platforms}
        self._n = self._tried = 0
        self._expected_s = self._done_s = 0.0

    def __enter__(self) -> Self:
        self._live = sys.stderr.isatty()
        self._printed: set[str] = set()
        return self

    def show_start(self, platform: str) -> None:
        self._tried += 1
        self._show(f"starting {platform}", f"{self._tried}/{self._n_platforms}")

    def show_parts(self, working: Sequence[str]) -> None:
        """Print how many parts will now be tried on the platforms in `working`, and how long that takes."""
        n_parts = self._parts_per_platform
        self._n, self._tried = n_parts * len(working) + self._in_click, 0
        self._expected_s = n_parts * sum(self._start_s[name] for name in working)
        self._began_s = time.monotonic()
        if n_parts and working:
            self._end_line()
            start_count = f"{len(working)} of {self._n_platforms} platforms start{'s' if len(working) == 1 else ''}"
            start = "the platform starts" if self._n_platforms == 1 else start_count
            parts = f"{n_parts} parts are tried on {'it' if len(working) == 1 else 'each'}"
            print(f"{start}; {parts}, {self._time('in all')}; Ctrl-C ends it", file=sys.stderr, flush=True)

    def show_properties(self, part: str) -> None:
        self._show(f"finding properties: {part}")

    def show_part(self, platform: str, what: str) -> None:
        """Show that the part `what` is being tried on a platform, and the remaining time."""
        self._tried += 1
        progress = f"{self._tried}/{self._n}, {self._time('left')}"
        self._show(f"trying {platform}: {what}", progress, line=f"trying {platform}")
        self._done_s += self._start_s.get(platform, 0.0)

    def _show(self, text: str, progress: str = "", *, line: str = "") -> None:
        """Show `text` on the live line of a terminal; elsewhere, print `line` (default: `text`), but only once.

        `progress` follows in parentheses."""
        line = line or text
        more = f" ({progress})" if progress else ""
        if self._live:
            shown = plain(f"{text}{more}")[: _WIDTH - 1]
            print(f"\r\x1b[K{shown}", end="", file=unfiltered(sys.stderr), flush=True)
        elif line not in self._printed:
            print(f"{line} …{more}", file=sys.stderr, flush=True)
        self._printed.add(line)

    def _time(self, words: str) -> str:
        """Return "about TIME" followed by `words`; TIME is the estimated remaining time.

        Once a part has been tried, the estimate is corrected by the pace so far."""
        pace = (time.monotonic() - self._began_s) / self._done_s if self._done_s else 1.0
        return f"about {human_duration(max(0.0, pace * (self._expected_s - self._done_s)))} {words}"

    def _end_line(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=unfiltered(sys.stderr), flush=True)

    def __exit__(self, *_: object) -> None:
        self._end_line()
