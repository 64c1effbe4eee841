"""The readers of what others wrote. Each reads any bytes, or refuses them with an error of Lastro: nothing else.

A target is a function from bytes, and seeds: real inputs, of which `mutation` makes others. What once failed is in
`corpus/TARGET`, and is a seed, too."""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

import lastro.papers
from lastro import figures
from lastro.analysis.claims.load import parse_claims
from lastro.app import first_study
from lastro.app.bundle import BundleOptions, write_bundle
from lastro.app.contents import report_of
from lastro.app.verify import verify
from lastro.attachments import _cni, cni
from lastro.builders import page_figures
from lastro.cli import decide
from lastro.cli._common import levels_named, share
from lastro.errors import InputError, LastroError, StoreError, StudyError, Unavailable
from lastro.host import fleet_file, testbed_file
from lastro.plain import plain
from lastro.results import hdr
from lastro.results.samples import PackedHistogram
from lastro.results.store import Store
from lastro.stats.histograms import Histogram
from lastro.study import topology
from lastro.study.design import treatments, trials
from lastro.study.load import parse
from lastro.study.model import Study
from lastro.study.requirement import Requirement
from lastro.study.service_level import Cost, ServiceLevel
from lastro.units import in_unit, parse_duration_s, parse_rate_bps, parse_size_bytes

from ..support.campaigns import METRICS, make_campaign, make_study
from ..support.study_schemas import SCHEMAS
from . import outputs
from .mutation import mutated
from .outputs import MOST_WORDS

