"""Commands that measure and commands that serve, over real processes of this machine: what leaves them, and when."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.campaign.script import shell_script
from lastro.errors import CommandFailed, CommandTimeout
from lastro.host.base import Completed, Process
from lastro.host.files import start_time
from lastro.host.local import LocalHost
from lastro.host.threads import run_all
from lastro.instruments.base import Watch
from lastro.platforms import _gate
from lastro.platforms._gate import Gate, MeasuredCommand, measure_argv
from lastro.platforms.base import Instance, InstanceSpec
from lastro.testbed import Testbed

from ...support.recording import answer, recording_testbed

pytestmark = pytest.mark.processes

ONE = InstanceSpec("one", "instance")
FAILING = ["sh", "-c", "echo broken >&2; exit 5"]
NEEDS_EXEC = ["sh", "-c", 'sleep 0.6; exec "$@"', "sh"]  # a prefix: exec into an instance that takes its time


class Local(Instance):
    """Processes of this machine; `prefix` is what execs into the instance."""

    def __init__(self, testbed: Testbed, memory: Path, prefix: Sequence[str] = ()) -> None:
        super().__init__(testbed, ONE, netns="none", cgroup=f"{testbed.session.cgroup}/one")
        vars(self)["memory_dir"] = str(memory)
        self.prefix = prefix

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return [*self.prefix, *argv]


class Guest(Local):
    shares_kernel = False


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    return recording_testbed(LocalHost("0a1b2c"), tmp_path / "state")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    (tmp_path / "memory").mkdir()
    return tmp_path / "memory"


@pytest.fixture
def instance(testbed: Testbed, memory: Path) -> Local:
    return Local(testbed, memory)


def writing_its_pid(file: Path) -> list[str]:
    return ["sh", "-c", f"echo $$ > {file}; exec sleep 86391"]


def gone(file: Path) -> bool:
    """Return whether the process whose PID is in `file` ends soon."""
    ends_s = time.monotonic() + 10
    while start_time(int(file.read_text())) is not None:
        if time.monotonic() > ends_s:
            return False
        time.sleep(0.01)
    return True


# Measure


def test_output_stays_in_files_until_it_is_given(testbed: Testbed, memory: Path) -> None:
    argv, file = ["sh", "-c", "echo out; echo aside >&2; exit 3"], f"{memory}/one"
    process = testbed.host.spawn(measure_argv(file, argv), fed=True)
    gate = Gate(process, argv)
    with gate.running():
        assert not list(memory.iterdir()), "the command has not started"
        gate.run(10)
        time.sleep(0.1)
        ready, ended = process.lines(0)
        assert (ready, ended.split()[0], ended.split()[-1]) == ("ready\n", "ended", "3")
        assert (Path(f"{file}.out").read_text(), Path(f"{file}.err").read_text()) == ("out\n", "aside\n")
        gate.release_output()
    done = gate.result.done
    assert (done.argv, done.returncode, done.text, done.error_text) == (tuple(argv), 3, "out\n", "aside\n")
    assert not list(memory.iterdir()), "the files are removed"


TEXTS = (
    "",
    "no end",
    "\n",
    "ready\n",
    "ended 1 2 0\n",
    "\nended 1 2 0\n\n",
    "message 1\ngo\n",
    "é ٣\r\n",
    "1\n" * 500_000,
)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:12]))
def test_output_comes_back_whole(instance: Local, tmp_path: Path, text: str) -> None:
    """Even what looks like a word of the gate, or is larger than a pipe."""
    (tmp_path / "text").write_text(text, newline="")
    done = instance.measure(["cat", str(tmp_path / "text")]).done
    assert done.stdout == text.encode()


def test_exit_codes_and_words_of_errors_are_those_of_the_command(instance: Local) -> None:
    done = instance.measure(FAILING, check=False).done
    assert (done.returncode, done.text, done.error_text) == (5, "", "broken\n")
    with pytest.raises(CommandFailed, match="broken") as failed:
        instance.measure(FAILING)
    assert (failed.value.argv, failed.value.returncode) == (tuple(FAILING), 5)
    with pytest.raises(CommandFailed, match="told on standard output"):
        instance.measure(["sh", "-c", "echo told on standard output; exit 1"])
    assert instance.measure(["sh", "-c", "kill -KILL $$"], check=False).done.returncode == 137
    with pytest.raises(CommandFailed, match="lastro-nothing") as missing:
        instance.measure(["lastro-nothing"])
    assert missing.value.returncode == 127


def test_a_measured_command_reads_nothing(instance: Local) -> None:
    """Words to the gate are not its input."""
    assert instance.measure(["cat"]).done.text == ""


def test_the_time_is_that_of_the_command_alone(testbed: Testbed, memory: Path) -> None:
    instance = Local(testbed, memory, NEEDS_EXEC)
    began_s = time.monotonic()
    measured = instance.measure(["sleep", "0.3"])
    whole_s = time.monotonic() - began_s
    assert 0.3 <= measured.done.duration_s <= whole_s - 0.6
    assert measured.message_s == 0, "no message is part of the time"
    (window,) = testbed.apparatus.drain()
    assert measured.done.duration_s <= window.elapsed_s <= whole_s - 0.6
    assert began_s + 0.6 <= measured.done.started_s


def test_an_instance_with_another_clock_is_timed_by_messages(testbed: Testbed, memory: Path) -> None:
    measured = Guest(testbed, memory, NEEDS_EXEC).measure(["sleep", "0.3"])
    (window,) = testbed.apparatus.drain()
    assert measured.message_s > 0
    assert 0.3 - measured.message_s <= measured.done.duration_s <= window.elapsed_s - measured.message_s


def test_a_watch_is_around_the_command_after_exec_and_before_its_output(instance: Local, memory: Path) -> None:
    seen: list[Any] = []

    class Looking(Watch):
        def __enter__(self) -> None:
            seen.append(sorted(each.name for each in memory.iterdir()))

        def __exit__(self, *failure: object) -> None:
            seen.append((memory / "lastro-1.out").read_text())

    instance.measure(["echo", "told"], watch=Looking())
    assert seen == [[], "told\n"]


def test_each_command_is_one_window_of_the_testbed(instance: Local, testbed: Testbed) -> None:
    for duration_s in (0.1, 0.2):
        instance.measure(["sleep", str(duration_s)])
    windows = testbed.apparatus.drain()
    assert len(windows) == 2 and windows[0].elapsed_s >= 0.1 and windows[1].elapsed_s >= 0.2
    assert testbed.apparatus.drain() == []
    assert testbed.apparatus.instances == {"/lastro/0a1b2c/one"}, "what is measured is not the apparatus"


def test_files_have_the_same_names_whenever_a_trial_is_repeated(instance: Local, testbed: Testbed) -> None:
    instance.measure(["true"])
    instance.measure(["true"])
    with instance.during(["sh", "-c", "echo up; exec sleep 9"], "up"):
        pass
    words = [word for record in testbed.host.transcript.records for word in record["argv"]]
    used = [word for word in words if word.startswith(instance.memory_dir)]
    assert list(dict.fromkeys(used)) == [f"{instance.memory_dir}/lastro-{number}" for number in (1, 2, 3)]


# An end that is not a good one


def test_an_instance_that_cannot_be_entered_is_an_error_that_names_the_command(testbed: Testbed, memory: Path) -> None:
    instance = Local(testbed, memory, ["sh", "-c", "echo no such instance >&2; exit 125"])
    with pytest.raises(CommandFailed, match="`iperf3 --client` exited with 125: no such instance") as failed:
        instance.measure(["iperf3", "--client"], check=False)
    assert failed.value.argv == ("iperf3", "--client")


def test_an_instance_that_dies_is_an_error_that_names_the_command(instance: Local, testbed: Testbed) -> None:
    """Not the gate, which ends with it."""
    dying = ["sh", "-c", "kill -KILL $PPID"]
    with pytest.raises(CommandFailed, match="exited with 137") as failed:
        instance.measure(dying, check=False)
    assert failed.value.argv == tuple(dying) and "EPOCHREALTIME" not in failed.value.message
    assert testbed.apparatus.drain() == [], "a command that was cut short has no window"


def test_a_timeout_names_the_command_and_ends_it(instance: Local, testbed: Testbed, tmp_path: Path) -> None:
    argv = writing_its_pid(tmp_path / "pid")
    with pytest.raises(CommandTimeout, match=r"exec sleep 86391` did not end within 0\.5 s") as late:
        instance.measure(argv, timeout_s=0.5)
    assert late.value.argv == tuple(argv) and "EPOCHREALTIME" not in late.value.message
    assert gone(tmp_path / "pid")
    assert testbed.apparatus.drain() == []


def test_an_error_of_the_watch_is_its_own_and_the_command_ends(instance: Local, tmp_path: Path) -> None:
    class Failing(Watch):
        def __enter__(self) -> None:
            raise ValueError("no meter")

    with pytest.raises(ValueError, match="no meter"):
        instance.measure(writing_its_pid(tmp_path / "pid"), watch=Failing())
    assert not (tmp_path / "pid").exists(), "the command never started"


# Another clock, by a process that takes its time as it is told


class Scripted(Process):
    """A gate that answers each message after the next of `delays_s`; the clock inside is 1000 times too fast."""

    argv = ("gate",)

    def __init__(self, delays_s: Iterator[float], pass_time: Callable[[float], None]) -> None:
        self._delays_s, self._pass_time = delays_s, pass_time
        self._line = "ready\n"

    def send(self, line: str) -> None:
        self._line = "ended 5000.0 7000.0 0\n" if line == "go" else f"{line}\n"

    def wait_line(self, needle: str, timeout_s: float) -> str:
        assert needle in self._line
        if self._line != "ready\n":
            self._pass_time(next(self._delays_s))
        return self._line

    def lines(self, start: int) -> list[str]:
        return []

    def alive(self) -> bool:
        return True

    def ended_within(self, timeout_s: float) -> bool:
        return True

    def stop(self) -> Completed:
        return answer("ready\nended 5000.0 7000.0 0\nits output\n")


def by_messages(monkeypatch: pytest.MonkeyPatch, *delays_s: float) -> MeasuredCommand:
    """Five messages and a command: the host sees them take so long."""
    now_s = [0.0]

    def pass_time(seconds: float) -> None:
        now_s[0] += seconds

    monkeypatch.setattr(_gate, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=pass_time))
    gate = Gate(Scripted(iter(delays_s), pass_time), ["work"])
    with gate.running():
        gate.time_messages()
        gate.run(60)
        gate.release_output()
    return gate.result


def test_what_is_subtracted_is_the_usual_time_of_a_message_and_not_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of a few lies below their mean, and by more on platforms where messages vary more."""
    found = by_messages(monkeypatch, 0.10, 0.02, 0.12, 0.10, 0.90, 2.10)
    assert found.message_s == pytest.approx(0.10)
    assert found.done.duration_s == pytest.approx(2.0), "by the host's clock, whatever that inside says"
    assert found.done.text == "its output\n"
    chance = random.Random(2018).gauss
    times = [
        by_messages(monkeypatch, *(chance(0.1, 0.02) for _ in range(5)), 1.0 + chance(0.1, 0.02)).done.duration_s
        for _ in range(2000)
    ]
    assert fmean(times) == pytest.approx(1.0, abs=0.003)


