"""Build the images that tests need, side by side, before workers start on machines that have no way out.

    python -m tests.support.images           for `make test`
    python -m tests.support.images --slow    and for the tests that are long by nature

What was built before is kept below Lastro's state, and takes no time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from lastro.host.base import Host
from lastro.host.ledger import session
from lastro.host.lock import silently
from lastro.image import guest, guest_host, rootfs
from lastro.scenarios.application import ApplicationScenario
from lastro.scenarios.compute import ComputeScenario
from lastro.scenarios.proxy import ProxyScenario
from lastro.scenarios.routing import RoutingScenario

from . import scenarios

IN_A_GUEST = ("native", "runc", "crun", "docker", "lxc", "nspawn", "podman", "kvm")  # platforms of a guest, in tests


def needs(host: Host) -> Iterator[rootfs.ImageAdditions]:
    """The usual image, that of the tests of scenarios, and those of campaigns by the command line."""
    yield rootfs.ImageAdditions()
    yield scenarios.image_needs(host)
    yield ProxyScenario.image_needs(host, [{"origin": "apache"}])
    yield RoutingScenario.image_needs(host, [])
    yield ApplicationScenario.image_needs(host, [])
    yield ComputeScenario.image_needs(host, [{"instrument": "sysbench-cpu"}, {"instrument": "pi"}])
    yield scenarios.frames_needs(host)
    yield scenarios.xdp_needs(host)
    if "--slow" in sys.argv:
        yield scenarios.dpdk_needs(host)


def main() -> int:
    if os.geteuid() != 0:
        print("without root, no test needs an image")
        return 0
    began_s = time.monotonic()
    with session("the images of the tests", wait=silently) as held, ThreadPoolExecutor(2) as pool:
        state, host = held.ledger.state, held.host
        recipes = {
            recipe.key: recipe for recipe in (rootfs.ImageRecipe.of_this_host(host, need) for need in needs(host))
        }
        usual, *others = recipes.values()
        builds = [pool.submit(rootfs.ensure, recipe, state / "rootfs", host) for recipe in (usual, *others)]
        builds.append(pool.submit(guest.ensure, builds[0].result(), state / "guest", host))
        asked = ([builds[0].result()], state, host, rootfs.RELEASE, guest.KERNEL, IN_A_GUEST)
        builds.append(pool.submit(guest_host.ensure, *asked))
        for build in builds:
            build.result()
    print(f"{len(recipes)} images are there, after {time.monotonic() - began_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
