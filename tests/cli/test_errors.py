"""Every bad input through the real command line: one error that says what and where, and never a traceback."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from lastro.cli import COMMANDS, command_parser, main
from lastro.results.connection import FLEET_FORMAT as NEWEST
from lastro.results.store import Store

from ..support.products import some
from .conftest import (
    ENVIRONMENT,
    PARTS,
    TIMEOUT_S,
    Bench,
    Finished,
    finish,
    is_error,
    lastro,
    rows,
    study_text,
    until,
)  # fmt: skip
from .forking import Forks

CHAIN = {"platform": ["native"], "attachment": ["veth-direct"]}


def chain(factors: dict[str, list[object]] | None = None, more: str = "", **settings: object) -> str:
    return study_text({**CHAIN, **(factors or {})}, scenario="chain", **settings) + more  # type: ignore[arg-type]


BAD_STUDIES: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "not TOML": ("[study\n", ("is not TOML", "line 1")),
    "an unquoted string": ("[study]\nname = kagami\n", ("is not TOML", "strings need quotes")),
    "empty": ("", ("study", "is missing")),
    "binary": (bytes(range(256)), ("is not",)),
    "not UTF-8": (b'[study]\nname = "caf\xe9"\n', ("is not UTF-8", "line 2", "save the file as UTF-8")),
    "an unknown table": (chain(more="[wat]\nx = 1\n"), ("wat",)),
    "an unknown key": (chain(tcp_sec=3), ("settings.tcp_sec", "did you mean 'tcp_s'?")),
    "an unknown factor": (chain({"platfrom": ["runc"]}), ("factors.platfrom", "did you mean 'platform'?")),
    "an unknown scenario": (study_text(scenario="chian"), ("study.scenario", "did you mean 'chain'?")),
    "an unknown metric": (
        chain().replace("[factors]", 'metrics = ["thruput"]\n[factors]'),
        ("study.metrics[0]", "did you mean 'throughput'?"),
    ),
    "a misspelt level": (chain({"platform": ["dockre"]}), ("factors.platform[0]", "did you mean 'docker'?")),
    "an empty factor": (chain({"function": []}), ("factors.function",)),
    "a duplicate level": (chain({"function": ["nat", "nat"]}), ("factors.function[1]", "listed already")),
    "the same isolation twice": (
        chain({"isolation": ["cgroups+apparmor", "apparmor+cgroups"]}),
        ("factors.isolation[1]", "the same level"),
    ),
    "a wrong type": (chain(tcp_s="five"), ("settings.tcp_s", "must be")),
    "a number for a name": (chain({"function": [3]}), ("factors.function[0]", "string")),
    "no replicate": (chain(replicates=0), ("design.replicates",)),
    "absurdly many replicates": (chain(replicates=10**12), ("design.replicates",)),
    "a number beyond 64 bits": (chain(replicates=10**30), ("design.replicates", "too large")),
    "a number of ten thousand digits": (chain() + f"# \n[x]\ny = 1{'0' * 10_000}\n", ("too large",)),
    "a negative duration": (chain(tcp_s=-1), ("settings.tcp_s", "at least")),
    "an endless duration": (chain(tcp_s=10**9), ("settings.tcp_s", "at most")),
    "not a number": (chain(more="", ping_s=1).replace("ping_s = 1", "ping_s = nan"), ("settings.ping_s", "finite")),
    "a bad rate": (chain(udp_rate="fast"), ("settings.udp_rate",)),
    "a factor that is a setting too": (
        chain({"tcp_streams": [1, 2]}, tcp_streams=1),
        ("settings.tcp_streams", "factor"),
    ),
    "a baseline of no level": (chain(baseline={"platform": "runc"}), ("design.baseline.platform",)),
    "a baseline of no factor": (chain(baseline={"function": "nat"}), ("design.baseline.function",)),
    "a profile that changes more": (chain(more='[profiles.quick]\nudp_rate = "1M"\n'), ("profiles.quick.udp_rate",)),
    "a profile of an unknown name": (chain(more="[profiles.quik]\ntcp_s = 1\n"), ("profiles.quik", "quick")),
    "exclusions that leave nothing": (
        chain(more='[[exclude]]\nwhen = { platform = "native" }\nreason = "x"\n'),
        ("exclude", "no treatment"),
    ),
    "endless nesting": ("x = " + "[" * 5_000 + "]" * 5_000, ("nested too deeply",)),
    "more than a MiB": (f"# {'x' * 2**20}\n", ("exceeds the limit of 1 MiB",)),
}


@pytest.mark.parametrize("case", some(BAD_STUDIES, 4))
def test_a_bad_study(tmp_path: Path, case: str) -> None:
    text, words = BAD_STUDIES[case]
    file = tmp_path / "study.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    is_error(lastro("plan", file, "--no-probe"), 2, str(file), *words)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_study_that_cannot_be_read(tmp_path: Path, command: str) -> None:
    (tmp_path / "stduy.toml").write_text("")
    is_error(lastro(command, tmp_path / "study.toml"), 2, "no such file", "did you mean 'stduy.toml'?")
    is_error(lastro(command, tmp_path), 2, "stduy.toml")
    (tmp_path / "empty").mkdir()
    is_error(lastro(command, tmp_path / "empty"), 2, "is a directory without study files")
    is_error(lastro(command, "/dev/null/x"), 2, "/dev/null/x")
    is_error(lastro(command, "x" * 5_000), 2, "name too long")
    (tmp_path / "loop").symlink_to("loop")
    is_error(lastro(command, tmp_path / "loop"), 2, "loop")


def test_unknown_papers_and_profiles(tmp_path: Path) -> None:
    is_error(lastro("plan", "kagami2071"), 2, "no built-in study 'kagami2071'", "did you mean 'kagami2017'?")
    is_error(lastro("plan", "paper:../../../etc/passwd"), 2, "there is no built-in study")
    is_error(lastro("plan", "paper:"), 2, "there is no built-in study ''")
    is_error(lastro("noise-floor", "trindade2018"), 2, "is a suite of 8 studies", "trindade2018/cpu")
    is_error(lastro("plan", "trindade2018/disc"), 2, "did you mean 'trindade2018/disk'?")
    is_error(lastro("plan", "kagami2017", "--profile", "quik"), 2, "did you mean 'quick'?")
    (tmp_path / "study.toml").write_text(study_text())
    is_error(lastro("plan", tmp_path / "study.toml", "--profile", "quick"), 2, "this study has no profiles")


def test_bad_arguments() -> None:
    done = lastro("parts", "platfrom")
    assert done.code == 2 and "invalid choice: 'platfrom'" in done.err
    done = lastro("show", ".", "first")
    assert done.code == 2 and "invalid int value: 'first'" in done.err
    assert lastro("plan").code == 2
    error = is_error(lastro("results", "x" * 5_000), 2, "xxx…", "name too long")
    assert len(error) < 400


@pytest.mark.parametrize("command", [name for group in COMMANDS.values() for name in group])
def test_two_hyphens_are_not_a_value_of_any_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of which argparse makes an empty list, whatever the type of the option."""
    parser, _ = command_parser(command)
    for option in (text for action in parser._actions for text in action.option_strings if text.startswith("--")):
        assert main([command, f"{option}=--"]) == 2
        assert f"argument {option}: '--' is not a value" in capsys.readouterr().err


