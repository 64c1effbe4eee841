"""What holds for every workload: its options, its commands, and what it makes of real and of damaged output."""

from __future__ import annotations

import math
import random
from statistics import fmean
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro import registry
from lastro.errors import CommandFailed, InstrumentError
from lastro.host.base import Completed
from lastro.host.cgroups import Resources
from lastro.instruments import _memory
from lastro.instruments.base import (
    TimedCommand,
    Watch,
    Workload,
    failure,
    positive,
    run_timed,
    time_reasons,
    with_host_time,
)
from lastro.instruments.mbw import Mbw
from lastro.instruments.stream import Stream
from lastro.instruments.sysbench_cpu import SysbenchCpu
from lastro.instruments.sysbench_memory import SysbenchMemory
from lastro.instruments.sysbench_oltp import SysbenchOltp
from lastro.results.samples import Reading
from lastro.scenarios.base import make_part
from lastro.scenarios.compute import ComputeScenario, WorkloadProbes
from lastro.testing.replay import damaged_versions

from ...support.recording import FakeInstance, answer
from ...support.workload_samples import SAMPLES, text_of

KINDS: list[type[Workload]] = [
    info.cls for info in registry.parts("instrument").values() if info.cls and issubclass(info.cls, Workload)
]
SAMPLED = [(name, file, options) for name, files in SAMPLES.items() for file, options in files]


def made(name: str, options: Any = ()) -> Workload:
    kind: type[Workload] = registry.get("instrument", name)
    return kind(**dict(options))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_workload_can_be_planned_made_short_and_written_down(kind: type[Workload]) -> None:
    tool = kind()
    names = [option.name for option in kind.options]
    assert len(names) == len(set(names))
    assert all(word == str(word) for word in tool.argv())
    assert 0 < tool.expected_s(1, 1) < 3600
    assert tool.expected_s(2, 1) <= tool.expected_s(1, 1) <= tool.expected_s(1, 5)
    brief = tool.brief()
    assert type(brief) is kind and set(brief.chosen) == set(names)
    assert brief.expected_s(1, 1) <= max(3, tool.expected_s(1, 1))
    level = ":" + ",".join(f"{name}={value}" for name, value in tool.chosen.items() if value != "")
    again = make_part(Workload, kind.name + (level if level != ":" else ""))
    assert again.chosen == tool.chosen and again.argv() == tool.argv()
    assert kind.summary and kind.metrics
    assert kind.by_host_clock <= {metric.name for metric in kind.metrics} | {"time_host"}


def test_a_metric_means_the_same_wherever_it_is_named() -> None:
    found: dict[str, Any] = {}
    for metric in [*ComputeScenario.metrics, *(metric for kind in KINDS for metric in kind.metrics)]:
        assert found.setdefault(metric.name, metric) == metric


def test_every_workload_that_reads_one_commands_output_has_samples_of_two_modes() -> None:
    parsing = {kind.name for kind in KINDS if kind.read is not Workload.read}
    assert parsing == set(SAMPLES)
    assert all(len(files) > 1 for files in SAMPLES.values())


@pytest.mark.parametrize(("name", "file", "options"), SAMPLED, ids=[file for _, file, _ in SAMPLED])
def test_real_output_is_a_valid_reading_of_the_declared_metrics(name: str, file: str, options: Any) -> None:
    tool = made(name, options)
    found = tool.read(text_of(file))
    assert found.invalid_because == ()
    assert set(found.measurements) <= {metric.name for metric in tool.metrics} | {"time_host"}
    assert len(found.measurements) > 0
    assert all(math.isfinite(value) and value >= 0 for value in found.measurements.values())


def read_or_refused(tool: Workload, text: str) -> Reading | None:
    try:
        found = tool.read(text)
    except InstrumentError as error:
        assert len(error.message) < 1000
        return None
    assert all(math.isfinite(value) for value in found.measurements.values())
    assert all(math.isfinite(value) for series in found.series for value in series.values)
    return found


@pytest.mark.parametrize(("name", "file", "options"), SAMPLED, ids=[file for _, file, _ in SAMPLED])
def test_damaged_output_is_read_or_refused(name: str, file: str, options: Any) -> None:
    """Never any other exception."""
    tool, text = made(name, options), text_of(file)
    for version in damaged_versions(text):
        read_or_refused(tool, version)
    assert read_or_refused(tool, "") is None
    assert read_or_refused(tool, text[: len(text) // 3]) is None


@pytest.mark.parametrize("name", sorted(SAMPLES))
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=400))
def test_anything_else_is_refused(name: str, text: str) -> None:
    assert read_or_refused(made(name, SAMPLES[name][0][1]), text) is None


