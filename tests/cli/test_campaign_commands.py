"""Campaigns through the real command line, on a scenario without a host: run, status, results, show, report, resume."""

from __future__ import annotations

import os
import pty
import random
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from lastro.results.store import Store

from .conftest import (
    ENVIRONMENT,
    PYTHON,
    Bench,
    Process,
    command,
    finish,
    interrupt,
    is_error,
    lastro,
    n_done,
    rows,
    schedule,
    start,
    study_text,
    until,
)

FAULTS = ["none", "invalid-once", "always-invalid", "trial-error", "unavailable"]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole campaign in which everything that can befall a trial has done so: 2 levels, 5 faults, 2 blocks."""
    place = Bench(tmp_path_factory.mktemp("whole"))
    done = place.run({"level": ["a", "b"], "fault": FAULTS}, calibration="good", baseline={"level": "a"})
    assert done.code == 0, done
    return place.directory


def test_run_tells_each_trial_on_plain_lines(bench: Bench) -> None:
    done = bench.run({"level": ["a", "b"], "fault": FAULTS}, calibration="good")
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0].startswith("probing")
    assert "4 of 20 trials are unavailable here" in lines[1]
    assert sum(line.startswith("calibrating ") for line in lines) == 2
    trials = [line for line in lines if line.startswith("[")]
    attempts = 4 * 1 + (4 + 2) + 4 * 3 + 4 * 3  # none, invalid-once (once a session), the two hopeless ones
    assert len(trials) == attempts
    assert "left" in trials[0]
    assert trials[-1].startswith("[16/16]") and trials[-1].endswith("done")
    assert any("(attempt 3)  invalid, given up: the instrument printed 'gibberish'" in line for line in trials)
    assert any("invalid, to be repeated: the host was disturbed (run 1)" in line for line in trials)
    assert any("speed " in line and "Mbit/s" in line for line in trials)
    assert "\x1b" not in done.err + done.out
    assert "every attempt invalid" in done.out and "Unavailable on this host" in done.out


def test_invalid_trials_are_repeated_twice_at_most(campaign: Path) -> None:
    treatments = lastro("results", campaign, "--json").json["treatments"]
    faults = {index: treatment["levels"]["fault"] for index, treatment in enumerate(treatments)}
    seen = {(faults[treatment], block): (state, attempts) for _, block, treatment, state, attempts in rows(campaign)}
    for block in (1, 2):
        assert seen["none", block] == ("valid", 1)
        assert seen["invalid-once", block] == ("valid", 2 if block == 1 else 1)
        assert seen["always-invalid", block] == seen["trial-error", block] == ("invalid", 3)
        assert seen["unavailable", block] == ("unavailable", 0)
    assert [number for number, *_ in rows(campaign)] == list(range(1, 21))


def test_the_schedule_is_the_planned_one(campaign: Path) -> None:
    plan = lastro("plan", campaign / "study.toml", "--schedule", "--json").json
    ids = {treatment["id"]: index for index, treatment in enumerate(plan["treatments"])}
    planned = [(each["trial"], each["block"], ids[each["treatment"]]) for each in plan["schedule"]]
    assert planned == schedule(campaign)
    unavailable = [treatment for treatment in plan["treatments"] if treatment["unavailable"]]
    assert len(unavailable) == 2 and {treatment["remedy"] for treatment in unavailable} == {"choose another fault"}


def test_status(campaign: Path) -> None:
    facts = lastro("status", campaign, "--json").json
    assert set(facts) == {
        "study", "title", "profile", "guest", "stopping", "most_replicates",
        "counts", "dropped", "trials", "attempts", "invalid_attempts", "finished", "remaining_s",
        "running", "last_event", "live", "next",
    }  # fmt: skip
    assert facts["counts"] == {"valid": 8, "invalid": 8, "unavailable": 4, "running": 0, "pending": 0}
    assert (facts["trials"], facts["attempts"], facts["invalid_attempts"]) == (20, 34, 26)
    assert facts["finished"] and facts["last_event"]["kind"] == "finished" and facts["live"] is None
    text = lastro("status", campaign)
    assert text.code == 0 and "16 of 16 trials" in text.out and "8 valid, 8 invalid, 4 unavailable" in text.out


def test_results(campaign: Path) -> None:
    document = lastro("results", campaign, "--json").json
    assert document["format"] == "lastro-results/1"
    assert {"counts", "treatments"} <= set(document)
    table = lastro("results", campaign)
    assert table.code == 0
    for words in ("0 of 2", "every attempt invalid", "[1] fault = unavailable", "this fault cannot be had here"):
        assert words in table.out
    csv = lastro("results", campaign, "--csv", "-")
    lines = csv.out.splitlines()
    assert csv.code == 0 and len(lines) > 2 * 12 and "speed" in csv.out and "gibberish" in csv.out


def test_show_tells_everything_of_a_trial(campaign: Path) -> None:
    given_up = next(row[0] for row in rows(campaign) if row[3] == "invalid")
    text = lastro("show", campaign, given_up)
    assert text.code == 0 and text.out.count("attempt ") >= 3 and "invalid: " in text.out
    document = lastro("show", campaign, given_up, "--json").json
    assert set(document) == {"trial", "block", "state", "levels", "attempts"}
    assert len(document["attempts"]) == 3
    assert set(document["attempts"][0]) == {
        "attempt", "started_utc", "duration_s", "valid", "reasons", "measurements", "notes", "series", "transcript",
    }  # fmt: skip
    valid = next(row[0] for row in rows(campaign) if row[3] == "valid")
    table = (
        lastro("show", campaign, valid).out.partition("\nmeasurements\n")[2].partition("\n  series ")[0].splitlines()
    )
    assert len(table) > 1 and len({re.match(r"  \S+ +\S+", line).end() for line in table}) == 1, "one grid"  # type: ignore[union-attr]
    attempt = lastro("show", campaign, valid, "--json").json["attempts"][-1]
    assert attempt["valid"] and attempt["series"]["speed"]["unit"] == "Mbit/s"
    assert len(attempt["series"]["speed"]["values"]) == 10
    assert attempt["notes"]["calibrations"], "the trial was told what the calibration run had found"
    unavailable = next(row[0] for row in rows(campaign) if row[3] == "unavailable")
    assert "this fault cannot be had here" in lastro("show", campaign, unavailable).out
    is_error(lastro("show", campaign, unavailable, "--commands"), 2, "has not run")


def test_report_and_a_resume_with_nothing_left(campaign: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    written = lastro("report", campaign, "-o", page, drawn=False)
    assert (written.code, written.out.strip()) == (0, str(page))
    assert "gibberish" in page.read_text()
    before = rows(campaign)
    again = lastro("resume", campaign, drawn=False)
    assert again.code == 0 and "nothing is left to run" in again.out
    assert str(campaign / "report.html") in again.out
    assert rows(campaign) == before


def test_run_into_a_campaign_is_refused(campaign: Path) -> None:
    before = rows(campaign)
    is_error(
        lastro("run", campaign / "study.toml", "-o", campaign),
        2,
        "already holds a campaign",
        f"lastro resume {campaign}",
    )
    assert rows(campaign) == before


def test_run_names_a_directory_by_itself(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(study_text(replicates=1))
    done = lastro("run", "study.toml", cwd=tmp_path, drawn=False)
    assert done.code == 0
    (made,) = (tmp_path / "campaigns").iterdir()
    assert made.name.startswith("synthetic-") and (made / "report.html").is_file()
    assert (made / "study.toml").read_text() == (tmp_path / "study.toml").read_text()


def test_numbers_that_are_none_make_a_trial_invalid(bench: Bench) -> None:
    assert bench.run({"fault": ["nonsense", "clock-jump"]}, replicates=1).code == 0
    found = {row[2]: row[3:] for row in rows(bench.directory)}
    assert found == {0: ("invalid", 3), 1: ("valid", 2)}
    reasons = [lastro("show", bench.directory, n, "--json").json["attempts"][0]["reasons"][0] for n in (1, 2)]
    assert sorted(reasons) == ["speed is nan", "the host's clock jumped by +3600.00 s"]


def test_a_calibration_that_fails_makes_its_trials_invalid(bench: Bench) -> None:
    assert bench.run({"level": ["a"]}, replicates=1, calibration="bad").code == 0
    assert [row[3:] for row in rows(bench.directory)] == [("invalid", 3)]
    attempt = lastro("show", bench.directory, 1, "--json").json["attempts"][0]
    assert attempt["reasons"][0].startswith("no valid calibration run (ceiling/a): the host was disturbed")


def test_status_says_what_a_campaign_does_and_how_its_latest_values_compare(bench: Bench) -> None:
    process = bench.begin({"fault": ["none", "always-invalid"]}, trial_s=0.4, replicates=3, calibration="good")
    calibrating = until(lambda: bench.directory.exists() and live_trials(bench.directory), "a trial")[0]["calibrating"]
    assert calibrating == "ceiling/a"
    bench.wait_until_done(4)
    live = lastro("status", bench.directory, "--json").json["live"]
    assert finish(process).code == 0
    assert {trial["calibrating"] for trial in live["trials"]} <= {None}
    newest, oldest = live["latest"][0], live["latest"][-1]
    assert newest["trial"] > oldest["trial"] and newest["earlier"]["n"] >= 1 and oldest["earlier"] is None
    assert newest["earlier"]["min"] <= newest["earlier"]["mean"] <= newest["earlier"]["max"]
    assert 3 <= len(live["invalid"]) <= 5 and live["invalid"][0]["reasons"][0].startswith("the host was disturbed")


def live_trials(directory: Path) -> Any:
    done = lastro("status", directory, "--json")
    return done.json["live"]["trials"] if done.code == 0 else []


def test_nothing_can_run(bench: Bench) -> None:
    done = bench.run({"fault": ["unavailable"]})
    assert done.code == 3 and "no treatment of this study can run here" in done.err
    facts = lastro("status", bench.directory, "--json").json
    assert facts["counts"]["unavailable"] == facts["trials"] == 2


def test_a_defect_of_a_part_is_one_line_and_loses_nothing(bench: Bench) -> None:
    """Not a TrialError: a part's own bug ends the campaign, and resume goes on from there."""
    done = bench.run({"fault": ["defect"], "level": ["a"]}, replicates=1)
    assert done.code == 1
    error, hint = done.err.splitlines()[-2:]
    place = r"/parts/scenarios/synthetic\.py, line \d+"
    assert re.fullmatch(rf"lastro: a part has failed, in .*{place}: ZeroDivisionError: a defect on purpose", error)
    file = Path(hint.split()[-1])
    assert "Traceback" in file.read_text()
    file.unlink()
    assert [row[3:] for row in rows(bench.directory)] in ([("running", 0)], [("pending", 0)])