# Campaigns that are none, or no longer

READERS = (
    ["status"],
    ["results"],
    ["results", "--json"],
    ["report"],
    ["resume"],
    ["show", "1"],
    ["show", "1", "--json"],
)


def words(reader: list[str], directory: object) -> list[object]:
    return [reader[0], directory, *reader[1:]]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = Bench(tmp_path_factory.mktemp("whole"))
    assert place.run({"level": ["a", "b"], "fault": ["none", "always-invalid"]}, calibration="good").code == 0
    return place.directory


@pytest.fixture
def copy(campaign: Path, tmp_path: Path) -> Path:
    return shutil.copytree(campaign, tmp_path / "copy")


@pytest.mark.parametrize("reader", READERS)
def test_no_campaign_there(tmp_path: Path, reader: list[str]) -> None:
    is_error(lastro(*words(reader, tmp_path)), 2, "holds no campaign", "the directory that `lastro run` named")
    is_error(lastro(*words(reader, tmp_path / "nowhere")), 2, "holds no campaign")
    is_error(lastro(*words(reader, "/etc/passwd")), 2, "holds no campaign")
    os.mkfifo(tmp_path / "campaign.db")
    is_error(lastro(*words(reader, tmp_path)), 2, "holds no campaign (campaign.db is not a regular file)")
    is_error(lastro(*words(reader, "x" * 5_000)), 2, "cannot be read: File name too long")


