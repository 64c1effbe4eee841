"""The figures and the growth that routing adds to a report: phases, packets and CPU over time, sizes of topologies."""

from __future__ import annotations

from lastro.errors import InputError
from lastro.results.additions import AlignedSeries, Milestones, SizedFactor
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
        "phases",
        N_("From the first start to the first forwarded packet"),
        _FROM_START,
        (
            "created", "first_ospf_packet", "boot", "initial_adjacency", "initial_last_update", "initial_routes",
            "initial_forwarding",
        ),
    ),
    AlignedSeries(
        "traffic-cpu",
        N_("CPU of the host from the first start on"),
        N_("without Lastro itself: mean of the valid trials; band: minimum and maximum"),
        _FROM_START,
        N_("busy, % of all CPUs"),
        {N_("host CPU"): (HOST_CPU,)},
        "begin",
        "converged",
    ),
    AlignedSeries(
        "traffic-begin",
        N_("OSPF packets from the first start on"),
        _ON_LINKS,
        _FROM_START,
        N_("packets per second"),
        _PACKETS,
        "begin",
        "converged",
    ),
    AlignedSeries(
        "traffic-cut",
        N_("OSPF packets after a cut"),
        _ON_LINKS,
        N_("seconds since the links were cut"),
        N_("packets per second"),
        _PACKETS,
        "cut",
        "recovered",
        before_s=5,
        back="back",
        events=N_("line: the cut; dashed: the links are back (mean)"),
    ),
)  # fmt: skip


def size_of(topology: RouterTopology) -> tuple[int, int]:
    """Return the numbers of routers and links."""
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
        "growth is linear: a line fits any two points. Three sizes or more: the least-squares line through the valid "
        "trials, its parameters ± half their intervals. Yes: the slope is above 0, and the interval of a bend (the "
        "quadratic coefficient) contains 0. Each interval is for one metric alone, uncorrected."
    ),
    _size_of_grid,
)
