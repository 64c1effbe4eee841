"""Words on a study on several hosts that its tables and figures share."""

from __future__ import annotations

from lastro.analysis.host_effects import HostEffect
from lastro.analysis.pooled import PooledStudy
from lastro.stats.intervals import Estimate
from lastro.words.campaign import place_of
from lastro.words.language import Language
from lastro.words.numbers import ratio_text


def place(found: PooledStudy, say: Language) -> str:
    """Return whether guests measured, for captions: as `words.campaign.place`."""
    return place_of([host.report.guest for host in found.hosts], say)


def ratio_on(one: HostEffect, say: Language) -> str:
    """Format the ratio on one host, or why there is none."""
    if one.effect is None:
        return "; ".join(map(say.note, one.absent_because))
    return ratio_text(Estimate(one.ratio, one.interval, 0), say)
