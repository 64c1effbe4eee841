"""Frames of any size in many flows, by pktgen: a thread of the kernel that hands frames to a device at their time.

The thread belongs to the sender's network namespace and to one CPU, which it keeps busy while it waits for the time of
the next frame. No socket, no queue and no bucket is between it and the device. So a function that is too slow cannot
block it: the frames that the link refuses are lost, as on a wire.

A module of the kernel has these threads, one for each CPU in each namespace. Each of them wakes up ten times a second,
even without work. So the module is removed when the load ends, unless it was loaded before.

The thread is in no cgroup: the scheduler counts its CPU time. Lastro takes the time in which it did not send to be
waiting. Source: networking/pktgen.rst of Linux, net/core/pktgen.c."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from lastro.errors import CommandFailed, InstrumentError, Unavailable
from lastro.host.base import Process
from lastro.host.ledger import Session
from lastro.host.shell import quoted
from lastro.host.undo import MODULES
from lastro.instruments.base import UNWATCHED, Watch
from lastro.instruments.http_load import LoadOrigin
from lastro.instruments.load_generator import (
    CHECK_SEQUENCE_BYTES,
    FIRST_PORT,
    PORT,
    Direction,
    FirstHop,
    LoadGenerator,
    SentLoad,
    Traffic,
    frames_in,
)
from lastro.platforms.base import Instance
from lastro.testbed import IN_A_GUEST

_PLACE = MODULES["pktgen"]
_PATIENCE_S = 15.0
_LATE_S = 0.4  # the thread looks for work ten times a second
_POLL_S = 0.05
_NS = 1_000_000_000
# Writing "start" returns when all devices have ended, or when the writer is killed, which ends them. A thread that got
# no CPU for a while may begin only when the writer has returned.
_RUN = f"""cd {_PLACE}
thread=$1 limit=$2 polls=$3
shift 3
for file in /proc/[0-9]*/comm; do
    {{ read -r name <"$file"; }} 2>/dev/null && [ "$name" = "$thread" ] || continue
    [ ! -r "${{file%comm}}schedstat" ] || spent="$spent ${{file%comm}}schedstat"
