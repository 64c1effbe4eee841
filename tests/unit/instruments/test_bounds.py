"""No reader accepts a number that no test can have: each recorded number is replaced by an impossible one."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest

from lastro import registry
from lastro.errors import InstrumentError
from lastro.instruments import iperf3
from lastro.instruments.base import LONGEST_S, MOST, largest_possible
from lastro.instruments.iperf2_udp import Iperf2Udp
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.iperf3_udp_load import Iperf3UdpLoad
from lastro.instruments.ping import Ping
from lastro.results.samples import Metric, Reading

from ...support.workload_samples import SAMPLES, text_of

IMPOSSIBLE = ("47000000000000", "4.7e25", "9" * 18)
MOST_PLACES = 150  # of the numbers in one output
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
ARGV = ["iperf3"]


def _tcp(text: str) -> Reading:
    return Iperf3Tcp().read(iperf3.parse(text, 0, "", ARGV), 1.0)


def _udp(text: str) -> Reading:
    return Iperf3Udp().read(iperf3.parse(text, 0, "", ARGV), 1.0, 1e6)


def _udp_load(text: str) -> Reading:
    return Iperf3UdpLoad().read(iperf3.parse(text, 0, "", ARGV)).reading("iperf3", 1.0, 1400)


def _iperf2(text: str) -> Reading:
    return Iperf2Udp().read(text).reading("iperf", 2.0, 1470)


Reader = Callable[[str], Reading]
READERS: list[tuple[str, Reader, tuple[Metric, ...], float]] = [
    ("iperf3-tcp-parallel.json", _tcp, Iperf3Tcp.metrics, 1.0),
    ("iperf3-udp.json", _udp, Iperf3Udp.metrics, 1.0),
    ("iperf3-udp.json", _udp_load, Iperf3UdpLoad.metrics, 1.0),
    ("iperf2-udp.txt", _iperf2, Iperf2Udp.metrics, 2.0),
    ("ping.txt", Ping().read, Ping.metrics, LONGEST_S),
]
for _name, _samples in SAMPLES.items():
    if _name != "pts":  # its result has no unit: it may be any number
        for _file, _options in _samples:
            _part = registry.get("instrument", _name)(**_options)
            READERS.append((_file, _part.read, _part.metrics, LONGEST_S))


def damaged(text: str, seed: str) -> list[str]:
    """Return copies of an output in which one number is impossible."""
    places = [match.span() for match in _NUMBER.finditer(text)]
    chosen = random.Random(seed).sample(places, min(MOST_PLACES, len(places)))
    return [text[:start] + IMPOSSIBLE[n % len(IMPOSSIBLE)] + text[end:] for n, (start, end) in enumerate(chosen)]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader[0])
def test_no_impossible_number_is_a_measurement(reader: tuple[str, Reader, tuple[Metric, ...], float]) -> None:
    file, read, metrics, lasted_s = reader
    units = {metric.name: metric.unit for metric in metrics}
    for text in damaged(text_of(file), file):
        try:
            found = read(text)
        except InstrumentError:
            continue
        for name, value in found.measurements.items():
            assert 0 <= value <= largest_possible(units[name], lasted_s), (name, value)


def test_a_jitter_that_is_longer_than_its_test_is_refused() -> None:
    report = json.loads(text_of("iperf3-udp.json"))
    report["end"]["sum_received"]["jitter_ms"] = 4.7e10
    with pytest.raises(InstrumentError, match=r"impossible number: jitter of 4\.7e\+10 ms in a test of 1 s"):
        Iperf3Udp().read(report, 1.0, 1e6)


def test_a_rate_that_is_not_that_of_its_bytes_is_refused() -> None:
    report = json.loads(text_of("iperf3-tcp.json"))
    report["end"]["sum_received"]["bits_per_second"] *= 2
    with pytest.raises(InstrumentError, match="impossible number: iperf3 reports"):
        Iperf3Tcp().read(report, 1.0)


@pytest.mark.parametrize("word", ["-nan", "nan", "inf", "-inf"])
def test_a_number_that_printf_could_not_write_is_named(word: str) -> None:
    text = re.sub(r'"jitter_ms":\s*[\d.e-]+', f'"jitter_ms": {word}', text_of("iperf3-udp.json"))
    with pytest.raises(InstrumentError, match=f"iperf3 reports jitter_ms as {word}, which is not a number"):
        iperf3.parse(text, 0, "", ARGV)


def test_every_unit_of_an_instrument_has_a_bound() -> None:
    units = {metric.unit for info in registry.parts("instrument").values() if info.cls for metric in info.cls.metrics}
    assert units - {"s", "ms", "µs", ""} <= MOST.keys()
