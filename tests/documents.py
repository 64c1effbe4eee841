"""Documents of a campaign as Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.builders.content import Content
from lastro.builders.results import results_blocks
from lastro.builders.results_short import short_results_blocks
from lastro.render.fitting import markdown_within
from lastro.render.markdown import markdown


def render_markdown(content: Content, figures: Mapping[str, str] | None = None) -> str:
    return markdown(results_blocks(content, figures), content.say)


def render_short(content: Content, figures: Mapping[str, str] | None = None) -> str:
    return markdown_within(short_results_blocks(content, figures), content.say, "lastro report --format md --full")