# Interruptions


def _slow(bench: Bench, **options: object) -> Process:
    return bench.begin({"level": ["a", "b", "c"], "step": [0, 1]}, trial_s=0.15, replicates=2, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, int, int]]:
    """The schedule of the same study, run in one go."""
    place = Bench(tmp_path_factory.mktemp("whole"))
    assert place.run({"level": ["a", "b", "c"], "step": [0, 1]}, replicates=2).code == 0
    return schedule(place.directory)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interruption_ends_cleanly_and_says_how_to_resume(
    bench: Bench, uninterrupted: list[tuple[int, int, int]], number: signal.Signals, code: int
) -> None:
    process = _slow(bench)
    bench.wait_until_done(2)
    interrupt(process, number)
    done = finish(process)
    assert done.code == code, done
    assert done.err.splitlines()[-1].startswith("lastro: interrupted: ")
    assert f"continue with `lastro resume {bench.directory}`" in done.err
    before = rows(bench.directory)
    n_before = sum(row[3] == "valid" for row in before)
    assert 2 <= n_before < 12 and schedule(bench.directory) == uninterrupted
    assert all(row[3] == "pending" for row in before[n_before:]), "nothing is left as running"
    status = lastro("status", bench.directory, "--json").json
    assert status["next"] == f"lastro resume {bench.directory}" and status["last_event"]["kind"] == "interrupted"

    resumed = lastro("resume", bench.directory, "--no-report")
    assert resumed.code == 0
    assert f"[{n_before + 1}/12]" in resumed.err and f"[{n_before}/12]" not in resumed.err
    after = rows(bench.directory)
    assert [row[:3] for row in after] == uninterrupted
    assert all(row[3:] == ("valid", 1) for row in after), "each trial ran exactly once"


