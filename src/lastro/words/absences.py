"""What the cells of a table of results lack, said once beside it. In the cells, a dash stands for it. Pure."""

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
    """Return whether any treatment has a ratio; otherwise a dash in each cell would say nothing."""
    return any(cell.ratio is not None for row in report.rows for cell in row.cells)


def lacks_ratio(row: Row, cell: Cell) -> bool:
    """Return whether a measured treatment has no ratio only because its baseline has no value."""
    return cell.summary is not None and cell.ratio is None and row.baseline is not None and not row.is_baseline


def is_alone(cell: Cell) -> bool:
    """Return whether the mean of a cell, or its ratio, has no interval because one trial has no spread."""
    if cell.summary is None:
        return False
    alone = cell.summary.n == 1 and not cell.summary.bounded
    return alone or (cell.ratio is not None and cell.ratio.interval is None and min(cell.ratio.sides) == 1)


def absences(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield a sentence for each thing that some measured cell of a table lacks."""
    cells = [(row, cell) for row in report.rows for cell in row.cells]
    if any(lacks_ratio(row, cell) for row, cell in cells):
        yield say(_NO_RATIO if has_ratios(report) else _NO_RATIOS)
    if any(is_alone(cell) for _, cell in cells):
        yield say(ALONE)