done
ran() {{
    total=0
    for file in $spent; do {{ read -r ns rest <"$file"; }} 2>/dev/null && total=$((total + ns)); done
}}
ended() {{ for file in $devices; do grep -q " usec, " "$file" || return 1; done; }}
wait_ended() {{
    left=$1
    until ended; do [ $((left -= 1)) -gt 0 ] || return 1; sleep {_POLL_S}; done
}}
devices="$*"
ran
before=$total
timeout "$limit" sh -c 'echo start >pgctrl' || :
wait_ended "$polls" || {{ echo stop >pgctrl; wait_ended "$polls"; }}
ran
cat "$@"
[ -z "$spent" ] || echo "ran $((total - before)) ns"
"""
_COUNTED = re.compile(
    r"pkts-sofar: (\d{1,15})  errors: (\d{1,15})\n"
    r" {1,20}started: (\d{1,15})us  stopped: (\d{1,15})us idle: (\d{1,15})us$",
    re.MULTILINE,
)
_ENDED = re.compile(r"^Result: OK: \d{1,15}\(c\d{1,15}\+d\d{1,15}\) usec, ", re.MULTILINE)
_RAN = re.compile(r"^ran (\d{1,18}) ns$", re.MULTILINE)


class Pktgen(LoadGenerator):
    name = "pktgen"
    summary = "frames of any size, or a mix, at a constant rate by the kernel's pktgen: up to 10,000 flows"
    version_argv = ("uname", "-r")
    most_flows = 10_000
    mixes = True
    least_payload_bytes = 16  # of its own header
    starts_s = 0.5
    spins = True
    in_host_kernel = True

    def __init__(self) -> None:
        self._hops: dict[Direction, FirstHop] = {}

    @contextmanager
    def receiving(self, direction: Direction) -> Iterator[Process]:
        """Run a receiver and have pktgen in the kernel inside the block.

        Raises: Unavailable if the kernel has no pktgen."""
        with super().receiving(direction) as process, _loaded(direction.sender.testbed.session):
            try:
                yield process
            finally:
                if self._hops.pop(direction, None):
                    with suppress(CommandFailed):  # the namespace of a sender that has ended is gone
                        _configure(direction.sender, ["rem_device_all"], _thread(direction.sender))

    def offer(
        self, direction: Direction, traffic: Traffic, rate_fps: float, duration_s: float, watch: Watch = UNWATCHED
    ) -> SentLoad:
        sender, sizes = direction.sender, Counter(traffic.sizes)
        hop = self._hops.get(direction) or FirstHop.of(direction)
        devices = [f"{hop.device}@{number}" for number in range(len(sizes))]
        if direction not in self._hops:
            _configure(sender, [f"add_device {device}" for device in devices], _thread(sender))
            self._hops[direction] = hop
        for device, (size, count) in zip(devices, sizes.items(), strict=True):
            rate_of_size_fps = rate_fps * count / len(traffic.sizes)
            _configure(sender, _settings(hop, traffic, size, rate_of_size_fps, duration_s), device)
        end_s = duration_s + _LATE_S
        argv = ["sh", "-c", _RUN, "pktgen", _thread(sender), f"{end_s:.3f}", str(round(end_s / _POLL_S)), *devices]
        with watch:
            done = LoadOrigin.beside(sender).measure(argv, timeout_s=3 * end_s + _PATIENCE_S, check=False)
        done.require_success(argv)
        return self.read(done.text, len(devices), rate_fps, duration_s)

    def read(self, text: str, n_devices: int, rate_fps: float, duration_s: float) -> SentLoad:
        """Return the load, from the counters of pktgen and the CPU time of its thread. Raises: InstrumentError.

        Frames that the device refused count as sent, since pktgen handed them over. Newer kernels count them only as
        errors, and pktgen hands over further frames until its time is over."""
        counted = [tuple(map(int, found)) for found in _COUNTED.findall(text)]
        if not len(counted) == len(_ENDED.findall(text)) == n_devices:
            raise InstrumentError(f"pktgen did not report what it sent: {text.strip()[-80:]!r}")
        if len(ran := _RAN.findall(text)) != 1:
            why = "the CPU time of pktgen's thread is not known: /proc does not show the thread, or its schedstat"
            raise InstrumentError(why, "run Lastro in the host's own PID namespace")
        sent, refused, started_us, stopped_us, idle_us = zip(*counted, strict=True)
        took_s, ran_s = (max(stopped_us) - min(started_us)) / 1e6, int(ran[0]) / _NS
        lasted_s, sending_s = max(took_s, duration_s), max(0.0, took_s - sum(idle_us) / 1e6)
        n_sent, waited_s = sum(sent) + sum(refused), max(0.0, ran_s - sending_s)  # it keeps its CPU busy as it waits
        self.reported(round(rate_fps * lasted_s), n_sent, took_s, duration_s)
        return SentLoad(frames_in(rate_fps, duration_s), n_sent, lasted_s, waited_s=waited_s, kernel_s=ran_s)


@contextmanager
def _loaded(session: Session) -> Iterator[None]:
    """Have pktgen in the kernel inside the block. Raises: Unavailable if the kernel has none."""
    host = session.host
    with session.owned_module("pktgen"):
        done = None if host.view.exists(_PLACE) else host.run(["modprobe", "pktgen"], check=False)
        if done and done.returncode != 0:
            why = done.error_text.strip().rpartition("\n")[2] or "modprobe printed no reason"
            raise Unavailable(f"the kernel has no pktgen: {why}", f"use a kernel with the module pktgen, {IN_A_GUEST}")
        yield


def _thread(sender: Instance) -> str:
    return f"kpktgend_{sender.testbed.usable_cpus[0]}"


def _configure(sender: Instance, commands: Iterable[str], file: str) -> None:
    """Write commands to a file of pktgen in the namespace of the sender, each by itself, as pktgen reads them."""
    (target,) = quoted(file)
    lines = [f"echo {command} >{target}" for command in quoted(*commands)]
    LoadOrigin.beside(sender).run(["sh", "-e"], stdin="\n".join([f"cd {_PLACE}", *lines, ""]), timeout_s=_PATIENCE_S)


def _settings(hop: FirstHop, traffic: Traffic, size: int, rate_fps: float, duration_s: float) -> list[str]:
    """Return what makes frames of one size and their rate the next load of a device of pktgen."""
    source, target = ("src6", "dst6") if traffic.ip == "6" else ("src_min", "dst")
    return [
        f"count {frames_in(rate_fps, duration_s)}",
        f"delay {round(_NS / rate_fps)}",
        f"pkt_size {size - CHECK_SEQUENCE_BYTES}",
        "clone_skb 0",
        f"src_mac {hop.own_mac}",
        f"dst_mac {hop.next_mac}",
        f"{source} {hop.source}",
        f"{target} {hop.target}",
        f"udp_src_min {FIRST_PORT}",
        f"udp_src_max {FIRST_PORT + traffic.flows * (traffic.flows > 1)}",
        f"udp_dst_min {PORT}",
        f"udp_dst_max {PORT}",
        "flag UDPCSUM",
        "flag NO_TIMESTAMP",
    ]
