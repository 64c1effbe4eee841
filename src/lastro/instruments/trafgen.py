"""Frames of any size in many flows, by trafgen, paced by a token bucket on the sender's link.

With its option --rate, trafgen sends the frames of each second in one burst, and then sleeps. So here it sends as fast
as it can, into a token bucket of the kernel, which lets frames out at the rate and blocks trafgen meanwhile. The bucket
holds the frames of a millisecond.

trafgen blocks when the buffer of its socket is full. A frame occupies the buffer until the receiving kernel has taken
it. So a function that is too slow would also block trafgen, before the queue in front of the function is full. No wire
could do this. To prevent it, the bucket is on a link inside the sender's network namespace. At the other end of this
link, nftables sends copies of the frames, which occupy no socket. Source: trafgen(8), tc-tbf(8), nft(8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lastro.errors import CommandFailed, InstrumentError, with_hint
from lastro.host.base import Completed, Process
from lastro.instruments.base import UNWATCHED, Watch
from lastro.instruments.load_generator import (
    FIRST_PORT,
    MOST_BYTES,
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

_PATIENCE_S = 15.0
_BUCKET_S = 1e-3  # a timer of the kernel may be late by this much without losing a token
_QUEUE_BYTES = 4 << 20  # more than a socket may have in the queue: the socket's limit blocks it, and nothing is dropped
_LONGEST, _STARTS_S = 1.2, 0.5  # trafgen is ended after its start and this multiple of the duration
# With a rate, even one that it never reaches, it sends each frame by a call that blocks, and not through a ring.
_BLOCKING = ("--qdisc-path", "--rate", "4000000000pps")
# Prints trafgen's report, then the statistics of the bucket, whose queue may not be empty yet. trafgen makes a file in
# its working directory, hence `cd`.
_SCRIPT = """cd /tmp && timeout --preserve-status --signal=INT "$@"
code=$?
tc -s qdisc show dev "$0" root
exit $code"""
_BUCKET, _END, _TABLE = "pace0", "pace1", "lastro_pace"
_REMEDY = f"use a kernel with sch_tbf, {IN_A_GUEST}"
_SENT = re.compile(r"^[ \t\r]{0,40}(\d{1,15}) packets outgoing[ \t\r]{0,40}$", re.MULTILINE)
_LASTED = re.compile(r"(\d{1,9}) sec, (\d{1,6}) usec on CPU")
_QUEUED = re.compile(r"^[ \t\r]{0,40}backlog \w+ (\d{1,9})p ", re.MULTILINE)


class Trafgen(LoadGenerator):
    name = "trafgen"
    summary = "frames of any size, or a mix, at a constant rate by trafgen: up to 10,000 flows"
    packages = ("netsniff-ng",)
    version_argv = ("trafgen", "--version")
    most_flows = 10_000
    mixes = True
    bound_to = 0

    def __init__(self) -> None:
        self._hops: dict[Direction, _PacedHop] = {}

    @contextmanager
    def receiving(self, direction: Direction) -> Iterator[Process]:
        """Run a receiver inside the block; remove the sender's bucket at the end of the block."""
        with super().receiving(direction) as process:
            try:
                yield process
            finally:
                if hop := self._hops.pop(direction, None):
                    sender, delete = direction.sender, f"ip link delete {hop.bucket}; nft delete table netdev {_TABLE}"
                    with suppress(CommandFailed):  # a sender that has ended has no link
                        if hop.copies:
                            sender.testbed.host.run(["ip", "netns", "exec", sender.netns, "sh", "-ec", delete])
                        else:
                            _tc(sender, ["qdisc", "delete", "dev", hop.bucket, "root"])

    def offer(
        self, direction: Direction, traffic: Traffic, rate_fps: float, duration_s: float, watch: Watch = UNWATCHED
    ) -> SentLoad:
        if direction not in self._hops:
            self._hops[direction] = _make_paced_hop(direction)
        hop, count = self._hops[direction], frames_in(rate_fps, duration_s)
        self._set_bucket(direction.sender, hop.bucket, traffic, rate_fps)
        options = ["--out", hop.bucket, "--num", str(count), *_BLOCKING, "--no-sock-mem", "--notouch-irq"]
        # If trafgen cannot send as fast as asked, SIGINT ends it after this time, and it reports.
        end_s = f"{_LONGEST * duration_s + _STARTS_S:.3f}"
        frames = f"{direction.sender.memory_dir}/lastro-frames"
        direction.sender.run(["sh", "-c", 'cat >"$1"', "sh", frames], stdin=_frames(hop.first, traffic))
        argv = ["sh", "-c", _SCRIPT, hop.bucket, end_s, "trafgen", "--conf", frames, *options]
        limit_s = 2 * duration_s + _PATIENCE_S
        done = direction.sender.measure(argv, timeout_s=limit_s, check=False, watch=watch).done
        done.require_success(argv)
        return self.read(done.text, rate_fps, duration_s)

    def condition(self) -> dict[str, str]:
        for direction, hop in self._hops.items():
            if direction.sender.shares_kernel and not hop.copies:
                text = "not copied, since nftables or the kernel cannot: a slow function may block the generator"
                return {"frames of the generator": text}
        return {}

    def read(self, text: str, rate_fps: float, duration_s: float) -> SentLoad:
        """Return the load, from trafgen's report and the statistics of the bucket. Raises: InstrumentError.

        trafgen ends when its last frame is in the queue of the bucket. The frames in the queue leave it at `rate_fps`
        at best. The time that this takes is added to trafgen's time of sending."""
        sent, lasted, queued = _SENT.findall(text), _LASTED.findall(text), _QUEUED.findall(text)
        if not len(sent) == len(lasted) == len(queued) == 1:
            raise InstrumentError(f"trafgen did not report what it sent: {text.strip()[-80:]!r}")
        seconds = int(lasted[0][0]) + int(lasted[0][1]) / 1e6 + int(queued[0]) / rate_fps
        intended = frames_in(rate_fps, duration_s)
        return self.reported(intended, int(sent[0]), max(seconds, duration_s), duration_s)

    def _set_bucket(self, sender: Instance, device: str, traffic: Traffic, rate_fps: float) -> None:
        rate_bps = 8 * rate_fps * traffic.counted_bytes
        burst = max(2 * MOST_BYTES if len(traffic.sizes) > 1 else 2 * traffic.sizes[0], _BUCKET_S * rate_bps / 8)
        bucket = ["rate", f"{rate_bps:.0f}bit", "burst", f"{burst:.0f}", "limit", str(_QUEUE_BYTES)]
        with with_hint(_REMEDY if sender.shares_kernel else None):
            _tc(sender, ["qdisc", "replace", "dev", device, "root", "tbf", *bucket])


