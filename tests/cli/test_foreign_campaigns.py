"""Campaigns that are not ours: a database made or changed by somebody else. Exit code 5 that names the cell, or a
correct result, in bounded time; never a traceback. What no study file could say is not run: exit code 2."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
import zlib
from array import array
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lastro.host import facts

from ..support.products import some
from .conftest import Bench, Finished, is_error, lastro

CLAIMS = """
[[claim]]
id = "faster"
says = "b is faster than a"
compare = { metric = "speed", of = { level = "b" }, to = { level = "a" } }
direction = "higher"
"""
NOISE_FLOOR = {
    "format": 2, "directory": "aa", "at_utc": "2026-11-02T10:00:00+00:00", "blocks": 2, "pairs": 5, "confidence": 0.95,
    "metrics": {
        "speed": {
            "floor": 0.03, "treatment": "a", "absent_because": None, "n_pairs": 5, "ratio": 1.0,
            "interval": {"low": 0.98, "high": 1.02},
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trials of four have run, and everything that a campaign may have is in it."""
    place = Bench(tmp_path_factory.mktemp("whole"))
    factors = {"level": ["a", "b"]}
    assert place.run(factors, calibration="good", baseline={"level": "a"}).code == 0
    (place.home / "claims.toml").write_text(CLAIMS)
    change(place.directory, "INSERT INTO meta VALUES ('noise_floor', ?)", json.dumps(NOISE_FLOOR))
    change(place.directory, "UPDATE trial SET state = 'running' WHERE number = 4")
    return place.directory


@pytest.fixture
def copy(campaign: Path, tmp_path: Path) -> Path:
    shutil.copy(campaign.parent / "claims.toml", tmp_path)
    return shutil.copytree(campaign, tmp_path / "copy")


