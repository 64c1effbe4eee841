"""When `lastro serve` reads a campaign again: it must not take the time of a CPU from the trials."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro.app import served
from lastro.app.served import BUSY, Campaigns
from lastro.words.language import ENGLISH

from ...support.campaigns import make_campaign
from ...support.histories import SLOWER, write_history


@pytest.fixture
def campaigns(tmp_path: Path) -> Campaigns:
    make_campaign(tmp_path / "c", stop_after=4)
    return Campaigns(tmp_path, ENGLISH)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """The campaigns that were read, each of which took 10 ms of a CPU."""
    found, facts_of, clock = [], served.facts_of, [0.0]

    def read(directory: Path) -> dict[str, object]:
        found.append(directory)
        clock[0] += 0.01
        return facts_of(directory)

    monkeypatch.setattr(served, "facts_of", read)
    monkeypatch.setattr(time, "thread_time", lambda: clock[0])
    yield found


def touch(directory: Path) -> None:
    os.utime(directory / "campaign.db", (time.time(), time.time() + 1))


def test_what_has_not_changed_is_not_read_again(campaigns: Campaigns, reads: list[Path], tmp_path: Path) -> None:
    first = campaigns.readings(None)
    assert campaigns.readings(None) == first == campaigns.readings(tmp_path / "c")
    assert len(reads) == 1
    touch(tmp_path / "c")
    assert campaigns.readings(None) != first and len(reads) == 2


def test_the_pause_after_a_reading_is_as_long_as_it_may_take_a_cpu(
    campaigns: Campaigns, reads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    for at, wanted in ((0, 1), (0, 2), (0.01 / BUSY - 0.1, 2), (0.01 / BUSY + 0.1, 3)):
        monkeypatch.setattr(time, "monotonic", lambda at=at: now_s + at)
        (tmp_path / "c" / "campaign.db").touch()
        campaigns.page(None)
        campaigns.page(tmp_path / "c")
        assert len(reads) == wanted, "the first one loads modules, and is followed by no pause"


def test_a_process_that_was_killed_is_missed_though_no_file_has_changed(
    campaigns: Campaigns, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts_of, alive = served.facts_of, [True]

    def read(directory: Path) -> dict[str, object]:
        running = {"pid": 7, "since_utc": "2026-11-28T12:00:00Z"} if alive[0] else None
        return {**facts_of(directory), "running": running}

    monkeypatch.setattr(served, "facts_of", read)
    monkeypatch.setattr(served, "start_time", lambda pid: 1 if alive[0] and pid == 7 else None)
    assert "running" in campaigns.page(None) and len(reads) == 1
    assert campaigns.page(None) and len(reads) == 1
    alive[0] = False
    assert "unfinished" in campaigns.page(None) and len(reads) == 2
    assert campaigns.page(None) and len(reads) == 2


def test_a_defect_in_reading_one_campaign_hides_no_other(campaigns: Campaigns, monkeypatch: pytest.MonkeyPatch) -> None:
    facts_of = served.facts_of
    make_campaign(campaigns.directory / "d")
    monkeypatch.setattr(served, "facts_of", lambda place: facts_of(place) if place.name == "c" else {}["x"])
    page = campaigns.page(None)
    assert "4 of 30" in page and "d cannot be read: KeyError: &#39;x&#39;" in page
    assert f"`lastro status {campaigns.directory}/d` says more" in campaigns.page(campaigns.find("d"))


def test_a_directory_that_has_gone_is_a_page_that_says_so(campaigns: Campaigns, tmp_path: Path) -> None:
    place = campaigns.find("c")
    assert place is not None and "4 / 30" in campaigns.page(place)
    (tmp_path / "c").rename(tmp_path / ".c")
    assert campaigns.find("c") is None and "holds no campaign" in campaigns.page(place)


def test_a_history_is_judged_again_only_when_its_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_history(tmp_path / "lastro-history.db", SLOWER[:5])
    history = Campaigns(tmp_path, ENGLISH).history
    first = history.reading()
    assert "Nothing can be decided yet" in history.page() and history.reading() is first
    write_history(tmp_path / "lastro-history.db")
    second = history.reading()
    assert "at v5" in history.page() and history.reading() is second is not first
    write_history(tmp_path / "lastro-history.db", [*SLOWER, 90.0])
    assert history.reading() is second, "the second one is followed by a pause"
    monkeypatch.setattr(time, "monotonic", lambda: second.again_s)
    assert "v9" in history.page()


def test_a_history_that_cannot_be_read_is_a_page_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "BUSY", 1e9)
    file = tmp_path / "lastro-history.db"
    campaigns = Campaigns(tmp_path, ENGLISH)
    file.write_text("not a database")
    page = campaigns.history.page()
    assert campaigns.history.exists and "is not a readable history of Lastro" in page and "restore it from a" in page
    file.unlink()
    assert "lastro-history.db does not exist" in campaigns.history.page() and "/history/" not in campaigns.page(None)
    file.symlink_to(write_history(tmp_path / "other.db"))
    assert "a symbolic link" in campaigns.history.page() and not campaigns.history.exists
