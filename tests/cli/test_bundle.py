"""`lastro bundle` and `lastro verify`: the same bytes anywhere, damage that is named, and input that is no bundle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lastro.app import bundle as bundles
from lastro.app import documents, verify
from lastro.campaign import suite as suites
from lastro.cli import main
from lastro.results.container import MANIFEST
from lastro.results.store import Store

from ..campaigns import METRICS, PROVENANCE, Levels, make_campaign, make_study
from .conftest import Bench, is_error, lastro
from .suites import write_folder

HOST, USER, HOME = "edge-7.example.org", "aroeira", "/home/aroeira"
PRIVATE = {
    **PROVENANCE,
    "host": {**PROVENANCE["host"], "hostname": HOST},
    "kernel": {"command_line": "root=UUID=0b1c-77aa quiet"},
    "root_filesystem": {"sha256": "7c" * 32},
    "controller": {"hostname": HOST, "machine": "feedfacefeedface"},
    "testbed": {
        "file": f"{HOME}/beds/three.toml", "shared_cpus": [],
        "roles": {"dut": {"reached": f"{USER}@lab-dut.example.org:22", "machine": {"hostname": "lab-dut"}}},
    },
}  # fmt: skip


def small(directory: Path) -> Path:
    """Two treatments of one metric, with an invalid attempt, and with names of a machine wherever there is text."""
    study = make_study(
        {"isolation": ("none", "cgroups")}, replicates=3, metrics=METRICS[:1], baseline={"isolation": "none"},
        file=f"{HOME}/studies/small.toml",
    )  # fmt: skip

    def doubts(levels: Levels, block: int, attempt: int) -> list[str]:
        return [f"no traffic on {HOST}, see {HOME}/log"] if (block, attempt) == (1, 1) else []

    make_campaign(directory, study, doubts=doubts, provenance=PRIVATE)
    with closing(sqlite3.connect(directory / "campaign.db")) as db, db:
        steps = [{"kind": "run", "argv": ["ssh", "-l", USER, HOST], "stdin": None, "returncode": 0}]
        db.execute("UPDATE attempt SET transcript = ?", (zlib.compress(json.dumps(steps).encode()),))
    return directory


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("campaigns") / "c1")


@pytest.fixture(scope="module")
def zipped(campaign: Path) -> Path:
    assert main(["bundle", str(campaign), "--author", "Ana Silva", "--license", "CC-BY-4.0"]) == 0
    return campaign.parent / "c1.crate.zip"


@pytest.fixture
def unpacked(zipped: Path, tmp_path: Path) -> Path:
    zipfile.ZipFile(zipped).extractall(tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.fixture
def made_once(zipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the database yields, made once for all bundles of the same campaign."""
    if not _made:
        with zipfile.ZipFile(zipped) as file:
            place = zipped.parent / "whole"
            file.extractall(place)
        _made.extend(documents.documents(place, documents.Language("en")))
    monkeypatch.setattr(verify, "documents", lambda folder, say: iter(_made))


_made: list[documents.Document] = []


# The same everywhere


def test_the_same_bundle_in_another_place_zone_language_and_on_another_processor(zipped: Path, tmp_path: Path) -> None:
    """OpenBLAS and numpy take the instructions of an old processor where they are told to."""
    other = shutil.copytree(zipped.parent / "c1", tmp_path / "elsewhere" / "c1")
    (other.parent / "home").mkdir()
    env = {
        "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "5", "HOME": str(other.parent / "home"),
        "OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL", "COLUMNS": "40",
    }  # fmt: skip
    words = ("--author", "Ana Silva", "--license", "CC-BY-4.0", "-o", "again.zip")
    assert lastro("bundle", "c1", *words, cwd=other.parent, env=env).code == 0
    with zipfile.ZipFile(zipped) as one, zipfile.ZipFile(other.parent / "again.zip") as two:
        assert [name for name in one.namelist() if one.read(name) != two.read(name)] == []
    assert zipped.read_bytes() == (other.parent / "again.zip").read_bytes()
    found = lastro("verify", zipped, env=env, cwd=other.parent)
    assert found.code == 0 and found.out.splitlines()[-1] == "verified", found


