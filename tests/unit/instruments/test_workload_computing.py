"""pi, John the Ripper and gzip: what their tools leave is checked before it counts."""

from __future__ import annotations

import gzip as stdlib_gzip
import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import InputError, InstrumentError, Unavailable
from lastro.host.base import Completed
from lastro.host.local import LocalHost
from lastro.image.rootfs import ImageAdditions, ImageRecipe
from lastro.instruments import _user_programs, gzip, pts
from lastro.instruments.base import Workload
from lastro.instruments.gzip import Gzip
from lastro.instruments.john import John
from lastro.instruments.pi import Pi
from lastro.instruments.pts import Pts
from lastro.instruments.stream import Stream
from lastro.instruments.y_cruncher import YCruncher
from lastro.scenarios.base import make_part

from ...support.workload_samples import text_of

pytestmark = pytest.mark.processes


def test_the_computation_of_pi_is_apart_from_its_output() -> None:
    found = Pi(digits=100_000).read(text_of("pi-1.txt")).measurements
    assert found["time_tool"] == pytest.approx(found["pi_computation"] + found["pi_output"])
    assert 0 < found["pi_computation"] < 10


def test_a_wrong_digit_is_found_wherever_it_is() -> None:
    text = text_of("pi-2.txt")
    early = Pi(digits=123_456, threads=2).read(text.replace("residue 1000 ", "residue 1000 1")).invalid_because
    assert early == ("the first 1000 digits are not those of pi",)
    late = Pi(digits=123_456, threads=2).read(text.replace("residue 123456 ", "residue 123456 1")).invalid_because
    assert late == ("the digits differ from the computed number: its conversion to decimal failed",)


def test_fewer_digits_or_threads_are_doubted() -> None:
    reasons = Pi(digits=100_001, threads=3).read(text_of("pi-1.txt")).invalid_because
    assert "lastro-pi had 100000 digits instead of 100001" in reasons
    assert "lastro-pi had 1 threads instead of 3" in reasons


# y-cruncher


def test_the_computation_of_y_cruncher_is_apart_from_the_rest() -> None:
    plain = YCruncher(digits=500_000_000, threads=16).read(text_of("y-cruncher-plain.txt"))
    assert plain.measurements == {"time_tool": 25.444, "y_cruncher_computation": 24.385}
    colours = YCruncher(threads=16).read(text_of("y-cruncher-colours.txt"))
    assert colours.measurements == {"time_tool": 1.131, "y_cruncher_computation": 0.961}
    assert plain.invalid_because == colours.invalid_because == ()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Good through", "Incorrect from", "'s check of its digits failed: Incorrect from 500,000,000"),
        ("Spot Check:", "", " did not report a check of its digits"),
        ("Decimal Digits:", "", " computed an unknown number of digits instead of 500000000"),
        ("Decimal Digits:         500", "Decimal Digits:  25", " computed 25,000,000 digits instead of 500000000"),
        ("->  16 /", "->  8 /", " worked with 8 threads instead of 16"),
    ],
)
def test_what_y_cruncher_does_not_show_to_be_done_is_doubted(old: str, new: str, reason: str) -> None:
    text = text_of("y-cruncher-plain.txt")
    assert old in text
    found = YCruncher(digits=500_000_000, threads=16).read(text.replace(old, new))
    assert found.invalid_because == (f"y-cruncher{reason}",)


def test_a_version_of_y_cruncher_that_tells_no_threads_is_believed() -> None:
    text = text_of("y-cruncher-plain.txt").replace("Threading Mode:", "")
    assert YCruncher(digits=500_000_000).read(text).invalid_because == ()


