"""CPUs that do not halt while latency is measured.

A CPU that halts takes a while to wake up for a packet, longer in a virtual machine. A neighbour that keeps the CPU busy
saves that time, so latency may be lower with a neighbour than without: an effect of idle states, not of the platform.
The kernel keeps a CPU awake on request (PM QoS), if it has a driver for idle states. If it has none, a loop at idle
priority on each CPU does the same. Source: the kernel's power/pm_qos_interface, admin-guide/pm/cpuidle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from lastro.host.base import Process
from lastro.host.cgroups import Resources
from lastro.results.samples import Outcome
from lastro.study.model import Setting
from lastro.testbed import Testbed

AS_IS, AWAKE = "as-is", "awake"
CPUS_IDLE = Setting(
    "cpus_idle", AS_IS, "CPUs while latency is measured: they halt as the kernel likes, or stay awake",
    choices=(AS_IS, AWAKE),
)  # fmt: skip
_DRIVER = "/sys/devices/system/cpu/cpuidle/current_driver"
_REQUEST = "exec 3>/dev/cpu_dma_latency; printf '\\0\\0\\0\\0' >&3; echo awake; exec sleep infinity"
_LOOP = "echo awake; exec timeout {limit_s} sh -c 'while :; do :; done'"
_LIMIT_S, _START_S = 86_400, 10.0


@dataclass(slots=True)
class AwakeCpus:
    """The CPUs of a testbed, which processes in the cgroup `group` keep from halting.

    If `by_kernel` is true, a process asks the kernel to keep them awake; otherwise, a loop runs on each CPU.
    `elapsed_s` is how long they were kept awake in all."""

    testbed: Testbed
    group: str
    by_kernel: bool
    elapsed_s: float = field(default=0.0, init=False)

    @contextmanager
    def keep_awake(self) -> Iterator[None]:
        """Keep the CPUs awake inside the block."""
        enter = self.testbed.cgroups.entering(self.group)
        if self.by_kernel:
            commands = [["sh", "-c", _REQUEST]]
        else:
            idle, loop = ["chrt", "--idle", "0"], ["sh", "-c", _LOOP.format(limit_s=_LIMIT_S)]
            commands = [[*idle, "taskset", "--cpu-list", str(cpu), *loop] for cpu in self.testbed.usable_cpus]
        began_s = time.monotonic()
        with ExitStack() as stack:
            for command in commands:
                process: Process = self.testbed.host.spawn([*enter, *command])
                stack.callback(process.stop)
                process.wait_line(AWAKE, _START_S)
            yield
        self.elapsed_s += time.monotonic() - began_s

    def note(self, outcome: Outcome) -> None:
        """Note how the CPUs were kept awake, and the CPU time that this took."""
        how = "the kernel (PM QoS)" if self.by_kernel else "a loop at idle priority on each"
        outcome.add_condition({"CPUs while latency is measured": f"kept awake by {how}"})
        used = self.testbed.cgroups.usage(self.group)
        outcome.notes["awake"] = {"cpu_s": round(used.cpu_s, 3), "elapsed_s": round(self.elapsed_s, 3)}


@contextmanager
def awake_cpus(testbed: Testbed) -> Iterator[AwakeCpus]:
    """Make a cgroup that yields to all others, for the processes that keep the CPUs of a testbed awake."""
    driver = testbed.host.view.read([_DRIVER]).get(_DRIVER, "").strip()
    group = f"{testbed.session.cgroup}/{testbed.session.unique('awake')}"
    with testbed.session.owned("cgroup", group):
        testbed.cgroups.make(testbed.host, group, Resources(cpu_weight=1))
        files = " ".join(f"{directory}/cpu.idle" for directory in testbed.cgroups.directories(group))
        testbed.host.run(["sh", "-c", f"for f in {files}; do [ ! -e $f ] || echo 1 >$f; done"])
        testbed.apparatus.instances.add(group)  # counted apart, by its own cgroup
        yield AwakeCpus(testbed, group, by_kernel=driver not in ("", "none"))
