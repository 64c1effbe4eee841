"""The CPUs on which the kernel works for the function: its own CPUs, or the CPU of the sender.

The kernel forwards a packet over a veth pair on the CPU that sends it, before the sender can send the next packet. So
no packet is lost: a slow function slows its generator down, unlike on a real wire. Receive packet steering moves the
packets that reach the function to other CPUs, whose queues can overflow. An XDP program runs before that, so a thread
of the kernel polls its port on those CPUs. Source: networking/scaling.rst and networking/napi.rst of Linux.

Behind a real wire, the interrupts of a network card choose the CPU, and nothing is steered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lastro.errors import CommandFailed, Unavailable
from lastro.host.base import Host
from lastro.host.ledger import NETNS_DIR
from lastro.instruments.load_generator import BUFFER_BYTES
from lastro.instruments.sockperf import Sockperf
from lastro.isolation.base import NEIGHBOUR
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.base import Config, platform_of
from lastro.scenarios.load.probing import BOTH
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
_RING_FRAMES = 256  # of a veth with an XDP program: VETH_RING_SIZE in drivers/net/veth.c
_FRAME_IN_KERNEL_BYTES = 768  # of the smallest
# A runtime that gives its container a read-only /sys makes this namespace's sysfs read-only in all of its mounts.
_SCRIPT = """mount -t sysfs sysfs /sys
mode=ro; ! [ -w /sys/class/net ] || mode=rw
mount -o remount,rw /sys
{choose}mount -o remount,$mode /sys
"""
_STEER = "for file in /sys/class/net/{port}/queues/rx-*/rps_cpus; do echo {mask} > $file; done\n"
# Prints a line for each thread. Threads of the kernel are visible only in the host's own namespace of processes.
_POLL = """threads() {{ grep -ls '^napi/{port}-' /proc/[0-9]*/comm || :; }}
before=$(threads)
echo 1 > /sys/class/net/{port}/threaded
for thread in $(threads); do
    case "$before" in
    *"$thread"*) ;;
    *)
        thread=${{thread%/comm}} thread=${{thread#/proc/}}
        taskset --cpu-list --pid {cpus} "$thread"
        renice -n -20 -p "$thread" >/dev/null # as the soft interrupts of other ports, it goes before processes
        ;;
    esac
done
"""
_REMEDY = "use a kernel from Linux 5.12 on, whose threads can poll a port"


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
    functions = {role: each for role, each in chain.instances.items() if role.startswith(FUNCTION)}
    here = {role: each for role, each in functions.items() if each.shares_kernel and not each.takes_taps}
    others = [each for each in chain.source.testbed.usable_cpus if each != generator_cpu(chain.source)]
    where = "the one that sends"
    if others and steering != SENDER:
        moved = [_move(each, (chain.path.inside, chain.path.outside), others) for each in here.values()]
        where = "; ".join(dict.fromkeys(moved))
    if len(here) < len(functions):
        other = ", ".join(role for role in functions if role not in here)
        where = f"{where}; {other}: its own" if here else "its own"
    return {_FUNCTION_CPUS: where}


def _move(instance: Instance, ports: Sequence[str], cpus: list[int]) -> str:
    """Have `cpus` process the packets that reach these ports of an instance; return which CPUs do so, and by what.

    Raises: Unavailable when the kernel cannot poll a port by a thread."""
    polled = _ports_in_xdp(instance, ports)
    listed = ",".join(map(str, cpus))
    choose = [(_POLL if port in polled else _STEER).format(port=port, mask=_mask(cpus), cpus=listed) for port in ports]
    enter = ["nsenter", f"--net={NETNS_DIR / instance.netns}", "unshare", "--mount", "sh", "-e"]
    try:
        done = instance.testbed.host.run(enter, stdin=_SCRIPT.format(choose="".join(choose)))
    except CommandFailed as error:
        if not polled:
            raise
        raise Unavailable(f"no thread of the kernel polls {' and '.join(polled)}: {error.message}", _REMEDY) from error
    listed = listed.replace(",", ", ")
    if not polled:
        return f"{listed}, by receive packet steering"
    return f"{listed if done.text else 'any'}, by threads of the kernel that poll the ports of its XDP program"


def _ports_in_xdp(instance: Instance, ports: Sequence[str]) -> list[str]:
    """Return those of the `ports` of an instance that have an XDP program."""
    in_xdp = {link["ifname"] for link in instance.links() if "xdp" in link}
    return [port for port in ports if port in in_xdp]


def queue_frames(chains: Sequence[Chain], direction: str) -> int:
    """Return the length in frames of the host's queues in front of the functions; 0 if there is none or it is unknown.

    An XDP program has the ring of its port. Otherwise, each CPU has a queue, and the frames of a chain wait in that of
    one CPU. If `direction` is "both", frames reach each function at both of its ports."""
    function, others = chains[0].instances["function"], chains[0].source.testbed.usable_cpus[1:]
    if function.takes_taps or not function.shares_kernel or not others or chains[0].attachment.wired:
        return 0
    path = chains[0].path
    ports = (path.inside, path.outside) if direction == BOTH else (path.inside,)
    rings = [len(_ports_in_xdp(chain.instances["function"], ports)) for chain in chains]
    without_ring = sum(n < len(ports) for n in rings)  # chains
    longest = int(function.testbed.host.view.read([_LONGEST_QUEUE]).get(_LONGEST_QUEUE, 0))
    return sum(rings) * _RING_FRAMES + min(without_ring, len(others)) * longest


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