def test_the_number_of_a_progress_line_is_that_of_its_trial_or_the_line_names_it(bench: Bench) -> None:
    done = bench.run({"fault": ["none", "invalid-once"]}, replicates=3)
    lines = [line for line in done.err.splitlines() if line.startswith("[")]
    assert len(lines) == 7
    for line in lines:
        found = re.match(r"\[(\d+)/6\] (?:trial (\d+)  )?block (\d)  ([\w-]+)", line)
        assert found, line
        shown = lastro("show", bench.directory, found[2] or found[1]).out
        assert f"block {found[3]}" in shown.splitlines()[0] and f"fault  {found[4]}" in shown, (line, shown)


def test_further_signals_do_no_harm(bench: Bench) -> None:
    process = _slow(bench)
    bench.wait_until_done(1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGINT):
        if process.poll() is None:
            interrupt(process, number)
        time.sleep(0.002)
    done = finish(process)
    assert done.code in (130, 143)  # one of the two; the first one may be put off by two milliseconds
    assert done.err.count("lastro: ") == 1
    assert lastro("resume", bench.directory, "--no-report").code == 0
    assert all(row[3:] == ("valid", 1) for row in rows(bench.directory))


@pytest.mark.parametrize(("name", "number"), [("INT", signal.SIGINT), ("HUP", signal.SIGHUP)])
def test_what_is_ignored_stays_ignored(bench: Bench, name: str, number: signal.Signals) -> None:
    """A shell starts background jobs with SIGINT ignored, and nohup with SIGHUP: neither must end this one."""
    file = bench.write({"level": ["a"]}, trial_s=0.2, replicates=2)
    argv = ["sh", "-c", f'trap "" {name}; exec "$@"', "sh", *command("run", file, "-o", bench.directory, "--no-report")]
    process = subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    bench.wait_until_done(1)
    interrupt(process, number)
    assert finish(process).code == 0


