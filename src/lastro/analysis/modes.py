"""The second mode of a metric: in which treatments its trials are."""

from __future__ import annotations

from lastro.analysis.campaign import MetricView
from lastro.analysis.model import TwoModes


def two_modes(view: MetricView) -> TwoModes | None:
    """Return what is known of the second mode of a metric; None without one."""
    mode = view.second_mode
    if mode is None:
        return None
    exact = [(row, cell) for row, cell in view if cell.points and not cell.bounded]
    counts = [(row.treatment, len(mode.trials.get(row.treatment.index, ())), len(cell.points)) for row, cell in exact]
    return TwoModes(
        n=mode.n,
        trials=sum(len(cell.points) for _, cell in exact),
        distance=mode.distance,
        relative=mode.relative,
        sds=mode.sds,
        counts=tuple(sorted(counts, key=lambda each: -each[1] / each[2])),
    )