def test_a_bundle_verifies_as_zip_as_directory_and_zipped_by_others(
    zipped: Path, unpacked: Path, tmp_path: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    again = shutil.make_archive(str(tmp_path / "again"), "zip", unpacked)
    for place in (zipped, unpacked, again):
        assert main(["verify", str(place)]) == 0
        out = capsys.readouterr().out
        assert out.endswith("verified\n") and out.count("all equal") == 2 and "Other versions" not in out
    subprocess.run(["sha256sum", "--quiet", "--strict", "--check", MANIFEST], cwd=unpacked, check=True, timeout=20)


def test_two_bundles_of_a_campaign_are_one(campaign: Path, zipped: Path, tmp_path: Path) -> None:
    words = ["--author", "Ana Silva", "--license", "CC-BY-4.0"]
    assert main(["bundle", str(campaign), *words, "-o", str(tmp_path / "b.zip")]) == 0
    assert (tmp_path / "b.zip").read_bytes() == zipped.read_bytes()


def test_the_database_in_a_bundle_is_the_campaign(campaign: Path, unpacked: Path) -> None:
    with Store.open(campaign, readonly=True) as ours, Store.open(unpacked / "campaign", readonly=True) as theirs:
        assert theirs.trials() == ours.trials() and theirs.treatments() == ours.treatments()
        values = [
            [(each.trial, each.attempt, each.measurements) for each in store.attempts()] for store in (ours, theirs)
        ]
        assert values[0] == values[1] and len(values[0]) == 8
        assert ours.series(1, 1) == theirs.series(1, 1) != []
        assert ours.study.source == theirs.study.source
    assert {path.name for path in (unpacked / "campaign").iterdir()} == {"campaign.db", "study.toml"}


# Damage


def changed(file: Path, at: int = 20) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


KINDS = ("campaign/campaign.db", "campaign/study.toml", "report/report.html", "report/figures/course.svg",
         "report/tables/trials.csv", "record/provenance.json", "ro-crate-metadata.json", "README.md")  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_flipped_byte_is_named(
    name: str, unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = hashlib.sha256((unpacked / name).read_bytes()).hexdigest()
    changed(unpacked / name)
    actual = hashlib.sha256((unpacked / name).read_bytes()).hexdigest()
    assert main(["verify", str(unpacked), "--json"]) == 9
    found = json.loads(capsys.readouterr().out)
    assert found["damaged"] == [{"file": name, "reason": f"SHA-256 is {actual}, expected {expected}"}]
    assert found["was_rebuilt"] == (not name.startswith("campaign/"))
    wrong = [each["file"] for each in found["different"]]
    assert wrong == ([name] if name.startswith(("report", "record")) else [])


def test_no_byte_of_a_zip_can_change_unnoticed(zipped: Path, tmp_path: Path, made_once: None) -> None:
    whole, copy = zipped.read_bytes(), tmp_path / "copy.zip"
    places = {*range(0, len(whole), len(whole) // 60), *range(len(whole) - 140, len(whole), 3)}
    for at in sorted(places):
        data = bytearray(whole)
        data[at] ^= 0xFF
        copy.write_bytes(data)
        assert main(["verify", str(copy)]) in (2, 9), at


def test_a_zip_names_the_file_that_is_damaged_inside(
    zipped: Path, tmp_path: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copy(zipped, tmp_path))
    changed(copy, zipfile.ZipFile(copy).getinfo("report/report.html").header_offset + 300)
    assert main(["verify", str(copy)]) == 9
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  report/report.html: ") and "expected SHA-256" in line for line in lines), lines
    assert any(line.startswith("  the zip itself: ") for line in lines)
    assert lines[-1] == "not verified: damaged"


def test_files_that_are_missing_added_or_forged(
    unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forger who changes a number and its hashes is contradicted by the database."""
    (unpacked / "report" / "report.tex").unlink()
    (unpacked / "report" / "more.txt").write_text("x")
    page = unpacked / "report" / "report.md"
    before = hashlib.sha256(page.read_bytes()).hexdigest()
    page.write_text(page.read_text().replace("3 randomised blocks", "9 randomised blocks"))
    after = hashlib.sha256(page.read_bytes()).hexdigest()
    manifest = unpacked / MANIFEST
    manifest.write_text(manifest.read_text().replace(before, after))
    assert main(["verify", str(unpacked)]) == 9
    out = capsys.readouterr().out
    assert "  report/report.tex: is missing, but SHA256SUMS lists it" in out
    assert "  report/more.txt: is not listed in SHA256SUMS" in out
    assert "9 randomised blocks" in out and "but the database yields" in out and "3 randomised blocks" in out


def test_a_wrong_hash_in_the_list_is_not_blamed_on_the_file(
    unpacked: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (unpacked / MANIFEST).read_text()
    line = next(line for line in text.splitlines() if line.endswith("report/report.tex"))
    (unpacked / MANIFEST).write_text(text.replace(line, "0" * 64 + line[64:]) + "what is this\n")
    assert main(["verify", str(unpacked)]) == 9
    out = capsys.readouterr().out
    assert f"SHA256SUMS: lists SHA-256 {'0' * 64} for report/report.tex, but the file and" in out
    assert "is not a SHA-256 and a name: 'what is this'" in out


def test_another_version_that_yields_another_file_is_said(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("lastro.app.bundle", "lastro.report.html", "lastro.report.latex"):
        monkeypatch.setattr(f"{module}.__version__", "0.0.9")
    assert main(["bundle", str(campaign), "-o", str(tmp_path / "old")]) == 0
    monkeypatch.undo()
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "old")]) == 0
    out = capsys.readouterr().out
    assert "  Lastro 0.0.9, here " in out and out.endswith("verified\n")
    monkeypatch.setattr("lastro.app.documents._DIGITS", 3)
    assert main(["verify", str(tmp_path / "old")]) == 8
    out = capsys.readouterr().out
    assert "  report/tables/results.json: line " in out and "1 different" in out
    assert out.splitlines()[-1].startswith("undecided: the hashes are right")


# What is not a bundle


def _zip_with(*names: str, **options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "bad.zip", "w", zipfile.ZIP_DEFLATED) as file:
            for name in names:
                info = zipfile.ZipInfo(name)
                info.external_attr = options.get("mode", 0o644) << 16
                file.writestr(info, options.get("text", "x"), zipfile.ZIP_DEFLATED)
        return folder / "bad.zip"

    return make


def _text(folder: Path) -> Path:
    (folder / "text.zip").write_text("not a zip")
    return folder / "text.zip"


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def _link(folder: Path) -> Path:
    (folder / "crate").mkdir()
    (folder / "crate" / "passwd").symlink_to("/etc/passwd")
    return folder / "crate"


CLIMBING = ("../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "./a", "a//b")
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "no.zip", "cannot be read: No such file"),
    "text": (_text, "is not a bundle: it is not a zip"),
    "fifo": (_fifo, "is neither a file nor a directory"),
    "another-zip": (_zip_with("a.txt"), "is not a bundle of Lastro: it has no ro-crate-metadata.json"),
    "another-crate": (_zip_with("ro-crate-metadata.json"), "it has no SHA256SUMS"),
    "no-campaign": (_zip_with("ro-crate-metadata.json", MANIFEST), "it has no campaign"),
    "a-campaign": (lambda folder: small(folder / "c"), "it has no ro-crate-metadata.json"),
    "link-in-zip": (_zip_with("a", mode=stat.S_IFLNK | 0o777), "'a' is a link"),
    "link": (_link, "'passwd' is a link or a special file"),
    "twice": (_zip_with("a", "a"), "'a' is in the zip twice"),
    **{
        f"climbs-{number}": (_zip_with(name), "is not the name of a file inside")
        for number, name in enumerate(CLIMBING)
    },
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", BAD)
def test_what_is_not_a_bundle_is_one_error(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = BAD[kind]
    place = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["verify", str(place)]) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 2 and lines[0].startswith(f"lastro: {place}") and words in lines[0], err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_a_zip_that_is_cut_off_is_one_error(zipped: Path, share: float, tmp_path: Path) -> None:
    copy = tmp_path / "cut.zip"
    copy.write_bytes(zipped.read_bytes()[: int(share * zipped.stat().st_size)])
    is_error(lastro("verify", copy), 2, "cut.zip is a zip that is cut off or damaged" if share else "it is not a zip")


def test_a_zip_without_its_last_bytes_is_damaged(
    zipped: Path, tmp_path: Path, made_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cut.zip").write_bytes(zipped.read_bytes()[:-10])
    assert main(["verify", str(tmp_path / "cut.zip")]) == 9
    assert "  the zip itself: the SHA-256 at its end is cut off" in capsys.readouterr().out


def test_a_zip_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    file = _zip_with("a", text="x" * 100)(tmp_path)
    data = bytearray(file.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24  # the uncompressed size in the central directory: APPNOTE 4.3.12
    data[at : at + 4] = (2**31).to_bytes(4, "little")
    file.write_bytes(data)
    is_error(lastro("verify", file), 2, "claims to unpack to more data")


# What cannot be bundled


def test_a_campaign_that_runs_is_one_error(bench: Bench) -> None:
    process = bench.begin({"level": ["a", "b"]}, replicates=50, trial_s=0.2)
    bench.wait_until_done(1)
    error = is_error(lastro("bundle", bench.directory), 2, "wait for its end", "lastro resume")
    assert f"is running, by process {process.pid} since 20" in error
    process.terminate()
    process.wait(timeout=60)
    assert not list(bench.home.glob("*.zip")) and not list(bench.home.glob(".lastro*"))
    stopped = lastro("bundle", bench.directory)
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
    "license": (lambda folder: ["c", "--license", "CC BY"], 2, "is neither an SPDX identifier nor an address"),
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
    made = lastro("bundle", campaign, "-o", tmp_path / "bundle")
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
    found = lastro("verify", tmp_path / "bundle")
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


def test_an_anonymous_bundle_names_no_host_and_no_user(campaign: Path, tmp_path: Path) -> None:
    assert main(["bundle", str(campaign), "--anonymous", "-o", str(tmp_path / "b")]) == 0
    whole = b"\n".join(_bytes(tmp_path / "b"))
    for words in (HOST, "edge-7", "lab-dut", USER, "feedface", "0b1c-77aa"):
        assert words.encode() not in whole, words
    assert b"no traffic on anonymous, see ~/log" in whole and b'"-l", "anonymous", "anonymous"' in whole
    assert main(["verify", str(tmp_path / "b")]) == 0


def test_names_are_replaced_as_whole_words_only() -> None:
    from lastro.app.private import private

    machine = {"host": {"hostname": "node"}, "controller": {"hostname": "vm"}}
    found = private(machine, {"/srv/c1": "campaign"}, anonymous=True)
    assert found.clean("node, node_exporter, the-node, node.js and vm in /srv/c1/x, /srv/c11") == (
        "anonymous, node_exporter, the-node, anonymous.js and vm in campaign/x, /srv/c11"
    )
    assert found.provenance == {"host": {"hostname": "anonymous"}, "controller": {"hostname": "anonymous"}}


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
