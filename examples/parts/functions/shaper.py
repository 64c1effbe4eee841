"""A shaper: the flow leaves no faster than a rate, and waits its turn. The example of docs/tutorial.md."""

from __future__ import annotations

from lastro.functions.base import ForwardingPath, Function, Step

RATE_MBIT_S = 100


class Shaper(Function):
    name = "shaper"
    summary = f"lets the flow out at {RATE_MBIT_S} Mbit/s at most, through a token bucket"

    def more_steps(self, path: ForwardingPath) -> tuple[Step, ...]:
        bucket = f"tbf rate {RATE_MBIT_S}mbit burst 128kb latency 50ms"
        return (Step(("tc", "qdisc", "add", "dev", path.outside, "root", *bucket.split())),)
