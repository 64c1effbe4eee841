"""Advice on the number of replicates as plain text, and as a JSON document.

    format      "lastro-advice/1"
    directory, precision, confidence, of ("ratio to the baseline" or "mean"), replicates (of this campaign), block_s
    guest       the virtual machine that was the host {title, emulated, partly}, as in `lastro results --json`
    assurance   {likely, sure}: the probability that a number of blocks is enough, as stated
    blocks      {likely, sure}: enough for each metric whose spread is known, for all of its intervals together
    duration_s  {likely, sure}: the duration of these blocks
    metrics     [{metric, blocks, absent_because}]; blocks {intervals, n, half_width, likely, sure, low, high, widest},
                likely and sure {blocks, assurance, reached}
    splits      [{metric, setting, samples, inside, length_s, best_s}]

A value that does not exist is null."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from lastro.analysis.advice import LIKELY, PROBABLE, SURE, VAGUE, Advice, BlocksAdvice, MetricAdvice, Split
from lastro.plain import aligned, json_text, plain
from lastro.report.encoder import Forms, encode, only, own
from lastro.report.language import ENGLISH
from lastro.report.numbers import percent
from lastro.report.words import of_guest, place_of
from lastro.results.samples import Metric
from lastro.units import human_duration, significant

_MUCH = 1.5  # keep the length in use if the best length is within this factor of it
_FORMS: Forms = {
    Metric: attrgetter("name"),
    BlocksAdvice: lambda blocks: own(blocks, now="half_width"),
}


def advice_text(advice: Advice) -> str:
    what = "ratios to the baseline" if advice.of_ratio else "means"
    where = place_of([advice.guest], ENGLISH) or "here"
    lines = [advice.title, *(line for text in of_guest(advice.guest, ENGLISH) for line in _wrapped(text))]
    if advice.block_s is not None:
        lines.append(f"{advice.replicates} blocks planned; a block takes {human_duration(advice.block_s)} {where}")
    lines += [
        "",
        f"Blocks for {_whole(advice.confidence)} intervals of at most ±{percent(advice.precision)} around the {what}:",
        "",
        *_table(advice),
    ]
    for paragraph in (_legend(advice, what), *_conclusion(advice), *map(_split_text, advice.splits)):
        lines += ["", *_wrapped(paragraph)]
    return "\n".join(plain(line) for line in lines)


def _legend(advice: Advice, what: str) -> str:
    return (
        f"Blocks needed: with the first number, all {what} of a metric are this precise in the report with a "
        f"probability of {_whole(LIKELY)}; with the second, of {_whole(SURE)}. Both allow for chance in this "
        "campaign and in the next, and for treatments that differ in noise by an unknown factor. On average: the "
        f"number that the true noise requires lies within these limits with a probability of {_whole(PROBABLE)}. Half "
        "width: the largest half width in this campaign."
    )


def _whole(share: float) -> str:
    """Return 0.95 as '95 %', which no line break divides."""
    return f"{100 * share:.4g}\xa0%"


def _table(advice: Advice) -> list[str]:
    of = "ratios" if advice.of_ratio else "means"
    heads = ("metric", of, "n", "half width", "blocks needed", "on average", "time", "decided by")
    return aligned([heads, *(_row(advice, metric) for metric in advice.metrics)])


def _row(advice: Advice, metric: MetricAdvice) -> tuple[str, ...]:
    blocks = metric.blocks
    if blocks is None:
        return (metric.metric.name, *[""] * 6, str(metric.absent_because))
    seconds = advice.duration_s(blocks.sure.blocks)
    return (
        metric.metric.name,
        str(blocks.intervals),
        str(blocks.n),
        "none" if math.isinf(blocks.now) else f"±{percent(blocks.now)}",
        f"{_blocks(blocks.likely.blocks)} / {_blocks(blocks.sure.blocks)}",
        f"{_blocks(blocks.low)} to {_blocks(blocks.high)}",
        human_duration(seconds) if seconds is not None else "",
        blocks.widest,
    )


def _blocks(n: int | None) -> str:
    return "over 1,000,000" if n is None else f"{n:,}"


def _conclusion(advice: Advice) -> Iterator[str]:
    sure = advice.sure_blocks
    if advice.vague:
        yield (
            f"This campaign is too small to know the number for {', '.join(advice.vague)}: what the noise requires is "
            f"uncertain by a factor of more than {VAGUE:g}. The second number allows for that, so it may be far too "
            "large. Repeat the advice with more blocks."
        )
    if sure is None:
        yield "No number of blocks can be recommended: see the table."
        return
    seconds = advice.duration_s(sure)
    time = f", about {human_duration(seconds)}" if seconds is not None else ""
    but = f" except {', '.join(advice.unknown)}" if advice.unknown else ""
    yield (
        f"For each metric{but}, with a probability of {_whole(SURE)} each: replicates = {sure}{time}."
        f"{_without_the_worst(advice)}"
    )


def _without_the_worst(advice: Advice) -> str:
    """Return what the others need, if one metric decides."""
    *others, worst = sorted(
        (metric.blocks.sure.blocks or 0, metric.metric.name) for metric in advice.metrics if metric.blocks
    )
    return f" Without {worst[1]}, {others[-1][0]} are enough." if others and others[-1][0] < worst[0] else ""


def _split_text(split: Split) -> str:
    share = _whole(round(split.inside, 2))
    start = (
        f"{split.metric.name}: {share} of the variance between trials comes from within them "
        f"(about {split.samples:.0f} samples each)"
    )
    if split.best_s is None or split.length_s is None:
        return f"{start}; more samples in a trial can reduce only that part."
    used, best = f"{significant(split.length_s, 3)} s", f"{significant(split.best_s, 3)} s"
    if split.best_s > _MUCH * split.length_s:
        return f"{start}. Longer trials are better: {split.setting} = {best}, not {used} (Kalibera and Jones)."
    if split.best_s * _MUCH < split.length_s:
        return f"{start}. More blocks are better, with shorter trials: {split.setting} = {best}, not {used}."
    return f"{start}. More blocks are better; {split.setting} = {used} is about right."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100)


def document_text(advice: Advice) -> str:
    return json_text(document(advice))


def document(advice: Advice) -> dict[str, Any]:
    """Return the advice as JSON-serializable data, with the keys of this module's docstring."""
    likely, sure = advice.likely_blocks, advice.sure_blocks
    found = {
        "format": "lastro-advice/1",
        **only(advice, "directory precision confidence guest"),
        "of": "ratio to the baseline" if advice.of_ratio else "mean",
        **only(advice, "replicates block_s"),
        "assurance": {"likely": LIKELY, "sure": SURE},
        "blocks": {"likely": likely, "sure": sure},
        "duration_s": {"likely": advice.duration_s(likely), "sure": advice.duration_s(sure)},
        **only(advice, "metrics splits"),
    }
    return encode(found, _FORMS)
