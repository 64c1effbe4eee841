"""The wording of a judgement of a claim: the published figure, the measured effect, and the reason for the verdict."""

from __future__ import annotations

import math

from lastro.analysis.claim_effects import ClaimContrast
from lastro.analysis.claims import Judgement, Verdict, has_magnitude, judged_interval, magnitude_differs, tolerated
from lastro.stats.contrasts import Contrast
from lastro.stats.intervals import Bound
from lastro.stats.notes import N_
from lastro.stats.ratios import Ratio
from lastro.study.claims import Absolute, Additive, Alike, Claim, Compare, Extreme, Measure, Order, Published
from lastro.units import significant
from lastro.words.language import ENGLISH, Language
from lastro.words.numbers import MINUS, fixed, ratio_text

VERDICT_MARKS: dict[Verdict, str] = {
    "reproduced": "✓",
    "same direction, another size": "≠",
    "same direction, too imprecise": "↗",
    "contradicted": "✕",
    "not distinguishable here": "≈",
    "untestable here": "–",
}
VERDICT_WORDS: dict[Verdict, str] = {
    "reproduced": N_("reproduced"),
    "same direction, another size": N_("same direction, another size"),
    "same direction, too imprecise": N_("same direction, too imprecise"),
    "contradicted": N_("contradicted"),
    "not distinguishable here": N_("not distinguishable here"),
    "untestable here": N_("untestable here"),
}


def verdict_text(one: Judgement, say: Language = ENGLISH) -> str:
    """Format the verdict with its mark: '✓ reproduced', or '✓ reproduced, stand-in' for one on a stand-in."""
    word = f"{VERDICT_MARKS[one.verdict]} {say(VERDICT_WORDS[one.verdict])}"
    return f"{word}, {say('stand-in')}" if one.stand_in else word


def published_text(published: Published | None, say: Language = ENGLISH) -> str:
    """Format a published figure, such as '×0.8961 ± 0.052, −312.39 Mbit/s'; empty when the source gives no figure.

    The judged figure comes first, with its tolerance. Without a tolerance, return the figure as it was printed."""
    if published is None:
        return ""
    if published.tolerance is None:
        return f"“{published.printed}”" if published.printed else ""
    measure, figure = published.judged
    around = 100.0 if measure == "share" else 1.0
    text = f"{_shown(measure, figure, published.unit)} ± {significant(published.tolerance * around, 2)}"
    if measure == "ratio" and published.difference is not None:
        text += f", {_shown('difference', published.difference, published.unit)}"
    return say.number(text.replace(", ", " | ")).replace(" | ", ", ")


def effect_text(
    measure: Measure, effect: Contrast, unit: str, say: Language = ENGLISH, bound: Bound | None = ""
) -> str:
    """Format an effect: '×1.051 [1.047, 1.055]', '+312 [290, 334] Mbit/s', '62.6 % [58.1, 67.0]', or the value alone.

    With a `bound`, return '≥ ×1.7'; `bound` is None if the true effect may lie on either side of the value."""
    if effect.value is None or bound is None:
        return say("no ratio") if measure == "ratio" else say("no value")
    if measure == "ratio":
        unbounded = effect.interval is None and effect.df is not None
        if effect.interval is None and not unbounded and not bound:
            alone = say.number(f"×{significant(effect.value, 3)}".replace("-", MINUS))
            return f"{alone} ({say('no interval')})"
        return ratio_text(
            Ratio(effect.value, effect.interval, effect.pairing, (effect.n, effect.n), unbounded, bound=bound), say
        )
    scale, ending = (100, " %") if measure == "share" else (1, f" {unit}" if unit else "")
    if effect.interval is None:
        number = float(significant(effect.value * scale))
        alone = say.number(_signed(number) if measure != "level" else f"{number:g}".replace("-", MINUS)) + ending
        return f"{bound} {alone}" if bound else f"{alone} ({say('no interval')})"
    half = effect.interval.half_width * scale
    decimals = 3 if half <= 0 else min(9, max(0, 1 - math.floor(math.log10(half))))
    value, low, high = (fixed(x * scale, decimals) for x in (effect.value, effect.interval.low, effect.interval.high))
    plus = "+" if measure == "difference" and not value.startswith(MINUS) else ""
    return say.number(f"{plus}{value} [{low}, {high}]") + ending


def reason_text(one: Judgement, say: Language = ENGLISH) -> str:
    """Explain the verdict on a claim and how much of the design it covers, or why it is untestable."""
    pairs = [(", ".join(map(str, each.measured)), str(each.published)) for each in one.stand_in]
    told = [say("stand-in: {measured} in place of {published}", measured=own, published=other) for own, other in pairs]
    return "; ".join([*told, _reason(one, say)])


def _reason(one: Judgement, say: Language) -> str:
    if one.verdict == "untestable here" or one.effects is None or one.part is None:
        return "; ".join(map(say.note, one.why_not))
    if one.verdict == "reproduced":
        text = _reproduced(one.claim, one.part, say)
    elif one.verdict.startswith("same direction"):
        text = _direction_only(one.claim, one.part, say)
    elif one.verdict == "contradicted":
        text = _contradicted(one.claim, one.part, say)
    else:
        text = _not_distinguishable(one, one.claim, one.part, say)
    if one.part.under_floor and not _of_equivalence(one.claim):
        text += "; " + say("the effect is smaller than the noise floor of this host")
    if one.effects.strata < one.effects.all_strata:
        n, total = one.effects.strata, one.effects.all_strata
        text += "; " + say("over {n} of {all} conditions of the design", n=n, all=total)
    return text