# How a tool ends


class _Instance:
    class spec:  # noqa: N801
        class resources:  # noqa: N801
            memory_bytes = 256 << 20


def ended(code: int, out: str = "", err: str = "") -> InstrumentError | CommandFailed:
    done = Completed(("tool",), code, out.encode(), err.encode(), 0.0, 1.0)
    return failure(_Instance(), ["env", "OMP_NUM_THREADS=4000", "tool"], done)  # type: ignore[arg-type]


def test_an_end_that_was_not_a_good_one_has_its_reason() -> None:
    assert ended(137).message == "tool was killed: the instance has 256 MiB of memory"
    assert ended(1, err="write failed: No space left on device").message == "tool filled the instance's disk"
    assert ended(1, out="fatal: No space left on device\n").message == "tool filled the instance's disk"
    assert ended(1, err="libgomp: Thread creation failed: Resource").message == (
        "tool could not start all of its threads in this instance"
    )
    assert "exited with 3: unknown option" in ended(3, err="unknown option").message


@pytest.mark.parametrize(
    ("argv", "tool"),
    [
        (["env", "-C", "/usr/local/bin/there", "A=1", "./y-cruncher", "bench"], "y-cruncher"),
        (["env", "OMP_NUM_THREADS=2", "sh", "-c", "john --test 2>&1"], "john"),
        (["sh", "-c", "gzip -6 -n -c a > b"], "gzip"),
        (["bonnie++", "-d", "/x"], "bonnie++"),
        (["/usr/local/bin/tool", "/x/y"], "tool"),
        (["env", "-u", "HOME", "/opt/tool", "A=1", "bench"], "tool"),
    ],
)
def test_a_reason_names_the_tool_and_not_the_shell_around_it(argv: list[str], tool: str) -> None:
    done = Completed(("x",), 137, b"", b"", 0.0, 1.0)
    assert failure(_Instance(), argv, done, tool.removesuffix("++")).message.startswith(f"{tool} was killed")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [SysbenchCpu, SysbenchMemory, SysbenchOltp])
def test_a_short_version_is_in_the_same_mode_and_tried_once_for_all_lengths(kind: type[Workload]) -> None:
    """By a time or by a number: the probe must run what the trial runs, and not again for each length."""
    amount = "total" if kind is SysbenchMemory else "events"
    timed, counted = kind(time_s=30).brief(), kind(**{amount: "10M" if amount == "total" else 5000}).brief()
    assert str(timed.chosen[amount]) == "0" and timed.chosen["time_s"] == 1
    assert str(counted.chosen[amount]) not in ("0", "5000", "10M")
    assert kind(time_s=60).brief().chosen == timed.chosen
    assert counted.chosen["time_s"] == 1