def _drop_terminal(bench: Bench, *prefix: str) -> int:
    """Run a campaign of four trials on a terminal that is gone after the first, and return its exit code.

    The kernel sends SIGHUP to the leader of the session, as `setsid` makes it, and each write to the terminal fails."""
    file = bench.write({"level": ["a", "b"]}, trial_s=0.2, replicates=2)
    ours, theirs = os.openpty()
    argv = ["setsid", "--wait", "--ctty", *prefix, *command("run", file, "-o", bench.directory, "--no-report")]
    process = subprocess.Popen(argv, env=ENVIRONMENT, stdin=theirs, stdout=theirs, stderr=theirs, cwd=bench.home)
    os.close(theirs)
    bench.wait_until_done(1)
    os.close(ours)
    return process.wait(60)


def test_a_terminal_that_is_gone_ends_a_campaign_cleanly(bench: Bench) -> None:
    """As when an SSH session drops."""
    assert _drop_terminal(bench) == 129
    assert lastro("status", bench.directory, "--json").json["last_event"]["kind"] == "interrupted"
    assert any(row[3] == "pending" for row in rows(bench.directory))
    assert lastro("resume", bench.directory, "--no-report").code == 0
    assert all(row[3:] == ("valid", 1) for row in rows(bench.directory)), "each trial ran exactly once"


def test_nohup_keeps_a_campaign_that_loses_its_terminal(bench: Bench) -> None:
    assert _drop_terminal(bench, "nohup") == 0
    assert [row[3:] for row in rows(bench.directory)] == [("valid", 1)] * 4
    assert "4 valid" in (bench.home / "nohup.out").read_text(encoding="utf-8")


def test_an_early_interrupt_is_no_traceback(bench: Bench) -> None:
    """At any moment of the first half second, imports included."""
    file = bench.write({"level": ["a"]}, trial_s=1.0, replicates=1)
    moments = random.Random(11)
    for attempt in range(12):
        process = start("run", file, "-o", bench.home / str(attempt), "--no-report", program=PYTHON)
        time.sleep(moments.uniform(0.08, 0.5))  # before that, Python itself has not yet begun to read our code
        interrupt(process)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err or "in main" not in err, err  # Python's own, before it runs our code
        assert process.returncode in (130, -signal.SIGINT, *([1] if "Traceback" in err else [])), (out, err)


