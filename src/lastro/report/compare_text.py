"""A comparison of two campaigns as plain text for a terminal, and its parts that Markdown has, too."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from lastro.analysis.comparison import Compared, Comparison
from lastro.plain import plain
from lastro.report.compare_words import (
    between_notes,
    changed_host_text,
    difference_lines,
    label,
    not_compared,
    notes,
    why_only,
)
from lastro.report.numbers import VERDICT_MARKS, count, percent, ratio_text
from lastro.report.remark_words import signs_of
from lastro.stats.gate_power import POWER
from lastro.units import significant

_MOST_TREATMENTS = 4  # for which one reason is given, by name
HEADS = ("metric", "treatment", "A", "B", "unit", "B / A", "p", "p (Holm)", "")


def terminal_lines(comparison: Comparison, width: int, *, everything: bool = False) -> list[str]:
    """Return the verdict, then the cells that differ, worst first, then the notes.

    With `everything`, the table has all other tested cells, too. If a row does not fit, metric and treatment are on a
    separate line."""
    tested, alike = tested_cells(comparison)
    rows = [row_of(cell) for cell in (tested + alike if everything else tested)]
    lines = [*_wrapped(headline(comparison), width), "", comparison.study.title or comparison.study.name]
    for side in sides_of(comparison):
        lines += _wrapped(side, width)
    lines += ["", *_table(rows, width), ""] if rows else [""]
    if alike and not everything:
        lines += [f"… and {len(alike)} that are not distinguishable; --all shows them" if rows else
                  f"{len(alike)} are not distinguishable; --all shows them", ""]  # fmt: skip
    numbered = [f"{number}. {note}" for number, note in enumerate(notes_on(comparison), 1)]
    lines += [line for note in numbered for line in _wrapped(note, width)] + [""] * bool(numbered)
    for paragraph in below_table(comparison):
        lines += _wrapped(paragraph, width)
    return lines


def tested_cells(comparison: Comparison) -> tuple[list[Compared], list[Compared]]:
    """Return the cells that differ or have regressed, and those that are not distinguishable; worst first."""
    tested = [cell for cell in comparison.cells if cell.test is not None]
    alike = [cell for cell in tested if cell.verdict == "same" and not cell.regressed]
    hidden = {id(cell) for cell in alike}
    return [cell for cell in tested if id(cell) not in hidden], alike


def headline(comparison: Comparison) -> str:
    """Return the verdict in one line: that of the gate, or how many ratios differ."""
    if changed := changed_host_text(comparison):
        return f"FAIL: {changed}; {_of_values(comparison)}"
    return _of_values(comparison)


def _of_values(comparison: Comparison) -> str:
    if comparison.margin is None:
        return _tally(comparison)
    margin = f"{comparison.margin * 100:g} %"
    if found := len(comparison.regressions):
        # No figure: that of the worst regression, selected after the fact, would be too large, its interval too narrow.
        names = dict.fromkeys(cell.metric.name for cell in comparison.regressions)
        return f"FAIL: {count(found, 'regression')} of more than {margin} ({', '.join(names)})"
    if open_ := len(comparison.undecided):
        return f"PASS, undecided: no regression of more than {margin} was found; {count(open_, 'cell')} may hide one"
    judged = {cell.metric for cell in comparison.cells if cell.judged}
    only = " for these two campaigns only" if judged & set(comparison.without_spread) else ""
    return f"PASS, shown{only}: no regression of more than {margin} in {count(comparison.n_judged, 'cell')}"


def _tally(comparison: Comparison) -> str:
    kinds = [cell.verdict for cell in comparison.cells if cell.verdict not in ("", "same")]
    if not comparison.n_tests:
        return "Nothing could be compared"
    if not kinds:
        return f"No difference is distinguishable in {count(comparison.n_tests, 'test')}"
    parts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    return f"{len(kinds)} of {count(comparison.n_tests, 'ratio')} differ: {', '.join(parts)}"


def verdict_text(cell: Compared) -> str:
    if cell.regressed:
        return "✕ REGRESSION"
    words = {"same": "not distinguishable"}
    return f"{VERDICT_MARKS[cell.verdict]} {words.get(cell.verdict, cell.verdict)}".strip()


def p_text(p: float | None) -> str:
    """Format a p-value as '0.034' or '<0.0001'; a dash for None."""
    if p is None:
        return "—"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def conclusion(comparison: Comparison) -> str:
    """Return the conclusion of the gate, its power and, on a pass, how large a regression it may have missed.

    Empty without a gate."""
    if comparison.margin is None:
        return ""
    found, margin = len(comparison.regressions), f"{comparison.margin * 100:g} %"
    tests = count(comparison.n_judged, "test")
    if found:
        how = f"{tests}; at most one gate in {1 / comparison.alpha:.3g} fails by chance"
        found_text = f"Gate: {count(found, 'regression')} of more than {margin} ({how})."
    else:
        how = f"{tests}; smaller or noisier regressions may have been missed" if comparison.n_judged else tests
        found_text = f"Gate: no regression of more than {margin} was found ({how}).{_missed(comparison)}"
    unjudged = len(comparison.not_judged)
    not_judged = f" Not judged: {count(unjudged, 'cell')}, for the reasons above." if unjudged else ""
    return f"{found_text}{_power(comparison)}{not_judged}"


def _power(comparison: Comparison) -> str:
    """Return how large a loss this gate finds: in the noisiest cell, and in the median one."""
    if not (cells := comparison.sensitivity):
        return ""
    noisiest, middle = cells[-1], cells[(len(cells) - 1) // 2]
    several = len(cells) > 1
    where = f" ({noisiest.metric.name} of {label(noisiest)})" if several else ""
    power = f"{percent(POWER)} power"
    if noisiest.least_found == math.inf:
        start = f" In {'the noisiest' if several else 'its'} cell{where}, it could have missed a loss of any size"
    else:
        loss = f"a loss of {percent(noisiest.least_found)} or more"
        start = f" With {power}, it could have seen {loss} in {'any one' if several else 'its'} cell{where}"
    if not several or middle.least_found == math.inf:
        return f"{start}."
    more = f"with {power}, " if noisiest.least_found == math.inf else ""
    return f"{start}, and {more}one of {percent(middle.least_found)} in the median cell."


def _missed(comparison: Comparison) -> str:
    if comparison.most_allowed is None:
        return ""
    loss, cell = comparison.most_allowed
    size = f"of up to {percent(loss)}" if loss < math.inf else "of any size"
    return f" The intervals allow one {size}: {cell.metric.name} of {label(cell)}."


def row_of(cell: Compared) -> tuple[str, ...]:
    means = (_mean(cell.a, cell.marks[0]), _mean(cell.b, cell.marks[1]))
    ratio = ratio_text(cell.ratio) if cell.ratio is not None else ""
    p = cell.test.p if cell.test is not None else None
    return (
        cell.metric.name, label(cell), *means, cell.metric.unit, ratio, p_text(p), p_text(cell.p_adjusted),
        verdict_text(cell),
    )  # fmt: skip


def _mean(values: Sequence[float], kinds: Iterable[str]) -> str:
    return f"{significant(sum(values) / len(values))} (n = {len(values)}){signs_of(sorted(kinds))}"


def _table(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    from lastro.console import grid

    rows = [tuple(map(plain, row)) for row in rows]
    head, *table = grid([HEADS, *rows])
    if (needed := max(line.cell_len for line in table)) <= width:
        return [head.plain, "─" * needed, *(line.plain for line in table)]
    lines = []
    for row in rows:
        lines.append(f"{row[8] or ' '}  {row[0]}  {row[1]}")
        lines.append(f"    {row[5]}  p {row[6]}, Holm {row[7]};  A {row[2]}, B {row[3]} {row[4]}".rstrip())
    return lines


def sides_of(comparison: Comparison) -> Iterator[str]:
    yield from (f"{side}: {report.directory}" for side, report in comparison.sides)


def notes_on(comparison: Comparison) -> list[str]:
    """Return what a reader must know beside the table, each once."""
    return list(dict.fromkeys(_notes(comparison)))


def _notes(comparison: Comparison) -> Iterator[str]:
    yield from (f"differs: {line}" for line in difference_lines(comparison))
    yield from notes(comparison)
    if comparison.n_tests:
        yield from between_notes(comparison)


def below_table(comparison: Comparison) -> Iterator[str]:
    if comparison.n_tests:
        level = f"{comparison.confidence * 100:.4g}%"
        yield (
            f"B / A with its {level} interval (Fieller, unpaired); p for no difference (Welch), "
            f"raw and corrected by Holm for {count(comparison.n_tests, 'test')}; verdicts by the corrected p."
        )
    else:
        yield "Nothing could be compared."
    for side in comparison.one_sided:
        yield f"only in {side.only_in}: {count(len(side.levels), 'treatment')}: {why_only(side)}"
    yield from _not_compared(comparison)
    if sentence := conclusion(comparison):
        yield sentence


def _not_compared(comparison: Comparison) -> Iterator[str]:
    """Yield each reason once, with the metrics and the treatments to which it applies."""
    metrics: dict[tuple[str, str], list[str]] = {}
    for cell in comparison.cells:
        if why := not_compared(cell):
            metrics.setdefault((why, label(cell)), []).append(cell.metric.name)
    treatments: dict[tuple[str, str], list[str]] = {}
    for (why, treatment), names in metrics.items():
        treatments.setdefault((why, ", ".join(names)), []).append(treatment)
    for (why, listed), found in treatments.items():
        more = len(found) - _MOST_TREATMENTS
        where = "; ".join(found[:_MOST_TREATMENTS]) + (f"; and {count(more, 'more treatment')}" if more > 0 else "")
        yield f"not compared: {where} ({listed}): {why}"


def _wrapped(paragraph: str, width: int) -> list[str]:
    return textwrap.wrap(plain(paragraph), width, subsequent_indent="    ") or [""]
