"""Add campaigns to a history file, and users' remarks on the changes that it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lastro.app.contents import report_of
from lastro.campaign.runner import utc_now
from lastro.errors import InputError
from lastro.results.history import add_points, add_remark, read_history
from lastro.results.history_points import HistoryRemark, RemarkKind


def add(file: Path, directories: Sequence[Path], label: str) -> tuple[int, int]:
    """Add campaigns to the history in `file`; return how many were new and how many it already had.

    After an error, none is added. Raises: as `app.contents.load_data`; InputError for a campaign that is still running,
    or that did not run on a single known host."""
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


def remark(file: Path, kind: RemarkKind, text: str, at: str, metric: str, where: Mapping[str, Sequence[str]]) -> None:
    """Add a user's remark on the change at the campaign `at`, or on the series of `metric` at the levels `where`.

    Raises: InputError for a campaign, metric or level that the history does not contain."""
    from lastro.analysis.history import judge_history, named_point

    history = read_history(file)
    judge_history(history, metric, where, {})  # for the check of its arguments
    moment = named_point(history, at).measured_utc if at else ""
    levels = {factor: ",".join(level_names) for factor, level_names in where.items()}
    add_remark(file, HistoryRemark(kind, utc_now(), text, moment, metric, levels))
