"""`lastro history`: campaigns over weeks, where their means changed, and what a gate does with it."""

from __future__ import annotations

import copy
import json
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lastro.grouping import by_key

from ..support import exposition
from ..support.campaigns import METRICS, PROVENANCE, Levels, make_campaign, make_study, plausible_value
from ..support.exposition import Sample
from ..support.histories import write_history
from .conftest import is_error, lastro

MEAN, LOW, HIGH, N, MEASURED, ALARMS, CAMPAIGN = FAMILIES = (
    "lastro_mean", "lastro_mean_low", "lastro_mean_high", "lastro_mean_trials", "lastro_mean_timestamp_seconds",
    "lastro_unacknowledged_changes", "lastro_campaign_info",
)  # fmt: skip
HOSTILE = 'a "b" \\n {c},d="1"} 2\n# EOF'
KERNELS = ("6.1.0-27-amd64", "6.1.0-28-amd64")
_STUDY = make_study({"platform": ("native", "runc")}, replicates=4, metrics=METRICS[:2])


def campaign(home: Path, number: int, slower: dict[str, float], provenance: dict[str, Any] | None = None) -> Path:
    """Return the campaign of one day, on which platforms are slower than usual by these fractions."""

    def value(levels: Levels, block: int, metric: str) -> float:
        usual = plausible_value({**levels, "day": number}, block, metric)
        return usual * (1 - slower.get(str(levels["platform"]), 0.0) * (metric == "throughput"))

    day = f"2026-10-{number:02d}"
    return make_campaign(home / f"c{number}", _STUDY, value=value, day=day, provenance=provenance)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of 16 campaigns: from the ninth on, another kernel, and runc is slower by 20 %."""
    home = tmp_path_factory.mktemp("history")
    for number in range(1, 17):
        provenance = copy.deepcopy(PROVENANCE)
        provenance["host"]["kernel"] = KERNELS[number > 8]
        directory = campaign(home, number, {"runc": 0.2} if number > 8 else {}, provenance)
        done = lastro("history", "add", directory, "--file", home / "h.db", "--label", f"v{number}")
        assert (done.code, done.out) == (0, f"{home / 'h.db'}: 1 added\n"), done.err
    return home


def check(home: Path, *words: object, file: str = "h.db") -> Any:
    return lastro("history", *words, "--file", home / file)


def test_a_change_for_the_worse_is_an_alarm_with_what_else_changed(home: Path) -> None:
    done = check(home, "check")
    assert done.code == 4, done.err
    text = " ".join(done.out.split())
    assert "1 change for the worse that nobody has acknowledged; the newest: throughput of runc, at v9" in text
    assert "throughput runc v9 ×" in text and "v9: kernel: 6.1.0-27-amd64 → 6.1.0-28-amd64" in text
    assert "The newest 2 campaigns of each cannot be decided on yet." in text
    found = check(home, "check", "--json").json
    assert (found["format"], found["alarms"], len(found["series"])) == ("lastro-history/1", 1, 4)
    (series,) = [each for each in found["series"] if each["changes"]]
    assert (series["metric"], series["levels"], len(series["points"])) == ("throughput", {"platform": "runc"}, 16)
    (change,) = series["changes"]
    assert (change["at"], change["verdict"], change["cause"]) == (8, "worse", "unknown")
    assert change["first"] <= 8 <= change["last"] and change["low"] < 0.8 < change["high"]
    assert change["facts"] == [{"at": "v9", "name": "kernel", "before": KERNELS[0], "after": KERNELS[1]}]


def test_a_sentinel_tells_the_software_from_the_host(home: Path, tmp_path: Path) -> None:
    found = check(home, "check", "--sentinel", "platform=native", "--json").json
    (series,) = [each for each in found["series"] if each["changes"]]
    assert (series["sentinel"], series["changes"][0]["cause"]) == ({"platform": "native"}, "software")
    for number in range(1, 15):  # all platforms are slower from the eighth on
        slower = {"runc": 0.2, "native": 0.2} if number > 7 else {}
        campaign(tmp_path, number, slower)
    assert check(tmp_path, "add", *(tmp_path / f"c{n}" for n in range(1, 15))).code == 0
    assert check(tmp_path, "check").code == 4
    done = check(tmp_path, "check", "--sentinel", "platform=native", "--json")
    assert done.code == 0
    changed = [each for each in done.json["series"] if each["changes"]]
    assert [(each["levels"], each["changes"][0]["cause"]) for each in changed] == [({"platform": "native"}, "host")]
    assert max(each.value for each in exported(tmp_path, "prometheus")[ALARMS]) == 1
    software = exported(tmp_path, "prometheus", "--sentinel", "platform=native")
    assert max(each.value for each in software[ALARMS]) == 0, "the exported alarms are those of `check --sentinel`"
    assert len(software[MEAN]) == 4


def test_an_acknowledged_change_is_shown_with_its_reason_and_is_no_alarm(home: Path) -> None:
    file = home / "known.db"
    file.write_bytes((home / "h.db").read_bytes())
    said = check(home, "acknowledge", "v9", "--note", "another kernel", "--metric", "throughput", file="known.db")
    assert said.code == 0, said.err
    done = check(home, "check", file="known.db")
    assert done.code == 0 and "acknowledged: another kernel" in " ".join(done.out.split())
    assert check(home, "check").code == 4, "another file knows nothing of it"


def test_a_muted_series_is_no_alarm_until_it_is_judged_again(home: Path) -> None:
    file = home / "muted.db"
    file.write_bytes((home / "h.db").read_bytes())
    assert check(home, "mute", "--where", "platform=runc", "--note", "to be replaced", file="muted.db").code == 0
    done = check(home, "check", file="muted.db")
    assert done.code == 0 and "throughput, runc is muted: to be replaced" in " ".join(done.out.split())
    assert check(home, "unmute", "--where", "platform=runc", "--note", "it stays", file="muted.db").code == 0
    assert check(home, "check", file="muted.db").code == 4


def test_the_campaigns_and_the_values_are_shown(home: Path, tmp_path: Path) -> None:
    listed = check(home, "list")
    assert "A history of 16 campaigns" in listed.out and listed.out.count("2026-10-") == 16
    assert listed.out.count("6.1.0-28-amd64") == 1, "what changed is said once, where it changed"
    shown = check(home, "show", "throughput", "--where", "platform=runc", "--lang", "pt-BR")
    assert shown.code == 0 and "▼ pior" in shown.out and shown.out.count("2026-10-") >= 16
    page = tmp_path / "page.html"
    assert check(home, "show", "throughput", "--format", "html", "-o", page).code == 0
    assert page.read_text().count('<svg class="plate') == 2 * 2 or page.read_text().count("<svg") >= 4
    assert "| v9 |" in check(home, "show", "throughput", "--format", "md").out


def test_every_changed_fact_is_shown_with_its_whole_values(tmp_path: Path) -> None:
    before = {f"kernel.sysctl.{name}": "0" for name in "abcdef"} | {"kernel": "stock", "tools.runc": "1.1.5"}
    flags = " ".join(f"flag{number}" for number in range(40))
    facts = [before] * 4 + [dict.fromkeys(before, "1") | {"kernel": flags, "tools.runc": "1.1.5"}]
    write_history(tmp_path / "h.db", facts=facts)
    rows = [("kernel", "stock", flags), *((f"kernel.sysctl.{name}", "0", "1") for name in "abcdef")]
    for action in (["list"], ["check"], ["show", "throughput"]):
        folded = " ".join(check(tmp_path, *action).out.split())
        assert "and 3 more facts" in folded and "with its whole values (7); --all shows them" in folded
        assert "flag39" not in folded and "kernel.sysctl.f" not in folded
        every = " ".join(check(tmp_path, *action, "--all").out.split())
        assert all(f"v5 fact {fact} before {was} after {is_}" in every for fact, was, is_ in rows)
    for format_, row in (("md", "| v5 | {} | {} | {} |"), ("html", "<td>v5</td><td>{}</td><td class=wide>{}</td>")):
        page = check(tmp_path, "check", "--format", format_).out.replace('class="wide "', "class=wide")
        assert "<details><summary>Every changed fact" in page
        assert all(row.format(*each) in page for each in rows), page
    assert "Todos os fatos que mudaram" in check(tmp_path, "list", "--lang", "pt-BR").out


def test_the_campaigns_are_listed_as_json(home: Path, tmp_path: Path) -> None:
    write_history(tmp_path / "h.db", [1.0] * 3, [{"kernel": "6.1"}, {"kernel": "6.2"}])
    assert check(tmp_path, "acknowledge", "v2", "--note", "another kernel").code == 0
    found = check(tmp_path, "list", "--json").json
    assert found["format"] == "lastro-history-campaigns/1"
    assert found["campaigns"][0] == {
        "study": "small", "scenario": "chain", "host": "edge-7", "campaign": "c1", "label": "v1",
        "measured_utc": "2026-10-01T10:00:00Z", "constants": {"tcp_s": "15"}, "facts": [],
    }  # fmt: skip
    assert [each["facts"] for each in found["campaigns"][1:]] == [
        [{"at": "v2", "name": "kernel", "before": "6.1", "after": "6.2"}], [],
    ]  # fmt: skip
    (remark,) = found["remarks"]
    assert (remark["kind"], remark["text"], remark["at"]) == ("acknowledged", "another kernel", "2026-10-02T10:00:00Z")
    campaigns = check(home, "list", "--json").json["campaigns"]
    assert [fact["at"] for each in campaigns for fact in each["facts"]] == ["v9"]


def exported(home: Path, format_: str, *words: object) -> dict[str, list[Sample]]:
    """The samples of an export by the name of their metric."""
    done = check(home, "export", "--format", format_, *words)
    assert done.code == 0, done.err
    samples = exposition.read(done.out, openmetrics=format_ == "openmetrics")
    return by_key((sample.name, sample) for sample in samples)


def test_the_newest_means_are_for_prometheus(home: Path) -> None:
    newest = exported(home, "prometheus")
    assert {name: len(samples) for name, samples in newest.items()} == dict.fromkeys(FAMILIES, 4)
    (runc,) = (each for each in newest[MEAN] if {"throughput", "platform=runc"} <= set(each.labels.values()))
    assert runc.labels == {
        "study": "small", "scenario": "chain", "host": "edge-7, AMD EPYC 7B13, 2", "metric": "throughput",
        "unit": "Mbit/s", "treatment": "platform=runc",
    }  # fmt: skip
    of_runc = {name: each for name in FAMILIES for each in newest[name] if runc.labels.items() <= each.labels.items()}
    (known,) = (each for each in check(home, "check", "--json").json["series"] if each["changes"])
    point = known["points"][-1]
    assert [of_runc[name].value for name in (MEAN, LOW, HIGH, N)] == [
        point[key] for key in ("mean", "low", "high", "n")
    ]
    assert of_runc[MEASURED].value == datetime.fromisoformat(point["measured_utc"]).timestamp()
    assert of_runc[CAMPAIGN].labels == {**runc.labels, "campaign": "c16", "label": "v16"}
    assert sorted(each.value for each in newest[ALARMS]) == [0, 0, 0, 1] and of_runc[ALARMS].value == 1
    assert len(exported(home, "prometheus", "--metric", "jitter")[MEAN]) == 2


def test_all_means_are_for_openmetrics_with_their_times(home: Path) -> None:
    every = exported(home, "openmetrics")
    assert {name: len(samples) for name, samples in every.items()} == {**dict.fromkeys(FAMILIES, 64), ALARMS: 4}
    assert [each.time for each in every[MEAN]] == [each.value for each in every[MEASURED]]
    newest = {str(each.labels): each.value for each in exported(home, "prometheus")[MEAN]}
    assert {str(each.labels): each.value for each in every[MEAN]} == newest, "the last one of each series"


def test_a_campaign_is_added_once_and_only_when_it_has_ended(home: Path, tmp_path: Path) -> None:
    again = check(home, "add", home / "c1", home / "c2")
    assert (again.code, again.out) == (0, f"{home / 'h.db'}: 0 added, 2 known already\n")
    running = make_campaign(tmp_path / "r", _STUDY, stop_after=3)
    is_error(check(tmp_path, "add", running), 2, "has not ended", "lastro resume")
    nameless = copy.deepcopy(PROVENANCE)
    nameless["host"]["hostname"] = "anonymous"
    made = campaign(tmp_path, 3, {}, nameless)
    is_error(check(tmp_path, "add", made), 2, "does not say on which host it ran")
    assert not (tmp_path / "h.db").exists()


def with_constants(home: Path, number: int, **settings: object) -> None:
    """Add a campaign of a study with these constants to a history."""
    study = make_study({"platform": ("runc",)}, replicates=2, metrics=METRICS[:1], settings=settings)
    directory = make_campaign(home / f"c{number}", study, day=f"2026-10-0{number}")
    assert check(home, "add", directory, "--label", HOSTILE).code == 0


def test_each_series_has_labels_of_its_own_that_stay(tmp_path: Path) -> None:
    constants = []
    for number, tcp_s in ((2, 15), (3, 30), (1, 45), (4, 15)):  # an older campaign may be added later
        with_constants(tmp_path, number, tcp_s=tcp_s, udp_s=5)
        constants.append([each.labels.get("constants") for each in exported(tmp_path, "prometheus")[MEAN]])
    assert constants == [[None], [None, "tcp_s=30"], [None, "tcp_s=30", "tcp_s=45"], [None, "tcp_s=30", "tcp_s=45"]]
    assert {each.labels["label"] for each in exported(tmp_path, "openmetrics")[CAMPAIGN]} == {HOSTILE}


def test_series_without_distinct_labels_are_exported_as_one(tmp_path: Path) -> None:
    """Campaigns of a Lastro that did not record `tcp_s` lie between campaigns that differ in it."""
    recorded = (
        {"tcp_s": 15, "udp_s": 5},
        {"udp_s": 5},
        {"tcp_s": 20, "udp_s": 5},
        {"tcp_s": 15, "udp_s": 5},
        {"udp_s": 5},
    )
    for number, settings in enumerate(recorded, 1):
        with_constants(tmp_path, number, **settings)
    assert [len(each["points"]) for each in check(tmp_path, "check", "--json").json["series"]] == [4, 1]
    newest = exported(tmp_path, "prometheus")
    assert [each.labels["campaign"] for each in newest[CAMPAIGN]] == ["c5"] and len(newest[MEAN]) == 1
    every = exported(tmp_path, "openmetrics")[CAMPAIGN]
    assert [each.labels["campaign"] for each in every] == ["c1", "c2", "c3", "c4", "c5"]


def test_other_constants_are_another_series(tmp_path: Path) -> None:
    for number, tcp_s in enumerate((15, 15, 30), 1):
        with_constants(tmp_path, number, tcp_s=tcp_s)
    found = check(tmp_path, "check", "--json").json
    assert [len(each["points"]) for each in found["series"]] == [2, 1]
    shown = check(tmp_path, "show", "throughput").out
    assert "runc (tcp_s = 15)" in shown and "runc (tcp_s = 30)" in shown
    other = copy.deepcopy(PROVENANCE)
    other["host"]["hostname"] = "edge-8"
    campaign(tmp_path, 9, {}, other)
    assert check(tmp_path, "add", tmp_path / "c9").code == 0
    shown = check(tmp_path, "show", "throughput").out
    assert "runc (edge-8, AMD EPYC 7B13, 2)" in shown and "runc (edge-7, AMD EPYC 7B13, 2, tcp_s = 15)" in shown
    assert found["answer"] == "Nothing can be decided yet: a series needs 6 campaigns"


def test_what_cannot_be_is_one_clear_error(home: Path, tmp_path: Path) -> None:
    is_error(check(tmp_path, "check"), 2, "does not exist", "lastro history add DIR")
    is_error(check(home, "show"), 2, "needs a metric")
    is_error(check(home, "show", "throughputs"), 2, "no metric 'throughputs'", "did you mean 'throughput'?")
    is_error(check(home, "check", "--where", "platfrm=runc"), 2, "no factor 'platfrm'", "'platform'")
    is_error(check(home, "check", "--sentinel", "platform=natve"), 2, "no level 'natve'", "'native'")
    is_error(check(home, "check", "v9"), 2, "does not take 'v9'")
    is_error(check(home, "check", "--label", "x"), 2, "--label is not for `lastro history check`")
    is_error(check(home, "check", "--format", "openmetrics"), 2, "--format openmetrics is not for")
    is_error(check(home, "acknowledge", "v9"), 2, "needs a reason", "--note")
    is_error(check(home, "acknowledge", "v99", "--note", "x"), 2, "no campaign or label 'v99'")
    (tmp_path / "h.db").write_text("no database")
    is_error(check(tmp_path, "check"), 5, "is not a readable history of Lastro", "--file")
    is_error(lastro("history", "check", "--file", home / "c1" / "campaign.db"), 5, "unexpected table")
    (tmp_path / "link.db").symlink_to(home / "h.db")
    is_error(check(tmp_path, "check", file="link.db"), 2, "a symbolic link")


def test_a_history_only_grows_and_is_checked_when_it_is_read(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "h.db"
    file.write_bytes((home / "h.db").read_bytes())
    with sqlite3.connect(file) as db:
        for statement in ("DELETE FROM point", "UPDATE point SET document = '{}'"):
            with pytest.raises(sqlite3.IntegrityError, match="only grows"):
                db.execute(statement)
        db.execute("INSERT INTO point(once, document) VALUES ('x', '{\"campaign\": 3}')")
    is_error(check(tmp_path, "check"), 5, "table point, row 17")
    for name, value, why in (("measured_utc", "soon", "isoformat"), ("metrics", [], "no metric 'jitter'")):
        file.write_bytes((home / "h.db").read_bytes())
        with sqlite3.connect(file) as db:
            (text,) = db.execute("SELECT document FROM point WHERE id = 1").fetchone()
            db.execute(
                "INSERT INTO point(once, document) VALUES ('x', ?)", (json.dumps({**json.loads(text), name: value}),)
            )
        is_error(check(tmp_path, "check"), 5, "table point, row 17", why)
    file.write_bytes(b"")
    assert check(tmp_path, "add", home / "c1").code == 0, "its first writer may have been killed"
