"""The CPUs on which the kernel works for the function: its own CPUs, or the CPU of the sender.

The kernel forwards a packet over a veth pair on the CPU that sends it, before the sender can send the next packet. So
no packet is lost: a slow function slows its generator down, unlike on a real wire. Receive packet steering moves the
packets that reach the function to other CPUs, whose queues can overflow. Source: networking/scaling.rst of Linux.

Behind a real wire, the interrupts of a network card choose the CPU, and nothing is steered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lastro.host.base import Host
from lastro.host.ledger import NETNS_DIR
from lastro.instruments.load_generator import BUFFER_BYTES
from lastro.instruments.sockperf import Sockperf
from lastro.isolation.base import NEIGHBOUR
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.base import Config, platform_of
from lastro.scenarios.shared.chain import Chain
from lastro.scenarios.shared.instance_spec import FUNCTION
from lastro.scenarios.shared.resources import ranges
from lastro.study.model import Setting
from lastro.testbed import Testbed

APART, SENDER = "apart", "sender"
STEERING = Setting(
    "steering",
    APART,
    "CPU on which the kernel works for the function: apart from the generator's, or that of the sender",
    choices=(APART, SENDER),
)
OWN_CPU, SHARED_CPU = "own", "shared"
GENERATOR_CPU = Setting(
    "generator_cpu",
    OWN_CPU,
    "CPU of the generator: its own, on which neither function nor neighbour run, or shared with them",
    choices=(OWN_CPU, SHARED_CPU),
)
_FUNCTION_CPUS = "CPUs of the function's kernel"  # a condition
_LARGEST_BUFFER, _LONGEST_QUEUE = "/proc/sys/net/core/wmem_max", "/proc/sys/net/core/netdev_max_backlog"
_FRAME_IN_KERNEL_BYTES = 768  # of the smallest
# A runtime that gives its container a read-only /sys makes this namespace's sysfs read-only in all of its mounts.
_SCRIPT = """mount -t sysfs sysfs /sys
mode=ro; ! [ -w /sys/class/net ] || mode=rw
mount -o remount,rw /sys
for file in {files}; do echo {mask} > $file; done
mount -o remount,$mode /sys
"""


def generator_cpu(instance: Instance) -> int | None:
    """Return the CPU to which a generator in this instance is pinned; None if the instance has its own kernel."""
    return instance.testbed.usable_cpus[0] if instance.shares_kernel else None


def apart(spec: InstanceSpec, testbed: Testbed, config: Config) -> InstanceSpec:
    """Return the specification of a function or neighbour without the generator's CPU, which is the first one.

    For other roles, return `spec` as it is. The same applies to all roles on platforms of virtual machines, where a
    generator inside a machine has no CPU of its own, and on a host with a single CPU."""
    others = testbed.usable_cpus[1:]
    if not others or not spec.role.startswith((FUNCTION, NEIGHBOUR)) or platform_of(config).guests:
        return spec
    return replace(spec, resources=replace(spec.resources, cpuset=ranges(others)))


def steer(chain: Chain, steering: str) -> dict[str, str]:
    """Choose the CPUs that process packets for the functions, as `steering` asks; return the condition to record."""
    if chain.attachment.wired:
        return {_FUNCTION_CPUS: "those that the interrupts of its network cards choose"}
    functions = {role: instance for role, instance in chain.instances.items() if role.startswith(FUNCTION)}
    on_host = {role: one for role, one in functions.items() if one.shares_kernel and not one.takes_taps}
    cpus = [cpu for cpu in chain.source.testbed.usable_cpus if cpu != generator_cpu(chain.source)]
    by_sender = steering == SENDER or not cpus
    where = "the one that sends" if by_sender else f"{', '.join(map(str, cpus))}, by receive packet steering"
    if len(on_host) < len(functions):
        other = ", ".join(role for role in functions if role not in on_host)
        where = f"{where}; {other}: its own" if on_host else "its own"
    condition = {_FUNCTION_CPUS: where}
    if by_sender:
        return condition
    files = [f"/sys/class/net/{port}/queues/rx-*/rps_cpus" for port in (chain.path.inside, chain.path.outside)]
    for instance in on_host.values():
        enter = ["nsenter", f"--net={NETNS_DIR / instance.netns}", "unshare", "--mount", "sh", "-e"]
        instance.testbed.host.run(enter, stdin=_SCRIPT.format(mask=_mask(cpus), files=" ".join(files)))
    return condition


def queue_frames(chains: Sequence[Chain]) -> int:
    """Return the length in frames of the host's queues in front of the functions; 0 if there is none or it is unknown.

    Each CPU has one, and the frames of a chain wait in that of one CPU."""
    function, others = chains[0].instances["function"], chains[0].source.testbed.usable_cpus[1:]
    if function.takes_taps or not function.shares_kernel or not others or chains[0].attachment.wired:
        return 0
    longest = int(function.testbed.host.view.read([_LONGEST_QUEUE]).get(_LONGEST_QUEUE, 0))
    return min(len(chains), len(others)) * longest


def short_buffer(host: Host, instrument: str) -> dict[str, str]:
    """Return a condition if sockperf's send buffer is smaller than the queue in front of the function; else {}.

    The kernel makes a send buffer twice as large as was asked for, up to its limit: socket(7)."""
    files = host.view.read([_LARGEST_BUFFER, _LONGEST_QUEUE])
    if instrument != Sockperf.name or len(files) < 2:
        return {}
    most, frames = 2 * min(BUFFER_BYTES, int(files[_LARGEST_BUFFER])), int(files[_LONGEST_QUEUE])
    if most >= frames * _FRAME_IN_KERNEL_BYTES:
        return {}
    text = f"{most:,} bytes, less than the queue in front of the function: a slow function may block the generator"
    return {"buffer of the generator's socket": text}


def _mask(cpus: list[int]) -> str:
    """Return the mask of CPUs in the kernel's format: groups of 32 bits in hexadecimal, the highest group first."""
    bits = sum(1 << cpu for cpu in cpus)
    groups = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(32, bits.bit_length()), 32)]
    return ",".join(reversed(groups))
