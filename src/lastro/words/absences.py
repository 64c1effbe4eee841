"""Sentences on what the cells of a table of results lack; the cells themselves have only a dash. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults, Cell, Row
from lastro.stats.notes import N_
from lastro.words.language import Language

DASH = "—"
NOT_RUN = N_("—: not run yet.")
_NO_RATIO = N_("— below a mean: no ratio, because the baseline has no value.")
_NO_RATIOS = N_("No ratios: no baseline has a value.")
ALONE = N_("Means and ratios of one trial (n = 1) have no interval.")


def has_ratios(report: CampaignResults) -> bool:
    """Return whether any treatment has a ratio. If none has, no dashes are needed for missing ratios."""
    return any(cell.ratio is not None for row in report.rows for cell in row.cells)


def lacks_ratio(row: Row, cell: Cell) -> bool:
    """Return whether a measured treatment that is compared with a baseline has no ratio: the baseline has no value."""
    return cell.summary is not None and cell.ratio is None and row.baseline is not None and not row.is_baseline


def lacks_spread(cell: Cell) -> bool:
    """Return whether a mean, or its ratio, has no interval because it is of a single trial."""
    if cell.summary is None:
        return False
    if cell.summary.n == 1 and not cell.summary.bounded:
        return True
    return cell.ratio is not None and cell.ratio.interval is None and min(cell.ratio.sides) == 1


def absences(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield the sentences on what cells lack.

    There is one if ratios are missing because a baseline has no value, and one if intervals are missing because n is
    1."""
    cells = [(row, cell) for row in report.rows for cell in row.cells]
    if any(lacks_ratio(row, cell) for row, cell in cells):
        yield say(_NO_RATIO if has_ratios(report) else _NO_RATIOS)
    if any(lacks_spread(cell) for _, cell in cells):
        yield say(ALONE)