CORPUS = Path(__file__).with_name("corpus")
PAPERS = Path(lastro.papers.__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples"

Twist = Callable[[bytes, Random], bytes]


@dataclass(frozen=True)
class Target:
    """`check` raises nothing, whatever it reads. `twist` changes an input in its own terms; else only bytes change."""

    check: Callable[[bytes], None]
    own_seeds: Callable[[], Iterable[bytes]]
    twist: Twist | None = None

    def seeds(self, name: str) -> list[bytes]:
        return [*self.own_seeds(), *(file.read_bytes() for file in sorted((CORPUS / name).glob("*")))]


@contextmanager
def refusing(*kinds: type[LastroError]) -> Iterator[None]:
    """Allow that an input is refused, with one line that a terminal can show."""
    try:
        yield
    except kinds as error:
        assert error.message.isprintable() and 0 < len(error.message) < MOST_WORDS, error.message


def _files(folder: Path, pattern: str) -> Callable[[], Iterable[bytes]]:
    return lambda: (file.read_bytes() for file in sorted(folder.glob(pattern)))


def _studies() -> Iterable[bytes]:
    yield from _files(PAPERS, "*/study.toml")()
    yield from _files(EXAMPLES, "own-function/study.toml")()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@contextmanager
def _as_file(data: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lastro-fuzz-") as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        yield file


# Files that users write


def study(text: str) -> None:
    """The whole text of a study: a Study that survives its own storage, or one line that names the file."""
    try:
        found = parse(text, "s.toml", SCHEMAS)
    except StudyError as error:
        assert error.message.startswith("s.toml: ")
        assert error.message.isprintable() and len(error.message) < MOST_WORDS
        return
    assert found.source == text
    assert Study.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    if found.design.replicates * len(treatments(found)) < 5000:
        assert next(trials(found, len(treatments(found)))).number == 1


@cache
def _kagami() -> Study:
    return parse((PAPERS / "kagami2017" / "study.toml").read_text(), "study.toml", SCHEMAS)


def _claims(data: bytes) -> None:
    with refusing(StudyError):
        parse_claims(_text(data), "claims.toml", _kagami())


def _testbed(data: bytes) -> None:
    with refusing(StudyError):
        testbed_file.parse(_text(data), "testbed.toml").provenance()


def _fleet(data: bytes) -> None:
    with refusing(StudyError), _as_file(data, "fleet.toml") as file:
        fleet_file.load(file)


def _conflist(data: bytes) -> None:
    with refusing(Unavailable):
        _cni.masters(_cni.parse_conflist(data, "a.conflist").plugins)


def _conflists() -> Iterable[bytes]:
    for plugin in cni.NETWORKS.values():
        yield json.dumps({"cniVersion": "1.0.0", "name": "n", "plugins": [plugin, {"type": "tuning"}]}).encode()


_SUFFIXES = (".toml", ".graphml", ".txt")


def _topology(data: bytes) -> None:
    for suffix in _SUFFIXES:
        with refusing(InputError):
            found = topology.parse(_text(data), f"t{suffix}")
            found.distances(0)


def _topologies() -> Iterator[bytes]:
    yield b'nodes = ["a", "b", "c"]\n[[link]]\nends = ["a", "b"]\n[[link]]\nends = ["b", "c"]\ncost = 3\n'
    yield b"# a ring\na b\nb c 3\nc a\n"
    yield (
        b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"><node id="a"/>'
        b'<node id="b"/><edge source="a" target="b"/></graph></graphml>'
    )


_MOST_TYPED = 300  # characters of a value that somebody types


def _option(data: bytes) -> None:
    """A value of an option, or an answer of `lastro new --ask`: each line, by each reader of such text."""
    for line in map(plain, _text(data)[:_MOST_TYPED].split("\n")):
        for read in _TYPED:
            with refusing(InputError):
                found = read(line)
                limit = getattr(found, "limit", None)
                numbers = [found] if isinstance(found, float) else [] if limit is None else [limit]
                numbers += found.weights.values() if isinstance(found, Cost) else ()
                assert all(map(math.isfinite, numbers)), (line, found)


_TYPED: tuple[Callable[[str], object], ...] = (
    lambda text: ServiceLevel.parse(text, METRICS), lambda text: Cost.parse(text, METRICS), Requirement.parse,
    decide._prices, decide._weights, lambda text: share(text, "--require"),
    lambda text: levels_named([text], "--where"), parse_duration_s, parse_rate_bps, parse_size_bytes,
    lambda text: in_unit(text, "Mbit/s"), first_study.levels_named,
    *(partial(first_study.parts_named, kind) for kind in ("function", "platform", "anomaly")),
)  # fmt: skip


def _options() -> Iterator[bytes]:
    yield b"throughput >= 2 Gbit/s, latency_p95 < 1 ms\n0.04*jitter + 1e-3*throughput\nno daemon\ninterfaces >= 8\n"
    yield b"cpu_hour=0.04,gib_hour=0.005\ncpu=2,disk=0\n95%\nanomaly=cpu,memory\n1.5h\n10M\n128Mi\n"
    yield b"firewall:rules=5, nat\ndocker:storage=vfs, native\nmemory\n"


# Campaigns of others


@cache
def _database_seed() -> bytes:
    values = [PackedHistogram("latency 50%", "ns", hdr.to_bytes(Histogram.of([1000, 2000, 5], lost=1)))]
    small = make_study({"isolation": ("none", "cgroups")}, replicates=2, baseline={"isolation": "none"})
    with tempfile.TemporaryDirectory() as folder:
        file = make_campaign(Path(folder), small, histograms=lambda levels, block: values) / "campaign.db"
        with closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA journal_mode=DELETE")
        return file.read_bytes()


def _database(data: bytes) -> None:
    with _as_file(data, "campaign.db") as file, refusing(StoreError, InputError):
        with Store.open(file.parent, readonly=True) as store:
            for each in store.attempts():
                store.series(each.trial, each.attempt)
                store.histograms(each.trial, each.attempt)
                store.transcript(each.trial, each.attempt)
        report_of(file.parent)


def _other_cell(data: bytes, chance: Random) -> bytes:
    """Put another value into one cell: what SQLite stores is sound, and what Lastro reads is not."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.deserialize(data)
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = chance.choice(tables)
            column = chance.choice(db.execute(f"PRAGMA table_info({table})").fetchall())[1]
            cells = db.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
            before = chance.choice(cells)[0]
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (_changed(before, chance), before))
            db.commit()
            return db.serialize()
        except (sqlite3.Error, IndexError):  # the data is no database, or has no such row
            return mutated(data, data, chance)


def _changed(value: object, chance: Random) -> object:
    if isinstance(value, str | bytes) and chance.random() < 0.7:
        data = value.encode() if isinstance(value, str) else value
        found = mutated(data, data, chance)
        return found.decode("utf-8", "replace") if isinstance(value, str) else found
    return chance.choice([None, -1, 0, 2**62, 1e308, math.inf, "", "x", b"", b"\x00", value])


@cache
def _bundle_seed() -> bytes:
    with tempfile.TemporaryDirectory() as folder, _undrawn():
        make_campaign(Path(folder) / "c", make_study({"isolation": ("none", "cgroups")}, replicates=2))
        file = Path(folder) / "b.zip"
        write_bundle(Path(folder) / "c", file, BundleOptions())
        return file.read_bytes()


@contextmanager
def _undrawn() -> Iterator[None]:
    """Make reports without figures, which take most of the time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(page_figures, "svgs_of", lambda plan: ("<svg></svg>",))
        patched.setattr(figures, "pictures", lambda *what: [])
        yield


def _bundle(data: bytes) -> None:
    with _as_file(data, "b.crate.zip") as file, _undrawn(), refusing(LastroError):
        verify(file)


def _other_member(data: bytes, chance: Random) -> bytes:
    """Change the content or the name of one file in the archive."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError):
        return mutated(data, data, chance)
    name = chance.choice(sorted(files))
    other = chance.choice([name] * 6 + ["../up", "/etc/passwd", "a/../../b", "a\x1bb", "x" * 300, name.upper()])
    files[other] = mutated(files[name], files[name], chance)
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for each, content in files.items():
            archive.writestr(each, content)
    return out.getvalue()


def _histogram(data: bytes) -> None:
    try:
        found = hdr.from_bytes(data)
    except (ValueError, zlib.error):  # of which Store makes an error with a place
        return
    assert hdr.from_bytes(hdr.to_bytes(found)).counts.tolist() == found.counts.tolist()


def _histograms() -> Iterator[bytes]:
    for values in ([], [0], [1, 3, 5, 2048, 5000], [i**3 for i in range(300)]):
        yield hdr.to_bytes(Histogram.of(values, lost=len(values)))


TARGETS = {
    "study": Target(lambda data: study(_text(data)), _studies),
    "claims": Target(_claims, _files(PAPERS, "kagami2017/claims.toml")),
    "testbed": Target(_testbed, _files(EXAMPLES / "testbeds", "t*.toml")),
    "fleet": Target(_fleet, _files(EXAMPLES / "testbeds", "fleet.toml")),
    "topology": Target(_topology, _topologies),
    "conflist": Target(_conflist, _conflists),
    "option": Target(_option, _options),
    "bundle": Target(_bundle, lambda: [_bundle_seed()], _other_member),
    "database": Target(_database, lambda: [_database_seed()], _other_cell),
    "histogram": Target(_histogram, _histograms),
    "output": Target(outputs.check, outputs.seeds, outputs.after_name),
}
