"""A guest that is lost in mid-campaign is replaced by another one, within reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lastro.app import campaigns
from lastro.app.campaigns import ResumeOptions
from lastro.errors import GuestLost, HostError
from lastro.host.base import Transcript
from lastro.results.samples import Outcome
from lastro.results.store import Store
from lastro.scenarios.base import Config

from ...support.toy_fleet import Toy, study_of


class Mortal(Toy):
    """A toy in a guest that is lost in its `life`-th attempt, as by a treatment that its kernel does not survive."""

    def __init__(self, life: int) -> None:
        super().__init__(None)
        self.life, self.tries = life, 0

    @contextmanager
    def attempt(self) -> Iterator[Transcript]:
        if self.tries >= self.life:
            raise HostError("the guest cannot be reached: Connection timed out")
        self.tries += 1
        yield Transcript()

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        if self.tries == self.life:
            return Outcome(invalid_because=["the connection was lost"])
        return super().run(config, calibrations)


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many attempts each of the guests lives that boot from now on."""
    found: list[int] = []

    @contextmanager
    def scenario_on_host(*_: Any, **__: Any) -> Iterator[Mortal]:
        if not found:
            raise AssertionError("one guest more was booted than were to be")
        try:
            yield Mortal(found.pop(0))
        except HostError as error:
            raise GuestLost("the guest hangs", "`lastro resume` boots another and continues") from error

    monkeypatch.setattr(campaigns, "scenario_of", lambda study: Toy)
    monkeypatch.setattr(campaigns, "require_runnable", lambda store: None)
    monkeypatch.setattr(campaigns, "scenario_on_host", scenario_on_host)
    return found


def test_the_campaign_goes_on_in_another_guest(
    lives: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lives[:] = [4, 1, 1, 99]
    campaigns.begin(tmp_path / "c", study_of(3), wait=False)
    with Store.open(tmp_path / "c", readonly=True) as store:
        counts, n_attempts = store.counts(), len(store.durations())
        kinds = [kind for _, kind, _ in store.events() if kind in ("started", "resumed", "stopped", "finished")]
    assert not lives and counts["valid"] == 9 and n_attempts == 9 + 3, "the trial that each guest lost is repeated"
    assert kinds == ["started", "stopped", *["resumed", "stopped"] * 2, "resumed", "finished"]
    said = [line for line in capsys.readouterr().err.splitlines() if "another guest" in line]
    assert said == ["the guest hangs; finished trials are safe, and the campaign continues in another guest"] * 3


def test_guests_that_bring_nothing_end_it_and_resume_tries_again(lives: list[int], tmp_path: Path) -> None:
    lives[:] = [2, 0, 0, 0]
    with pytest.raises(GuestLost, match="the guest hangs"):
        campaigns.begin(tmp_path / "c", study_of(3), wait=False)
    assert not lives
    lives[:] = [3, 0, 99]
    assert campaigns.resume(tmp_path / "c", ResumeOptions())
    with Store.open(tmp_path / "c", readonly=True) as store:
        assert store.counts()["valid"] == 9 and not lives


def test_a_guest_that_is_lost_before_the_campaign_began_ends_it(
    lives: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives[:] = [1, 99]

    def provenance(*_: Any) -> Any:
        raise HostError("the guest cannot be reached: Connection timed out")

    monkeypatch.setattr(campaigns, "provenance", provenance)
    with pytest.raises(GuestLost):
        campaigns.begin(tmp_path / "c", study_of(3), wait=False)
    assert lives == [99]