def test_a_command_shorter_than_a_message_has_no_negative_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_messages(monkeypatch, *[0.1] * 5, 0.05).done.duration_s == 0


# Serve


def test_a_server_keeps_its_output_inside_until_it_has_ended(instance: Local, memory: Path, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path / 'pid'}; echo up; echo aside >&2; exec sleep 86392"
    for ready in ("up", "aside"):
        with instance.during(["sh", "-c", script], ready, 10) as process:
            time.sleep(0.1)
            assert process.alive() and process.lines(0) == ["ready\n"]
        assert gone(tmp_path / "pid") and not process.alive()
        done = process.stop()
        assert (done.text, done.error_text) == ("ready\nup\n", "aside\n")
        assert not list(memory.iterdir()), "the files are removed"


def test_a_server_is_ready_when_it_prints_the_words_themselves(instance: Local) -> None:
    with instance.during(["sh", "-c", "echo a.b; sleep 0.3; echo '-[a*b'; exec sleep 9"], "-[a*b", 10) as process:
        pass
    assert process.stop().text == "ready\na.b\n-[a*b\n"
    with pytest.raises(CommandTimeout), instance.during(["sh", "-c", "echo axb; exec sleep 9"], "a.b", 0.5):
        pytest.fail("it never printed that")


def test_a_server_that_fails_does_so_with_its_own_words(instance: Local, memory: Path) -> None:
    with pytest.raises(CommandFailed, match="exited with 5: broken") as failed, instance.during(FAILING, "up"):
        pytest.fail("it was never ready")
    assert failed.value.argv == tuple(FAILING)
    with pytest.raises(CommandFailed, match="exited with 0: bye"), instance.during(["echo", "bye"], "up"):
        pytest.fail("it was never ready")
    assert not list(memory.iterdir())


