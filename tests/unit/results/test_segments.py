"""A campaign that continues on a changed host: refused at first, then a segment that is not paired with the others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.build import build_report
from lastro.app import campaigns
from lastro.app.campaigns import ResumeOptions
from lastro.app.private import redact
from lastro.app.provenance import changed_facts
from lastro.builders.data.results import document
from lastro.errors import InputError, StoreError
from lastro.results.provenance import Provenance
from lastro.results.read import CampaignData, load_campaign
from lastro.results.segments import HostSegment, split_blocks
from lastro.results.store import Store
from lastro.words.language import ENGLISH
from lastro.words.opening import opening

from ...support.campaigns import Levels, make_campaign, make_study
from ...support.documents import render_terminal

BEFORE: dict[str, Any] = {
    "host": {"hostname": "edge-7", "kernel": "6.1", "governor": "performance"},
    "kernel": {"command_line": "ro quiet", "mitigations": {"retbleed": "Mitigation"}},
    "network": {"ipv4.tcp_congestion_control": "cubic", "netfilter.nf_conntrack_max": ""},
    "tools": {"runc": {"version": "runc 1.1", "path": "/sbin/runc", "sha256": "ab" * 32}},
    "lastro": {"version": "0.1.0", "python": "3.11"},
}


def changed(chapter: str, key: str, value: Any) -> dict[str, Any]:
    return {**BEFORE, chapter: {**BEFORE[chapter], key: value}}


@pytest.mark.parametrize(
    ("chapter", "key", "value", "name"),
    [
        ("host", "kernel", "6.2", "kernel"),
        ("host", "governor", "powersave", "host.governor"),
        ("kernel", "command_line", "ro quiet mitigations=off", "kernel.command_line"),
        ("kernel", "mitigations", {"retbleed": "Vulnerable"}, "kernel.mitigations.retbleed"),
        ("network", "ipv4.tcp_congestion_control", "bbr", "network.ipv4.tcp_congestion_control"),
        ("tools", "runc", {"version": "runc 1.1", "path": "/sbin/runc", "sha256": "cd" * 32}, "tools.runc"),
    ],
)
def test_a_changed_program_kernel_or_setting_is_a_change(chapter: str, key: str, value: Any, name: str) -> None:
    assert list(changed_facts(BEFORE, changed(chapter, key, value))) == [name]


@pytest.mark.parametrize(
    "now",
    [
        changed("tools", "runc", {**BEFORE["tools"]["runc"], "path": "/usr/sbin/runc"}),
        changed("tools", "docker", {"version": "29", "path": "/usr/bin/docker", "sha256": "ef" * 32}),
        changed("network", "netfilter.nf_conntrack_max", "262144"),  # the module was loaded meanwhile
        changed("lastro", "version", "0.2.0"),
        {**BEFORE, "not_told": "no instance started"},
    ],
)
def test_what_changes_no_trial_is_no_change(now: dict[str, Any]) -> None:
    assert changed_facts(BEFORE, now) == {}


def test_resume_refuses_a_change_until_it_is_accepted_and_then_knows_it(tmp_path: Path) -> None:
    make_campaign(tmp_path / "c", make_study(replicates=2), provenance=BEFORE)
    now = changed("host", "governor", "powersave")
    with Store.open(tmp_path / "c") as store:
        with pytest.raises(InputError, match=r"host\.governor was performance, is powersave") as caught:
            campaigns._check_changes(store, now, ResumeOptions())
        assert "--accept-change" in str(caught.value.hint) and not store.segments()
        campaigns._check_changes(store, now, ResumeOptions(changed_host=True))
        (segment,) = store.segments()
        assert segment.after == len(store.attempts()) and segment.text == "host.governor was performance, is powersave"
        assert store.events()[-1][1:] == ("changed host", segment.text)
        campaigns._check_changes(store, now, ResumeOptions())
        with pytest.raises(InputError, match=r"host\.governor was powersave, is performance"):
            campaigns._check_changes(store, BEFORE, ResumeOptions())


def ratio(data: CampaignData) -> float:
    """Return the ratio of the treatment to its baseline."""
    (found,) = [row.cells[0].ratio for row in build_report(data).rows if row.cells[0].ratio]
    assert found.value is not None
    return found.value


def test_trials_of_one_block_before_and_after_a_change_are_not_paired(tmp_path: Path) -> None:
    """The host becomes twice as fast in the middle of a block: no treatment has an effect, and none is found."""

    def value(levels: Levels, block: int, metric: str) -> float:
        return 100.0 + block

    study = make_study({"platform": ("native", "runc")}, replicates=4, baseline={"platform": "native"})
    make_campaign(tmp_path / "c", study, value=value, provenance=BEFORE)
    with Store.open(tmp_path / "c") as store:
        data = load_campaign(store)
    half = len(data.attempts) // 2 + 1  # in the middle of a block
    found, homes = split_blocks(data.attempts, [HostSegment(half, "2026-01-01T00:00", {})])
    blocks = {attempt.block for attempt in data.attempts}
    assert [a.block for a in found[:half]] == [a.block for a in data.attempts[:half]]
    new = {a.block for a in found} - blocks
    assert len(new) == 1 and homes == {new.pop(): data.attempts[half].block}
    assert split_blocks(data.attempts, []) == (data.attempts, {})
    after = [replace(a, measurements={m: 2 * v for m, v in a.measurements.items()}) for a in data.attempts[half:]]
    faster = replace(data, attempts=[*data.attempts[:half], *after])
    assert ratio(faster) != pytest.approx(1, abs=0.05)
    assert ratio(replace(faster, segments=(HostSegment(half, "2026-01-01T00:00", {}),))) == pytest.approx(1)


def test_a_segment_is_shown_everywhere(tmp_path: Path) -> None:
    study = make_study({"platform": ("native", "runc")}, replicates=4, baseline={"platform": "native"})
    make_campaign(tmp_path / "c", study, provenance=BEFORE)
    with Store.open(tmp_path / "c") as store:
        store.begin_segment("2026-01-01T00:00:00Z", {"tools.runc": ("runc 1.1", "runc 1.2")})
        store._db.execute("UPDATE meta SET value = json_set(value, '$[0].after', 5) WHERE key = 'segments'")
        report = build_report(load_campaign(store))
    (sentence, *_) = opening(report, ENGLISH)
    assert sentence.startswith("The host changed after 5 attempts (2026-01-01 00:00 UTC): tools.runc was runc 1.1, is")
    assert "The host changed after 5 attempts" in " ".join(line.plain for line in render_terminal(report, 200))
    assert document(report)["segments"][0]["changes"] == {"tools.runc": ["runc 1.1", "runc 1.2"]}
    assert max(point.block for row in report.rows for point in row.cells[0].points) == 5


def test_a_damaged_segment_is_an_error(tmp_path: Path) -> None:
    make_campaign(tmp_path / "c", make_study(replicates=2), provenance=BEFORE)
    with Store.open(tmp_path / "c") as store:
        segment = {"after": -1, "at_utc": "2026-01-01T00:00", "changes": {}, "testbed": ""}
        for bad in ({}, segment, segment | {"after": 1, "changes": {"kernel": ["6.1"]}}):
            store._db.execute("INSERT OR REPLACE INTO meta VALUES ('segments', ?)", (json.dumps([bad]),))
            with pytest.raises(StoreError, match="segments"):
                store.segments()


@pytest.mark.parametrize("guest", [{}, {"guest": {"title": "a guest"}}])
def test_an_anonymous_bundle_hides_what_a_change_tells_of_the_host(guest: dict[str, Any]) -> None:
    def told(name: str, machine: str, words: str) -> dict[str, Any]:
        below = {"hostname": name, "machine": machine}
        host, kernel = BEFORE["host"] | {"hostname": name}, BEFORE["kernel"] | {"command_line": words}
        return BEFORE | guest | {"host": host, "kernel": kernel, "controller": below}

    changes = changed_facts(told("edge-7", "ab12", "a=b"), told("edge-8", "cd34", "c=d"))
    assert len(changes) == 2 + bool(guest)
    segment = HostSegment(1, "2026-01-01T00:00", {name: list(values) for name, values in changes.items()})
    clean = redact(Provenance.of(BEFORE), {}, anonymous=True, segments=[segment]).clean
    assert not {"edge-7", "edge-8", "ab12", "cd34", "a=b", "c=d"} & set(clean(segment.text).replace(",", "").split())