def test_arrays_that_do_not_fit_the_instance_are_unavailable_before_any_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short version would fit."""
    monkeypatch.setattr(_memory, "last_level_cache_bytes", lambda host, cpuset: 256 << 20)
    probes = WorkloadProbes(SimpleNamespace(host=None))  # type: ignore[arg-type]
    found = probes._fits_into_memory(Stream(), Resources(cpuset="0", memory_bytes=1 << 30))
    assert found.reason == "stream needs 3.0 GiB, but the instance has 1.0 GiB of memory"
    assert found.remedy and 'memory = "3219M"' in found.remedy
    assert probes._fits_into_memory(Stream(), Resources(memory_bytes=3219 << 20))
    assert not probes._fits_into_memory(Stream(), Resources(memory_bytes=3218 << 20))
    assert probes._fits_into_memory(Stream(array="128M"), Resources(memory_bytes=1 << 30))
    assert not probes._fits_into_memory(Mbw(array=1000), Resources(memory_bytes=1 << 30))
    assert not probes._fits_into_memory(Mbw(), Resources(cpuset="0", memory_bytes=2 << 30))
    assert probes._fits_into_memory(Mbw(), Resources(cpuset="0", memory_bytes=3 << 30))
    assert not probes._fits_into_memory(SysbenchMemory(block="0"), Resources(cpuset="0", memory_bytes=1 << 30))
    assert probes._fits_into_memory(SysbenchMemory(block="0"), Resources(cpuset="0", memory_bytes=2 << 30))
    assert not probes._fits_into_memory(
        SysbenchMemory(block="0", scope="local", threads=2), Resources(memory_bytes=2 << 30)
    )
    assert probes._fits_into_memory(SysbenchCpu(), Resources(memory_bytes=128 << 20))


def test_a_plan_counts_the_cache_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "local_cache_bytes", lambda cpuset: 32 << 20)
    usual = Stream().expected_s(1, 1)
    monkeypatch.setattr(_memory, "local_cache_bytes", lambda cpuset: 256 << 20)
    assert Stream().expected_s(1, 1) == pytest.approx(8 * usual)
    assert Stream(array="128M").expected_s(1, 1) == pytest.approx(usual)
    assert Mbw().expected_s(1, 1) == pytest.approx(8 * Mbw(array=128).expected_s(1, 1))
    assert SysbenchMemory(block="0", time_s=2).expected_s(1, 1) > 2.1


def test_a_tool_that_worked_longer_than_it_lived_is_doubted() -> None:
    assert time_reasons(1.0, 1.01) == time_reasons(0.2, 1.0) == time_reasons(1.04, 1.0) == ()
    (reason,) = time_reasons(2.0, 1.0)
    assert "reports 2.000 s of work, but on the host's clock its process ran for only 1.000 s" in reason


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_a_result_is_a_positive_number(value: float) -> None:
    with pytest.raises(InstrumentError):
        positive("it", value)


# The host's time


def timed(took_s: float, message_s: float = 0.0) -> TimedCommand:
    """A command that took so long inside, and a message to its instance: 0 where the instance has the host's clock."""
    return run_timed(cast(Any, FakeInstance(took_s=took_s, message_s=message_s)), ["work"], 60)


@pytest.mark.parametrize("took_s", [2.0, 0.01, 1e-5])
def test_on_the_hosts_clock_no_command_is_too_short(took_s: float) -> None:
    """Exec into the instance is over when the command starts: none of it is in the time."""
    found = timed(took_s)
    assert (found.host_s, found.too_short) == (took_s, "")
    reading = with_host_time(Reading({"rate": 1.0}), found, "rate")
    assert reading.measurements == {"time_host": took_s, "rate": 1.0} and reading.remarks == ()


def test_a_workload_is_one_command_and_its_watch_is_around_it_alone() -> None:
    order: list[str] = []

    class Noted(Watch):
        def __enter__(self) -> None:
            order.append("before")

        def __exit__(self, *failure: object) -> None:
            order.append("after")

    instance = FakeInstance(lambda argv: order.append(argv[0]), took_s=1.0)
    run_timed(cast(Any, instance), ["work"], 60, watch=Noted())
    assert order == ["before", "work", "after"]
    assert instance.measured == instance.commands == [["work"]], "nothing else enters the instance"


def test_a_workload_that_failed_has_its_reason_and_no_time() -> None:
    spec = SimpleNamespace(resources=Resources(memory_bytes=64 << 20))
    instance = FakeInstance(lambda argv: answer(code=137), took_s=1.0, spec=spec)
    with pytest.raises(InstrumentError, match="packing was killed: the instance has 64 MiB of memory"):
        run_timed(cast(Any, instance), ["sh", "-c", "gzip a"], 60, name="packing")


def test_no_trial_loses_its_time_because_it_was_a_short_one_of_its_treatment() -> None:
    """Work of three messages, on another clock: each has its time, so that their mean is that of all, and a mark."""
    chance = random.Random(7).gauss
    found = [timed(0.3 + chance(0, 0.03), 0.1) for _ in range(1000)]
    times = [each.host_s for each in found if each.host_s is not None]
    assert len(times) == 1000 and fmean(times) == pytest.approx(0.3, abs=0.003)
    readings = [with_host_time(Reading({"rate": 1.0}), each, "rate") for each in found]
    assert {(each.kind, each.metrics) for reading in readings for each in reading.remarks} == {
        ("too short to time", ("time_host", "rate"))
    }
    assert "less than 5 times a message to the instance (0.100 s)" in readings[0].remarks[0].text


def test_a_time_that_a_message_cannot_have_changed_much_has_no_mark() -> None:
    assert with_host_time(Reading({}), timed(0.6, 0.1)).remarks == ()
    for took_s in (0.1, 0.05, 0.0):
        reading = with_host_time(Reading({}), timed(took_s, 0.1))
        (lost,) = reading.remarks
        assert "no time on the host's clock" in lost.text and lost.metrics == ("time_host",)
        assert reading.measurements == {}
