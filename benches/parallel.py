"""Twenty runc instances started together, against twenty `runc run` together; and what each adds to Lastro's memory.

The time is that of the starts alone, until all run. Targets: under 3 s; under 2 MiB of Lastro's for each instance."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _harness import HEAD, Ratio, interleaved
from _raw import RECIPES, Recipe
from lastro import registry
from lastro.app.hosts import testbed
from lastro.platforms.base import InstanceSpec, start_all
from lastro.testbed import Testbed

N, N_PAIRS = 20, 10
TARGET_MS, TARGET_MIB = 3000, 2.0


def measure(n_pairs: int = N_PAIRS) -> tuple[Ratio, float]:
    """The ratio, and MiB of Lastro's own for each instance, as the very first ones of a process show it."""
    with testbed("benches", wait=True) as bed, ExitStack() as stack:
        ready = registry.get("platform", "runc")()
        names = [f"raw-{number}" for number in range(N)]
        for name in names:
            stack.enter_context(bed.session.owned("netns", bed.session.netns_name(name)))
        recipes = [RECIPES["runc"](bed, ready, name) for name in names]
        growth_mib = _growth_mib(bed, ready)
        what = f"{N} runc instances together, until all run"
        target = f"< {TARGET_MS / 1000:g} s"
        return interleaved(what, target, lambda: ours(bed, ready), lambda: by_hand(recipes), n_pairs), growth_mib


def _growth_mib(bed: Testbed, ready: Any) -> float:
    before_mib = _own_mib()
    with ExitStack() as stack:
        start_all(stack, ready, bed, _specs(bed))
        return (_own_mib() - before_mib) / N


def _own_mib() -> float:
    """Memory of this process that is resident. Source: proc(5), statm counts pages."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def _specs(bed: Testbed) -> list[InstanceSpec]:
    return [InstanceSpec(bed.session.unique("together"), "raw") for _ in range(N)]


def ours(bed: Testbed, ready: Any) -> float:
    with ExitStack() as stack, bed.host.recorded():
        began_s = time.monotonic()
        start_all(stack, ready, bed, _specs(bed))
        return 1000 * (time.monotonic() - began_s)


def by_hand(recipes: list[Recipe]) -> float:
    together = "\n".join(f"(\n{recipe.make_netns}\n{recipe.start}\n) &" for recipe in recipes) + "\nwait\n"
    began_s = time.monotonic()
    recipes[0].run(together)
    took_ms = 1000 * (time.monotonic() - began_s)
    for recipe in recipes:
        recipe.run(f"{recipe.inside} true\n{recipe.stop}")
    return took_ms


def memory_row(growth_mib: float) -> str:
    return f"| Lastro's own memory for each of {N} instances | {growth_mib:.2f} MiB | < {TARGET_MIB:g} MiB |"


if __name__ == "__main__":
    ratio, growth = measure()
    if "--json" in sys.argv:
        print(json.dumps({**ratio.plain(), "own_mib_per_instance": growth}, indent=1))
    else:
        print("\n".join([*HEAD, ratio.row, "", memory_row(growth)]))
