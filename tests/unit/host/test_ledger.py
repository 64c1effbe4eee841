"""A ledger whose disk fills up, fails or becomes read-only while a session runs: one error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lastro.errors import StoreError
from lastro.host.ledger import Ledger

WRITES: dict[str, Callable[[Ledger], object]] = {
    "add": lambda ledger: ledger.add("abcdef", "netns", "x" * 100_000),
    "drop": lambda ledger: ledger.drop(1),
    "open": lambda ledger: ledger.open_session("abcdef", "x" * 100_000),
    "close": lambda ledger: ledger.close_session("123456"),
}
READS: dict[str, Callable[[Ledger], object]] = {
    "objects": lambda ledger: ledger.objects("123456"),
    "dead sessions": lambda ledger: ledger.dead_sessions(),
}


def raises_one_error(ledger: Ledger, action: Callable[[Ledger], object], words: str) -> None:
    with pytest.raises(StoreError, match=f"ledger.db: .*{words}") as caught:
        action(ledger)
    assert "free some space" in str(caught.value.hint)


@pytest.mark.parametrize("name", WRITES)
def test_what_cannot_be_written_is_an_error_of_the_disk(name: str, tmp_path: Path) -> None:
    with closing(Ledger(tmp_path)) as ledger:
        ledger.open_session("123456", "a test")
        ledger.add("123456", "netns", "one")
        ledger._db.execute("PRAGMA query_only = 1")
        raises_one_error(ledger, WRITES[name], "readonly")
        assert [owned.name for owned in ledger.objects("123456")] == ["one"]


@pytest.mark.parametrize("name", ["add", "open"])
def test_a_disk_that_is_full(name: str, tmp_path: Path) -> None:
    with closing(Ledger(tmp_path)) as ledger:
        ledger._db.execute("PRAGMA max_page_count = 1")  # no page more than it has
        raises_one_error(ledger, WRITES[name], "full")


@pytest.mark.parametrize("name", READS)
def test_what_cannot_be_read_is_one_too(name: str, tmp_path: Path) -> None:
    with closing(Ledger(tmp_path)) as ledger:
        ledger._db.execute("DROP TABLE object")
        ledger._db.execute("DROP TABLE session")
        raises_one_error(ledger, READS[name], "no such table")
