"""A document as one self-contained HTML page: it needs no network, script or font.

All text passes through jinja2's autoescape. Only figures drawn by Lastro and markup that consists of numbers are
trusted."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from lastro import __version__
from lastro.document import Document, Heading, Span, Title
from lastro.render.markdown import FOLD_ABOVE
from lastro.render.templating import environment
from lastro.words.language import Language

_TONES = {"▲": "better", "▼": "worse", "✓": "better", "✕": "worse"}
_IN_BRACKETS = re.compile(r"(.+?) ([(\[].*[)\]])")
_STYLE = re.compile(r"<style [^>]*>.*?</style>", re.DOTALL)


def html(document: Document, say: Language, source: str, *, served: bool = False) -> str:
    """Return the HTML page of a document whose first block is its title.

    `source` names the file or the campaign behind the page. The same document gives the same bytes. If `served`, the
    page links to its style sheet and script on the server instead of being self-contained."""
    title, *blocks = document
    assert isinstance(title, Title), "a page begins with its title"
    contents = [block for block in blocks if isinstance(block, Heading) and block.anchor and block.listed]
    page = html_environment().get_template("page.html.j2")
    return page.render(
        say=say, version=__version__, title=title, contents=contents, blocks=blocks, source=source, served=served
    )


@cache
def html_environment() -> Environment:
    """Return the jinja2 environment of the page."""
    jinja = environment()
    jinja.globals |= {"fold_above": FOLD_ABOVE, "tone": lambda text: _TONES.get(text[:1], "")}
    jinja.filters |= {"inline": _inline, "axis": _axis, "stacked": _stacked}
    return jinja


def _inline(svg: str, label: str, kind: str) -> Markup:
    """Embed a figure drawn by Lastro: without XML prologue, and as wide as the page allows."""
    body = svg[svg.index("<svg") :]
    width_pt = re.search(r'<svg[^>]* width="([\d.]+)pt"', body)
    width = float(width_pt[1]) if width_pt else 600.0
    head = Markup('<svg class="{}" role="img" aria-label="{}" style="max-width:{:.0f}px" ').format(
        kind, label, width * 1.9
    )
    start = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", body[: body.index(">")].removeprefix("<svg"))
    return head + Markup(start.strip() + _STYLE.sub("", body[body.index(">") :]))


def _stacked(text: str) -> Markup:
    """Put the brackets at the end of a text on a line of their own: '16900 (> 99 %)', '0.4 [0.3, 0.5]'."""
    match = _IN_BRACKETS.fullmatch(text)
    return Markup("{} <small>{}</small>").format(match[1], match[2]) if match else Markup("{}").format(text)


def _axis(span: Span) -> Markup:
    """Draw an interval and its middle on an axis 64 units wide. The markup is trusted: it contains only numbers."""
    assert span.axis is not None
    low, at, high = (round(32 + 30 * end, 1) for end in span.axis)
    return Markup(
        f'<svg class="spark" viewBox="0 0 64 8" aria-hidden="true"><path class="one" d="M32 0V8"/>'
        f'<path d="M{low} 4H{high}"/><circle cx="{at}" cy="4" r="2.2"/></svg>'
    )
