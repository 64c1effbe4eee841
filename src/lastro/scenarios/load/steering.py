"""Where the kernel works for the function: on CPUs of its own, or on the one that sends.

A packet over a veth pair is forwarded by the kernel on the CPU that sends it, before the sender may send the next one.
Such a function loses nothing: it slows its generator down, as no wire could. Receive packet steering gives the packets
that reach the function to other CPUs, with a queue that overflows. Source: networking/scaling.rst of Linux."""

from __future__ import annotations

from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance
from lastro.scenarios.shared.chain import Chain

APART, SENDER = "apart", "sender"
# A runtime that gives its container a read-only /sys makes the file system of this namespace read-only everywhere.
_SCRIPT = """mount -t sysfs sysfs /sys
mode=ro; ! [ -w /sys/class/net ] || mode=rw
mount -o remount,rw /sys
for file in {files}; do echo {mask} > $file; done
mount -o remount,$mode /sys
"""


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
    files = [f"/sys/class/net/{port}/queues/rx-0/rps_cpus" for port in (chain.path.inside, chain.path.outside)]
    enter = ["nsenter", f"--net={NETNS_DIR / function.netns}", "unshare", "--mount", "sh", "-e"]
    function.testbed.host.run(enter, stdin=_SCRIPT.format(mask=_mask(others), files=" ".join(files)))
    return {"CPUs of the function's kernel": f"{', '.join(map(str, others))}, by receive packet steering"}


def _mask(cpus: list[int]) -> str:
    """Return a mask of CPUs as the kernel reads it: groups of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    groups = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(32, bits.bit_length()), 32)]
    return ",".join(reversed(groups))