def test_a_server_that_is_never_ready_is_named_and_ended(instance: Local, tmp_path: Path) -> None:
    argv = writing_its_pid(tmp_path / "pid")
    with pytest.raises(CommandTimeout, match=r"did not end within 0\.5 s") as late, instance.during(argv, "up", 0.5):
        pytest.fail("it was never ready")
    assert late.value.argv == tuple(argv)
    assert gone(tmp_path / "pid")


def test_a_server_that_ignores_its_end_is_killed_and_its_output_comes_out(instance: Local, tmp_path: Path) -> None:
    """Whoever starts Lastro may ignore SIGTERM, and children inherit that."""
    deaf = f"trap '' TERM; echo $$ > {tmp_path / 'pid'}; echo up; exec sleep 86392"
    with instance.during(["sh", "-c", deaf], "up", 10) as process:
        pass
    done = process.stop()
    assert (done.text, done.error_text) == ("ready\nup\n", "") and gone(tmp_path / "pid")


def test_the_end_of_a_server_for_one_client_does_not_show_before_the_block_ends(instance: Local) -> None:
    """It would wake the client of a daemon while the other end still measures."""
    with instance.during(["sh", "-c", "echo up; sleep 0.1; echo served; exit 4"], "up") as process:
        assert not process.ended_within(0.5)
        assert process.lines(0) == ["ready\n"]
    done = process.stop()
    assert (done.returncode, done.text) == (4, "ready\nup\nserved\n")