@pytest.mark.parametrize("number", ["0", "-1", "9", "99999999999999999999999999"])
def test_no_such_trial(campaign: Path, number: str) -> None:
    is_error(lastro("show", campaign, "--", number), 2, f"has no trial {number}", "numbered 1 to 8")
    is_error(lastro("show", campaign, 1, "--attempt", 10**30), 2, "trial 1 has no attempt")


def _random_bytes(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(40_000))


def _text(file: Path) -> None:
    file.write_text("not a database at all, but long enough to be looked at\n" * 300)


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])


def _another_database(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE cats(name)")


def _lose(sql: str) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        with closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute(sql)

    return damage


DAMAGES = {
    "random bytes": _random_bytes,
    "text": _text,
    "empty": _empty,
    "truncated": _truncate,
    "another database": _another_database,
    "no study": _lose("DELETE FROM meta WHERE key = 'study'"),
    "a study that is no JSON": _lose("UPDATE meta SET value = '{' WHERE key = 'study'"),
    "a study of other keys": _lose("""UPDATE meta SET value = '{"x": 1}' WHERE key = 'study'"""),
    "a format that is no number": _lose("""UPDATE meta SET value = '"one"' WHERE key = 'format'"""),
    "levels that are no JSON": _lose("UPDATE treatment SET levels = 'a'"),
    "no trials": _lose("DROP TABLE trial"),
    "text that is no UTF-8": _lose("UPDATE meta SET value = CAST(x'22ff22' AS TEXT)"),
}


@pytest.mark.parametrize("damage", some(DAMAGES, 3))
def test_a_damaged_campaign(copy: Path, damage: str) -> None:
    DAMAGES[damage](copy / "campaign.db")
    for reader in READERS:
        if reader[0] == "show" and damage in ("no study", "a study that is no JSON", "a study of other keys"):
            continue  # a trial shown alone does not ask for all of the study
        error = is_error(lastro(*words(reader, copy)), 5, str(copy / "campaign.db"))
        if damage in ("random bytes", "another database", "text that is no UTF-8"):
            assert "not a readable campaign" in error


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE trial SET treatment = 99 WHERE number = 1",
        "UPDATE trial SET state = 'vaild' WHERE number = 1",
        "UPDATE attempt SET duration_s = 'long' WHERE trial = 1",
        """UPDATE treatment SET levels = replace(levels, '"fault"', '"vault"')""",
        "UPDATE measurement SET value = 1e200 WHERE attempt = (SELECT id FROM attempt WHERE trial = 1 LIMIT 1)",
        "UPDATE measurement SET value = 'high' WHERE attempt = (SELECT id FROM attempt WHERE trial = 1 LIMIT 1)",
    ],
)
def test_rows_that_do_not_belong_together(copy: Path, sql: str) -> None:
    _lose(sql)(copy / "campaign.db")
    is_error(lastro("results", copy), 5, str(copy / "campaign.db"), "is not a readable campaign")