def test_y_cruncher_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its link is followed, its binaries go with it, and nothing else of the directory that it happens to lie in."""
    home = tmp_path / "y-cruncher v0.8.1-static"
    home.mkdir()
    (home / "y-cruncher").write_text("#!/bin/sh\n")
    (home / "letters").write_text("the user's own")
    (tmp_path / "y-cruncher").symlink_to(home / "y-cruncher")
    monkeypatch.setattr(_user_programs, "STATE_DIR", tmp_path / "state")
    host = LocalHost()
    monkeypatch.setattr(host, "which", lambda program: str(tmp_path / program))
    assert YCruncher.needs(host).files == ()
    with pytest.raises(Unavailable, match="has no directory 'Binaries'"):
        YCruncher.require(host)
    (home / "Binaries").mkdir()
    (home / "Binaries" / "14-BNL").write_text("a program")
    YCruncher.require(host)
    (place,) = map(Path, YCruncher.needs(host).files)
    assert place.name == "lastro-y-cruncher" and (place / "Binaries" / "14-BNL").is_file()
    assert sorted(path.name for path in place.iterdir()) == ["Binaries", "y-cruncher"]
    before = ImageRecipe.of_this_host(host, YCruncher.needs(host)).key
    (home / "y-cruncher").write_text("#!/bin/sh\nanother\n")
    assert ImageRecipe.of_this_host(host, YCruncher.needs(host)).key != before
    monkeypatch.setattr(host, "which", lambda program: None)
    assert YCruncher.needs(host).files == ()
    with pytest.raises(Unavailable, match="no program 'y-cruncher'"):
        YCruncher.require(host)
    assert YCruncher(digits=50_000_000, threads=2).argv() == [
        "env", "-C", f"/usr/local/bin/{place.name}", "./y-cruncher", "skip-warnings", "bench", "50000000", "-TD:2",
        "-od:0", "-o", "/var/tmp",
    ]  # fmt: skip
    assert YCruncher.version_argv[2] == f"/usr/local/bin/{place.name}"


# Phoronix Test Suite


def test_the_suites_average_is_the_result() -> None:
    """And a time, where the unit of the test is seconds: only that can be compared with a published time."""
    assert Pts().read(text_of("pts-one.txt")).measurements == {"pts_result": 36.822, "pts_seconds": 36.822}
    other = Pts().read(text_of("pts-one.txt").replace(" Seconds", " MFLOPS"))
    assert other.measurements == {"pts_result": 36.822}
    assert Pts(runs=3).read(text_of("pts-three.txt")).measurements == {"pts_result": 35.85}
    assert Pts(runs=2).read(text_of("pts-three.txt")).invalid_because == (
        "the suite ran the test 3 times instead of 2",
    )
    with pytest.raises(InstrumentError, match="2 averages"):
        Pts().read(2 * text_of("pts-one.txt"))


def test_the_suite_runs_one_test_with_its_options() -> None:
    assert Pts(test="pts/dbench", preset="dbench.clients=6", runs=3).argv() == [
        "env", "-C", "/usr/local/bin/lastro-pts/suite", "PTS_DIR=/usr/local/bin/lastro-pts/suite/", "PTS_MODE=CLIENT",
        "PTS_USER_PATH_OVERRIDE=/usr/local/bin/lastro-pts/data/", "FORCE_TIMES_TO_RUN=3",
        "PRESET_OPTIONS=dbench.clients=6", "php",
        "/usr/local/bin/lastro-pts/suite/pts-core/phoronix-test-suite.php", "batch-run", "pts/dbench",
    ]  # fmt: skip
    with pytest.raises(InputError, match="not the name of a test"):
        make_part(Workload, "pts:test=gzip; rm -r /")


def test_suite_and_installed_tests_go_into_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, suite, data = LocalHost(), tmp_path / "suite", tmp_path / "data"
    monkeypatch.setattr(pts, "_SUITES", (str(suite),))
    monkeypatch.setattr(pts, "_DATA", (str(data),))
    monkeypatch.setattr(_user_programs, "STATE_DIR", tmp_path / "state")
    assert Pts.needs(host) == ImageAdditions()
    monkeypatch.setattr(host, "which", lambda program: f"/usr/bin/{program}")
    with pytest.raises(Unavailable, match="its files are not"):
        Pts.require(host)
    (suite / "pts-core").mkdir(parents=True)
    (suite / "pts-core" / "phoronix-test-suite.php").write_text("<?php\n")
    with pytest.raises(Unavailable, match="no test is installed"):
        Pts.require(host)
    (data / "installed-tests").mkdir(parents=True)
    needs = Pts.needs(host)
    (place,) = needs.files
    assert needs.packages == ("php-cli", "php-xml")
    assert (Path(place) / "suite" / "pts-core" / "phoronix-test-suite.php").is_file()
    assert (Path(place) / "data" / "installed-tests").is_dir()
    (data / "installed-tests" / "more").write_text("")
    assert Pts.needs(host).files != (place,)
    (newer,) = map(Path, Pts.needs(host).files)
    shutil.rmtree(newer)
    (newer.with_suffix(".part") / "suite").mkdir(parents=True)  # as a copy leaves it that was broken off
    assert Pts.needs(host).files == (str(newer),)
    assert not (newer / "suite" / "suite").exists() and (newer / "data" / "installed-tests" / "more").is_file()


def test_the_suites_version_is_told(tmp_path: Path) -> None:
    """What its own constant says, in a file of the copy."""
    core = tmp_path / "pts-core.php"
    core.write_text("<?php\ndefine('PTS_VERSION', '10.8.4');\n")
    argv = [
        word.replace("/usr/local/bin/lastro-pts/suite/pts-core/pts-core.php", str(core)) for word in Pts.version_argv
    ]
    assert "10.8.4" in LocalHost().run(argv).text


# Programs of our own


def test_without_a_compiler_our_own_programs_are_unavailable_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalHost()
    monkeypatch.setattr(host, "which", lambda program: None)
    for kind in (Pi, Stream):
        assert kind.needs(host) == ImageAdditions()
        with pytest.raises(Unavailable, match="no compiler for C") as caught:
            kind.require(host)
        assert str(caught.value.hint).startswith("apt-get install gcc")


# John the Ripper


def test_johns_rates() -> None:
    found = John(threads=2).read(text_of("john-bcrypt.txt"))
    assert found.measurements == {"john_rate": 363, "john_cpu_rate": 1080}
    assert found.invalid_because == ()
    many = text_of("john-md5crypt.txt").replace("7027 c/s real, 21082 c/s", "7027K c/s real, 2.5M c/s")
    assert John(format="md5crypt").read(many).measurements == {"john_rate": 7_027_000, "john_cpu_rate": 2_500_000}


def test_johns_threads_are_those_that_were_asked_for() -> None:
    assert John(threads=4).read(text_of("john-bcrypt.txt")).invalid_because == ("john ran 2 threads instead of 4",)
    assert John(threads=2).read(text_of("john-md5crypt.txt")).invalid_because == ("john ran 1 threads instead of 2",)


@pytest.mark.parametrize("tool", [John(threads=0), Stream(threads=0, array="1M")])
def test_no_number_of_threads_is_one_on_each_cpu_of_the_instance(tool: Workload) -> None:
    """As the Phoronix Test Suite runs both; a limit by cpuset counts, as `nproc` sees it."""
    resources = SimpleNamespace(cpuset="0", memory_bytes=None)
    instance: Any = SimpleNamespace(
        run=lambda argv: Completed(tuple(argv), 0, b"3\n", b"", 0.0, 0.0),
        testbed=SimpleNamespace(host=LocalHost()),
        spec=SimpleNamespace(resources=resources),
    )
    tool.prepare(instance)
    assert tool.chosen["threads"] == 3 and "OMP_NUM_THREADS=3" in tool.argv()


def test_a_test_that_john_failed_is_no_measurement() -> None:
    with pytest.raises(InstrumentError, match="own test failed"):
        John().read(text_of("john-md5crypt.txt").replace("DONE", "FAILED (cmp_all(1))"))


# gzip


def test_the_file_is_the_same_for_ever_and_text_like() -> None:
    assert len(gzip.pattern()) == 1 << 20
    assert zlib.crc32(gzip.pattern()) == 0xED5369E8
    assert 2.0 < (1 << 20) / len(zlib.compress(gzip.pattern(), 6)) < 4.0


def left(data: bytes) -> str:
    """What a look at a compressed file prints."""
    packed = stdlib_gzip.compress(data, 6, mtime=0)
    return f"{len(packed)}\n {' '.join(map(str, packed[-8:]))}\n"


def test_rate_and_ratio() -> None:
    tool = Gzip(size="3M")
    found = tool.read_result(0.5, left(3 * gzip.pattern()))
    assert found.invalid_because == ()
    assert found.measurements["gzip_rate"] == 6
    assert 2.0 < found.measurements["gzip_ratio"] < 4.0
    assert tool.by_host_clock >= set(found.measurements)


def test_what_was_too_short_to_be_timed_has_no_rate() -> None:
    assert set(Gzip(size="1M").read_result(None, left(gzip.pattern())).measurements) == {"gzip_ratio"}


def test_a_size_that_is_no_whole_number_of_patterns() -> None:
    assert Gzip(size="1.5M").read_result(1, left(gzip.pattern() + gzip.pattern()[: 1 << 19])).invalid_because == ()


def test_a_file_may_have_to_reach_its_disk_within_the_time() -> None:
    assert Gzip(synced="yes").argv()[-1] == Gzip().argv()[-1] + " && sync /var/tmp/lastro-gzip.gz"


def test_another_file_is_doubted() -> None:
    reason = ("gzip did not compress the file that was made",)
    assert Gzip(size="1M").read_result(1, left(gzip.pattern()[:-1] + b"\0")).invalid_because == reason
    assert Gzip(size="1M").read_result(1, left(gzip.pattern()[:-1])).invalid_because == reason


@pytest.mark.parametrize(
    "text", ["", "0\n 1 2 3 4 5 6 7 8", "12\n", "12 1 2 3", "12 1 2 3 4 5 6 7 999", "x 1 2 3 4 5 6 7 8"]
)
def test_what_is_no_compressed_file_is_refused(text: str) -> None:
    with pytest.raises(InstrumentError):
        Gzip(size="1M").read_result(1, text)


def test_arrays_that_the_cache_may_hold_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("stream-1.txt")
    monkeypatch.setattr(Workload, "run", lambda self, instance, limit_s, watch: self.read(text))
    tool = Stream(array="1M", repeats=3)
    tool._cache_bytes = 256 << 10
    assert not tool.run(object(), 1.0).remarks, "four times the cache, and no more is asked"  # type: ignore[arg-type]
    tool._cache_bytes = 1 << 20
    (remark,) = tool.run(object(), 1.0).remarks  # type: ignore[arg-type]
    assert "arrays of 1.0 MiB against 1.0 MiB of last-level cache" in remark.text
    assert remark.metrics == ("stream_copy", "stream_scale", "stream_add", "stream_triad")