@pytest.mark.parametrize("least_kills", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_resumes_to_the_same_end(
    bench: Bench, uninterrupted: list[tuple[int, int, int]], least_kills: int
) -> None:
    """kill -9, again and again: no trial twice, none lost, the same order."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    factors = {"level": ["a", "b", "c"], "step": [0, 1]}
    file = bench.write(factors, trial_s=0.03, replicates=2)
    kills = campaigns = 0
    while kills < least_kills:
        campaigns += 1
        assert campaigns < 2 * least_kills
        directory = bench.home / f"campaign-{campaigns}"
        words: tuple[object, ...] = ("run", file, "-o", directory, "--no-report")
        for patience in range(60):  # which grows, or a slow host would never get past the start
            process = start(*words)
            try:
                process.wait(timeout=moments.uniform(0.02, 0.5 * 1.05**patience))
            except subprocess.TimeoutExpired:
                kills += 1
            process.kill()
            _, err = process.communicate(timeout=60)
            assert "Traceback" not in err and "lastro: " not in err, err
            if process.returncode == 0:
                break
            if (directory / "campaign.db").exists():
                words = ("resume", directory, "--no-report")
                assert schedule(directory) == uninterrupted
        else:
            pytest.fail("the campaign came to no end")
        assert schedule(directory) == uninterrupted
        assert all(row[3:] == ("valid", 1) for row in rows(directory))
    print(f"{kills} kills in {campaigns} campaigns")


def test_killed_between_attempts_it_keeps_what_was_tried(bench: Bench) -> None:
    """Attempts written before a kill count: an invalid trial is not repeated more often for having been killed."""
    process = bench.begin({"fault": ["always-invalid"]}, trial_s=0.3, replicates=1)
    until(lambda: (bench.directory / "campaign.db").exists() and rows(bench.directory)[0][4] >= 1, "an attempt")
    process.kill()
    process.communicate()
    assert lastro("resume", bench.directory, "--no-report").code == 0
    assert [row[3:] for row in rows(bench.directory)] == [("invalid", 3)]


def test_status_and_results_while_it_runs(bench: Bench) -> None:
    process = _slow(bench)
    bench.wait_until_done(2)
    facts = lastro("status", bench.directory, "--json").json
    assert facts["counts"]["running"] <= 1 and facts["counts"]["valid"] >= 2 and not facts["finished"]
    assert facts["running"]["pid"] == process.pid and facts["next"] == f"lastro status {bench.directory}"
    live, values = facts["live"], facts["live"]["latest"][0]
    assert not live["probing"] and live["look"] is None and live["invalid"] == []
    assert [(trial["attempt"], trial["calibrating"]) for trial in live["trials"]] in ([], [(1, None)])
    assert (values["trial"], values["metric"], values["earlier"]) == (facts["counts"]["valid"], "speed", None)
    text = lastro("status", bench.directory).out
    assert f"running: process {process.pid}, since 20" in text and "next:" not in text
    assert "Latest valid trials" in text and f" {values['treatment']} " in text
    assert lastro("results", bench.directory).code == 0
    assert lastro("report", bench.directory, "-o", bench.home / "early.html", drawn=False).code == 0
    assert process.poll() is None or n_done(bench.directory) == 12
    assert finish(process).code == 0
    assert lastro("status", bench.directory, "--json").json["running"] is None


# The bar


def _on_a_terminal(argv: list[str], until_text: str | None, key: bytes | None, width: int = 80) -> tuple[int, str]:
    """Run on a pseudo-terminal, type a key once a text was seen, and return exit code and all that was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (24, width))
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as a shell on a terminal does; who runs the tests may ignore it
        without_size = {name: value for name, value in ENVIRONMENT.items() if name != "COLUMNS"}
        os.execve(argv[0], argv, {**without_size, "TERM": "xterm-256color"})
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        try:
            data = os.read(terminal, 65536) if ready else None
        except OSError:  # the other end was closed
            break
        if data == b"":
            break
        shown += data or b""
        if key and until_text and until_text.encode() in shown:
            os.write(terminal, key)
            key = None
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")


def test_a_terminal_gets_a_bar(bench: Bench) -> None:
    file = bench.write({"level": ["a", "b"]}, trial_s=0.3, replicates=2)
    code, shown = _on_a_terminal(command("run", file, "-o", bench.directory, "--no-report"), None, None)
    assert code == 0, shown
    assert "\x1b[" in shown and "━" in shown, "a live line"
    assert "[4/4]" in shown and "left" in shown and "4/4" in shown
    assert "\x1b[?25h" in shown, "the cursor is back"