def change(directory: Path, sql: str, *args: object) -> None:
    with closing(sqlite3.connect(directory / "campaign.db", isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints=ON")
        db.execute(sql, args)


def every_reader(directory: Path) -> dict[str, list[object]]:
    """Each command that opens a campaign; the one that goes on with it comes last."""
    home = directory.parent
    return {
        "status": ["status", directory],
        "results": ["results", directory],
        "json": ["results", directory, "--json"],
        "csv": ["results", directory, "--csv", home / "all.csv", "--parquet", home / "all.parquet"],
        "show": ["show", directory, 1],
        "show --json": ["show", directory, 1, "--json"],
        "commands": ["show", directory, 1, "--commands"],
        "topology": ["show", directory, 1, "--topology"],
        "claims": ["claims", directory, "--claims", home / "claims.toml"],
        "advise": ["advise-replicates", directory],
        "compare": ["compare", directory, directory],
        "report": ["report", directory, "-o", home / "page.html"],
        "resume": ["resume", directory, "--no-report"],
    }


def _cell(table: str, column: str, value: object, where: str = "rowid = 1") -> Callable[[Path], None]:
    return lambda directory: change(directory, f"UPDATE {table} SET {column} = ? WHERE {where}", value)


def _meta(key: str, **changes: object) -> Callable[[Path], None]:
    """A JSON document of the campaign, in which the value at a dotted path ('__' between keys) is another."""

    def damage(directory: Path) -> None:
        for path, value in changes.items():
            place = "$." + path.replace("__", ".")
            sql = "UPDATE meta SET value = json_set(value, ?, json(?)) WHERE key = ?"
            change(directory, sql, place, json.dumps(value), key)

    return damage


def _looks(**changes: object) -> Callable[[Path], None]:
    """A campaign that ran until a decision, with one look, of which some values are others."""
    look = dict.fromkeys(("accepted", "rejected", "dropped"), ()) | {"block": 2, "at_utc": "2026-01-01T00:00"}
    look |= {"recommended": None, "stop": "decided"}

    def damage(directory: Path) -> None:
        _meta("study", design__stopping="decided", design__max_replicates=2, sla={"speed": "> 1"})(directory)
        change(directory, "INSERT INTO meta VALUES ('looks', ?)", json.dumps([look | changes]))

    return damage


def _notes(value: object) -> Callable[[Path], None]:
    """Every note that a report reads is something else; parts from elsewhere may write so."""
    return _cell("attempt", "notes", json.dumps(dict.fromkeys(READ_NOTES, value)))


def _transcript(**changes: object) -> Callable[[Path], None]:
    return _cell("attempt", "transcript", _packed([{**RUN, **changes}]))


def _packed(value: object) -> bytes:
    return zlib.compress(json.dumps(value).encode())


def _samples(*values: float) -> bytes:
    return zlib.compress(array("d", values).tobytes())


OF_FIRST = "attempt = (SELECT id FROM attempt WHERE trial = 1)"
DEEP = "[" * 10_000 + "]" * 10_000
READ_NOTES = (
    "usage", "host", "timeline_s", "network", "topology", "remarks", "really", "residuals", "doses", "ceiling",
    "generator_limited", "speed",
)  # fmt: skip
RUN = {"kind": "run", "argv": ["true"], "stdin": None, "returncode": 0}

# The damage, and what the error of `results` or of `show --json` names; None: the commands may also read on.
DAMAGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "notes that are a number": (_cell("attempt", "notes", "5"), "table attempt, row 1, column notes"),
    "notes that are a list": (_cell("attempt", "notes", "[]"), "table attempt, row 1, column notes"),
    "notes of two documents": (_cell("attempt", "notes", '{}, {"a": 1}'), "column notes: has extra data after its end"),
    "deep notes": (_cell("attempt", "notes", f'{{"a": {DEEP}}}'), "column notes: is nested too deeply"),
    "rather deep notes": (_cell("attempt", "notes", '{"residuals": ' * 400 + "1" + "}" * 400), "nested too deeply"),
    "notes with a huge integer": (_cell("attempt", "notes", f'{{"a": 1{"0" * 400}}}'), "column notes"),
    "notes with a huge number": (_cell("attempt", "notes", '{"usage": {"dut": {"cpu_s": 1e308}}}'), "column notes"),
    "notes that are odd": (_notes({"a": [{"kind": 5, "metrics": 7, "b": None}], "": ["x", [], {}]}), None),
    "notes of other kinds": (_notes([["x"], 5, None, {"kind": [], "metrics": [[]]}]), None),
    "notes that are texts": (_notes("x"), None),
    "levels that are a number": (_cell("treatment", "levels", "5"), "table treatment, row 1, column levels"),
    "levels that are lists": (_cell("treatment", "levels", '{"level": []}'), "table treatment, row 1, column levels"),
    "a level of no factor": (_cell("treatment", "levels", '{"level": "z"}'), "table treatment, row 1, column levels"),
    "a level that is no number": (_cell("treatment", "levels", '{"level": NaN}'), "column levels"),
    "a hole among the treatments": (_cell("treatment", "idx", 7), "table treatment, row 7, column idx"),
    "a reason in bytes": (_cell("treatment", "unavailable", b"why"), "table treatment, row 1, column unavailable"),
    "a trial of no treatment": (_cell("trial", "treatment", 99), "table trial, row 1, column treatment"),
    "a trial of a negative treatment": (_cell("trial", "treatment", -1), "table trial, row 1, column treatment"),
    "a trial of a named treatment": (_cell("trial", "treatment", "first"), "table trial, row 1, column treatment"),
    "a negative trial": (_cell("trial", "number", -5), "table trial, row -5, column number"),
    "a trial of a huge number": (_cell("trial", "number", 2**62), "column number"),
    "a negative block": (_cell("trial", "block", -1), "table trial, row 1, column block"),
    "a block in bytes": (_cell("trial", "block", b"1"), "table trial, row 1, column block"),
    "a block that is a fraction": (_cell("trial", "block", 1.5), "table trial, row 1, column block"),
    "duplicate blocks": (_cell("trial", "block", 1, "number > 0"), "column block: treatment"),
    "a state of none": (_cell("trial", "state", "vaild"), "table trial, row 1, column state: is 'vaild'"),
    "an attempt of no trial": (_cell("attempt", "trial", 99), "row 1, column trial: there is no trial 99"),
    "a negative attempt": (_cell("attempt", "attempt", -3), "table attempt, row 1, column attempt"),
    "a start at no time": (_cell("attempt", "started_utc", "noon"), "table attempt, row 1, column started_utc"),
    "a start on no day": (_cell("attempt", "started_utc", "2026-99-99T99:99:99Z"), None),
    "a negative duration": (_cell("attempt", "duration_s", -1.0), "table attempt, row 1, column duration_s"),
    "an endless duration": (_cell("attempt", "duration_s", 9e999), "table attempt, row 1, column duration_s"),
    "a duration of 1e149 s": (_cell("attempt", "duration_s", 1e149), "table attempt, row 1, column duration_s"),
    "a verdict that is no bit": (_cell("attempt", "valid", 5), "table attempt, row 1, column valid"),
    "a reason that is a text": (_cell("attempt", "reasons", '"why"'), "table attempt, row 1, column reasons"),
    "reasons that are numbers": (_cell("attempt", "reasons", "[1]"), "table attempt, row 1, column reasons: [0] is 1"),
    "a value of 1e149": (_cell("measurement", "value", 1e149, OF_FIRST), "table measurement, row 1, column value"),
    "a value below all": (_cell("measurement", "value", -1e300, OF_FIRST), "table measurement, row 1, column value"),
    "a tiny value": (_cell("measurement", "value", 5e-324, OF_FIRST), None),
    "a value of nothing": (_cell("measurement", "value", None, OF_FIRST), None),
    "an endless value": (_cell("measurement", "value", 9e999, OF_FIRST), None),
    "a value in words": (_cell("measurement", "value", "high", OF_FIRST), "table measurement, row 1, column value"),
    "a value in bytes": (_cell("measurement", "value", b"\x00", OF_FIRST), "table measurement, row 1, column value"),
    "a metric in bytes": (
        _cell("measurement", "metric", b"\xff", f"{OF_FIRST} AND metric = 'speed'"),
        "table measurement, row 1, column metric",
    ),
    "a value of no attempt": (_cell("measurement", "attempt", 77, OF_FIRST), "there is no attempt 77"),
    "no samples": (_cell("series", "samples", b"", OF_FIRST), "table series, row 'speed', column samples"),
    "samples cut short": (_cell("series", "samples", zlib.compress(b"abc"), OF_FIRST), "column samples"),
    "samples in words": (_cell("series", "samples", "abc", OF_FIRST), "column samples"),
    "samples of 1e300": (_cell("series", "samples", _samples(1.0, 1e300), OF_FIRST), "column samples"),
    "samples that are no numbers": (_cell("series", "samples", _samples(9e999, float("nan")), OF_FIRST), None),
    "a unit in bytes": (_cell("series", "unit", b"\xff", OF_FIRST), "table series, row 'speed', column unit"),
    "a transcript that is a number": (_cell("attempt", "transcript", _packed(5)), "row 1, column transcript"),
    "a transcript in words": (_cell("attempt", "transcript", "ls"), "row 1, column transcript"),
    "a deep transcript": (_cell("attempt", "transcript", zlib.compress(DEEP.encode())), "column transcript"),
    "a record of no kind": (_cell("attempt", "transcript", _packed([{"argv": ["ls"]}])), "has no kind in its record 0"),
    "a record of a private method": (_transcript(kind="_pause"), "column transcript: [0].kind is '_pause'"),
    "a command that is a text": (_transcript(argv="ls"), "argv"),
    "a command of numbers": (_transcript(argv=[1, None]), "argv"),
    "a code that is a script": (_transcript(returncode="1\nid"), "returncode"),
    "a start of a command in words": (_transcript(started_s="x"), "started_s"),
    "a command without input": (_cell("attempt", "transcript", _packed([{"kind": "run"}])), "has no argv"),
    "a calibration of another shape": (_cell("calibration", "value", '{"a": [1]}', "true"), None),
    "a calibration that is no JSON": (_cell("calibration", "value", "{", "true"), "column value"),
    "a calibration in bytes": (_cell("calibration", "value", b"\x00", "true"), "column value"),
    "an event in bytes": (_cell("event", "text", b"\xff"), "column text"),
    "an event at no time": (_cell("event", "at_utc", "noon"), None),
    "provenance that is a number": (_cell("meta", "value", "5", "key = 'provenance'"), "row 'provenance'"),
    "a host that is a number": (_meta("provenance", host=5), "column value: host is 5"),
    "a testbed that is a text": (_meta("provenance", testbed="x"), "column value: testbed is 'x'"),
    "shared CPUs that are a number": (_meta("provenance", testbed={"shared_cpus": 5}), "testbed.shared_cpus is 5"),
    "a testbed's file that is a number": (_meta("provenance", testbed={"file": 5}), "testbed.file is 5"),
    "tools that are texts": (_meta("provenance", tools={"ip": "6"}), "tools.ip is '6'"),
    "odd facts": (_meta("provenance", kernel=[[]], host__smt=[], host__swap_bytes=-1e99), None),
    "CPUs that are a list": (_meta("provenance", host__cpus=[]), "host.cpus is []"),
    "memory that is a text": (_meta("provenance", host__memory_bytes="x"), "host.memory_bytes is 'x'"),
    "cores that are a text": (_meta("provenance", cores="x"), "column value: cores is 'x'"),
    "cores that are shared as a text": (_meta("provenance", cores={"shared": "0"}), "cores.shared is '0'"),
    "speeds in words": (_meta("provenance", cores={"speed_beside": {"1": "<b>"}}), "speed_beside.1 is '<b>'"),
    "tools of a variant as a text": (
        _meta("provenance", root_filesystem={"variants": {"x": {"image_tools": "y"}}}), "image_tools is 'y'"
    ),
    "properties of numbers": (_meta("provenance", properties={"platform": {"runc": 7}}), "platform.runc is 7"),
    "a property in words": (
        _meta("provenance", properties={"platform": {"runc": {"daemon": {"value": "yes"}}}}), "daemon.value is 'yes'"
    ),
    "a noise floor of lists": (_meta("noise_floor", metrics=[]), "metrics is []"),
    "a noise floor in words": (_meta("noise_floor", metrics__speed__floor="low"), "metrics.speed.floor is 'low'"),
    "a noise floor of words for blocks": (_meta("noise_floor", blocks="two"), "blocks is 'two'"),
    "a negative noise floor": (_meta("noise_floor", metrics__speed__floor=-0.5, blocks=-2), None),
    "a noise floor of 1e90": (_meta("noise_floor", metrics__speed__floor=1e90), None),
    "a noise floor of another format": (_cell("meta", "value", '{"format": [9]}', "key = 'noise_floor'"), None),
    "a study without factors": (_meta("study", factors=[]), "table treatment, row 0, column levels"),
    "a factor without levels": (_meta("study", factors=[{"name": "level", "levels": []}]), "a factor has no levels"),
    "a factor of a number": (_meta("study", factors=[{"name": 5, "levels": ["a", "b"]}]), "factors[0].name is 5"),
    "a study of two such factors": (_meta("study", factors=[{"name": "level", "levels": ["a", "b"]}] * 2), "factors"),
    "negative replicates": (_meta("study", design__replicates=-1), "design.replicates"),
    "replicates in words": (_meta("study", design__replicates="two"), "design.replicates is 'two'"),
    "a confidence of 2": (_meta("study", design__confidence=2), "design.confidence"),
    "an unknown baseline": (_meta("study", design__baseline={"level": "z"}), None),
    "a baseline of no factor": (_meta("study", design__baseline={"other": "z"}), None),
    "a sequential study of no metric": (
        _meta("study", design__stopping="sequential", design__precise_metrics=["none"]), None
    ),
    "a decision without levels": (_meta("study", design__stopping="decided", design__max_replicates=2), None),
    "a decision on no level": (_meta("study", design__stopping="decided", sla={"speed": "fast"}), None),
    "a look of another shape": (_looks(block="two"), "row 'looks'"),
    "a look at a block to come": (_looks(block=10**6), "its blocks are not in order"),
    "a look at candidates that are not there": (_looks(accepted=[99], recommended=99), None),
    "a metric in words": (_meta("study", metrics=["speed"]), "metrics[0] is 'speed'"),
    "a metric that is better elsewhere": (
        _meta("study", metrics=[{"name": "speed", "unit": "", "better": "left", "summary": ""}]), "metrics[0].better"
    ),
    "a study without metrics": (_meta("study", metrics=[], all_metrics=[]), None),
    "settings that are a list": (_meta("study", settings=[]), "settings is []"),
    "settings of other kinds": (_meta("study", settings={"trial_s": "long", "step": 7.5}), "settings.trial_s: must be"),
    "no settings": (_meta("study", settings={}), "settings.fault: is missing"),
    "a level that no study file could name": (
        lambda directory: change(directory, "UPDATE meta SET value = replace(value, '\"b\"', '\"$(id)\"')")
        or change(directory, "UPDATE treatment SET levels = replace(levels, '\"b\"', '\"$(id)\"')"),
        "factors.level: '$(id)' is not a valid level",
    ),
    "a scenario of no name": (_meta("study", scenario=5), "scenario is 5"),
    "a title with lone surrogates": (_meta("study", title="\ud800 title", description="\udfff"), None),
    "a format that is a list": (_cell("meta", "value", "[[], {}, 5]", "key = 'format'"), "row 'format', column value"),
    "a process of odd kinds": (
        lambda directory: change(directory, "INSERT INTO meta VALUES ('process', '[[], {}, 5]')"), "row 'process'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", some(DAMAGES, 15))
def test_one_cell_is_damaged(copy: Path, damage: str) -> None:
    wreck, names = DAMAGES[damage]
    wreck(copy)
    drawn = not any(word in (names or "") for word in ("transcript", "samples", "argv"))  # which no figure shows
    errors = ""
    for name, words in every_reader(copy).items():
        began_s = time.monotonic()
        done = lastro(*words, drawn=drawn)
        assert time.monotonic() - began_s < 30, (name, "bounded time")
        assert "defect" not in done.err, (name, done.err)
        assert done.code in (0, 2, 5), (name, done)
        if done.code:
            is_error(done, done.code, *([str(copy / "campaign.db")] if done.code == 5 else []))
            errors += done.err
    assert names is None or names in errors, (damage, errors)


SCHEMAS = {
    "a view in place of a table": (
        ["DROP TABLE event", "CREATE VIEW event AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
         " SELECT x AS id, 'now' AS at_utc, 'x' AS kind, 'x' AS text FROM c"],
        "it has an unexpected view event",
    ),
    "a trigger": (
        ["CREATE TRIGGER more AFTER UPDATE ON trial BEGIN DELETE FROM attempt; END"],
        "it has an unexpected trigger more",
    ),
    "a generated column": (
        ["ALTER TABLE event ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))"],
        "its table event has an unexpected definition",
    ),
    "an index on an expression": (["CREATE INDEX more ON trial(abs(number))"], "it has an unexpected index more"),
    "a virtual table": (["CREATE VIRTUAL TABLE more USING fts5(text)"], "it has an unexpected table more"),
    "a table less": (["DROP TABLE calibration"], "it has no table calibration"),
}  # fmt: skip


@pytest.mark.parametrize("which", SCHEMAS)
def test_a_schema_that_is_not_ours(copy: Path, which: str) -> None:
    statements, words = SCHEMAS[which]
    for statement in statements:
        change(copy, statement)
    for argv in (["status", copy], ["show", copy, 1], ["resume", copy, "--no-report"]):
        began_s = time.monotonic()
        is_error(lastro(*argv), 5, str(copy / "campaign.db"), words)
        assert time.monotonic() - began_s < 20


def test_a_small_file_that_unpacks_to_gigabytes(copy: Path) -> None:
    """After a full flush, a block stands for itself: so one can be repeated instead of compressed again."""
    engine = zlib.compressobj(9)
    first, other = (engine.compress(bytes(1 << 20)) + engine.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + other * ((1 << 11) - 1)
    assert len(zlib.decompressobj().decompress(bomb, 5 << 20)) == 5 << 20
    _cell("series", "samples", bomb, OF_FIRST)(copy)
    _cell("attempt", "transcript", bomb)(copy)
    for argv in (["show", copy, 1], ["show", copy, 1, "--json"], ["show", copy, 1, "--commands"]):
        is_error(lastro(*argv), 5, "unpacks to more data than a campaign of this size can hold")


# A script of commands, which is run as root


def _show_commands(directory: Path, *more: object) -> Finished:
    return lastro("show", directory, 1, "--commands", *more)


def test_a_campaign_of_this_machine_needs_no_trust(campaign: Path) -> None:
    done = _show_commands(campaign)
    assert done.code == 0 and done.out.startswith("#!/bin/sh\n") and "NOT RECORDED" not in done.out
    is_error(lastro("show", campaign, 1, "--trust"), 2, "--trust applies only to --commands")


HERE = facts.controller()
ELSEWHERE: dict[str, tuple[dict[str, object], bool]] = {
    "another machine of this name": ({"controller": {"hostname": HERE["hostname"], "machine": "0" * 16}}, False),
    "this machine by another name": ({"controller": {"hostname": "old", "machine": HERE["machine"]}}, True),
    "another host, of before controllers": ({"controller": {}, "host__hostname": "edge-7"}, False),
    "this host, of before controllers": ({"controller": {}}, True),
    "a machine without a name": ({"controller": {}, "host": {}}, False),
}  # fmt: skip


@pytest.mark.skipif(not HERE["machine"], reason="this machine has no machine-id(5)")
@pytest.mark.parametrize("which", ELSEWHERE)
def test_a_campaign_of_another_machine_needs_trust(copy: Path, which: str) -> None:
    recorded, trusted = ELSEWHERE[which]
    _meta("provenance", **recorded)(copy)
    assert _show_commands(copy).code == (0 if trusted else 2)
    if not trusted:
        is_error(_show_commands(copy), 2, "cannot be trusted: it was recorded on", "--trust prints the script")
        script = _show_commands(copy, "--trust").out
        assert "# NOT RECORDED BY YOU ON THIS HOST: it was recorded on" in script


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
@pytest.mark.parametrize("name", [".", "campaign.db"])
def test_a_campaign_of_another_user_needs_trust(copy: Path, name: str) -> None:
    os.chown(copy / name, 65534, 65534)
    is_error(_show_commands(copy), 2, "belongs to user 65534")
    assert "# NOT RECORDED BY YOU ON THIS HOST" in _show_commands(copy, "--trust").out


def test_nothing_but_the_recorded_commands_is_run(copy: Path) -> None:
    """Words of the database that are no commands, with a line break and a command after it, stay comments."""
    evil = "x\ntouch evil\r\x0btouch evil\u2028touch evil"
    _meta("study", name=evil)(copy)
    _meta("provenance", controller={"hostname": evil})(copy)
    words = ["printf", "%s|", evil, "$(touch evil)", "; touch evil", "'\ntouch evil\n'", "-n"]
    more = {**RUN, "argv": ["cat"], "stdin": "END\ntouch evil\nEND\r\n"}
    failed = {**RUN, "argv": words, "returncode": 3}
    _cell("attempt", "transcript", _packed([failed, more]))(copy)
    script = _show_commands(copy, "--trust")
    assert script.code == 0
    done = subprocess.run(["sh"], input=script.out.encode(), capture_output=True, cwd=copy)
    assert done.stderr == b"" and list(copy.glob("evil*")) == []
    assert done.stdout.decode() == "|".join(words[2:]) + "|" + "END\ntouch evil\nEND\r\n"


@pytest.mark.parametrize("changes", [{"argv": ["a\0b"]}, {"stdin": "a\0b"}, {"ssh": ["a\0b"]}])
def test_a_script_has_no_nul(copy: Path, changes: dict[str, object]) -> None:
    _transcript(**changes)(copy)
    is_error(_show_commands(copy), 2, "has a NUL byte")
