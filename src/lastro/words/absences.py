"""What the cells of a table of results lack, said once beside it. In the cells, a dash stands for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults, Cell, Row
from lastro.stats.notes import N_

DASH = "—"
NOT_RUN = N_("—: not run yet.")
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


def absences(report: CampaignResults) -> Iterator[str]:
    """Yield a sentence for each thing that some cell of the table in the terminal lacks, in English."""
    cells = [(row, cell) for row in report.rows for cell in row.cells]
    yet = "" if report.progress.finished else " yet"
    if any(row.status == "pending" for row in report.rows):
        yield NOT_RUN
    if any(lacks_ratio(row, cell) for row, cell in cells):
        if has_ratios(report):
            yield f"{DASH} below a mean: no ratio{yet}, because the baseline has no value."
        else:
            yield f"No ratios{yet}: no baseline has a value."
    if any(is_alone(cell) for _, cell in cells):
        yield ALONE