def test_any_damage_is_told(campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sixty campaigns with a few bytes flipped anywhere: the old results, or one error."""
    original = (campaign / "campaign.db").read_bytes()
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    codes = set()
    for _ in range(60):
        data = bytearray(original)
        for _ in range(chance.choice((1, 5, 50, 500))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        directory = tmp_path / "flipped"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        (directory / "campaign.db").write_bytes(data)
        for argv in (["results", directory, "--json"], ["status", directory], ["show", directory, 1, "--json"]):
            code = main([str(word) for word in argv])
            err = capsys.readouterr().err
            codes.add(code)
            assert code in (0, 2, 5) and "defect" not in err, (seed, argv, err)
    assert codes >= {0, 5}


def test_a_campaign_of_a_newer_lastro(copy: Path) -> None:
    _lose(f"UPDATE meta SET value = '{NEWEST + 1}' WHERE key = 'format'")(copy / "campaign.db")
    for reader in READERS:
        is_error(lastro(*words(reader, copy)), 5, f"written by a newer Lastro (format {NEWEST + 1}", "update Lastro")


def test_a_campaign_of_a_scenario_that_is_not_here(campaign: Path) -> None:
    """Its results need no scenario; to go on, one needs it."""
    nobodys = {"LASTRO_PARTS": ""}
    assert lastro("results", campaign, env=nobodys).code == 0
    assert lastro("status", campaign, env=nobodys).code == 0
    is_error(lastro("resume", campaign, env=nobodys), 2, "no scenario is named 'synthetic'")


def test_parts_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "parts" / "anomalies"
    folder.mkdir(parents=True)
    (folder / "needy.py").write_text("import a_module_that_nobody_has\n")
    listed = lastro("parts", "anomaly", env={"LASTRO_PARTS": str(tmp_path / "parts")})
    assert listed.code == 0 and "No module named 'a_module_that_nobody_has'" in listed.out


# Places that cannot be written to


def test_an_output_that_cannot_be_a_directory(bench: Bench) -> None:
    study, file = bench.write(), bench.home / "file"
    file.write_text("precious")
    is_error(lastro("run", study, "-o", file), 2, f"{file} is not a directory")
    is_error(lastro("run", study, "-o", file / "below"), 2, f"{file} is not a directory")
    is_error(lastro("run", study, "-o", "/proc/here"), 5, "/proc/here")
    is_error(lastro("run", study, "-o", "x" * 5_000), 2, "File name too long")
    assert file.read_text() == "precious"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


def as_nobody(*argv: object, cwd: str = "/") -> Finished:
    """As a user without any rights."""
    code, out, err = _nobodys().run([*map(str, argv)], Path(cwd), TIMEOUT_S, {}, drawn=False)
    assert "Traceback" not in err, err
    return Finished(code, out, err)


@cache
def _nobodys() -> Forks:
    """The interpreter of a checkout may lie in root's home: nobody then borrows the one capability to read it all."""
    lent = [] if _readable_by_nobody() else ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *lent]
    return Forks({**ENVIRONMENT, "MPLCONFIGDIR": "/tmp"}, nobody)


def _readable_by_nobody() -> bool:
    needed = [Path(sys.executable).resolve(), Path(os.__file__), PARTS, Path(main.__code__.co_filename)]
    return all(place.stat().st_mode & 0o005 for file in needed for place in (file, *file.parents))


@pytest.fixture
def public(copy: Path) -> Iterator[Path]:
    """A campaign that anybody may read and root alone may write; its directory's parents too."""
    for place in copy.parents:
        if place.owner() == "root" and place.is_relative_to("/tmp") and place != Path("/tmp"):
            place.chmod(0o755)
    copy.chmod(0o755)
    with Store.open(copy):
        pass  # the last to close it for writing takes the log and its index away, which the last reader leaves
    for file in copy.iterdir():
        file.chmod(0o644)
    yield copy


@needs_root
def test_without_root_it_says_what_needs_root(public: Path, tmp_path: Path) -> None:
    study = public.parent / "chain.toml"
    study.write_text(chain())
    real = public.parent / "real"
    real.mkdir(0o777)
    real.chmod(0o777)
    for argv in (["run", study], ["doctor"], ["clean"], ["image"]):
        error = is_error(as_nobody(*argv), 3, f"`lastro {argv[0]}`", "needs root", "need no root")
        assert "plan" in as_nobody(*argv).err and "report" in as_nobody(*argv).err, error


@needs_root
def test_resuming_a_real_campaign_needs_root(public: Path) -> None:
    """The synthetic one does not: so make it look like a chain's."""
    db = public / "campaign.db"
    _lose("""UPDATE meta SET value = replace(value, '"scenario": "synthetic"', '"scenario": "chain"')""")(db)
    public.chmod(0o777)
    for file in public.iterdir():
        file.chmod(0o666)
    is_error(as_nobody("resume", public), 3, "`lastro resume`", "needs root")


@needs_root
def test_what_needs_no_root(public: Path) -> None:
    place = public.parent / "nobodys"
    place.mkdir()
    os.chown(place, 65534, 65534)
    study = public.parent / "chain.toml"
    study.write_text(chain())
    plan = as_nobody("plan", study)
    assert plan.code == 0 and "availability was not probed" in plan.out
    for argv in (
        ["results", public], ["results", public, "--json"], ["results", public, "--csv", place / "all.csv"],
        ["report", public, "-o", place / "page.html"], ["status", public], ["show", public, 1], ["parts"], ["schema"],
        ["plan", "kagami2017"], ["--help"],
    ):  # fmt: skip
        done = as_nobody(*argv)
        assert done.code == 0, (argv, done)
    assert as_nobody("new", "study.toml", cwd=str(place)).code == 0
    assert {file.name for file in place.iterdir()} == {"all.csv", "page.html", "study.toml"}
    (place / "mine.toml").write_text(study_text(replicates=1))
    assert as_nobody("run", "mine.toml", "-o", "mine", cwd=str(place)).code == 0, "a scenario without a host"


