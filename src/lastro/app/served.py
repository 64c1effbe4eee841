"""The pages of `lastro serve`: the campaigns of a directory and their history, read again when files have changed.

Trials may be running, so reading must take little CPU time: at most the fraction BUSY of one CPU for each thing that is
read. The longer a reading takes, the longer is the pause before the next one."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from lastro.app.status import facts_of
from lastro.builders.status import ListedCampaign, campaigns_of, links, list_blocks, problem_blocks, status_document
from lastro.campaign import suite as suites
from lastro.document import Document, Title
from lastro.errors import LastroError
from lastro.files import has_plain, read_regular
from lastro.host.files import start_time
from lastro.plain import without_controls
from lastro.render.html import html
from lastro.results.database import DB_NAME, holds_campaign
from lastro.results.history import read_history
from lastro.results.history_points import DEFAULT_FILE
from lastro.words.language import Language

if TYPE_CHECKING:
    from lastro.analysis.history import HistoryReport

BUSY = 0.002  # of one CPU, in the mean over time
REPORT = "report.html"
HISTORY = "/history/"  # the address of its page
_MOST_REPORT_BYTES = 64 << 20
_WATCHED = (DB_NAME, f"{DB_NAME}-wal", suites.INDEX, REPORT)
Facts = dict[str, Any]  # the status of a campaign or a suite
Content = TypeVar("Content")
Stamp: TypeAlias = tuple[tuple[str, int, int], ...]  # name, time and size of each file


@dataclass(frozen=True, slots=True)
class FileReading(Generic[Content]):
    """The content of files as read, or the `problem` that prevented reading them.

    `stamp` is the stamp of the files at that time. They are not read again before `again_s` on the monotonic clock."""

    stamp: Stamp
    content: Content | None
    problem: LastroError | None
    again_s: float


def stamp_of(files: Iterable[Path]) -> Stamp:
    """Return (name, time, size) of each file.

    Empty files are left out, since SQLite creates an empty log when a database is read."""
    stamp = []
    for file in files:
        with suppress(OSError):
            status = file.lstat()
            stamp += [(str(file), status.st_mtime_ns, status.st_size)] if status.st_size else []
    return tuple(stamp)


def renew(
    last: FileReading[Content] | None,
    stamp: Stamp,
    read: Callable[[], Content],
    place: Path,
    hint: str,
    *,
    is_outdated: bool = False,
) -> FileReading[Content]:
    """Return `last` if its pause is not over or the files have not changed, otherwise a new reading.

    `is_outdated` is true if something other than a file has changed. `place` and `hint` are for the error that reports
    a defect."""
    if last and (time.monotonic() < last.again_s or not (is_outdated or stamp != last.stamp)):
        return last
    began_s, content, problem = time.thread_time(), None, None
    try:
        content = read()
    except LastroError as error:
        problem = error
    except Exception as error:  # a defect must not hide the other pages
        problem = LastroError(f"{place} cannot be read: {type(error).__name__}: {error}", hint)
    took_s = time.thread_time() - began_s if last else 0.0  # the first one loads modules
    return FileReading(stamp, content, problem, time.monotonic() + took_s / BUSY)


class Campaigns:
    """The campaigns and suites in a directory; if the directory itself is a campaign or a suite, only this one.

    Paths are built only from names that exist in the directory, and no symbolic link is followed."""

    def __init__(self, directory: Path, say: Language, history: Path | None = None) -> None:
        self.directory, self._say = directory.resolve(), say
        self.history = ServedHistory(history or self.directory / DEFAULT_FILE, say)
        self._known: dict[Path, FileReading[Facts]] = {}
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
        """Return the directory of the campaign or suite `path`, NAME or SUITE/STUDY; None if there is none."""
        name, _, study = path.partition("/")
        place = self.places().get(name)
        if place is None or not study:
            return place
        is_member = study in _studies(self._read(place)) and _holds_campaign_or_suite(place / study)
        return place / study if is_member else None

    def readings(self, place: Path | None) -> list[tuple[str, FileReading[Facts]]]:
        """Return (name, reading) of the campaign or suite in `place`, or of all if it is None.

        A reading is renewed if the files have changed."""
        places = {place.name: place} if place else self.places()
        return [(name, self._read(directory)) for name, directory in places.items()]

    def page(self, place: Path | None) -> str:
        """Return the HTML page of the campaign or suite in `place`, or the list of all if it is None."""
        if place is not None:
            return _page(self._campaign_page(place), self._say, place)
        listed = []
        for name, reading in self.readings(None):
            problem = reading.problem.message if reading.problem else ""
            listed.append(ListedCampaign(name, f"/c/{_address(name)}/", reading.content, problem))
        history = HISTORY if self.history.exists else ""
        return _page(list_blocks(str(self.directory), listed, history, self._say), self._say, self.directory)

    def _campaign_page(self, place: Path) -> Document:
        reading = self._read(place)
        if reading.content is None:
            return problem_blocks(place.name, reading.problem)
        studies = [(name, f"{_address(name)}/") for name in _studies(reading) if _holds_campaign_or_suite(place / name)]
        title, *blocks = status_document(reading.content, self._say)
        assert isinstance(title, Title)
        return [replace(title, kicker=place.name), links(_is_plain(place / REPORT), studies, self._say), *blocks]

    def report(self, place: Path) -> bytes | None:
        """Return the unchanged report file of a campaign or a suite; None if none exists or it cannot be read."""
        try:
            return read_regular(place / REPORT, _MOST_REPORT_BYTES, base=place)
        except (OSError, ValueError):
            return None

    def _read(self, place: Path) -> FileReading[Facts]:
        """Return a new reading of `place` if it has changed and the pause is over, otherwise the last one.

        A runner that is killed does not change a file, so a reading is outdated when one of its runners has ended."""
        with self._turn:
            last = self._known.get(place)
            running = [status.get("running") for status in campaigns_of((last and last.content) or {})]
            ended = any(start_time(process["pid"]) is None for process in running if process)
            hint = f"`lastro status {shlex.quote(str(place))}` says more"
            members: list[Path] = []
            with suppress(OSError):
                if suites.is_suite(place):
                    members = [member for member in place.iterdir() if _holds_campaign_or_suite(member)]
            stamp = stamp_of(directory / name for directory in (place, *members) for name in _WATCHED)
            self._known[place] = renew(last, stamp, lambda: facts_of(place), place, hint, is_outdated=ended)
            return self._known[place]


class ServedHistory:
    """The history in a file, judged again when the file has changed."""

    def __init__(self, file: Path, say: Language) -> None:
        self._file, self._say = file.absolute(), say
        self._known: FileReading[HistoryReport] | None = None
        self._turn = threading.Lock()

    @property
    def exists(self) -> bool:
        return _is_plain(self._file)

    def reading(self) -> FileReading[HistoryReport]:
        """Return a new reading of the file if it has changed and the pause is over, otherwise the last one."""
        from lastro.analysis.history import judge_history

        def judged() -> HistoryReport:
            return judge_history(read_history(self._file), "", {}, {})

        hint = f"`lastro history list --file {shlex.quote(str(self._file))}` says more"
        with self._turn:
            self._known = renew(self._known, stamp_of([self._file]), judged, self._file, hint)
            return self._known

    def page(self) -> str:
        """Return the HTML page of the history."""
        from lastro.builders.history import history_blocks

        reading = self.reading()
        if reading.content is None:
            return _page(problem_blocks(self._file.name, reading.problem), self._say, self._file)
        return _page(history_blocks(reading.content, self._say, details=True), self._say, self._file)


def _page(document: Document, say: Language, source: Path) -> str:
    return without_controls(html(document, say, str(source), served=True))


def _address(name: str) -> str:
    return quote(os.fsencode(name))


def _is_plain(file: Path) -> bool:
    with suppress(OSError):
        return has_plain(file)
    return False


def _studies(reading: FileReading[Facts]) -> tuple[str, ...]:
    """Return the names of the studies of a suite; nothing for a campaign."""
    return tuple(member["suite_study"] for member in (reading.content or {}).get("studies", ()))


def _holds_campaign_or_suite(directory: Path) -> bool:
    with suppress(OSError):
        return not directory.is_symlink() and (holds_campaign(directory) or suites.is_suite(directory))
    return False


def _begun_ns(place: Path) -> int:
    for name in ("study.toml", suites.INDEX):
        with suppress(OSError):
            return (place / name).lstat().st_mtime_ns
    return 0
