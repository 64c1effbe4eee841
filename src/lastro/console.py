"""The rich console on which Lastro prints. Its output has no control characters except those of rich."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from lastro.plain import without_controls


class PlainConsole(Console):
    """A console on which text cannot control the terminal; rich's own colours and cursor movements pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            clean = segment.control or segment.text.isprintable() or segment.text == "\n"
            yield segment if clean else Segment(without_controls(segment.text), segment.style)
