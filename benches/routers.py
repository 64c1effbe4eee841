"""Many virtual routers: sixteen on runc against the same by hand, and what grids of 64 and 100 take for each router.

By hand it is what a person who knows the tools would type: namespace, overlay, `runc run`, and FRR's daemons by the
same lines as in Lastro's routers, twenty at once on both sides. Lastro's side makes the links and watches them besides.
The grids are whole trials: they boot, converge, lose links, get them back, and leave nothing.

    python benches/routers.py [--json] [--short]    default: the ratio in ten pairs, then the grids"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Any

from _harness import HEAD, Ratio, interleaved, show
from _raw import Recipe, oci
from lastro import registry
from lastro.app.hosts import testbed
from lastro.errors import TrialError
from lastro.functions.ospf import CAPABILITIES, OspfSettings, host_name
from lastro.functions.ospf_router import ROUTERS
from lastro.scenarios.routing import RoutingScenario
from lastro.scenarios.routing.boot import booted
from lastro.scenarios.routing.host_timeline import observers
from lastro.study.topology import RouterTopology, grid
from lastro.testbed import Testbed
from lastro.testing.subject import trial_leftovers

N_PAIRS = 10
TARGET = "≤ 1.3"
_PROTOCOL = OspfSettings(hello_s=1, dead_s=4, network_type="broadcast", timers="standard")
GRIDS = (("8x8", "native"), ("8x8", "runc"), ("10x10", "native"), ("10x10", "runc"))
GRID_HEAD = [
    "| grid | routers | boot | for each router | memory of a router | set size of a router | routes right | removed |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
]


def config(**more: Any) -> dict[str, Any]:
    settings = {setting.name: setting.default for setting in RoutingScenario.settings}
    anyhow = {"max_foreign_cpus": 4096.0, "max_steal_percent": 100.0}
    return {**settings, **anyhow, "attachment": "veth-bridge", "isolation": "none", **more}


def ratios(n_pairs: int = N_PAIRS, topology: RouterTopology | None = None) -> list[Ratio]:
    chosen = topology or grid(4, 4)
    n = len(chosen.names)
    needs = RoutingScenario.image_needs
    with testbed("benches", wait=True, needs=lambda host: needs(host, [])) as bed, ExitStack() as stack:
        ready, links = registry.get("platform", "runc")(), registry.get("attachment", "veth-bridge")()
        links.separated = True
        names = [f"raw-{number}" for number in range(n)]
        for name in names:
            stack.enter_context(bed.session.owned("netns", bed.session.netns_name(name)))
        recipes = [oci(bed, ready, name, CAPABILITIES) for name in names]

        def ours() -> float:
            with (
                observers(bed) as watch,
                booted(bed, ready, links, chosen, ROUTERS["frr"], _PROTOCOL, watch) as network,
            ):
                return 1000 * (network.marks["booted"] - network.marks["begin"])

        what = f"{n} runc routers, from the first start until all daemons answer"
        return [interleaved(what, TARGET, ours, lambda: _by_hand(recipes), n_pairs)]


def _by_hand(recipes: list[Recipe]) -> float:
    def booting(number: int, recipe: Recipe) -> str:
        router = ROUTERS["frr"]
        script = router.start_script(router.configuration(host_name(f"r{number}", number), number, [], _PROTOCOL))
        inside = f"{recipe.inside} sh -e <<'BOOT'\n{script}\nBOOT"
        return f"(\n{recipe.make_netns}\n{recipe.start}\n{inside}\n) &"

    began_s = time.monotonic()
    recipes[0].run("\n".join(booting(number, recipe) for number, recipe in enumerate(recipes)) + "\nwait\n")
    took_ms = 1000 * (time.monotonic() - began_s)
    for recipe in recipes:
        recipe.run(recipe.stop)
    return took_ms


def grid_rows(grids: tuple[tuple[str, str], ...] = GRIDS) -> list[str]:
    """A row for each grid. Raises: TrialError when a trial of one is not valid, or leaves anything."""
    needs = RoutingScenario.image_needs
    with testbed("benches", wait=True, needs=lambda host: needs(host, [])) as bed:
        scenario = RoutingScenario(bed)
        try:
            return [_row(scenario, bed, topology, platform) for topology, platform in grids]
        finally:
            scenario.close()


def _row(scenario: RoutingScenario, bed: Testbed, topology: str, platform: str) -> str:
    scenario.pool.get(platform)
    scenario.attachments.get("veth-bridge")
    before = trial_leftovers(bed)
    with scenario.attempt(), bed.host.recorded():
        outcome = scenario.run(config(topology=topology, platform=platform, converge_s=300.0), {})
        stays = {name: found for name, found in trial_leftovers(bed).items() if found != before[name]}
    if not outcome.valid:
        raise TrialError(f"{topology} on {platform}: {'; '.join(outcome.invalid_because)}")
    if stays:
        raise TrialError(f"{topology} on {platform}: left behind: {stays}")
    n, found = outcome.notes["network"]["routers"], outcome.measurements
    return (
        f"| {topology} on {platform} | {n} | {found['boot']:.1f} s | {1000 * found['boot'] / n:.0f} ms |"
        f" {found['memory_router']:.1f} MiB | {found['pss_router']:.1f} MiB | {found['initial_routes']:.1f} s |"
        f" {found['teardown']:.1f} s |"
    )


def table() -> str:
    """Markdown: the ratio, and the grids below it."""
    return "\n".join([*HEAD, *(ratio.row for ratio in ratios()), "", *GRID_HEAD, *grid_rows()])


if __name__ == "__main__":
    if "--short" in sys.argv:  # to see that it works: no figure of it means anything
        show(ratios(1, grid(2, 2)))
        print("\n".join([*GRID_HEAD, *grid_rows((("2x2", "runc"),))]))
    elif "--json" in sys.argv:
        show(ratios())
    else:
        print(table())
