"""A sentinel by which nothing can be divided."""

from __future__ import annotations

from lastro.analysis.history import judge_history
from lastro.results.history_points import History, HistoryPoint, StoredSummary

from ...support.campaigns import METRICS


def test_a_series_is_judged_without_a_sentinel_whose_values_are_all_zero() -> None:
    """As the frame loss of `native` is in many studies."""
    summaries = tuple(
        StoredSummary({"platform": platform}, METRICS[1].name, 5, mean)
        for platform, mean in (("native", 0.0), ("runc", 0.1))
    )
    points = tuple(
        HistoryPoint(f"c{day}", f"2026-10-0{day}T10:00:00Z", "", "small", "chain", {}, "edge-7", {}, METRICS, summaries)
        for day in range(1, 8)
    )
    found = judge_history(History(points), "", {}, {"platform": ["native"]}).series
    assert [(series.levels["platform"], series.judged, series.sentinel) for series in found] == [
        ("native", (0.0,) * 7, None), ("runc", (0.1,) * 7, None),
    ]  # fmt: skip
