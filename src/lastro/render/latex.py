"""A document in LaTeX, which compiles on its own, or from which single tables can be taken for a paper.

It uses booktabs and longtable, so that long tables break across pages. All text from a study or a trial is escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from jinja2 import Environment
from markupsafe import Markup

from lastro import __version__
from lastro.document import Document, Table
from lastro.plain import plain
from lastro.render.templating import environment
from lastro.words.language import Language

_BABEL = {"en": "english", "pt-BR": "brazilian"}
_LINE, _BETWEEN, _LEAST = 112, 2, 6  # characters: of a line of a table, between two columns, and in a column
_APART = "\ue000"  # a private-use character: not printable, so escaped text from outside never contains it
_SPECIAL = {
    _APART: "{}",
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
    "[": "{[}", "]": "{]}", "*": "{*}", "×": r"\ensuremath{\times}", "±": r"\ensuremath{\pm}",
    "≈": r"\ensuremath{\approx}", "−": r"\ensuremath{-}", "▲": r"\ensuremath{\triangle}", "≤": r"\ensuremath{\leq}",
    "▼": r"\ensuremath{\bigtriangledown}", "↑": r"\ensuremath{\uparrow}", "↓": r"\ensuremath{\downarrow}",
    "≥": r"\ensuremath{\geq}", "²": r"\ensuremath{^{2}}", "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}",
    "·": r"\textperiodcentered{}", "⁺": r"\ensuremath{^{+}}",
    "—": "---", "–": "--", "“": "``", "”": "''", "’": "'", "…": r"\dots{}", "µ": r"\textmu{}", "μ": r"\ensuremath{\mu}",
    "σ": r"\ensuremath{\sigma}", "κ": r"\ensuremath{\kappa}", "λ": r"\ensuremath{\lambda}", "✕": r"\texttimes{}",
    "→": r"\ensuremath{\rightarrow}", "\xa0": "~", "↻": r"\ensuremath{\hookleftarrow}", "‖": r"\ensuremath{\parallel}",
    "≫": r"\ensuremath{\gg}", "⊘": r"\ensuremath{\oslash}", "∩": r"\ensuremath{\cap}", "∅": r"\ensuremath{\emptyset}",
    "⁑": r"\ensuremath{^{*}_{*}}", "⊕": r"\ensuremath{\oplus}", "⊖": r"\ensuremath{\ominus}",
    "⊗": r"\ensuremath{\otimes}", "⊙": r"\ensuremath{\odot}",
    "∞": r"\ensuremath{\infty}", "≠": r"\ensuremath{\neq}", "≡": r"\ensuremath{\equiv}",
}  # fmt: skip


def latex(document: Document, say: Language) -> str:
    """Return the document as LaTeX; the comments `% lastro: NAME` and `% end` enclose each table."""
    template = latex_environment().get_template("document.tex.j2")
    return template.render(say=say, version=__version__, babel=_BABEL[say.code], blocks=document)


def latex_environment() -> Environment:
    """Return the jinja2 environment of the LaTeX template: <% tags %>, << values >>, and `escape` for every value."""
    jinja = environment(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(str(value))),
    )
    jinja.filters |= {
        "label": lambda name: re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "table",
        "columns": _columns,
        "caption": lambda table: ". ".join(filter(None, (table.title, table.note))),
    }
    return jinja


def escape(text: str) -> str:
    """Escape text for LaTeX, on one line; a character that the usual fonts lack becomes its code point, <U+4E2D>."""
    line = " ".join(plain(text).split())
    apart = re.sub(r"([-,])(?=\1)", rf"\1{_APART}", line)  # keep "--" from becoming a dash
    return "".join(
        _SPECIAL.get(char) or (char if ord(char) < 0x100 else rf"\textless{{}}U+{ord(char):04X}\textgreater{{}}")
        for char in apart
    )


def _columns(table: Table) -> Markup:
    """Return the column specification of a table: as wide as the text, but the widest columns wrap so that all fit."""
    widths = [max(map(len, texts)) for texts in zip(table.columns, *table.rows, strict=True)]
    most = _widest(widths, _LINE - _BETWEEN * len(widths))
    kinds = ["r" if at in table.right else "l" for at in range(len(widths))]
    for at, width in enumerate(widths):
        if width > most:
            side = "left" if at in table.right else "right"
            kinds[at] = rf">{{\ragged{side}\arraybackslash\hspace{{0pt}}}}p{{{most / _LINE:.3f}\linewidth}}"
    return Markup(f"@{{}}{''.join(kinds)}@{{}}")


def _widest(widths: Sequence[int], room: int) -> float:
    """Return the width, in characters, to which wider columns must shrink so that all fit; infinite if they fit."""
    ordered = sorted(widths)
    for at, width in enumerate(ordered):
        share = (room - sum(ordered[:at])) / (len(ordered) - at)
        if width > share:
            return max(share, _LEAST)
    return math.inf
