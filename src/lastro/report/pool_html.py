"""A study on several hosts as one self-contained HTML page, with a forest plot for each factor and metric."""

from __future__ import annotations

from typing import Any

from lastro import __version__
from lastro.analysis.pooled import PooledStudy
from lastro.builders.pool_tables import (
    apart_table,
    hosts_effects_table,
    hosts_table,
    means_table,
    notes,
    opening,
    pooled_claims_table,
    warnings,
)
from lastro.report.html import html_environment, plate
from lastro.words import campaign as words
from lastro.words.language import Language
from lastro.words.pool import place


def render_pool(found: PooledStudy, say: Language) -> str:
    """Return the page as a string. The same campaigns give the same bytes."""
    from lastro.figures.forest import plans

    drawn: dict[int, list[dict[str, Any]]] = {}
    for plan in plans(found, say):
        if svg := plate(plan):
            drawn.setdefault(plan.metric or 0, []).append({"title": plan.title, "note": "", "svg": svg, "table": None})
    context = {
        "say": say,
        "words": words,
        "version": __version__,
        "title": found.study.title or found.study.name,
        "place": place(found, say),
        "opening": list(opening(found, say)),
        "warnings": list(warnings(found, say)),
        "hosts": hosts_table(found, say),
        "metrics": [
            {
                "name": metric.name,
                "summary": metric.summary,
                "plates": drawn.get(at, []),
                "tables": [means_table(found, metric, say), apart_table(found, metric, say)],
                "each": hosts_effects_table(found, metric, say),
            }
            for at, metric in enumerate(found.metrics)
        ],
        "claims": pooled_claims_table(found.claims, say) if found.claims else None,
        "notes": list(notes(found, say)),
        "directory": ", ".join(name for host in found.hosts for name in host.campaigns),
    }
    return html_environment().get_template("pool.html.j2").render(context)
