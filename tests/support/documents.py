"""Documents of a campaign, a suite and a pool in their forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.pooled_study import PooledStudy
from lastro.builders.content import Content
from lastro.builders.page_figures import draw_figures, link_figures, planned_figures
from lastro.builders.pool import pool_blocks
from lastro.builders.results import results_blocks
from lastro.builders.suite import StudySection, suite_blocks
from lastro.figures.forest import forest_plans
from lastro.render.fitting import markdown_within
from lastro.render.html import html
from lastro.render.latex import latex
from lastro.render.markdown import markdown
from lastro.render.terminal import styled_lines
from lastro.words.language import ENGLISH, Language


def render_html(content: Content) -> str:
    return html(
        results_blocks(content, "page", draw_figures(planned_figures(content))), content.say, content.report.directory
    )


def render_terminal(report: CampaignResults, width: int, say: Language = ENGLISH) -> list[Text]:
    return styled_lines(results_blocks(Content(report, None, say), "terminal"), width, say)


def render_latex(content: Content) -> str:
    return latex(results_blocks(content, "paper"), content.say)


def render_markdown(content: Content, figures: Mapping[str, str] | None = None) -> str:
    return markdown(results_blocks(content, "page", link_figures(planned_figures(content), figures or {})), content.say)


def render_short(content: Content, figures: Mapping[str, str] | None = None) -> str:
    blocks = results_blocks(content, "short", link_figures(planned_figures(content), figures or {}))
    return markdown_within(blocks, content.say, "lastro report --format md --full")


def render_suite(title: str, description: str, directory: str, sections: Sequence[StudySection], say: Language) -> str:
    return html(suite_blocks(title, description, sections, say), say, directory)


def render_pool(found: PooledStudy, say: Language) -> str:
    return html(pool_blocks(found, say, draw_figures(forest_plans(found, say))), say, "somewhere")