@pytest.mark.parametrize("width", [60, 80])
def test_no_word_is_broken_on_a_terminal(bench: Bench, width: int) -> None:
    """The counter, the time left and the values are whole, however narrow it is."""
    file = bench.write({"level": ["a", "b"], "step": [500, 600]}, trial_s=0.3, replicates=1, samples=12345)
    code, shown = _on_a_terminal(command("run", file, "-o", bench.directory, "--no-report"), None, None, width)
    assert code == 0, shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n")
    lines = [line.rstrip() for line in plain.split("\n") if line.strip()]
    assert max(map(len, lines)) <= width, lines
    live = [line for line in lines if "━" in line]
    assert any(re.match(r"[0-4]/4 ━\S* \d+ m?s left block 1  [ab] · [56]00$", line) for line in live), live
    joined = " ".join(" ".join(lines).split())
    whole = re.findall(r"\[[1-4]/4\] block 1 [ab] · [56]00 speed [\d.]+ Mbit/s delay [\d.]+ ms", joined)
    assert len(whole) == 4, joined


def test_ctrl_c_on_a_terminal(bench: Bench) -> None:
    file = bench.write({"level": ["a", "b", "c"]}, trial_s=0.3, replicates=4)
    code, shown = _on_a_terminal(command("run", file, "-o", bench.directory, "--no-report"), "[2/12]", b"\x03")
    assert code == 130, shown
    assert "cleaning up" in shown and "lastro resume" in shown and "Traceback" not in shown
    assert shown.rindex("\x1b[?25h") < shown.rindex("lastro: interrupted"), "the cursor is back before the last word"
    assert 2 <= n_done(bench.directory) < 12


# What is invalid


def order(directory: Path) -> list[int]:
    """Trials in the order of their attempts."""
    with Store.open(directory, readonly=True) as store:
        return [attempt.trial for attempt in store.attempts()]


def test_a_trial_is_repeated_at_the_end_of_its_block(bench: Bench) -> None:
    done = bench.run({"level": ["a", "b", "c"]}, fault="invalid-once", replicates=2, seed=3)
    assert done.code == 0
    assert order(bench.directory) == [1, 2, 3, 1, 2, 3, 4, 5, 6]
    assert [row[3:] for row in rows(bench.directory)] == [("valid", 2)] * 3 + [("valid", 1)] * 3


def test_a_calibration_that_failed_is_tried_again_when_it_is_needed_next(bench: Bench) -> None:
    """As after a busy minute: it failed as often as it may when it was needed first."""
    done = bench.run({"level": ["a"]}, calibration="late", replicates=3)
    assert done.code == 0
    assert [row[3:] for row in rows(bench.directory)] == [("valid", 2), ("valid", 1), ("valid", 1)]
    with Store.open(bench.directory, readonly=True) as store:
        assert set(store.calibrations()) == {"ceiling/a"}
        assert [kind for _, kind, _ in store.events()].count("not calibrated") == 1


def test_trials_that_were_given_up_are_tried_again_on_request(bench: Bench) -> None:
    """As often as at first, and what they yielded before is kept."""
    assert bench.run({"level": ["a", "b"]}, fault="invalid-thrice", replicates=2).code == 0
    before = rows(bench.directory)
    assert [row[3:] for row in before] == [("invalid", 3)] * 2 + [("valid", 1)] * 2
    warning = "2 of 4 trials that can run here are invalid (50 %)"
    assert warning in lastro("results", bench.directory).out
    nothing = lastro("resume", bench.directory, "--no-report")
    assert "nothing is left to run" in nothing.out and rows(bench.directory) == before
    again = lastro("resume", bench.directory, "--invalid", "--no-report")
    assert again.code == 0 and "[4/4]" in again.err
    assert [row[3:] for row in rows(bench.directory)] == [("invalid", 6)] * 2 + [("valid", 1)] * 2
    with Store.open(bench.directory, readonly=True) as store:
        assert ("reopened", "2 invalid trials are tried again") in [event[1:] for event in store.events()]
    assert len(lastro("show", bench.directory, 1, "--json").json["attempts"]) == 6, "none is forgotten"


