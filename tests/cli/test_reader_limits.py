"""Readers end within a bound of memory and time, whatever is in a file or beside it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.app import verify
from lastro.app.verify import Verification
from lastro.errors import InputError, LastroError
from lastro.results.bundle_archive import open_bundle
from lastro.results.connection import connect
from lastro.scenarios.routing.topology_file import read_topology

from ..fuzz.running import once
from ..fuzz.targets import TARGETS
from ..support.campaigns import METRICS, make_campaign, make_study
from ..support.products import some
from .conftest import ENVIRONMENT, Finished, command, lastro

MOST_KIB, MOST_S = 256 << 10, 5  # of memory that is not a file's, and of processor time
WAIT_S = 60  # of the wall, after which a reader hangs: other tests use the processors, too
LIMITED = f'ulimit -d {MOST_KIB}; ulimit -t {MOST_S}; exec "$@"'


def bounded(*words: object, cwd: Path) -> Finished:
    """Run a command within the bounds: without memory it ends with code 1, without time by a signal."""
    argv = ["/bin/sh", "-c", LIMITED, "sh", *command(*words)]
    environment = {**ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd, env=environment, timeout=WAIT_S
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{words} still ran after {WAIT_S} s")
    assert done.returncode not in (1, -signal.SIGXCPU, -signal.SIGKILL), f"{words}: {done.returncode} {done.stderr}"
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = make_study({"level": ("a", "b")}, replicates=3, baseline={"level": "a"})
    return make_campaign(tmp_path_factory.mktemp("small") / "c", study)


@pytest.fixture
def copy(campaign: Path, tmp_path: Path) -> Path:
    return shutil.copytree(campaign, tmp_path / "c")


# Readers of a campaign, and what may be planted beside it

READERS: dict[str, tuple[str, ...]] = {
    "status": (), "results": (), "report": ("-o", "-"), "show": ("1", "--json"), "claims": (), "advise-replicates": (),
    "noise-floor": (), "bundle": ("-o", "b.zip"), "resume": (),
}  # fmt: skip
PLANTS: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "link": lambda place: place.symlink_to("/etc/hostname"),
    "device": lambda place: place.symlink_to("/dev/zero"),
    "loop": lambda place: place.symlink_to(place.name),
    "directory": os.mkdir,
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["campaign.db", "campaign.db-journal", "campaign.db-wal", "campaign.db-shm"])
def test_a_database_is_not_opened_beside_what_is_planted(copy: Path, name: str, plant: str) -> None:
    (copy / name).unlink(missing_ok=True)
    PLANTS[plant](copy / name)
    with pytest.raises(LastroError, match=name):
        connect(copy, readonly=True)


@pytest.mark.parametrize("reader", some(READERS, 4))
def test_no_reader_waits_for_a_fifo(copy: Path, reader: str) -> None:
    os.mkfifo(copy / "campaign.db-journal")
    found = bounded(reader, "c", *READERS[reader], cwd=copy.parent)
    assert found.code == 5 and "campaign.db-journal cannot be used: it is a FIFO" in found.err, found


# Values that take a hundred times their bytes


def change(directory: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(directory / "campaign.db")) as db, db:
        db.execute(sql, values)


AMPLIFIED = {
    "empty lists": b"[" + b"[]," * 12_000_000 + b"[]]",
    "empty objects": b"[" + b"{}," * 12_000_000 + b"{}]",
    "numbers": b"[" + b"7," * 12_000_000 + b"7]",
    "records": b"[" + b'{"kind":"stop","argv":["a"]},' * 1_200_000 + b'{"kind":"stop","argv":["a"]}]',
}


@pytest.mark.parametrize("kind", AMPLIFIED)
@pytest.mark.parametrize("words", some([["show", "c", 1, "--json"], ["bundle", "c", "-o", "b.zip"]], 2))
def test_a_transcript_of_many_values_in_few_bytes(copy: Path, kind: str, words: list[object]) -> None:
    change(copy, "UPDATE attempt SET transcript = ? WHERE trial = 1", zlib.compress(AMPLIFIED[kind], 9))
    found = bounded(*words, cwd=copy.parent)
    assert found.code == 5 and "holds more values than a campaign of this size can" in found.err, found


def test_one_long_text_is_shown(copy: Path) -> None:
    packed = zlib.compress(b'[{"kind":"write","path":"a","text":"' + b"x" * 24_000_000 + b'"}]', 9)
    change(copy, "UPDATE attempt SET transcript = ? WHERE trial = 1", packed)
    assert bounded("show", "c", 1, "--json", cwd=copy.parent).code == 0


def test_a_series_of_many_values_in_few_bytes(copy: Path) -> None:
    packed = zlib.compress(bytes(24_000_000), 9)
    change(copy, "INSERT OR REPLACE INTO series SELECT id, 'speed', 'x', ? FROM attempt WHERE trial = 1", packed)
    found = bounded("show", "c", 1, "--json", cwd=copy.parent)
    assert found.code == 5 and "values than a campaign of this size can" in found.err, found


@pytest.mark.parametrize("cell", ["meta.value", "attempt.notes", "attempt.reasons"])
def test_a_cell_of_many_values(copy: Path, cell: str) -> None:
    table, column = cell.split(".")
    where = "key = 'provenance'" if table == "meta" else "trial = 1"
    text = "[" + "[]," * 1_500_000 + "[]]"
    change(copy, f"UPDATE {table} SET {column} = ? WHERE {where}", text)
    for words in (["results", "c"], ["show", "c", 1, "--json"]):
        found = bounded(*words, cwd=copy.parent)
        assert found.code == 5 and "has more than 1000000 values" in found.err, found


def test_a_factor_of_many_levels_is_not_compared_in_all_its_pairs(tmp_path: Path) -> None:
    study = make_study({"level": tuple(range(150))}, replicates=2, metrics=METRICS[:1], baseline={"level": 0})
    make_campaign(tmp_path / "c", study)
    assert bounded("results", "c", cwd=tmp_path).code == 0


# Bundles


@pytest.fixture(scope="module")
def bundle(campaign: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bundle") / "b"
    assert lastro("bundle", campaign, "-o", place, drawn=False).code == 0
    return place


def crafted(bundle: Path, target: Path, name: str, data: bytes) -> Path:
    """Zip a bundle in which one file has other contents, and the hash of these."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for file in sorted(bundle.rglob("*")):
            if file.is_file():
                own = file.relative_to(bundle).as_posix()
                text = data if own == name else file.read_bytes()
                if own == "SHA256SUMS" and name != own:
                    before = hashlib.sha256((bundle / name).read_bytes()).hexdigest().encode()
                    text = text.replace(before, hashlib.sha256(data).hexdigest().encode())
                made.writestr(own, text)
    return target


