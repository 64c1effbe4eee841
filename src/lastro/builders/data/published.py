"""The tables and figures of a source as JSON-serializable data: `as_published` in `lastro results --json`.

{tables, figures}; null for a study without claims, or whose claims file has no tables and no figures.

tables   [{id, says, where, note, at, columns [{metric, unit, heading, at}], rows [{at, cells}]}]
         id, says, where, note: of the claims file; at {factor: [level]}: the levels of a table, a column or a row
         cells [{printed, value, here}], one for each column; value is null where what is printed is not a number
         here {mean {value, interval {low, high, confidence}, n, pairing, absent_because}, strata, all_strata, bounded,
         why [text], stand_in [{published, measured}]}: the mean of this campaign over strata of all_strata conditions;
         bounded: the mean contains a value of which only a bound is known; mean is null where why says what is
         missing; stand_in lists published levels with the levels that were measured in their place
figures  bars:  [{id, says, where, note, at, groups [{factor: [level]}], bars [{factor: [level]}], panels}]
         panels [{metric, bars [{group, bar, here, mark}]}]; group and bar are indices in groups and bars, from 0;
         bar is null for a mean over all that the bars distinguish
         mark {claim (id), value, bound, relative, printed}: where the published figure would lie here, in the unit of
         the metric; relative: it follows from a ratio or a difference, and from a mean of this campaign; bound is
         ">=" or "<=" where the source states a bound, else null; null without a published figure
         lines: [{id, says, where, note, at, series, line, panels [{factor: [level]}], lines [{factor: [level]}],
         marks [mark]}]: the series themselves are in the attempts of the campaign"""

from __future__ import annotations

from typing import Any

from lastro.analysis.as_published import MatchedBars, MatchedLines, MatchedPublication, MatchedTable, PublishedPanel
from lastro.analysis.claims.claim import PublishedMark
from lastro.builders.data.encoder import BOUNDS, Forms, as_object, encode, pick
from lastro.stats.intervals import Estimate
from lastro.study.printed import PrintedColumn


def _mark(mark: PublishedMark) -> dict[str, Any]:
    printed = mark.claim.published.printed if mark.claim.published else None
    named = {"claim": mark.claim.id, "bound": BOUNDS[mark.bound], "printed": printed or None}
    return pick(mark, "value relative") | named


def _table(matched: MatchedTable) -> dict[str, Any]:
    rows = [
        {
            "at": row.at,
            "cells": [
                {"printed": cell.text, "value": cell.value, "here": here}
                for cell, here in zip(row.cells, means, strict=True)
            ],
        }
        for row, means in zip(matched.table.rows, matched.rows, strict=True)
    ]
    return pick(matched.table, f"{_PASSAGE} at columns") | {"rows": rows}


_PASSAGE = "id says where note"
_FORMS: Forms = {
    MatchedTable: _table,
    MatchedBars: lambda bars: (
        pick(bars.figure.passage, _PASSAGE) | pick(bars.figure, "at groups bars") | pick(bars, "panels")
    ),
    MatchedLines: lambda lines: (
        pick(lines.figure.passage, _PASSAGE) | pick(lines.figure, "at series line panels lines") | pick(lines, "marks")
    ),
    PublishedPanel: lambda panel: as_object(panel) | {"metric": panel.metric.name},
    PublishedMark: _mark,
    PrintedColumn: lambda column: pick(column, "metric unit heading at"),
    Estimate: lambda mean: pick(mean, "value interval n pairing absent_because"),
}


def published_document(published: MatchedPublication) -> dict[str, Any]:
    """Return the tables and figures as JSON-serializable data, with the keys of this module's docstring."""
    return encode(as_object(published), _FORMS)
