"""`lastro ab`: two variants in the same blocks, one answer, and an exit code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from statistics import fmean

import pytest

from lastro.results.store import Store

from .conftest import PARTS, Bench, Finished, finish, interrupt, is_error, lastro, start

SAME, SLOWER, LITTLE = (
    ("--a", "step=400"),
    ("--a", "step=400", "--b", "step=300"),
    ("--a", "step=400", "--b", "step=405"),
)


def study(bench: Bench, more: str = "", replicates: int = 6, **factors: list[str]) -> Path:
    file = bench.write(factors or {"level": ["a"]}, replicates=replicates)
    file.write_text(file.read_text() + more)
    return file


def ab(bench: Bench, file: Path, *more: str) -> Finished:
    return lastro("ab", file, "-o", bench.directory, *more)


def test_a_slower_variant_is_called_so_after_new_blocks_have_confirmed_it(bench: Bench) -> None:
    done = ab(bench, study(bench, level=["a", "b"]), *SLOWER)
    assert done.code == 4, done
    assert done.out.startswith("b is slower by ") and "confirmed by 6 new blocks" in done.out
    assert "(a)" in done.out.splitlines()[0], "the level at which it is worst: 100 of 500 is more than 100 of 600"
    with Store.open(bench.directory, readonly=True) as store:
        looks = [(each.block, each.rejected, each.stop) for each in store.looks()]
        assert looks == [(6, (0, 1), ""), (12, (), "decided")] and store.study.design.replicates == 12
        assert store.study.changes == ("--a", "step=400", "--b", "step=300")
    again = lastro("ab", bench.directory, "--json")
    assert again.code == 4 and again.json["answer"] == done.out.splitlines()[0]
    assert again.json["outcome"] == "worse" and again.json["looks"] == [6, 12] and again.json["new_blocks"] == 6
    assert all(0.15 < pair["low"] <= pair["change"] <= pair["high"] < 0.25 for pair in again.json["pairs"])
    shown = lastro("ab", bench.directory, "--lang", "pt-BR", "--format", "md").out
    assert "b está mais lento em" in shown and "| variante |" in shown
    assert lastro("ab", bench.directory, "--metric", "delay").out.startswith("b is slower by "), "judged after the fact"


@pytest.fixture
def own_parts(bench: Bench) -> dict[str, str]:
    """Return the environment of a command with parts in a repository: its second commit made the scenario slower."""
    parts = bench.home / "code" / "parts"
    shutil.copytree(PARTS, parts)
    scenario = parts / "scenarios" / "synthetic.py"
    for number, mean in ((1, "100.0"), (2, "70.0"), (3, "50.0")):
        scenario.write_text((PARTS / "scenarios" / "synthetic.py").read_text().replace('"a": 100.0', f'"a": {mean}'))
        if number < 3:  # the last change is not committed
            who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
            for words in ("init --quiet", "add .", f"commit --quiet --message {number}", f"tag v{number}"):
                subprocess.run(["git", *who, "-C", str(parts.parent), *words.split()], check=True)
    return {"LASTRO_PARTS": str(parts), "LASTRO_STATE": str(bench.home / "state")}


def test_two_revisions_of_a_part_run_in_the_same_blocks(bench: Bench, own_parts: dict[str, str]) -> None:
    words = ("ab", study(bench), "-o", bench.directory, "--a", "parts=v1", "--b", "parts=HEAD")
    done = lastro(*words, env=own_parts)
    assert done.code == 4 and done.out.startswith("b is slower by "), done
    with Store.open(bench.directory, readonly=True) as store:
        commits = {revision: found["parts/"] for revision, found in store.provenance.chapters["parts"].items()}
        by_variant = {
            variant: fmean(each.measurements["speed"] for each in store.attempts() if each.treatment == index)
            for index, variant in ((row.treatment.index, row.treatment.levels["variant"]) for row in store.treatments())
        }
    assert commits.keys() == {"v1", "HEAD"} and len(set(commits.values())) == 2
    assert by_variant == {"a": pytest.approx(100, abs=10), "b": pytest.approx(70, abs=10)}, (
        "not that of the working copy"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "has no revision 'v9'"),
        ({"LASTRO_PARTS": ""}, "no scenario is named 'synthetic'"),
    ],
)
def test_a_revision_of_parts_that_cannot_be_is_one_error(
    bench: Bench, own_parts: dict[str, str], change: dict[str, str], said: str
) -> None:
    words = ("ab", study(bench), "-o", bench.directory, "--b", "parts=v9")
    is_error(lastro(*words, env=own_parts | change), 2, said)
    assert not bench.directory.exists()


def test_until_decided_it_stops_when_the_answer_is_there(bench: Bench) -> None:
    done = ab(bench, study(bench), *LITTLE, "--until", "decided", "--blocks", "40", "--margin", "5%")
    assert done.code == 0 and done.out.startswith("no change "), done
    with Store.open(bench.directory, readonly=True) as store:
        looks = store.looks()
        assert [each.block for each in looks] == list(range(2, len(looks) + 2))
        assert looks[-1].stop == "decided" and looks[-1].block < 20
    results = lastro("report", bench.directory, "-o", "-", "--format", "html", drawn=False)
    assert results.code == 0 and "until the decision was made" in results.out


def test_what_more_blocks_would_decide_is_said(bench: Bench) -> None:
    done = ab(bench, study(bench, replicates=3), *LITTLE, "--margin", "0.5%")
    assert done.code == 8 and " decide with 80 %" in done.out.splitlines()[0], done


def test_time_that_is_over_ends_it_undecided(bench: Bench) -> None:
    file = study(bench, "\n[profiles.quick]\ntrial_s = 0.2\n")
    done = ab(bench, file, *LITTLE, "--until", "decided", "--margin", "0.1%", "--within", "1s", "--profile", "quick")
    assert done.code == 8, done
    with Store.open(bench.directory, readonly=True) as store:
        assert store.looks()[-1].stop == "time" and store.study.design.replicates <= 4


def test_a_resumed_campaign_confirms_its_alarm(bench: Bench) -> None:
    """Interrupted among the new blocks that try an alarm again: `resume` runs the rest of them, and nothing else."""
    file = bench.write({"level": ["a"]}, replicates=6, trial_s=0.1)
    process = start("ab", file, "-o", bench.directory, *SLOWER)
    bench.wait_until_done(15)
    interrupt(process)
    assert finish(process).code == 130
    waiting = lastro("ab", bench.directory)
    assert waiting.code == 8 and waiting.out.startswith("undecided: an alarm after 6 blocks is being tried again")
    assert lastro("resume", bench.directory, "--no-report").code == 0
    after = lastro("ab", bench.directory, "--json").json
    assert after["looks"] == [6, 12] and after["outcome"] == "worse" and after["blocks"] == 12


def test_variants_of_a_study_file_run_with_both_commands(bench: Bench) -> None:
    tables = "[variants.before.settings]\nstep = 400\n[variants.after]\nsettings = { step = 300, commands = 1 }\n"
    file = study(bench, tables, variant=["before", "after"], level=["a", "c"])
    assert lastro("run", file, "-o", bench.directory, "--no-report").code == 0
    done = lastro("ab", bench.directory)
    assert done.code == 4 and done.out.startswith("after is slower by ") and "step = 400" in done.out
    is_error(lastro("ab", file, "--b", "step=1"), 2, "has variants: before, after")


def test_the_service_levels_of_a_study_do_not_end_it(bench: Bench) -> None:
    done = ab(bench, study(bench, '[sla]\nspeed = ">= 1"\n'), *SAME, "--b", "step=400", "--until", "decided")
    assert done.code in (0, 8), done
    with Store.open(bench.directory, readonly=True) as store:
        assert store.study.sla == {} and store.study.test is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing says what differs"),
        (("--b", "step"), "is not NAME=VALUE"),
        (("--b", "stepp=1"), "did you mean 'step'"),
        (("--b", "step=x"), "is not a whole number"),
        (("--b", "level=b"), "level is a factor of this study"),
        (("--b", "variant=x"), "which variant it is"),
        (("--b", "kernel.pid_max=9"), "testbed file"),
        (("--b", "net.ipv4.tcp_rmem=9"), "sets no sysctl"),
        (("--b", "runc=/bin/true"), "no platform"),
        (("--b", "step=1", "--metric", "sped"), "speed"),
        (("--b", "step=1", "--margin", "0"), "--margin"),
        (("--b", "step=1", "--blocks", "1"), "at least 2"),
        (("--b", "step=1", "--only", "level=z"), "no level"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(bench: Bench, words: tuple[str, ...], said: str) -> None:
    is_error(ab(bench, study(bench), *words), 2, said)
    assert not bench.directory.exists()


def test_a_campaign_takes_no_options_of_a_study(bench: Bench) -> None:
    assert ab(bench, study(bench), *LITTLE).code in (0, 8)
    is_error(lastro("ab", bench.directory, "--a", "step=1"), 2, "is for a study")
    plain = bench.directory.with_name("plain")
    assert lastro("run", study(bench), "-o", plain, "--no-report").code == 0
    is_error(lastro("ab", plain), 2, "no variants")
