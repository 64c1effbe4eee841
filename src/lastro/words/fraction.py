"""The wording of a fractional factorial design: its resolution, its defining relation, and its aliases. Pure."""

from __future__ import annotations

from lastro.stats.notes import N_
from lastro.study.fraction import Fraction
from lastro.words.language import Language

_RESOLUTIONS = {
    3: N_("main effects are measured together with interactions of two factors"),
    4: N_("interactions of two factors are measured together with one another"),
}
_HIGHER = N_("main effects and interactions of two factors are measured together with higher interactions only")


def fraction_text(fraction: Fraction, wanted: str, say: Language) -> str:
    """Return the size, the resolution and the aliases of a fraction: '1/2, resolution IV: interactions of two …'."""
    what = say(_RESOLUTIONS.get(fraction.resolution, _HIGHER))
    return say("{fraction}, resolution {n}: {what}", fraction=wanted, n=fraction.numeral, what=what)


def relation_text(fraction: Fraction) -> str:
    """Return the defining relation of a fraction, such as 'I = A × B × C'."""
    return " = ".join(("I", *map(fraction.text, fraction.words)))
