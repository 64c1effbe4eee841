"""Where the kernel works for the function: on CPUs of its own, or on the one that sends.

A packet over a veth pair is forwarded by the kernel on the CPU that sends it, before the sender may send the next one.
Such a function loses nothing: it slows its generator down, as no wire could. Receive packet steering gives the packets
that reach the function to other CPUs, with a queue that overflows. Source: networking/scaling.rst of Linux."""

from __future__ import annotations

from lastro.platforms.base import Instance
from lastro.scenarios.shared.chain import Chain

APART, SENDER = "apart", "sender"


def generator_cpu(instance: Instance) -> int | None:
    """Return the CPU on which a generator in this instance is kept; None inside a virtual machine."""
    return instance.testbed.usable_cpus[0] if instance.shares_kernel else None


def steer(chain: Chain, steering: str) -> dict[str, str]:
    """Steer the packets that reach the function, and return the condition to record."""
    function, cpu = chain.instances["function"], generator_cpu(chain.source)
    if function.takes_taps or not function.shares_kernel:
        return {"CPUs of the function's kernel": "its own"}
    others = [each for each in function.testbed.usable_cpus if each != cpu]
    if steering == SENDER or not others:
        return {"CPUs of the function's kernel": "the one that sends"}
    mask = _mask(others)
    lines = [
        f"echo {mask} > /sys/class/net/{port}/queues/rx-0/rps_cpus" for port in (chain.path.inside, chain.path.outside)
    ]
    function.testbed.host.run(["ip", "netns", "exec", function.netns, "sh", "-e"], stdin="\n".join(lines) + "\n")
    return {"CPUs of the function's kernel": f"{', '.join(map(str, others))}, by receive packet steering"}


def _mask(cpus: list[int]) -> str:
    """Return a mask of CPUs as the kernel reads it: groups of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    groups = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(32, bits.bit_length()), 32)]
    return ",".join(reversed(groups))