@dataclass(frozen=True, slots=True)
class _PacedHop:
    """A first hop, and the device with the token bucket, which may be the device of the hop itself."""

    first: FirstHop
    bucket: str

    @property
    def copies(self) -> bool:
        """Whether the frames that leave the bucket are copied to the device of the hop."""
        return self.bucket != self.first.device


def _make_paced_hop(direction: Direction) -> _PacedHop:
    """Make a link with a token bucket, whose frames are copied to the device of the first hop; return hop and bucket.

    The bucket is on the device itself in two cases: for a virtual machine, whose network is in another kernel, and if
    the kernel cannot copy frames."""
    sender, hop = direction.sender, FirstHop.of(direction)
    if sender.takes_taps or not sender.shares_kernel:
        return _PacedHop(hop, hop.device)
    copied = f'ether saddr {hop.own_mac} dup to "{hop.device}"'
    chain = f'type filter hook ingress device "{_END}" priority 0; policy drop; {copied};'
    script = f"""ip link add {_BUCKET} type veth peer name {_END}
ip link set {_BUCKET} up
ip link set {_END} up
nft 'table netdev {_TABLE} {{ chain copied {{ {chain} }}; }}'
"""
    try:
        sender.testbed.host.run(["ip", "netns", "exec", sender.netns, "sh", "-e"], stdin=script)
    except CommandFailed:
        sender.testbed.host.run(["ip", "-n", sender.netns, "link", "delete", _BUCKET], check=False)
        return _PacedHop(hop, hop.device)
    return _PacedHop(hop, _BUCKET)


def _frames(hop: FirstHop, traffic: Traffic) -> str:
    """Return trafgen's configuration: a frame for each size; flows differ by their source port."""
    addresses = f"sa={hop.source}, da={hop.target}"
    packet = f"ipv6({addresses}, hl=64)" if traffic.ip == "6" else f"ipv4({addresses}, ttl=64, df)"
    lines = []
    for position, payload in enumerate(traffic.payload_bytes):
        ports = _source_ports(position, len(traffic.sizes), traffic.flows)
        fill = f", fill(0x00, {payload})" if payload else ""
        lines.append(f"{{ eth(da={hop.next_mac}, sa={hop.own_mac}), {packet}, udp(sp={ports}, dp={PORT}){fill} }}\n")
    return "".join(lines)


def _source_ports(position: int, n_frames: int, flows: int) -> str:
    """Return trafgen's expression for the source port of the configured frame at `position` (from 0) of `n_frames`.

    trafgen sends the configured frames in rounds, and has a counter of ports for each of them. If all counters were
    alike, all frames of a round would be in one flow. So frame k of n takes every n-th port, from the k-th on, and a
    round has n flows, or `flows` if that is less. A counter starts again after its last port, and needs at least two
    ports."""
    ports = range(FIRST_PORT + position % flows, FIRST_PORT + flows, n_frames)
    return f"dinc({ports[0]}, {ports[-1]}, {n_frames})" if len(ports) > 1 else str(ports[0])


def _tc(instance: Instance, words: Sequence[str]) -> Completed:
    """Run tc on a link of an instance: inside a virtual machine, but from the host for any other instance.

    A container may lack the capability that tc needs."""
    if instance.takes_taps:
        return instance.run(["tc", *words])
    return instance.testbed.host.run(["tc", "-n", instance.netns, *words])
