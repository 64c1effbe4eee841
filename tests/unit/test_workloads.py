"""What holds for every workload: its options, its commands, and what it makes of real and of damaged output."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro import registry
from lastro.errors import CommandFailed, InstrumentError
from lastro.host.base import Completed
from lastro.instruments.base import Workload, failure, positive, time_reasons
from lastro.results.samples import Reading
from lastro.scenarios.base import make_part
from lastro.scenarios.compute import ComputeScenario

from .workload_samples import SAMPLES, text_of

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
    again = make_part("instrument", kind.name + (level if level != ":" else ""))
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
    """Cut anywhere, lines lost, doubled or exchanged, numbers turned into others: never any other exception."""
    tool, text = made(name, options), text_of(file)
    random_ = random.Random(1)
    odd = ["-1", "0", "nan", "inf", "1e999", "9" * 400, "", "0x10", "1,5", "\x00", "٣"]
    for _ in range(400):
        lines = text.splitlines(keepends=True)
        match random_.randrange(5):
            case 0:
                damaged = text[: random_.randrange(len(text))]
            case 1:
                del lines[random_.randrange(len(lines))]
                damaged = "".join(lines)
            case 2:
                lines.insert(random_.randrange(len(lines)), random_.choice(lines))
                damaged = "".join(lines)
            case 3:
                random_.shuffle(lines)
                damaged = "".join(lines)
            case _:
                spans = [match.span() for match in re.finditer(r"\d+(\.\d+)?", text)]
                begin, end = random_.choice(spans)
                damaged = text[:begin] + random_.choice(odd) + text[end:]
        read_or_refused(tool, damaged)
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


def test_a_tool_that_worked_longer_than_it_lived_is_doubted() -> None:
    assert time_reasons(1.0, 1.01) == time_reasons(0.2, 1.0) == time_reasons(1.04, 1.0) == ()
    assert "worked for 2.000 s, and lived for 1.000 s" in time_reasons(2.0, 1.0)[0]


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_a_result_is_a_positive_number(value: float) -> None:
    with pytest.raises(InstrumentError):
        positive("it", value)
