"""What a watch reads of what its processes print: packets and their times, changes of routes, what it did not see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import CommandFailed, Unavailable
from lastro.host.base import Process
from lastro.host.local import LocalHost
from lastro.scenarios.routing import ospf_capture
from lastro.scenarios.routing.ospf_capture import (
    ACKNOWLEDGEMENT,
    DESCRIPTION,
    HELLO,
    REQUEST,
    UPDATE,
    Capture,
    CapturePoint,
    watching,
)  # fmt: skip
from lastro.validity import ClockReading

from ...support.recording import RecordingHost

pytestmark = pytest.mark.processes
PLACE = CapturePoint("dut", frozenset({"hub-0a", "hub-1a"}), outgoing=False)
HEAD = "listening on any, link-type LINUX_SLL2 (Linux cooked v2), snapshot length 128 bytes\n"
TAIL = "\n740 packets captured\n741 packets received by filter\n{} packets dropped by kernel\n"


class Printing:
    """Processes that print what it is told, in place of tcpdump and ip, until they are stopped."""

    def __init__(self) -> None:
        self.stack = ExitStack()

    def __call__(self, text: str, then: str = "exec sleep 60") -> Process:
        process = LocalHost().spawn(["sh", "-c", f'printf %s "$1"; {then}', "sh", f"{text}ready\n"])
        self.stack.callback(process.stop)
        process.wait_line("ready", 10)
        return process


@pytest.fixture
def printing() -> Iterator[Printing]:
    found = Printing()
    with found.stack:
        yield found


def line(age_s: float, what: str = "Hello, length 44", device: str = "hub-0a") -> str:
    return f"{time.time() - age_s:.9f} {device} M   IP 198.18.0.1 > 224.0.0.5: OSPFv2, {what}\n"


def test_packets_of_all_types_are_read_with_their_devices_and_times(printing: Printing) -> None:
    """As tcpdump 4.99.3 printed them; a long packet is cut off behind its first bytes."""
    kinds = {
        "Hello, length 48": HELLO, "Database Description, length 32": DESCRIPTION, "LS-Request, length 36": REQUEST,
        "LS-Update, length 1400 [|ospf2]": UPDATE, "LS-Ack, length 44": ACKNOWLEDGEMENT,
    }  # fmt: skip
    now_s = time.monotonic()
    text = "".join(line(0.5 - number / 10, what) for number, what in enumerate(kinds))
    other = line(0, device="hub-0") + line(0, "unknown packet type (7), length 44") + line(0)[:40] + "\n"
    watch = Capture([(printing(HEAD + text + other), PLACE)], None)
    assert [each.kind for each in watch.packets] == list(kinds.values())
    assert [each.at_s for each in watch.packets] == pytest.approx([now_s - 0.5 + n / 10 for n in range(5)], abs=0.2)
    gaps_s = [b.at_s - a.at_s for a, b in zip(watch.packets, watch.packets[1:], strict=False)]
    assert gaps_s == pytest.approx([0.1] * 4, abs=0.02)
    assert watch.last_update_s == watch.packets[3].at_s
    assert {each.device for each in watch.packets} == {"hub-0a"}


def test_the_last_change_of_a_route_in_a_router_is_read(printing: Printing) -> None:
    now_s, stamp = time.monotonic(), datetime.now(UTC) - timedelta(seconds=0.5)
    text = (
        f"[{stamp:%Y-%m-%dT%H:%M:%S.%f}] [nsid 8]198.18.0.32/30 proto ospf metric 20 \n"
        "\tnexthop via 198.18.0.2 dev if2 weight 1 \n"
        "[2999-01-01T00:00:00.000000] [nsid current]unreachable 198.18.1.0/24\n"
    )
    watch = Capture([], printing(text))
    assert watch.last_route_s == pytest.approx(now_s - 0.5, abs=0.02)
    assert Capture([], printing("")).last_route_s == 0


@pytest.mark.parametrize(("slew", "expected_s"), [(1.0, 104.0), (1.01, 100 + 4 / 1.01)])
def test_times_between_two_readings_follow_a_clock_that_is_slewed(slew: float, expected_s: float) -> None:
    before, now = ClockReading(100.0, 5000.0), ClockReading(110.0, 5000 + slew * 10)
    assert ospf_capture._to_monotonic(5004.0, before, now) == pytest.approx(expected_s)


def test_two_readings_in_a_row_say_nothing_of_the_rate_of_a_clock() -> None:
    before, now = ClockReading(100.0, 5000.0), ClockReading(100.00001, 5000.00002)
    assert ospf_capture._to_monotonic(4999.5, before, now) == pytest.approx(99.5, abs=1e-4)


def test_a_clock_is_read_after_what_was_printed_and_only_for_that(printing: Printing) -> None:
    """A reading of a remote host is an exchange: without news, there is none, and no packet is of the future."""
    readings = iter([ClockReading(100.0, 5000.0), ClockReading(110.0, 5010.0)])
    text = "5009.5 hub-0a M   IP 198.18.0.1 > 224.0.0.5: OSPFv2, Hello, length 44\n"
    watch = Capture([(printing(text), PLACE)], None, lambda: next(readings))
    assert [each.at_s for each in watch.packets] == [pytest.approx(109.5)]
    assert len(watch.packets) == 1 and watch.last_update_s == 0


@pytest.mark.parametrize("step_s", [-3600.0, -10.0, 3600.0])
def test_no_time_is_in_the_future_when_the_clock_was_set(step_s: float) -> None:
    before, now = ClockReading(100.0, 5000.0), ClockReading(110.0, 5010.0 + step_s)
    for real_s in (5004.0, 5004.0 + step_s):
        assert ospf_capture._to_monotonic(real_s, before, now) <= 110


def test_what_is_sent_to_links_that_are_cut_is_no_packet_on_a_link(printing: Printing) -> None:
    now_s = time.monotonic()
    text = "".join(
        line(age / 10, "LS-Update, length 64", device) for age in range(9, 0, -1) for device in PLACE.devices
    )
    watch = Capture([(printing(text), PLACE)], None)
    watch.cut({"hub-0a", "hub-0b"}, now_s - 0.75)
    watch.mend({"hub-0a", "hub-0b"}, now_s - 0.45)
    counts = {device: sum(each.device == device for each in watch.packets) for device in PLACE.devices}
    assert counts == {"hub-0a": 6, "hub-1a": 9}
    assert watch.last_update_s == watch.packets[-1].at_s


def test_what_is_printed_later_is_read_later(printing: Printing) -> None:
    process = printing(line(0), 'sleep 0.5; printf %s "$1"; exec sleep 60')
    watch = Capture([(process, PLACE)], None)
    assert len(watch.packets) == 1
    deadline_s = time.monotonic() + 10
    while len(watch.packets) < 2:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert watch.count(0, time.monotonic())[HELLO] == 2


def test_a_watch_that_ends_before_the_trial_makes_it_invalid(printing: Printing) -> None:
    links, routes = printing(HEAD, "echo 'tcpdump: no memory'; exit 1"), printing("", "kill -9 $$")
    deadline_s = time.monotonic() + 10
    while links.alive() or routes.alive():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    before = "links and routes were not watched until the end of the trial: "
    assert Capture([(links, PLACE)], routes).end() == [
        f"{before}tcpdump exited with code 1 (tcpdump: no memory)", f"{before}ip monitor exited with code 137 (ready)",
    ]  # fmt: skip


def test_what_the_kernel_dropped_is_reported(printing: Printing) -> None:
    quiet, routes = printing(HEAD + TAIL.format(0)), printing("")
    assert Capture([(quiet, PLACE)], routes).end() == []
    ends = [printing(HEAD + TAIL.format(number)) for number in (0, 2, 1)]
    overrun = printing("netlink receive error No buffer space available (105)\n")
    assert Capture([(each, PLACE) for each in ends], overrun).end() == [
        "3 packets on the links were not counted: they came too fast",
        "some changes of routes were not seen: they came too fast",
    ]
    (reason,) = Capture([(printing(HEAD), PLACE)], None).end()
    assert "tcpdump exited with code" in reason, "it cannot say how many packets were dropped"


def test_a_host_without_tcpdump_says_how_to_get_it() -> None:
    observers: Any = SimpleNamespace(testbed=SimpleNamespace(host=RecordingHost()))
    with pytest.raises(Unavailable, match="tcpdump") as caught, watching(observers, [PLACE], []):
        pytest.fail("nothing watches")
    assert caught.value.hint == "apt-get install tcpdump"


def test_a_tcpdump_that_does_not_start_is_named_with_its_words() -> None:
    """One of before libpcap 1.10, which does not know the devices of its packets."""

    def spawn(netns: str, command: str) -> Process:
        return LocalHost().spawn(["sh", "-c", "echo 'tcpdump: invalid data link type LINUX_SLL2'; exit 1"])

    observers: Any = SimpleNamespace(
        testbed=SimpleNamespace(host=SimpleNamespace(require=lambda *words: "")), spawn=spawn
    )
    with pytest.raises(CommandFailed, match="invalid data link type LINUX_SLL2"), watching(observers, [PLACE], []):
        pytest.fail("nothing watches")
