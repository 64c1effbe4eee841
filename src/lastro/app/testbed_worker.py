"""The program of a testbed worker: it holds one testbed for a campaign on a fleet.

`campaign.testbed_worker` starts it as `python -m lastro.app.testbed_worker`."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from lastro import __version__
from lastro.app.hosts import scenario_on_host
from lastro.app.provenance import provenance
from lastro.campaign.executor import Executor
from lastro.campaign.testbed_worker import OpenedTestbed, WorkerParent
from lastro.errors import HostUnfit
from lastro.interrupts import raise_interrupts


def main() -> int:
    """Hold the testbed until the parent ends or a call fails. An interrupted call cleans up first."""
    raise_interrupts()
    try:
        parent = WorkerParent()
        sys.stderr, order = cast(TextIO, parent), parent.order
        how = {"wait": order.wait, "beside": order.beside}
        try:
            if order.version != __version__:
                message = f"Lastro is {__version__} here and {order.version} at the coordinator"
                raise HostUnfit(message, "install one version")
            with scenario_on_host(order.study, order.purpose, file=order.file, **how) as scenario:
                parent.serve(Executor(scenario, parent), OpenedTestbed(provenance(order.study, scenario, order.file)))
        except Exception as error:
            parent.failed(error)
            return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr = sys.__stderr__
    sys.exit(code)