def test_many_invalid_trials_fail_the_command_where_that_is_wanted(bench: Bench, tmp_path: Path) -> None:
    file = bench.write({"level": ["a", "b", "c"], "fault": ["none", "always-invalid"]}, replicates=1)
    for number, (words, environment, code) in enumerate(
        [
            ((), {"CI": ""}, 0),
            (("--fail-invalid", "50%"), {"CI": ""}, 0),
            (("--fail-invalid", "0.49"), {"CI": ""}, 7),
            ((), {"CI": "true"}, 7),
            (("--fail-invalid", "60%"), {"CI": "true"}, 0),
        ]
    ):
        done = lastro("run", file, "-o", tmp_path / f"c{number}", "--no-report", *words, env=environment)
        assert done.code == code, (words, environment, done.err)
        assert "3 of 6 trials that can run here are invalid (50 %)" in done.out
        last = " ".join(done.out.split("\n\n")[-1].split())
        assert last.endswith("`lastro resume --invalid` tries them again.")
    is_error(lastro("run", file, "-o", tmp_path / "c", "--fail-invalid", "x"), 2, "--fail-invalid: 'x'")


def test_trials_that_fail_again_are_not_called_nothing(bench: Bench) -> None:
    assert bench.run({"level": ["a"]}, fault="always-invalid", replicates=1).code == 0
    again = lastro("resume", bench.directory, "--invalid", "--no-report")
    assert again.code == 0 and "nothing is left" not in again.out
    assert [row[3:] for row in rows(bench.directory)] == [("invalid", 6)]


def test_a_calibration_that_a_trial_can_do_without_is_not_tried_for_ever(bench: Bench) -> None:
    done = bench.run({"level": ["a"]}, calibration="optional", replicates=3)
    assert done.code == 0
    assert [row[3:] for row in rows(bench.directory)] == [("valid", 1)] * 3
    assert done.err.count("calibrating ") == 1


SWALLOWING = """
import os, signal, sys, time, weakref
from lastro.cli import main
from lastro.results.store import Store

def swallow(_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)

def swallowing(*args, **more):
    gone = set()
    observed = weakref.ref(gone, swallow)
    del gone
    return real(*args, **more)

method = sys.argv.pop(1)
real = getattr(Store, method)
setattr(Store, method, swallowing)
raise SystemExit(main())
"""


@pytest.mark.parametrize("method", ["take", "finish"])
def test_an_interrupt_that_python_ignores_is_not_lost(bench: Bench, method: str) -> None:
    """In a callback of a weak reference, of which each import has one, before the first trial and between trials."""
    file = bench.write({"level": ["a"]}, trial_s=0.5, replicates=3)
    process = start(method, "run", file, "-o", bench.directory, "--no-report", program=("-c", SWALLOWING))
    done = finish(process)
    assert done.code == 130 and "interrupted" in done.err and "Exception ignored" not in done.err, done
    assert [row[3] for row in rows(bench.directory)][-2:] == ["pending"] * 2


def test_a_fraction_is_planned_run_and_reported_with_what_it_measures_together(bench: Bench) -> None:
    factors = {"implementation": ["fine", "fast"], "level": ["a", "b"], "step": [0, 20], "samples": [5, 10]}
    file = bench.write({**factors, "commands": [0, 1]}, replicates=3, baseline={"level": "a"})
    whole = file.read_text()
    file.write_text(whole.replace("[design]\n", '[design]\nfraction = "1/4"\n'))
    planned = lastro("plan", file)
    assert "treatments  8\n" in planned.out and "fraction    1/4, resolution III: main effects are" in planned.out
    assert "  step with implementation × samples, level × commands\n" in planned.out
    assert lastro("plan", file, "--json").json["fraction"]["resolution"] == 3
    part = bench.home / "part.toml"
    part.write_text(file.read_text() + '[[exclude]]\nwhen = { level = "b", step = 20 }\nreason = "not here"\n')
    is_error(lastro("plan", part), 2, "design.fraction: exclusions leave 6 of 8 treatments of the fraction")
    is_error(lastro("plan", file, "--only", "level=a"), 2, "needs 5 factors of two levels")
    done = lastro("run", file, "-o", bench.directory, "--no-report")
    assert done.code == 0, done.err
    assert "(together with " in done.out
    for name, words in {"html": "relação definidora", "md": "junto com", "latex": "junto com"}.items():
        out = bench.home / name
        options = ("--full",) if name == "md" else ()
        found = lastro("report", bench.directory, "--format", name, "-o", out, "--lang", "pt-BR", *options)
        assert found.code == 0 and words in out.read_text(), found.err
    found = lastro("results", bench.directory, "--json").json["analysis"]["speed"]
    assert found["fraction"]["relation"] and all(each["aliases"] for each in found["effects"])