CRAFTED = {
    "lines": ("SHA256SUMS", b"\n" * 30_000_000, 9, "has 30000000 lines"),
    "objects": (
        "ro-crate-metadata.json",
        b'{"@graph": [' + b"{}," * 10_000_000 + b"{}]}",
        2,
        "more than 1000000 values",
    ),
    "bytes": ("ro-crate-metadata.json", b" " * 100_000_000, 2, "has 100000000 bytes"),
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_zip_of_many_values_in_few_bytes(bundle: Path, tmp_path: Path, kind: str) -> None:
    name, data, code, words = CRAFTED[kind]
    found = bounded("verify", crafted(bundle, tmp_path / "b.zip", name, data), cwd=tmp_path)
    assert found.code == code and words in found.out + found.err, found


@pytest.mark.parametrize(
    ("lines", "reason"), [(100_000_000, "has 100000000 bytes, but"), (20_000_000, "line 1 is '', but")]
)
def test_a_report_of_many_lines_is_not_split(bundle: Path, tmp_path: Path, lines: int, reason: str) -> None:
    wanted = (bundle / "report" / "report.md").read_bytes()
    place = crafted(bundle, tmp_path / "b.zip", "report/report.md", b"\n" * lines)
    began_s = time.process_time()
    with open_bundle(place) as container:
        tracemalloc.start()
        found = verify._difference(container, "report/report.md", wanted, Verification({}, {}))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found.startswith(reason), found
    assert most < 128 << 20 and time.process_time() - began_s < MOST_S


# TOML, which tomllib reads in a time that grows with the square of the parts of a key, or in much memory

_SIZE = (1 << 20) - 100
HARD = {
    "a key of many parts": "x = 1\na" + ".a" * (_SIZE // 2) + " = 1\n",
    "a table of many parts": "[a" + ".a" * (_SIZE // 2) + "]\n",
    "many keys": "[settings]\n" + "".join(f'k{number:05} = ["a"]\n' for number in range(_SIZE // 15)),
    "many values": f"a = [{'1,' * (_SIZE // 2)}]\n",
    "many tables": "[[a]]\n" * (_SIZE // 6),
    "many tables within": "a = [" + "{}," * (_SIZE // 3) + "]\n",
}


@pytest.mark.parametrize("target", ["study", "claims", "testbed", "fleet", "topology"])
@pytest.mark.parametrize("kind", HARD)
def test_toml_that_is_hard_to_read_is_refused_soon(tmp_path: Path, kind: str, target: str) -> None:
    found = once(TARGETS[target], HARD[kind].encode(), tmp_path)
    assert not found.failures, found.traces


def test_the_text_of_the_study_in_a_campaign_may_be_as_hard(tmp_path: Path) -> None:
    """Baselines that differ are looked up in it."""
    study = make_study({"level": ("a", "b"), "step": (1, 2)}, replicates=2, baseline={"level": "a"})
    for name, level in (("one", "a"), ("two", "b")):
        design = replace(study.design, baseline={"level": level})
        make_campaign(tmp_path / name, replace(study, design=design, source=HARD["a key of many parts"]))
    found = bounded("report", "one", "two", "-o", "-", "--format", "md", cwd=tmp_path)
    assert found.code in (0, 2), found


# Topologies

NAMES = [f"{number:x}" for number in range(60_000)]
TOPOLOGIES = {
    "doubled.toml": f"nodes = {json.dumps([*NAMES, NAMES[-1]])}\n",
    "linked.toml": f"nodes = {json.dumps(NAMES[:20_000])}\n"
    + "".join(f'[[link]]\nends = ["{name}", "0"]\n' for name in NAMES[1:20_000]),
    "linked.graphml": "<graphml><graph>"
    + "".join(f'<node id="{name}"/>' for name in NAMES[:18_000])
    + "".join(f'<edge source="0" target="{name}"/>' for name in NAMES[1:18_000])
    + "</graph></graphml>",
    "linked.txt": "".join(f"0 {name}\n" for name in NAMES),
}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_of_many_routers_is_refused_soon(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TOPOLOGIES[name])
    assert (tmp_path / name).stat().st_size < 1 << 20
    began_s = time.process_time()
    with pytest.raises(InputError, match=r"is listed twice|routers; the limit is|more than 50000 values"):
        read_topology(str(tmp_path / name))
    assert time.process_time() - began_s < MOST_S
