"""What a load costs: the CPU time of its host while the load runs, without what runs beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastro.instruments.base import Watch
from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.platforms.base import Instance
from lastro.scenarios.shared.chain import ROLES
from lastro.testbed import Testbed


class LoadWatch(Watch):
    """Meters around the command of a load: from exec into its instance to its end."""

    def __init__(self, testbed: Testbed, everyone: Mapping[str, Instance], own_cgroups: Sequence[str]) -> None:
        self.host, self.usage = HostMeter(testbed, everyone, own_cgroups), UsageMeter(testbed, everyone)

    def __enter__(self) -> None:
        self.usage.start()
        self.host.start()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.host.stop()
            self.usage.stop()

    def work_s(self, apparatus_s: float) -> float:
        """Return the CPU seconds of the host without the neighbour, other programs, and `apparatus_s` of Lastro's own.

        What remains is the work of the chain: its programs, its monitors, the daemons of its links, and what the kernel
        does for its packets in the name of whatever it interrupts."""
        own_s = max(apparatus_s, self.host.own_cpu_s)
        return max(0.0, self.host.busy_s - own_s - beside_s(self.host, self.usage))


def beside_s(host: HostMeter, usage: UsageMeter) -> float:
    """Return the CPU seconds of the neighbour and of programs that are neither the chain's nor Lastro's.

    Many kernels count an interrupt, in which they forward a packet, as time of the process that it interrupts, too. So
    of the system time of a neighbour's processes, at most that is taken which the host counts as system time, apart
    from interrupts, and which is not the chain's."""
    chain = [used for role, used in usage.used.items() if role in ROLES]
    others = [used for role, used in usage.used.items() if role not in ROLES]
    own_system_s = host.own_cpu_s - host.own_user_s
    chain_system_s = sum(used.cpu_s - used.user_s for used in chain)
    left_s = max(0.0, host.totals.cpu_s["system"] - own_system_s - chain_system_s)
    found_s = host.others_user_s(usage.user_s) + sum(used.user_s for used in others)
    return found_s + min(left_s, sum(used.cpu_s - used.user_s for used in others))
