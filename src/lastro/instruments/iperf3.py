"""The base of the iperf3 instruments: a server for one test, a client, and its JSON report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lastro.errors import CommandFailed, InstrumentError
from lastro.instruments._report_lines import number_at
from lastro.instruments.base import UNWATCHED, Watch
from lastro.platforms.base import Instance

PORT = 5201
_PATIENCE_S = 15.0
number = partial(number_at, tool="iperf3")
_NO_NUMBER = re.compile(r'"(\w{1,60})":\s*([-+]?(?:nan|inf)\w*)', re.IGNORECASE)  # as printf writes it, not as JSON


def run(
    client: Instance, server: Instance, target: str, duration_s: float, options: Sequence[str], watch: Watch = UNWATCHED
) -> dict[str, Any]:
    """Run one test, and return the client's JSON report. Only the client runs within `watch`.

    Raises: InstrumentError when the report is not valid, or says that the test failed."""
    listener = ["iperf3", "--server", "--one-off", "--forceflush", "--port", str(PORT)]
    with server.during(listener, "Server listening", _PATIENCE_S):
        argv = ["iperf3", "--client", target, "--port", str(PORT), "--time", f"{duration_s:g}", "--json", *options]
        done = client.measure(argv, timeout_s=duration_s + _PATIENCE_S, check=False, watch=watch).done
    return parse(done.text, done.returncode, done.error_text, argv)


def parse(text: str, returncode: int, error_text: str, argv: Sequence[str]) -> dict[str, Any]:
    """Parse the client's JSON report.

    Raises: InstrumentError if it is not a report, or states that the test failed; CommandFailed if iperf3 failed
    without stating a reason in a report."""
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        if returncode != 0:
            raise CommandFailed(argv, returncode, error_text or text) from None
        if match := _NO_NUMBER.search(text):
            raise InstrumentError(f"iperf3 reports {match[1]} as {match[2]}, which is not a number") from None
        raise InstrumentError(f"iperf3 printed no JSON: {text[:80]!r}") from None
    if not isinstance(report, dict):
        raise InstrumentError(f"iperf3 printed {text[:80]!r} instead of a report")
    if error := report.get("error"):
        raise InstrumentError(f"iperf3 failed: {error}")
    if returncode != 0:
        raise CommandFailed(argv, returncode, error_text)
    return report


def intervals(report: Mapping[str, Any]) -> Sequence[Any]:
    """Return the report's intervals. Raises: InstrumentError when they are not a list."""
    intervals = report.get("intervals", [])
    if not isinstance(intervals, list):
        raise InstrumentError(f"iperf3's report has invalid intervals: {str(intervals)[:80]}")
    return intervals


def check_duration(measured_s: float, asked_s: float, tool: str = "iperf3") -> tuple[str, ...]:
    """Return a reason for invalidity if a test was shorter or longer than `asked_s`; else an empty tuple."""
    if abs(measured_s - asked_s) <= max(0.2 * asked_s, 0.5):
        return ()
    return (f"{tool} says that it ran for {measured_s:.2f} s instead of {asked_s:g} s",)
