"""`lastro bundle`: the same bytes anywhere, what a bundle contains and reveals, and what cannot be bundled."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from lastro.app import bundle as bundles
from lastro.campaign import suite as suites
from lastro.cli import main
from lastro.results.provenance import Provenance
from lastro.results.store import Store

from ..support.campaigns import make_campaign
from .bundled import HOME, HOST, OPTIONS, USER, small
from .conftest import Bench, finish, is_error, lastro, start
from .suites import write_folder

# The same everywhere


def test_the_same_bundle_in_another_place_zone_language_and_on_another_processor(zipped: Path, tmp_path: Path) -> None:
    """OpenBLAS and numpy take the instructions of an old processor where they are told to."""
    other = shutil.copytree(zipped.parent / "c1", tmp_path / "elsewhere" / "c1")
    (other.parent / "home").mkdir()
    (other.parent / "matplotlibrc").write_text("text.usetex: True\naxes.facecolor: red\n")
    env = {
        "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "5", "HOME": str(other.parent / "home"),
        "OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "2",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL", "COLUMNS": "40",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # as in a notebook's terminal
        "MPLCONFIGDIR": matplotlib.get_cachedir(),  # else it would first look for all fonts
    }  # fmt: skip
    # Both in one process: Python and its libraries take most of the time to begin.
    both = "import sys; from lastro.cli import main; here = sys.argv.index('verify')\n"
    both += "sys.exit(main(sys.argv[1:here]) or main(sys.argv[here:]))"
    words = ["bundle", "c1", *OPTIONS, "-o", "again.zip", "verify", zipped]
    found = finish(start(*words, cwd=other.parent, env=env, program=("-c", both)))
    assert found.code == 0 and found.out.splitlines()[-1] == "verified", found
    with zipfile.ZipFile(zipped) as one, zipfile.ZipFile(other.parent / "again.zip") as two:
        assert [name for name in one.namelist() if one.read(name) != two.read(name)] == []
    assert zipped.read_bytes() == (other.parent / "again.zip").read_bytes()


@pytest.mark.slow  # as the one above, but for all that differs there
def test_two_bundles_of_a_campaign_are_one(bundled_campaign: Path, zipped: Path, tmp_path: Path) -> None:
    assert main(["bundle", str(bundled_campaign), *OPTIONS, "-o", str(tmp_path / "b.zip")]) == 0
    assert (tmp_path / "b.zip").read_bytes() == zipped.read_bytes()


def test_the_database_in_a_bundle_is_the_campaign(bundled_campaign: Path, unpacked: Path) -> None:
    copy = unpacked / "campaign"
    with Store.open(bundled_campaign, readonly=True) as ours, Store.open(copy, readonly=True) as theirs:
        assert theirs.trials() == ours.trials() and theirs.treatments() == ours.treatments()
        one, two = ([(each.trial, each.attempt, each.measurements) for each in s.attempts()] for s in (ours, theirs))
        assert one == two and len(one) == 8
        assert ours.series(1, 1) == theirs.series(1, 1) != []
        assert ours.study.source == theirs.study.source
    assert {path.name for path in copy.iterdir()} == {"campaign.db", "study.toml"}


def test_the_query_in_the_readme_of_a_bundle_prints_values(unpacked: Path) -> None:
    command = next(line for line in (unpacked / "README.md").read_text().splitlines() if line.startswith("sqlite3 "))
    _, file, query = shlex.split(command)
    with closing(sqlite3.connect(unpacked / file)) as db:
        found = db.execute(query).fetchall()
    assert len(found) == 8 and {metric for _, metric, _ in found} == {"throughput"}


# What cannot be bundled


@pytest.mark.parametrize("reader", ["results", "decide", "report", "claims", "show", "status"])
def test_a_reader_of_campaigns_says_where_that_of_a_bundle_is(zipped: Path, unpacked: Path, reader: str) -> None:
    more = ["1"] if reader == "show" else []
    is_error(lastro(reader, zipped, *more), 2, "holds no campaign", "unpack it and give its directory campaign")
    is_error(lastro(reader, unpacked, *more), 2, "holds no campaign", f"give {unpacked / 'campaign'}")


def test_a_campaign_that_runs_is_one_error(bench: Bench) -> None:
    process = bench.begin({"level": ["a", "b"]}, replicates=50, trial_s=0.2)
    bench.wait_until_done(1)
    error = is_error(lastro("bundle", bench.directory), 2, "wait for its end", "lastro resume")
    assert f"is running, by process {process.pid} since 20" in error
    process.terminate()
    process.wait(timeout=60)
    assert not list(bench.home.glob("*.zip")) and not list(bench.home.glob(".lastro*"))
    stopped = lastro("bundle", bench.directory, drawn=False)
    assert stopped.code == 0 and "The campaign is unfinished. Trials that have not run: " in stopped.out


def _taken(folder: Path) -> list[str]:
    (folder / "taken").mkdir()
    return [str(small(folder / "c")), "-o", str(folder / "taken")]


NOT_BUNDLED: dict[str, tuple[Callable[[Path], list[str]], int, str]] = {
    "nothing": (lambda folder: [str(folder / "no")], 2, "holds no campaign"),
    "not-begun": (
        lambda folder: [str(make_campaign(folder / "c", stop_after=0))],
        2,
        "has no results: no trial has run",
    ),
    "author": (lambda folder: ["c", "--author", "<>"], 2, "--author '<>' is not a name"),
    "license": (lambda folder: ["c", "--license", "CC BY"], 2, "is neither an SPDX identifier nor a URL"),
    "contradiction": (lambda folder: ["c", "--anonymous", "--author", "A"], 2, "contradict each other"),
    "taken": (_taken, 2, "taken already exists"),
    "nowhere": (
        lambda folder: [str(small(folder / "c")), "-o", "/proc/no/b.zip"],
        3,
        "/proc/no/b.zip cannot be written",
    ),
}


@pytest.mark.parametrize("kind", NOT_BUNDLED)
def test_what_cannot_be_bundled_is_one_error(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, code, message = NOT_BUNDLED[kind]
    assert main(["bundle", *words(tmp_path)]) == code
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 2 and message in err.splitlines()[0], err
    assert not list(tmp_path.rglob("*.zip")) and not list(tmp_path.rglob(".lastro*"))


# Suites


def test_a_suite_becomes_one_bundle(tmp_path: Path) -> None:
    """One study has run with claims, another one was never begun."""
    folder = write_folder(
        tmp_path / "s", {"cpu": ({"level": ["a", "b"]}, {"replicates": 3}), "late": ({"level": ["a", "b"]}, {})}
    )
    campaign = tmp_path / "campaign"
    assert lastro("run", folder, "-o", campaign, "--no-report", "--replicates", 3).code == 0
    shutil.rmtree(campaign / "late")
    shutil.copytree(folder, campaign / "late", ignore=lambda _, names: [name for name in names if name != "late.toml"])
    (campaign / "late" / "late.toml").rename(campaign / "late" / "study.toml")
    suites.note_stop(campaign, "late", f"{campaign}/late: no room for {HOME}/images")
    made = lastro("bundle", campaign, "-o", tmp_path / "bundle", drawn=False)
    assert made.code == 0, made
    names = {path.relative_to(tmp_path / "bundle").as_posix() for path in (tmp_path / "bundle").rglob("*")}
    assert {
        "campaign/suite.json",
        "campaign/cpu/campaign.db",
        "campaign/cpu/claims.toml",
        "report/report.html",
    } <= names
    assert {"campaign/late/study.toml", "report/cpu/report.html", "record/cpu/provenance.json"} <= names
    assert "report/late/report.html" not in names
    assert 'href="cpu/report.html"' in (tmp_path / "bundle" / "report" / "report.html").read_text()
    found = lastro("verify", tmp_path / "bundle", drawn=False)
    assert found.code == 0 and found.out.endswith("verified\n"), found
    whole = b"\n".join(_bytes(tmp_path / "bundle"))
    assert str(tmp_path).encode() not in whole and b"campaign/late: no room for ~/images" in whole


# What a bundle reveals


def _bytes(bundle: Path) -> Iterator[bytes]:
    """Every file of a bundle, and what is compressed in its databases."""
    for file in bundle.rglob("*"):
        if file.is_file():
            yield file.read_bytes()
        if file.name == "campaign.db":
            with closing(sqlite3.connect(file)) as db:
                yield from (zlib.decompress(packed) for (packed,) in db.execute("SELECT transcript FROM attempt"))


@pytest.mark.usefixtures("undrawn")  # its figures are files, too
def test_a_bundle_has_no_place_of_this_machine(tmp_path: Path) -> None:
    campaign = small(tmp_path / "c")
    with Store.open(campaign) as store:
        store.log("2026-11-02T12:00:00Z", "stopped", f"{campaign}/campaign.db: the disk is full")
    assert main(["bundle", str(campaign), "-o", str(tmp_path / "b")]) == 0
    whole = b"\n".join(_bytes(tmp_path / "b"))
    for words in (HOME, str(tmp_path)):
        assert words.encode() not in whole, words
    assert b"campaign/campaign.db: the disk is full" in whole
    assert b"~/log" in whole and HOST.encode() in whole  # its provenance names the host openly
    assert b'"file": "small.toml"' in whole and b'"file": "three.toml"' in whole


@pytest.mark.usefixtures("undrawn")
def test_an_anonymous_bundle_names_no_host_and_no_user(bundled_campaign: Path, tmp_path: Path) -> None:
    assert main(["bundle", str(bundled_campaign), "--anonymous", "-o", str(tmp_path / "b")]) == 0
    whole = b"\n".join(_bytes(tmp_path / "b"))
    for words in (HOST, "edge-7", "lab-dut", USER, "feedface", "0b1c-77aa"):
        assert words.encode() not in whole, words
    assert b"no traffic on anonymous, see ~/log" in whole and b'"-l", "anonymous", "anonymous"' in whole
    assert main(["verify", str(tmp_path / "b")]) == 0


def test_names_are_replaced_as_whole_words_only() -> None:
    from lastro.app.private import redact

    machine = {"host": {"hostname": "node"}, "controller": {"hostname": "vm"}}
    found = redact(Provenance.of(machine), {"/srv/c1": "campaign"}, anonymous=True)
    assert found.clean("node, node_exporter, the-node, node.js and vm in /srv/c1/x, /srv/c11") == (
        "anonymous, node_exporter, the-node, anonymous.js and vm in campaign/x, /srv/c11"
    )
    assert found.provenance.chapters == {"host": {"hostname": "anonymous"}, "controller": {"hostname": "anonymous"}}


# The RO-Crate


def test_the_crate_describes_every_file(unpacked: Path) -> None:
    graph = {each["@id"]: each for each in json.loads((unpacked / "ro-crate-metadata.json").read_text())["@graph"]}
    assert graph["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = graph["./"]
    assert root["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert root["author"] == {"@id": "#author-1"} and graph["#author-1"]["name"] == "Ana Silva"
    assert root["datePublished"] == "2026-11-02"
    listed = {part["@id"] for part in root["hasPart"]} | {"ro-crate-metadata.json"}
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith("record/transcripts/")} | {"record/transcripts/"} == listed
    assert listed <= graph.keys()
    digest = hashlib.sha256((unpacked / "campaign" / "campaign.db").read_bytes()).hexdigest()
    assert graph["campaign/campaign.db"]["sha256"] == digest
    known = {each.get("sha256") for each in graph.values()}
    assert {"0f" * 32, "a1" * 32, "7c" * 32} <= known  # two tools, and the root filesystem
    references = {value["@id"] for each in graph.values() for value in _references(each)}
    assert {name for name in references if not name.startswith("http")} <= graph.keys()


def _references(entity: dict[str, Any]) -> Iterator[dict[str, str]]:
    for value in entity.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield each


def test_the_library_for_ro_crates_reads_it(zipped: Path, unpacked: Path) -> None:
    crates = pytest.importorskip("rocrate.rocrate")
    for place in (zipped, unpacked):
        crate = crates.ROCrate(place)
        assert crate.name == "What isolation costs on this host"
        assert crate.dereference("campaign/campaign.db")["encodingFormat"] == "application/vnd.sqlite3"
        assert {each["name"] for each in crate.get_by_type("CreateAction")} >= {"The campaign of the study small"}


def test_the_citation_names_the_authors_and_the_software(unpacked: Path) -> None:
    yaml = pytest.importorskip("yaml")
    data = yaml.safe_load((unpacked / "CITATION.cff").read_text())
    ours = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    assert data["type"] == "dataset" and data["authors"] == [{"name": "Ana Silva"}] and data["license"] == "CC-BY-4.0"
    assert data["references"] == [{key: ours[key] for key in ("type", "title", "version", "license", "authors")}]
    assert bundles.versions()["Lastro"] == ours["version"]
