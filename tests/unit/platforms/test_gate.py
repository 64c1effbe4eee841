"""The door to a database that may be anybody's: bounded time, bounded memory, and signals."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro.results import connection as gate
from lastro.results.database import damaged
from lastro.results.read import load_campaign
from lastro.results.samples import Series
from lastro.results.store import Store
from lastro.shapes import MisshapenData, from_plain, parse_json
from lastro.study.model import Level

from ...support.campaigns import make_campaign, make_study

pytestmark = pytest.mark.processes

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_campaign(tmp_path_factory.mktemp("gate") / "c", stop_after=2)


@pytest.fixture
def db(campaign: Path) -> Iterator[gate.BoundedConnection]:
    connection = gate.connect(campaign, readonly=True)
    yield connection
    connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_statement_midway(db: gate.BoundedConnection, number: signal.Signals) -> None:
    """The exception of the handler arrives, which SQLite swallows; and the connection is of use afterwards."""

    class Ended(BaseException):
        pass

    def end(*_: object) -> None:
        raise Ended

    before = signal.signal(number, end)
    try:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), number)).start()
        began_s = time.monotonic()
        with pytest.raises(Ended):
            db.read(f"{ENDLESS} count(*) FROM c", ())
        assert time.monotonic() - began_s < 10
        assert db.read("SELECT 1", ()) == [(1,)]
    finally:
        signal.signal(number, before)


def test_a_query_has_an_end(db: gate.BoundedConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "LONGEST_S", 0.05)
    with pytest.raises(sqlite3.DatabaseError, match=r"took longer than 0\.05 s"):
        db.read(f"{ENDLESS} count(*) FROM c", ())


@pytest.mark.parametrize("column", ["x", "zeroblob(100000)"])
def test_tables_hold_no_more_than_the_file(db: gate.BoundedConnection, column: str) -> None:
    """As if rows shared their pages."""
    with pytest.raises(sqlite3.DatabaseError, match="yield more data than the file holds"):
        db.read(f"{ENDLESS} {column} FROM c", ())


def test_what_is_unpacked_is_bounded_in_all(db: gate.BoundedConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_SPARE_BYTES", 1000)
    monkeypatch.setattr(gate, "_RATIO", 0)
    packed = zlib.compress(bytes(400))
    assert [db.unpack(packed) for _ in range(2)] == [bytes(400)] * 2
    with pytest.raises(ValueError, match="unpacks to more"):
        db.unpack(packed)


@pytest.mark.parametrize("packed", [b"", b"x", zlib.compress(b"abc")[:-1], zlib.compress(b"abc") + b"x", "abc", None])
def test_what_is_not_packed_whole(db: gate.BoundedConnection, packed: object) -> None:
    with pytest.raises(ValueError, match="compress"):
        db.unpack(packed)


@pytest.mark.parametrize("noted", [1e200, 10**60, 1.0])
def test_what_a_part_writes_can_be_read(tmp_path: Path, noted: float) -> None:
    """A broken tool, or a part from elsewhere, closes the campaign to nobody."""
    directory = make_campaign(
        tmp_path / "c", make_study({"a": (1,)}, replicates=1), value=lambda *_: 1e300,
        notes=lambda *_: {"a": noted}, series=lambda *_: [Series("wild", "s", (1.0, -1e200, math.inf))],
    )  # fmt: skip
    with Store.open(directory, readonly=True) as store:
        attempt = load_campaign(store).attempts[0]
        assert store.series(1, 1)[1].values == (1.0, -math.inf, math.inf)
    assert set(attempt.measurements.values()) == {math.inf}
    assert attempt.notes == ({"a": 1.0} if noted == 1.0 else {"notes": attempt.notes["notes"]})


def test_one_json_value_of_bounded_numbers() -> None:
    assert parse_json('{"a": [1, 2.5, null, true, "x"], "b": NaN}')["a"] == [1, 2.5, None, True, "x"]
    for text in ("1, 2", "[" * 100 + "]" * 100, "[" * 100_000, "1e100", "-1e400", "1" + "0" * 50, "", "{} ", "nul"):
        with pytest.raises(ValueError):
            parse_json(text)


def test_levels_keep_their_kinds() -> None:
    levels = from_plain(dict[str, Level], {"a": True, "b": 1, "c": 1.0, "d": "1"})
    assert [type(level) for level in levels.values()] == [bool, int, float, str]
    for level in (None, [], float("nan"), float("inf"), 2**63, 1e101):
        with pytest.raises(MisshapenData):
            from_plain(dict[str, Level], {"a": level})


def test_what_sqlite_quotes_is_one_short_line(tmp_path: Path) -> None:
    message = damaged(tmp_path, "unrecognized token: \x1b[2J\nlastro: all is well" + 5000 * "x").message
    assert message.isprintable() and len(message) < 1000
