"""Texts on a study on several hosts that its tables and its figures share."""

from __future__ import annotations

from lastro.analysis.host_effects import HostEffect
from lastro.analysis.pooled_study import PooledStudy
from lastro.words.campaign import place_of
from lastro.words.language import Language
from lastro.words.numbers import ratio_text


def place(pooled: PooledStudy, say: Language) -> str:
    """Return 'in a guest' or 'partly in a guest', for captions, if any host was a guest; otherwise empty."""
    return place_of([host.report.guest for host in pooled.hosts], say)


def ratio_on(effect: HostEffect, say: Language) -> str:
    """Format the ratio on one host, or why that host has none."""
    return ratio_text(effect.ratio, say) if effect.ratio else "; ".join(map(say.note, effect.absent_because))
