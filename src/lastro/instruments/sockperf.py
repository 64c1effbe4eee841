"""One flow of datagrams at a constant rate, by sockperf, which keeps a CPU busy while it waits to send.

The time in which sockperf waits is its user time. It is counted by the kernel on which sockperf runs: the host's, the
guest's, or gVisor. Seen from the host, all work of a guest is user time, including the work of its kernel."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from lastro.errors import InstrumentError, Unavailable
from lastro.instruments.base import UNWATCHED, Watch
from lastro.instruments.load_generator import BUFFER_BYTES, PORT, Direction, LoadGenerator, SentLoad, Traffic

_PATIENCE_S = 15.0
_SENT = re.compile(r"Total of (\d{1,15}) messages sent in (\d{1,9}(?:\.\d{1,9})?) sec")
_TIMED = 'LC_ALL=C TIMEFORMAT="waited %U"; time "$@"'  # to the millisecond; dash counts hundredths of a second
_WAITED = re.compile(r"^waited (\d{1,9}\.\d{3})$", re.MULTILINE)


class Sockperf(LoadGenerator):
    name = "sockperf"
    summary = "frames of one size at a constant rate by sockperf: one flow"
    packages = ("sockperf",)
    version_argv = ("sockperf", "--version")
    least_payload_bytes = 14  # of its own header
    step_s = 1.0  # its durations are whole seconds
    starts_s = 2.3  # it sleeps for two seconds before it sends
    spins = True

    def offer(
        self, direction: Direction, traffic: Traffic, rate_fps: float, duration_s: float, watch: Watch = UNWATCHED
    ) -> SentLoad:
        whole_s, mps = math.ceil(duration_s), max(1, round(rate_fps))
        argv = ["sockperf", "throughput", "--ip", direction.target, "--port", str(PORT), "--time", str(whole_s)]
        argv += ["--mps", str(mps), "--msg-size", str(traffic.payload_bytes[0])]
        argv += ["--buffer-size", str(BUFFER_BYTES)]
        if direction.sender.shares_kernel:  # it keeps this CPU busy, and leaves the others to the function
            argv = ["taskset", "--cpu-list", str(direction.sender.testbed.usable_cpus[0]), *argv]
        timed = ["bash", "-c", _TIMED, "bash", *argv]
        done = direction.sender.measure(timed, timeout_s=whole_s + _PATIENCE_S, check=False, watch=watch).done
        done.require_success(argv)
        if direction.ip == "6" and not _SENT.search(done.text):
            raise Unavailable("this version of sockperf sends nothing over IPv6", 'use instrument = "trafgen"')
        waited = _WAITED.findall(done.error_text)
        if len(waited) != 1:
            raise InstrumentError(f"sockperf's user time is not known: {done.error_text.strip()[-80:]!r}")
        return replace(self.read(done.text, mps, whole_s), waited_s=float(waited[0]))

    def read(self, text: str, mps: int, duration_s: int) -> SentLoad:
        """Return the load that sockperf's report states. Raises: InstrumentError.

        A timer of the kernel ends the run, but sockperf measures the time by a clock that it calibrates itself. If this
        clock is slow, the reported time is too short and the rate too high. So the returned time is at least
        `duration_s`."""
        matches = _SENT.findall(text)
        if len(matches) != 1:
            raise InstrumentError(f"sockperf did not report what it sent: {text.strip()[-80:]!r}")
        sent, lasted_s = matches[0]
        self.reported(mps * duration_s, int(sent), float(lasted_s), duration_s)
        return SentLoad(mps * duration_s, int(sent), max(float(lasted_s), duration_s))
