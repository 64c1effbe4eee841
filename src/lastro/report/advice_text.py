"""Advice on the number of replicates as plain text, and as a JSON document.

    format      "lastro-advice/1"
    directory, precision, confidence, of ("ratio to the baseline" or "mean"), replicates (of this campaign), block_s
    blocks      {likely, sure}: enough for every metric whose spread is known, in one of two campaigns and in four of
                five
    duration_s  {likely, sure}: the duration of these blocks
    metrics     [{metric, worst, median, absent_because}]; worst and median {treatment, n, half_width, likely, sure}
    splits      [{metric, setting, samples, inside, length_s, best_s}]

A value that does not exist is null."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from lastro.analysis.advice import Advice, BlocksNeeded, MetricAdvice, Split
from lastro.plain import aligned, json_text, plain
from lastro.report.encoder import Forms, encode, only, own
from lastro.report.numbers import percent
from lastro.results.samples import Metric
from lastro.units import human_duration, significant

_MUCH = 1.5  # keep the length in use if the best length is within this factor of it
_FORMS: Forms = {
    Metric: attrgetter("name"),
    MetricAdvice: lambda metric: own(metric, middle="median"),
    BlocksNeeded: lambda need: own(need, now="half_width"),
}


def advice_text(advice: Advice) -> str:
    what = "the ratio to the baseline" if advice.of_ratio else "the mean"
    lines = [advice.title]
    if advice.block_s is not None:
        lines.append(f"{advice.replicates} blocks planned; a block takes {human_duration(advice.block_s)} here")
    lines += [
        "",
        f"Blocks for a {advice.confidence * 100:.4g}% interval of ±{percent(advice.precision)} around {what}:",
        "",
        *_table(advice),
        "",
        *_wrapped(
            "Blocks needed: enough in one campaign of two / in four of five, if the spread is that of this campaign. "
            "Half widths are those of this campaign. Both are for one interval alone: those of a report hold together, "
            "and are wider where it compares many treatments. The number of blocks uses the spread of each treatment, "
            "moved towards that of all treatments as far as chance explains the difference, so that the worst of many "
            "is not worst by chance."
        ),
    ]
    for paragraph in (*_conclusion(advice), *map(_split_text, advice.splits)):
        lines += ["", *_wrapped(paragraph)]
    return "\n".join(plain(line) for line in lines)


def _table(advice: Advice) -> list[str]:
    heads = ("metric", "treatment", "n", "half width", "blocks needed", "time")
    return aligned([heads, *(row for metric in advice.metrics for row in _rows(advice, metric))])


def _rows(advice: Advice, metric: MetricAdvice) -> Iterator[tuple[str, ...]]:
    if metric.worst is None or metric.middle is None:
        yield (metric.metric.name, str(metric.absent_because), "", "", "", "")
        return
    shown = [(metric.metric.name, "worst: ", metric.worst), ("", "median: ", metric.middle)]
    for name, which, need in shown if metric.worst != metric.middle else [(metric.metric.name, "", metric.worst)]:
        seconds = advice.duration_s(need.sure)
        yield (
            name, which + need.treatment, str(need.n), "none" if math.isinf(need.now) else f"±{percent(need.now)}",
            f"{_blocks(need.likely)} / {_blocks(need.sure)}", human_duration(seconds) if seconds is not None else "",
        )  # fmt: skip


def _blocks(n: int | None) -> str:
    return "over 1,000,000" if n is None else f"{n:,}"


def _conclusion(advice: Advice) -> Iterator[str]:
    sure = advice.sure_blocks
    if sure is None:
        yield "No number of blocks can be recommended: see the table."
        return
    seconds = advice.duration_s(sure)
    time = f", about {human_duration(seconds)}" if seconds is not None else ""
    but = f" except {', '.join(advice.unknown)}" if advice.unknown else ""
    yield f"For every treatment and metric{but}: replicates = {sure}{time}."


def _split_text(split: Split) -> str:
    share = f"{split.inside:.0%}"
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
        **only(advice, "directory precision confidence"),
        "of": "ratio to the baseline" if advice.of_ratio else "mean",
        **only(advice, "replicates block_s"),
        "blocks": {"likely": likely, "sure": sure},
        "duration_s": {"likely": advice.duration_s(likely), "sure": advice.duration_s(sure)},
        **only(advice, "metrics splits"),
    }
    return encode(found, _FORMS)
