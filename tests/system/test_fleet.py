"""A campaign on several hosts that are reached by real sshds, and what it loses when one of them is lost: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro.app.places import open_campaign
from lastro.results.rows import Attempt, Place

from ..cli.conftest import lastro, study_text
from ..fleethosts import FleetHost, fleet_text
from ..scenarios import TOLERANT

pytestmark = pytest.mark.root


def write(place: Path, hosts: list[FleetHost], *, replicates: int, levels: tuple[str, ...] = ("native",)) -> list[str]:
    """Write a study of short trials and a fleet file; return the words that run it."""
    text = study_text(
        {"platform": list(levels)}, scenario="lifecycle", replicates=replicates, attachment="veth-bridge", instances=1,
        settle_s=0.0, **TOLERANT,
    )  # fmt: skip
    (place / "study.toml").write_text(text)
    (place / "fleet.toml").write_text(fleet_text(hosts))
    words = (place / "study.toml", "--fleet", place / "fleet.toml", "-o", place / "campaign", "--no-report")
    return [str(word) for word in words]


def attempts_of(campaign: Path) -> tuple[list[Attempt], list[Place]]:
    with open_campaign(campaign) as store:
        return store.attempts(), store.places()


def test_blocks_are_divided_among_hosts_and_nothing_is_left(four_hosts: list[FleetHost], tmp_path: Path) -> None:
    words = write(tmp_path, four_hosts, replicates=8)
    done = lastro("run", *words)
    assert done.code == 0, done.err
    attempts, places = attempts_of(tmp_path / "campaign")
    assert {attempt.testbed for attempt in attempts} == {host.name for host in four_hosts}
    assert [attempt.valid for attempt in attempts] == [True] * 8 and len(places) == 8
    assert [host.left() for host in four_hosts] == [[]] * 4
