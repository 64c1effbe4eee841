"""The phase in which a campaign is, as far as it can be seen from outside: by what it prints, its database, the ledger,
and the processes of its instances."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from lastro.host import cgroups
from lastro.host.files import LocalFiles
from lastro.host.ledger import STATE_DIR
from lastro.host.lock import holder

from ..cli.forking import Forked

START = "start"  # before it holds the host
TAKING = "taking the host"  # session, image, namespaces, provenance
PROBING = "probing"
CALIBRATING = "calibrating"
BUILDING = "building up"
MEASURING = "measuring"  # from the first process of an instrument on
TEARING = "tearing down"  # from the first object on that is gone, until the attempt is stored
END = "report and end"  # from the last attempt on
PHASES = (START, TAKING, PROBING, CALIBRATING, BUILDING, MEASURING, TEARING, END)
OF_A_TRIAL = (BUILDING, MEASURING, TEARING)

_LOOK_S = 0.01  # between two looks
_GATES = (b"\0measure\0", b"\0serve\0")  # words of a command that measures or is measured: see gate.sh
_LEFT = "SELECT count(*) FROM trial WHERE state IN ('pending', 'running')"
_CALIBRATED = "SELECT (SELECT count(*) FROM calibration) + (SELECT count(*) FROM event WHERE kind = 'not calibrated')"


@dataclass
class Watch:
    """A process that runs a campaign. Some phases are seen only in what changes, so `follow` looks again and again.

    `calibrated` is the number of calibrations that had ended before it began."""

    process: Forked
    directory: Path
    calibrated: int
    _holds: bool = False
    _written_ns: int = 0  # when its database was last written before the first trial of this process
    _begun: bool = False
    _turn: tuple[int, int] = (0, 0)  # attempts and calibrations that have ended
    _most: int = 0  # objects that the ledger has listed in this turn
    _measured: bool = False  # in this turn
    attempts: int = 0  # that have ended

    def follow(self, seconds: float, wanted: str = "", after: int = 0) -> str:
        """Look until it is in the wanted phase, and as many attempts have ended, or has no trial left.

        Returns the phase that was seen last; none if it ended."""
        deadline, found = time.monotonic() + seconds, ""
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return ""
            found = self.look()
            if wanted and (found == END or (found == wanted and self.attempts >= after)):
                break
            time.sleep(_LOOK_S)
        return found

    def look(self) -> str:
        """The phase that it is in now."""
        left, calibrated = progress(self.directory)
        if left == 0:
            return END
        self._holds = self._holds or ((held := holder(STATE_DIR)) is not None and held.pid == self.process.pid)
        if not self._holds:
            return START
        lines = self.process.said().splitlines()
        if not any(line.startswith("probing ") for line in lines):
            return TAKING
        if not self._has_begun():
            return PROBING
        self.attempts = sum(line.startswith("[") for line in lines)
        if sum(line.startswith("calibrating ") for line in lines) > calibrated - self.calibrated:
            return CALIBRATING
        return self._look_at_trial((self.attempts, calibrated))

    def _has_begun(self) -> bool:
        """Whether a trial has: after it says that it probes, the first that it writes is the mark of a trial."""
        if not self._begun:
            now_ns = (self.directory / "campaign.db-wal").stat().st_mtime_ns
            self._written_ns = self._written_ns or now_ns
            self._begun = now_ns != self._written_ns
        return self._begun

    def _look_at_trial(self, turn: tuple[int, int]) -> str:
        if turn != self._turn:
            self._turn, self._most, self._measured = turn, 0, False
        token, objects = owned(self.process.pid)
        self._most = max(self._most, objects)
        self._measured = self._measured or measures(token)
        if not self._measured:
            return BUILDING
        return TEARING if objects < self._most else MEASURING


def progress(directory: Path) -> tuple[int, int]:
    """The number of trials left, and of calibrations that have ended; (-1, 0) without a campaign.

    It is read in a way that leaves the files of a killed process as they are."""
    if not (directory / "campaign.db").exists():
        return -1, 0
    with closing(sqlite3.connect(f"file:{directory}/campaign.db?mode=ro", uri=True, timeout=10)) as db:
        [(left,)], [(calibrated,)] = db.execute(_LEFT).fetchall(), db.execute(_CALIBRATED).fetchall()
    return left, calibrated


def owned(pid: int) -> tuple[str, int]:
    """The token of a process's session, and the number of objects in the ledger; none while it has no session."""
    sql = "SELECT token, count(object.id) FROM session LEFT JOIN object ON session = token WHERE pid = ? GROUP BY token"
    with closing(sqlite3.connect(f"file:{STATE_DIR}/ledger.db?mode=ro", uri=True, timeout=10)) as db:
        return db.execute(sql, (pid,)).fetchone() or ("", 0)


def measures(token: str) -> bool:
    """Whether an instrument runs in an instance of a session."""
    group = cgroups.detect().pids_directory(f"/lastro/{token}")
    return any(gate in _command(pid) for pid in LocalFiles().pids_below([str(group)]) for gate in _GATES)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""
