"""Add campaigns to a history, and users' remarks on its changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lastro.app.contents import report_of
from lastro.campaign.runner import utc_now
from lastro.errors import InputError
from lastro.results.history import add_points, add_remark, read_history
from lastro.results.history_points import HistoryRemark, Said


def add(file: Path, directories: Sequence[Path], label: str) -> tuple[int, int]:
    """Add all campaigns, or none after an error; return (number of new campaigns, number of known ones).

    Raises: as `app.contents.loaded`; InputError for a campaign that runs still, or is not of one known host."""
    from lastro.analysis.history import point_of

    points = []
    for directory in directories:
        report = report_of(directory)
        if not report.progress.finished:
            hint = f"finish it with `lastro resume {directory}`"
            raise InputError(f"{directory} has not ended, and a history keeps what it is given", hint)
        points.append(point_of(report, directory.resolve().name, label))
    added = add_points(file, points)
    return added, len(points) - added


def remark(file: Path, kind: Said, text: str, at: str, metric: str, where: Mapping[str, Sequence[str]]) -> None:
    """Add a user's remark on the change at the campaign `at`, or on the series of a metric with these levels.

    Raises: InputError for a point, a metric or a level that the history lacks."""
    from lastro.analysis.history import judge, named_point

    history = read_history(file)
    judge(history, metric, where, {})  # for the check of its arguments
    moment = named_point(history, at).measured_utc if at else ""
    levels = {factor: ",".join(level_names) for factor, level_names in where.items()}
    add_remark(file, HistoryRemark(kind, utc_now(), text, moment, metric, levels))
