"""The pages of `lastro serve`: the campaigns of a directory, each read again when its files have changed.

Trials may be running, so reading must take little CPU time: at most the fraction BUSY of one CPU for each campaign. The
longer a reading takes, the longer is the pause before the next one."""

from __future__ import annotations

import os
import shlex
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from lastro.app.status import facts_of
from lastro.builders.status import (
    ListedCampaign,
    campaigns_of,
    links,
    list_blocks,
    problem_blocks,
    status_document,
)
from lastro.campaign import suite as suites
from lastro.document import Document, Title
from lastro.errors import LastroError
from lastro.files import has_plain, read_regular
from lastro.host.files import start_time
from lastro.plain import without_controls
from lastro.render.html import html
from lastro.results.database import DB_NAME, holds_campaign
from lastro.words.language import Language

BUSY = 0.002  # of one CPU, in the mean over time, for each campaign that is watched
REPORT = "report.html"
_MOST_REPORT_BYTES = 64 << 20
_WATCHED = (DB_NAME, f"{DB_NAME}-wal", suites.INDEX, REPORT)
_Stamp: TypeAlias = tuple[tuple[str, int, int], ...]  # name, time and size of each file


@dataclass(frozen=True, slots=True)
class CampaignReading:
    """The status of a campaign or a suite (`facts`), or the error that prevented reading it (`problem`).

    `stamp` is that of its files at the reading. It is not read again before `again_s` on the monotonic clock. `runners`
    are the PIDs of the processes that were running it."""

    stamp: _Stamp
    facts: dict[str, Any] | None
    problem: LastroError | None
    again_s: float
    runners: tuple[int, ...]

    @property
    def studies(self) -> tuple[str, ...]:
        """The names of the studies of a suite; empty for a campaign."""
        return tuple(member["suite_study"] for member in (self.facts or {}).get("studies", ()))


class Campaigns:
    """The campaigns and suites in a directory; if the directory itself is a campaign or a suite, only this one.

    Paths are built only from names that exist in the directory, and no symbolic link is followed."""

    def __init__(self, directory: Path, say: Language) -> None:
        self.directory, self._say = directory.resolve(), say
        self._known: dict[Path, CampaignReading] = {}
        self._turn = threading.Lock()

    def places(self) -> dict[str, Path]:
        """Return {name: directory} of the campaigns and suites, the most recently begun first."""
        if _holds_campaign_or_suite(self.directory):
            return {self.directory.name: self.directory}
        try:
            with os.scandir(self.directory) as entries:
                directories = [Path(entry.path) for entry in entries if _holds_campaign_or_suite(Path(entry.path))]
        except OSError:
            return {}
        return {place.name: place for place in sorted(directories, key=_begun_ns, reverse=True)}

    def find(self, path: str) -> Path | None:
        """Return the directory of 'NAME', or of 'SUITE/STUDY'; None if there is no such campaign or suite."""
        name, _, study = path.partition("/")
        place = self.places().get(name)
        if place is None or not study:
            return place
        return place / study if study in self._read(place).studies and _holds_campaign_or_suite(place / study) else None

    def readings(self, place: Path | None) -> list[tuple[str, CampaignReading]]:
        """Return (name, reading) of the campaign or suite in `place`, or of all if it is None.

        A reading is renewed if the files have changed."""
        places = {place.name: place} if place else self.places()
        return [(name, self._read(directory)) for name, directory in places.items()]

    def page(self, place: Path | None) -> str:
        """Return the HTML page of the campaign or suite in `place`, or the list of all if it is None."""
        document = self._list_page() if place is None else self._campaign_page(place)
        return without_controls(html(document, self._say, str(place or self.directory), served=True))

    def _list_page(self) -> Document:
        listed = [
            ListedCampaign(
                name, f"/c/{_address(name)}/", reading.facts, reading.problem.message if reading.problem else ""
            )
            for name, reading in self.readings(None)
        ]
        return list_blocks(str(self.directory), listed, self._say)

    def _campaign_page(self, place: Path) -> Document:
        reading = self._read(place)
        if reading.facts is None:
            problem = reading.problem
            return problem_blocks(place.name, problem.message if problem else "", problem.hint if problem else None)
        studies = [(name, f"{_address(name)}/") for name in reading.studies if _holds_campaign_or_suite(place / name)]
        title, *blocks = status_document(reading.facts, self._say)
        assert isinstance(title, Title)
        return [replace(title, kicker=place.name), links(_has_report(place), studies, self._say), *blocks]

    def report(self, place: Path) -> bytes | None:
        """Return the unchanged report file of a campaign or a suite; None if none exists or it cannot be read."""
        try:
            return read_regular(place / REPORT, _MOST_REPORT_BYTES, base=place)
        except (OSError, ValueError):
            return None

    def _read(self, place: Path) -> CampaignReading:
        """Return a new reading of `place` if its files have changed and the pause is over, otherwise the last one."""
        with self._turn:
            last_reading, stamp = self._known.get(place), _stamp(place)
            if last_reading and (time.monotonic() < last_reading.again_s or not _has_changed(last_reading, stamp)):
                return last_reading
            began_s, facts, problem = time.thread_time(), None, None
            try:
                facts = facts_of(place)
            except LastroError as error:
                problem = error
            except Exception as error:  # a defect must not hide the other campaigns
                what = f"{place} cannot be read: {type(error).__name__}: {error}"
                problem = LastroError(what, f"`lastro status {shlex.quote(str(place))}` says more")
            took_s = time.thread_time() - began_s if last_reading else 0.0  # the first one loads modules
            again_s = time.monotonic() + took_s / BUSY
            running = [status["running"] for status in campaigns_of(facts or {}) if status.get("running")]
            runners = tuple(process["pid"] for process in running)
            self._known[place] = CampaignReading(stamp, facts, problem, again_s, runners)
            return self._known[place]


def _address(name: str) -> str:
    return quote(os.fsencode(name))


def _has_report(place: Path) -> bool:
    with suppress(OSError):
        return has_plain(place / REPORT)
    return False


def _holds_campaign_or_suite(directory: Path) -> bool:
    with suppress(OSError):
        return not directory.is_symlink() and (holds_campaign(directory) or suites.is_suite(directory))
    return False


def _begun_ns(place: Path) -> int:
    for name in ("study.toml", suites.INDEX):
        with suppress(OSError):
            return (place / name).lstat().st_mtime_ns
    return 0


def _has_changed(known: CampaignReading, stamp: _Stamp) -> bool:
    """Return whether a campaign's files have changed since a reading, or its runner has ended.

    The latter is checked because a runner that is killed does not change a file."""
    return known.stamp != stamp or any(start_time(pid) is None for pid in known.runners)


def _stamp(place: Path) -> _Stamp:
    """Return (name, time, size) of each file of a campaign, or of a suite and its studies.

    Empty files are left out, since SQLite creates an empty log when a database is read."""
    stamp = []
    with suppress(OSError):
        members = (
            [member for member in place.iterdir() if _holds_campaign_or_suite(member)] if suites.is_suite(place) else []
        )
        for file in (directory / name for directory in (place, *members) for name in _WATCHED):
            with suppress(FileNotFoundError):
                status = file.lstat()
                stamp += [(str(file), status.st_mtime_ns, status.st_size)] if status.st_size else []
    return tuple(stamp)
