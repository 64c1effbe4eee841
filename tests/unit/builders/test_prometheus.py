"""The labels and alarms of exported series: what stays when campaigns are added, and what equal labels share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from lastro.analysis.history import HistoryReport, judge_history
from lastro.builders.data.prometheus import openmetrics, prometheus
from lastro.results.history_points import History, HistoryPoint, StoredSummary

from ...support import exposition
from ...support.campaigns import METRICS

ADDITIONS = {  # (day, constants) in the order in which campaigns are added; after each, the labels of all series
    "an older campaign is added last": (
        [(2, {"tcp_s": "15"}), (3, {"tcp_s": "30"}), (1, {"tcp_s": "45"}), (4, {"tcp_s": "15"})],
        [{""}, {"", "tcp_s=30"}, {"", "tcp_s=30", "tcp_s=45"}, {"", "tcp_s=30", "tcp_s=45"}],
    ),
    "another series is the first one with a new constant": (
        [
            (1, {"udp_s": "5"}),
            (2, {"udp_s": "9"}),
            (3, {"udp_s": "5", "tcp_s": "15"}),
            (4, {"udp_s": "9", "tcp_s": "30"}),
            (5, {"udp_s": "5", "tcp_s": "45"}),
        ],
        [{""}, {"", "udp_s=9"}, {"", "udp_s=9"}, {"", "udp_s=9"}, {"", "udp_s=9", "tcp_s=45"}],
    ),
    "the newest campaign has a new constant, and the series another value": (
        [(1, {"tcp_s": "15"}), (2, {}), (3, {"tcp_s": "30"})],
        [{""}, {""}, {""}],
    ),
}


def point(day: int, settings: Mapping[str, str], mean: float = 100.0) -> HistoryPoint:
    summary = StoredSummary({"platform": "runc"}, METRICS[0].name, 5, mean)
    return HistoryPoint(
        f"c{day}", f"2026-10-{day:02d}T10:00:00Z", "", "small", "chain", settings, "edge-7", {}, METRICS[:1], (summary,)
    )


def report(points: Sequence[HistoryPoint]) -> HistoryReport:
    return judge_history(History(tuple(points)), "", {}, {})


@pytest.mark.parametrize("case", ADDITIONS)
def test_the_labels_of_a_series_stay_as_campaigns_are_added(case: str) -> None:
    added, labels = ADDITIONS[case]
    points = [point(day, settings) for day, settings in added]
    for n, expected in enumerate(labels, 1):
        samples = exposition.read(prometheus(report(points[:n])), openmetrics=False)
        means = [each.labels.get("constants", "") for each in samples if each.name == "lastro_mean"]
        assert sorted(means) == sorted(expected), f"after {n} campaigns"


@pytest.mark.parametrize("text", [prometheus, openmetrics])
def test_series_with_the_same_labels_are_exported_with_the_alarms_of_all(text: Callable[[HistoryReport], str]) -> None:
    """A campaign without `tcp_s` lies between campaigns that differ in it."""
    constants: list[dict[str, str]] = [{"tcp_s": "15"}, {}, *([{"tcp_s": "20"}] * 14), {"tcp_s": "15"}]
    wave = [0.3, -0.2, 0.1, -0.3, 0.2]
    points = [
        point(day, settings, (100.0 if day <= 8 else 80.0) + wave[day % 5]) for day, settings in enumerate(constants, 1)
    ]
    found = report(points)
    assert [(len(series.points), len(series.alarms)) for series in found.series] == [(16, 1), (1, 0)]
    samples = exposition.read(text(found), openmetrics=text is openmetrics)
    (alarms,) = [each for each in samples if each.name == "lastro_unacknowledged_changes"]
    assert alarms.value == 1