# A transcript


def test_a_measured_command_is_one_record_that_repeats_it(instance: Local, testbed: Testbed, tmp_path: Path) -> None:
    """`lastro show --commands` writes the words to the gate as its standard input."""
    transcript = testbed.host.transcript
    instance.measure(["sh", "-c", f"echo told; echo once >> {tmp_path / 'count'}; echo aside >&2"])
    (record,) = transcript.records
    assert record["kind"] == "run" and record["returncode"] == 0
    assert record["argv"][:2] == ["bash", "-c"] and record["argv"][3] == "measure"
    message, *words = record["stdin"].splitlines()
    assert message.startswith("message ") and words == ["go", "give"]
    script = shell_script(transcript.records, "trial")
    again = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True, timeout=60)
    assert again.stdout.splitlines()[-1] == "told" and again.stderr == "aside\n"
    assert (tmp_path / "count").read_text() == "once\nonce\n"


def test_a_server_and_its_client_are_repeated_in_order(instance: Local, testbed: Testbed, tmp_path: Path) -> None:
    with instance.during(["sh", "-c", f"echo up; touch {tmp_path / 'up'}; exec sleep 86393"], "up"):
        instance.measure(["sh", "-c", f"rm {tmp_path / 'up'} && echo reached"])
    script = shell_script(testbed.host.transcript.records, "trial")
    again = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False, timeout=60)
    assert "reached" in again.stdout.splitlines()


def test_commands_that_measured_at_the_same_time_do_so_again(testbed: Testbed, tmp_path: Path) -> None:
    """Each waits for the other; in between, a server of the first ends."""
    names = ("one", "two")
    for name in names:
        (tmp_path / name).mkdir()
    places = [Local(testbed, tmp_path / name) for name in names]

    def meet(own: int) -> str:
        here, there = tmp_path / f"here-{names[own]}", tmp_path / f"here-{names[1 - own]}"
        script = f"touch {here}; until [ -e {there} ]; do sleep 0.01; done; sleep 0.{own}1; echo met"
        with places[own].during(["sh", "-c", f"echo up {own}; exec sleep 86395"], "up"):
            return places[own].measure(["sh", "-c", script], timeout_s=30).done.text

    assert [each.result() for each in run_all([partial(meet, own) for own in (0, 1)], 2)] == ["met\n", "met\n"]
    script = shell_script(testbed.host.transcript.records, "trial")
    for name in names:
        (tmp_path / f"here-{name}").unlink()
    again = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False, timeout=30)
    assert again.stdout.splitlines().count("met") == 2


def test_many_servers_need_a_shell_with_more_descriptors() -> None:
    records = [{"kind": "spawn", "argv": ["server", str(number)], "started_s": 0.0, "fed": True} for number in range(8)]
    assert shell_script(records[:7], "trial").startswith("#!/bin/sh\n")
    stops = [{"kind": "stop", "argv": ["server", "0"], "started_s": 1.0, "stdin": "give\n"}]
    script = shell_script([*records, *stops, records[0]], "trial")
    assert script.startswith("#!/bin/bash\n")
    assert [line.partition("exec ")[2] for line in script.splitlines() if "exec " in line][-2:] == [
        "3>&-; wait $background_1", "3>$fifo && rm $fifo"
    ]  # fmt: skip


def test_a_command_that_timed_out_is_recorded_too(instance: Local, testbed: Testbed) -> None:
    with pytest.raises(CommandTimeout):
        instance.measure(["sleep", "86394"], timeout_s=0.2)
    (record,) = testbed.host.transcript.records
    assert record["kind"] == "run" and record["stdin"].endswith("\ngo\n") and record["returncode"] != 0


def test_a_spawned_command_has_no_input_unless_it_is_fed(testbed: Testbed) -> None:
    unfed = testbed.host.spawn(["cat"])
    assert unfed.ended_within(10) and unfed.stop().text == "", "it reads the end of nothing"
    fed = testbed.host.spawn(["cat"], fed=True)
    fed.send("one")
    assert fed.wait_line("one", 10) == "one\n"
    assert not fed.ended_within(0.1)
    done = fed.stop()
    assert (done.text, done.stdin) == ("one\n", b"one\n")
    ended = testbed.host.spawn(["true"], fed=True)
    assert ended.ended_within(10)
    for _ in range(2):
        ended.send("word")  # `wait_line` reports the end
    with pytest.raises(CommandFailed):
        ended.wait_line("word", 10)
