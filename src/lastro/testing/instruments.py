"""The contract of an instrument: it measures what it declares, and output that cannot be right is not a measurement."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar, NamedTuple, get_args

from lastro import registry, validity
from lastro.errors import CommandTimeout, InstrumentError
from lastro.host.apparatus import Apparatus
from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.instruments.base import TIME_HOST, Instrument, Workload
from lastro.instruments.http_load import HttpLoad, LoadOrigin, RequestedPage
from lastro.platforms.base import Instance, InstanceSpec
from lastro.results.samples import Better, Reading
from lastro.scenarios.shared.pools import PlatformPool
from lastro.study.model import Level
from lastro.testbed import Testbed
from lastro.testing.network import RIGHT, linked_pair
from lastro.testing.replay import FOREIGN, Tape, damaged_versions
from lastro.testing.subject import Subject
from lastro.units import MIB
from lastro.validity import Window

_ATTEMPTS = 3
_VERSIONS = 200
_LIMIT_S, _HURRY_S, _PATIENCE_S = 60.0, 0.05, 5.0
_LONGEST = 1000  # characters of a reason
_PORT = 8080
_BODY = bytes(range(256)) * 64
_MEMORY = Resources(memory_bytes=512 * MIB)

Measure = Callable[[float], Reading]


class Ready(NamedTuple):
    """Functions that use an instrument that is ready to measure."""

    measure: Measure  # measures once; its argument is a time limit in seconds, which only workloads obey
    version: Callable[[], str]  # returns the output of the command that prints the tool's version


class InstrumentContract:
    """The contract of an instrument: it is silent while it measures, reads a real run, and refuses impossible output.

    After the real run, its commands are replayed many times from a record, each time with the tool's result damaged in
    another way. A test module may define `image_needs(host)`: the additions to the image that the tool needs."""

    instrument: ClassVar[str]
    options: ClassVar[Mapping[str, Level]] = {}  # of a workload; without any, its short version (`brief`) runs
    settings: ClassVar[Mapping[str, Level]] = {}  # of a study, which the instrument's `measure` or `load` reads
    printed_by: ClassVar[str] = ""  # a word in the command that prints the result, if another command prints more

    def test_it_measures_what_it_declares_and_refuses_what_cannot_be_right(
        self, testbed: Testbed, pool: PlatformPool
    ) -> None:
        part = registry.get(Instrument, self.instrument)
        tape = Tape(testbed.host, self.printed_by)
        with self.ready(testbed, pool) as (measure, version):
            assert any(map(str.isdigit, version()))
            reading, windows = _valid_reading(measure, tape, testbed.apparatus)
            assert reading.invalid_because == ()
            assert windows, "its tool runs by another way than `Instance.measure`, so that the apparatus is in it"
            assert validity.apparatus_reasons(windows) == [], "it measures without a word"
            assert reading.measurements
            self._assert_declared(reading)
            result = tape.result
            with tape.playing(result):
                assert measure(_LIMIT_S) == reading, "the same output is the same reading"
            for text in (*FOREIGN, result[: len(result) // 3]):
                with tape.playing(text):
                    damaged = _reading_or_none(measure)
                assert damaged is None or damaged.invalid_because, f"it took {text[:80]!r} for a measurement"
            for text in damaged_versions(result, _VERSIONS):
                with tape.playing(text):
                    if damaged := _reading_or_none(measure):
                        self._assert_declared(damaged)
            if issubclass(part, Workload):
                began_s = time.monotonic()
                with suppress(CommandTimeout):
                    measure(_HURRY_S)
                assert time.monotonic() - began_s < _PATIENCE_S, "it does not end within its time limit"

    def _assert_declared(self, reading: Reading) -> None:
        part = registry.get(Instrument, self.instrument)
        declared = {metric.name: metric for metric in (*part.metrics, TIME_HOST)}
        assert set(reading.measurements) <= declared.keys()
        for name, value in reading.measurements.items():
            assert math.isfinite(value) and (value >= 0 or declared[name].signed), f"{name} = {value}"
        assert all(math.isfinite(value) for series in reading.series for value in series.values)

    def test_its_metrics_and_options_are_declared_in_full(self) -> None:
        part = registry.get(Instrument, self.instrument)
        for declarations in (part.metrics, getattr(part, "options", ())):
            assert len({declaration.name for declaration in declarations}) == len(declarations)
        assert part.metrics
        assert all(metric.unit and metric.summary and metric.better in get_args(Better) for metric in part.metrics)

    @contextmanager
    def ready(self, testbed: Testbed, pool: PlatformPool) -> Iterator[Ready]:
        """Prepare instances and servers for the instrument inside the block; yield functions that use it."""
        part = registry.get(Instrument, self.instrument)
        if issubclass(part, Workload):
            yield from _ready_workload(part(**self.options) if self.options else part().brief(), testbed, pool)
        elif issubclass(part, HttpLoad):
            yield from _ready_http_load(part(**self.options), self.settings, testbed, pool)
        else:
            with linked_pair(Subject(testbed, pool.get("runc")), "veth-direct") as (client, server):
                yield Ready(
                    lambda limit_s: part().measure(client, server, RIGHT, self.settings),
                    _version_reader(client, part.version_argv),
                )


def _ready_workload(tool: Workload, testbed: Testbed, pool: PlatformPool) -> Iterator[Ready]:
    spec = InstanceSpec("measured", "instance", resources=_MEMORY)
    with pool.get("runc").start(testbed, spec) as instance, tool.prepared(instance):

        def measure(limit_s: float) -> Reading:
            tool.prepare(instance)
            return tool.run(instance, limit_s)

        yield Ready(measure, _version_reader(instance, tool.version_argv))


def _version_reader(instance: Instance, argv: Sequence[str]) -> Callable[[], str]:
    """Return a function that runs the version command `argv` in an instance, and returns all that it prints."""

    def version() -> str:
        done = instance.run(argv, check=False)
        return done.text + done.error_text

    return version


def _ready_http_load(
    tool: HttpLoad, settings: Mapping[str, Level], testbed: Testbed, pool: PlatformPool
) -> Iterator[Ready]:
    """Serve a page in one network namespace, by Python's http.server, and yield functions that load it from another."""
    folder = testbed.scratch_dir / "served"
    folder.mkdir()
    (folder / "object").write_bytes(_BODY)
    page = RequestedPage.of(f"http://{RIGHT}:{_PORT}/object", _BODY)
    with linked_pair(Subject(testbed, pool.native), "veth-direct") as (client, server):
        argv = [sys.executable, "-u", "-m", "http.server", "--protocol", "HTTP/1.1", "--directory", str(folder)]
        enter = ["nsenter", f"--net={NETNS_DIR / server.netns}"]
        process = testbed.host.spawn([*enter, *argv, "--bind", RIGHT, str(_PORT)])
        try:
            process.wait_line("Serving", _PATIENCE_S)
            yield Ready(
                lambda limit_s: tool.measure(LoadOrigin.beside(client), tool.load(page, (), settings)),
                lambda: tool.require(testbed.host),
            )
        finally:
            process.stop()
            shutil.rmtree(folder)


def _valid_reading(measure: Measure, tape: Tape, apparatus: Apparatus) -> tuple[Reading, list[Window]]:
    """Measure while the tape records; return the reading, and the windows in which the apparatus was observed.

    On a busy host, a load may not reach its rate, or a tool may not get its CPU, so up to three attempts are made."""
    for more_attempts in reversed(range(_ATTEMPTS)):
        apparatus.drain()
        try:
            with tape.recording():
                reading = measure(_LIMIT_S)
        except InstrumentError:
            if not more_attempts:
                raise
            continue
        if not reading.invalid_because:
            break
    return reading, apparatus.drain()


def _reading_or_none(measure: Measure) -> Reading | None:
    try:
        return measure(_LIMIT_S)
    except InstrumentError as error:
        assert len(error.message) < _LONGEST
        return None
