"""A neighbour's load: what the treatment demands, and whether the load reached that dose."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from lastro.anomalies.base import Anomaly, Demand, Dose, Neighbour
from lastro.errors import Unavailable
from lastro.meters.host import HostMeter
from lastro.platforms.base import InstanceSpec, Port
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config, chosen_part
from lastro.study.levels import NONE, part_name
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes

ANOMALY_WORKERS = Setting("anomaly_workers", 0, "processes of the neighbour's load; 0: one per CPU", 0, 4096)
ANOMALY_MEMORY = Setting(
    "anomaly_memory", "256M", "memory that each worker of the memory anomaly holds", check=parse_size_bytes
)
ANOMALY_BANDWIDTH = Setting(
    "anomaly_bandwidth", "2G", "bytes per second that the anomaly `membw` moves in memory", check=parse_size_bytes
)
ANOMALY_WRITES = Setting(
    "anomaly_writes", "32M", "bytes per second that the anomaly `diskbw` writes to its disk", check=parse_size_bytes
)
ANOMALY_FRAMES = Setting("anomaly_frames", 50_000, "frames per second that the anomaly `frames` sends", 1, 10_000_000)
ANOMALY_TOOL = Setting(
    "anomaly_tool", "stress-ng", "tool that makes the anomaly", choices=("stress-ng", "stress"), by_profile=True
)
NEIGHBOUR_SETTINGS = (
    ANOMALY_WORKERS, ANOMALY_MEMORY, ANOMALY_BANDWIDTH, ANOMALY_WRITES, ANOMALY_FRAMES, ANOMALY_TOOL,
)  # fmt: skip
MOST_PROCESSES = 2000  # of a neighbour that no isolation limits
_HOST_PARTS = 4  # a neighbour gets at most a quarter of the processes that the host can still start
_PER_WORKER, _OTHERS = 2, 16  # processes of a load: stress-ng has two for each worker, and a few more


@dataclass(frozen=True, slots=True)
class Disturbance:
    """An anomaly that runs in a neighbour. `through` is the role of the instance that its packets cross, or empty.

    If the load is sent over a chain's link, `port` is the neighbour's port on that link; otherwise None."""

    neighbour: Neighbour
    anomaly: Anomaly
    through: str = ""
    port: Port | None = None

    @property
    def fields(self) -> dict[str, str]:
        """The `Node` fields that describe the neighbour in the topology of a trial: what it does, and its anomaly."""
        does = " ".join(self.anomaly.argv(self.neighbour.demand))
        does += f" (through the {self.through})" if self.through else ""
        does += " (on the link from source to function)" if self.port else ""
        return {"does": does, "anomaly": self.anomaly.name}

    def judge_dose(self, dose: Dose, host: HostMeter, outcome: Outcome) -> None:
        """Note the dose, with the host's pressure; invalidate the trial if it is less than was demanded."""
        outcome.notes["doses"] = {**asdict(dose), **host.pressure()}
        unmet = self.anomaly.unmet(dose, self.neighbour.demand, self.neighbour.instance.spec.resources)
        outcome.invalidate([f"the anomaly missed its dose: {unmet}"] if unmet else [])


def demanded(config: Config, testbed: Testbed, timeout_s: float) -> tuple[Anomaly, Demand] | None:
    """Return (the treatment's anomaly, the load that it demands in `testbed`); None if the anomaly does nothing."""
    if part_name(config, "anomaly") == NONE:
        return None
    anomaly = chosen_part(Anomaly, config)
    demand = Demand(
        tool=ANOMALY_TOOL.of(config),
        workers=ANOMALY_WORKERS.of(config),
        memory_bytes=parse_size_bytes(ANOMALY_MEMORY.of(config)),
        timeout_s=timeout_s,
        bandwidth_bps=parse_size_bytes(ANOMALY_BANDWIDTH.of(config)),
        writes_bps=parse_size_bytes(ANOMALY_WRITES.of(config)),
        frames_per_s=ANOMALY_FRAMES.of(config),
        usable_cpus=len(testbed.usable_cpus),
    )
    return (anomaly, demand) if anomaly.argv(demand) else None


def require_own_link(config: Config, why: str) -> None:
    """Check that a treatment's anomaly does not send over a chain's link.

    Raises: Unavailable if it does; `why` is the error message."""
    if part_name(config, "anomaly") != NONE and chosen_part(Anomaly, config).on_chain:
        raise Unavailable(why, 'choose the anomaly on a link of its own, or the scenario "chain"')


def bounded(spec: InstanceSpec, testbed: Testbed, demand: Demand) -> InstanceSpec:
    """Return the specification of a neighbour with a limit on its number of processes, even if it is not isolated.

    The limit is the one of the neighbour's isolation, or else `MOST_PROCESSES`. It is at least the number of processes
    that the load needs, but never more than a quarter of the processes that the host can still start."""
    resources = spec.resources
    needed = _PER_WORKER * demand.n_workers + _OTHERS
    pids = min(max(resources.pids or MOST_PROCESSES, needed), _free_processes(testbed) // _HOST_PARTS)
    return replace(spec, resources=replace(resources, pids=pids))


def _free_processes(testbed: Testbed) -> int:
    """Return how many processes the host can still start, by the limits of its kernel and of the session's cgroups.

    Source: proc_sys_kernel(5), proc_loadavg(5), admin-guide/cgroup-v2 of the kernel."""
    group = testbed.cgroups.pids_directory(testbed.session.cgroup)
    groups = [parent for parent in (group, *group.parents) if parent.is_relative_to(testbed.cgroups.root)]
    kernel_files = [f"/proc/sys/kernel/{name}" for name in ("pid_max", "threads-max")]
    group_files = [(f"{parent}/pids.max", f"{parent}/pids.current") for parent in groups]
    texts = testbed.host.view.read(["/proc/loadavg", *kernel_files, *(file for pair in group_files for file in pair)])
    running = int(texts["/proc/loadavg"].split()[3].partition("/")[2])
    free = [int(texts[file]) - running for file in kernel_files]
    for max_file, current_file in group_files:
        if texts.get(max_file, "").strip().isdigit():
            free.append(int(texts[max_file]) - int(texts[current_file]))
    return max(0, min(free))