def _reproduced(claim: Claim, part: ClaimContrast, say: Language) -> str:
    if isinstance(claim.statement, Absolute):
        return say("the data show that the mean is {level}", level=level_text(claim.statement, say))
    if isinstance(claim.statement, Extreme):
        return say("the data show that the ratio is {figure} where it is farthest from 1", figure=_figure(claim, say))
    if claim.slight is not None:
        return say("the whole interval lies below a difference of {bound}", bound=_slight(claim, say))
    if has_magnitude(claim):
        return say("the whole interval lies within the tolerance of the published figure")
    if isinstance(claim.statement, Compare) and _of_equivalence(claim):
        return say("the difference is within {margin}", margin=_margin(claim, say))
    if _of_equivalence(claim):
        return say("the widest difference, {levels}, is within {margin}", levels=part.label, margin=_margin(claim, say))
    if isinstance(claim.statement, Order):
        return say("every pair differs in this order; the closest pair is {levels}", levels=part.label)
    return say("the effect is significant, in this direction")


def _direction_only(claim: Claim, part: ClaimContrast, say: Language) -> str:
    low, high = tolerated(claim)
    found = judged_interval(claim, part)
    if found is None and part.incomparable and claim.published and claim.published.judged[0] == "difference":
        return say.note(part.incomparable)
    if found is None and part.bound:
        return say("only a bound on the magnitude is known, because a mean is only a lower bound")
    if found is None:
        return say("there is no interval for the magnitude")
    if claim.slight is not None and magnitude_differs(claim, part):
        return say("the whole interval lies beyond a difference of {bound}", bound=_slight(claim, say))
    if claim.slight is not None:
        return say("the interval reaches beyond a difference of {bound}", bound=_slight(claim, say))
    if found.high < low:
        return say("the whole interval lies below the tolerance of the published figure")
    if found.low > high:
        return say("the whole interval lies above the tolerance of the published figure")
    return say("the interval reaches beyond the tolerance of the published figure")


def _contradicted(claim: Claim, part: ClaimContrast, say: Language) -> str:
    if isinstance(claim.statement, Absolute):
        return say("the data show that the mean is not {level}", level=level_text(claim.statement, say))
    if isinstance(claim.statement, Extreme):
        return say(
            "the data show that the ratio is not {figure} where it is farthest from 1 (at {levels})",
            figure=_figure(claim, say), levels=part.label,
        )  # fmt: skip
    if _of_equivalence(claim):
        return say("{levels} differ by more than {margin}", levels=part.label, margin=_margin(claim, say))
    if isinstance(claim.statement, Order):
        return say("{levels} differ in the opposite order", levels=part.label)
    return say("the effect is significant, in the opposite direction")


def _not_distinguishable(one: Judgement, claim: Claim, part: ClaimContrast, say: Language) -> str:
    if _of_equivalence(claim):
        text = say("the data cannot show whether {levels} differ by more than {margin}",
                   levels=part.label, margin=_margin(claim, say))  # fmt: skip
    elif isinstance(claim.statement, Order):
        text = say("{levels} are not distinguishable", levels=part.label)
    elif isinstance(claim.statement, Absolute):
        text = say("the data cannot show whether the mean is {level}", level=level_text(claim.statement, say))
    elif isinstance(claim.statement, Extreme):
        figure = _figure(claim, say)
        text = say("the data cannot show whether the ratio is {figure} where it is farthest from 1", figure=figure)
    else:
        text = say("no effect is distinguishable")
    if one.corrected:
        text += " " + say("after correction for the number of claims")
    if not isinstance(claim.statement, Extreme) and claim.slight is None and magnitude_differs(claim, part):
        text += "; " + say("an effect as large as the published one would have been detected")
    return text


def contradiction_text(claim: Claim, say: Language = ENGLISH) -> str:
    """Say that the source itself contradicts the claim, with the passage and its place; empty where it does not."""
    found = claim.contradicted_by
    if found is None:
        return ""
    return say("the source contradicts itself: {passage} ({where})", passage=found.text(say.code), where=found.where)


def beside_text(claim: Claim, say: Language = ENGLISH) -> str:
    """Return what to know beside a verdict: a passage of the source against the claim, and the note; maybe empty."""
    return "; ".join(filter(None, (contradiction_text(claim, say), claim.noted(say.code))))


def level_text(statement: Absolute, say: Language) -> str:
    """Format the stated level: 'at most 3 %', 'at least 5 s' or '40 ± 4 s'."""
    low, high = statement.low, statement.high
    if math.isinf(low):
        return say("at most {figure}", figure=say.number(f"{high:g} {statement.unit}"))
    if math.isinf(high):
        return say("at least {figure}", figure=say.number(f"{low:g} {statement.unit}"))
    return say.number(f"{(low + high) / 2:g} ± {(high - low) / 2:g} {statement.unit}").replace("-", MINUS)


def _figure(claim: Claim, say: Language) -> str:
    """Format the ratio that a claim states for an extreme: '0.6 ± 0.2'."""
    assert isinstance(claim.statement, Extreme)
    return say.number(f"{claim.statement.ratio:g} ± {claim.statement.tolerance:g}")


def _of_equivalence(claim: Claim) -> bool:
    statement = claim.statement
    return isinstance(statement, Alike | Additive) or (
        isinstance(statement, Compare) and statement.direction == "alike"
    )


def _margin(claim: Claim, say: Language) -> str:
    return say.number(f"{(claim.margin or 0) * 100:g} %")


def _slight(claim: Claim, say: Language) -> str:
    return say.number(f"{(claim.slight or 0) * 100:g} %")


def _shown(measure: Measure, value: float, unit: str) -> str:
    if measure == "ratio":
        return f"×{value:g}"
    return f"{value * 100:.4g} %" if measure == "share" else f"{_signed(value)} {unit}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{value:g}".replace("-", MINUS)
