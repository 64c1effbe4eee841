"""The metrics of routing, and the figures and the table of growth that it adds to a report."""

from __future__ import annotations

from lastro.errors import InputError
from lastro.results.additions import AlignedSeries, Milestones, SizedFactor
from lastro.results.samples import Metric
from lastro.scenarios.routing.ospf_capture import HELLO, TYPES, UPDATE
from lastro.stats.notes import N_
from lastro.study.topology import RouterTopology, grid, grid_size

HOST_CPU = "host CPU"  # a series
_FROM_START = N_("seconds since the first start")
_ON_LINKS = N_("on all links: mean of the valid trials; band: minimum and maximum")


def packets_series(kind: str) -> str:
    """Return the name of the series that counts packets of a kind in each second."""
    return f"{kind} packets"


_PACKETS = {
    N_("hello"): (packets_series(TYPES[HELLO]),),
    N_("link-state update"): (packets_series(TYPES[UPDATE]),),
    N_("other OSPF packets"): tuple(
        packets_series(name) for kind, name in TYPES.items() if kind not in (HELLO, UPDATE)
    ),
}

FIGURES = (
    Milestones(
        "phases", N_("From the first start to the first forwarded packet"), _FROM_START,
        (
            "created", "first_ospf_packet", "boot", "initial_adjacency", "initial_last_update", "initial_routes",
            "initial_forwarding",
        ),
    ),
    AlignedSeries(
        "traffic-cpu", N_("CPU of the host from the first start on"),
        N_("without Lastro itself: mean of the valid trials; band: minimum and maximum"),
        _FROM_START, N_("busy, % of all CPUs"), {N_("host CPU"): (HOST_CPU,)}, "begin", "converged",
    ),
    AlignedSeries(
        "traffic-begin", N_("OSPF packets from the first start on"), _ON_LINKS,
        _FROM_START, N_("packets per second"), _PACKETS, "begin", "converged",
    ),
    AlignedSeries(
        "traffic-cut", N_("OSPF packets after a cut"), _ON_LINKS,
        N_("seconds since the links were cut"), N_("packets per second"), _PACKETS, "cut", "recovered",
        before_s=5, back="back", events=N_("line: the cut; dashed: the links are back (mean)"),
    ),
)  # fmt: skip


def size_of(topology: RouterTopology) -> tuple[int, int]:
    """Return (number of routers, number of links) of a topology."""
    return len(topology.names), len(topology.links)


def _size_of_grid(level: str) -> tuple[int, ...] | None:
    try:
        return size_of(grid(*shape)) if (shape := grid_size(level)) else None
    except InputError:
        return None


TOPOLOGIES = SizedFactor(
    "topology",
    ("routers", "links"),
    (N_("with the routers"), N_("with the links")),
    N_("{factor} (routers, links)"),
    N_(
        "Does the metric grow with the routers, with the links? Two sizes: the ratio of the larger to the smaller, "
        "with its interval, against the ratio of their routers and links. Yes: the interval contains that ratio, but "
        "neither 1 (no growth) nor its square. No: it does not contain that ratio. Two sizes cannot show whether "
        "growth is linear: a line fits any two points. Three sizes or more: the least-squares line through the "
        "means, its parameters ± half their intervals. Yes: the slope is above 0, and the interval of a bend (the "
        "quadratic coefficient) contains 0. Each interval is for one metric alone, uncorrected."
    ),
    _size_of_grid,
)


def _memory(phase: str, summary: str) -> Metric:
    return Metric(f"memory_{phase}", "MiB", "lower", summary, signed=True)


METRICS = (
    Metric("created", "s", "lower", "from the first start until all instances exist"),
    Metric("boot", "s", "lower", "from the first start until all daemons answer"),
    Metric("first_ospf_packet", "s", "lower", "from the first start until the first OSPF packet on a link"),
    Metric("initial_adjacency", "s", "lower", "from the first start until every adjacency is full"),
    Metric("initial_last_update", "s", "lower", "from the first start until the last link-state update on a link"),
    Metric("initial_routes", "s", "lower", "from the first start until the last route of any router is final"),
    Metric("initial_forwarding", "s", "lower", "from the first start until a ping between far corners is answered"),
    Metric("failure_last_update", "s", "lower", "from the cut of the links until the last link-state update"),
    Metric("failure_routes", "s", "lower", "from the cut of the links until the last change of a route"),
    Metric("failure_outage", "ms", "lower", "time in which a steady flow across the failure was interrupted"),
    Metric("failure_lost", "1", "lower", "lost packets of that flow"),
    Metric("recovery_adjacency", "s", "lower", "from the links' return until every adjacency is full again"),
    Metric("recovery_last_update", "s", "lower", "from the links' return until the last link-state update"),
    Metric("recovery_routes", "s", "lower", "from the links' return until the last change of a route"),
    Metric("recovery_lost", "1", "lower", "packets of that flow lost when the links returned"),
    Metric("cpu_boot", "%", "lower", "busy CPU time of the host from the first start until all daemons answer"),
    Metric("cpu_regular", "%", "lower", "busy CPU time of the host in regular operation"),
    Metric("cpu_failure", "%", "lower", "the same, from the cut until quiet for `quiet_s`, with the steady flow"),
    Metric("cpu_recovery", "%", "lower", "the same, from the links' return until quiet, with the steady flow"),
    _memory("boot", "decrease of the host's available memory, mean of the boot"),
    _memory("booted", "the same, when all daemons answer: at the end of the boot"),
    _memory("regular", "the same, mean of regular operation"),
    _memory("failure", "the same, mean from the cut until all is quiet for `quiet_s`"),
    _memory("recovery", "the same, mean from the links' return until all is quiet"),
    Metric("memory_growth", "%", "lower", "growth of `memory_regular` over `memory_booted`", signed=True),
    Metric("memory_growth_failure", "%", "lower", "growth of `memory_failure` over `memory_regular`", signed=True),
    Metric(
        "memory_growth_after", "%", "lower",
        "growth of memory over `memory_regular` once the links are back and all has been quiet for `quiet_s`",
        signed=True,
    ),
    Metric("memory_spread", "%", "lower", "by how much the largest memory exceeds the least, after the boot"),
    Metric(
        "memory_drift", "MiB", "neither",
        "host's memory in use after the network is removed, less that before it was made", signed=True,
    ),
    Metric("cpu_fallen", "s", "lower", "from the first start until the host's CPU is near `cpu_regular`"),
    Metric("memory_router", "MiB", "lower", "memory charged to the cgroup of each router in regular operation"),
    Metric("pss_router", "MiB", "lower", "proportional set size of each router's processes"),
    Metric("cpu_router", "ms/s", "lower", "CPU time of each router per second of regular operation"),
    Metric("ospf_regular", "1/s", "lower", "OSPF packets on all links in regular operation"),
    Metric("initial_updates", "1", "lower", "link-state updates on all links until the initial convergence"),
    Metric("failure_updates", "1", "lower", "link-state updates on all links after the cut"),
    Metric("recovery_updates", "1", "lower", "link-state updates on all links after the links' return"),
    Metric("links_made", "ms", "lower", "time to make all links and attach them to their routers"),
    Metric("teardown", "s", "lower", "time to remove the network completely"),
)  # fmt: skip