@needs_root
def test_places_that_nobody_may_write_to(public: Path) -> None:
    study = public.parent / "mine.toml"
    study.write_text(study_text(replicates=1))
    is_error(as_nobody("run", study, "-o", public.parent / "campaign-2"), 2, "cannot be written to")
    is_error(as_nobody("report", public), 3, "cannot be written")
    is_error(as_nobody("results", public, "--csv", public / "x.csv"), 3, "cannot be written")
    is_error(as_nobody("new", public / "x.toml"), 2, "cannot be written")
    is_error(as_nobody("resume", public), 5, str(public / "campaign.db"))


@needs_root
@pytest.mark.skipif(not _readable_by_nobody(), reason="nobody reads everything here, by the capability lent to it")
def test_a_campaign_that_nobody_may_read(public: Path) -> None:
    (public / "campaign.db").chmod(0o600)
    is_error(as_nobody("results", public), 5, "campaign.db")
    public.chmod(0o700)
    is_error(as_nobody("status", public), 2, "Permission denied")


# Two at once


def test_two_resumes_of_one_campaign(bench: Bench) -> None:
    """Without a host there is no lock on it, but its database knows the process that runs it."""
    process = bench.begin({"level": ["a", "b"]}, trial_s=0.4, replicates=5)
    bench.wait_until_done(1)
    is_error(lastro("resume", bench.directory, "--no-report"), 6, f"is running, by process {process.pid} since 20")
    assert finish(process).code == 0
    assert all(row[3] == "valid" for row in rows(bench.directory))


def test_a_block_that_another_process_finishes_while_this_one_looks_has_no_next_trial(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lose("UPDATE trial SET state = 'pending' WHERE number = 8")(copy / "campaign.db")
    looks = Store._trial_rows

    def then_finished(store: Store, *of: object) -> object:
        found = looks(store, *of)  # type: ignore[arg-type]
        _lose("UPDATE trial SET state = 'valid' WHERE number = 8")(copy / "campaign.db")
        return found

    monkeypatch.setattr(Store, "_trial_rows", then_finished)
    with Store.open(copy, readonly=True) as store:
        assert store.next_trial() is None


@pytest.mark.parametrize("words", [("results", "--csv", "-"), ("results",), ("results", "--json"), ("status",)])
def test_a_reader_that_stops_reading(campaign: Path, words: tuple[str, ...]) -> None:
    """`lastro results … | head -1`, where the output is long, and where it is written at the very end."""
    argv = [sys.executable, "-m", "lastro", words[0], str(campaign), *words[1:]]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    until(lambda: process.poll() is not None, "its end")
    assert process.stderr.read() == b""
    assert process.returncode == 0
    process.stderr.close()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_defect_and_no_file_takes_their_place(
    campaign: Path, tmp_path: Path, closed: str
) -> None:
    """A database that is opened as file 1 would be written over by whatever prints."""
    before = (campaign / "campaign.db").read_bytes()
    words = [sys.executable, "-m", "lastro", "results", str(campaign), "--csv", str(tmp_path / "out.csv")]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )
    assert done.returncode == 0 and done.stderr in ("", f"wrote {tmp_path / 'out.csv'}\n"), done
    assert (tmp_path / "out.csv").stat().st_size and (campaign / "campaign.db").read_bytes() == before


@pytest.mark.parametrize("words", [("parts",), ("results", "--json"), ("--help",)])
def test_output_to_a_full_disk(campaign: Path, words: tuple[str, ...]) -> None:
    argv = [sys.executable, "-m", "lastro", words[0], *([str(campaign), *words[1:]] if words[1:] else [])]
    with open("/dev/full", "w") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, timeout=60)
    assert (done.returncode, done.stderr) == (3, "lastro: the output cannot be written: No space left on device\n")
