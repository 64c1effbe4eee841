"""The program of a seat: `python -m lastro.app.seat` holds one testbed for a campaign of a fleet (`campaign.seat`)."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from lastro.app.hosts import scenario_on_host
from lastro.app.provenance import provenance
from lastro.campaign.executor import Executor
from lastro.campaign.seat import Opened, Parent
from lastro.interrupts import raise_interrupts


def main() -> int:
    """Hold the testbed until the parent ends, or a call fails. An interrupted call cleans up first."""
    raise_interrupts()
    parent = Parent()
    sys.stderr = cast(TextIO, parent)
    order = parent.order
    try:
        with scenario_on_host(
            order.study, order.purpose, wait=order.wait, file=order.file, beside=order.beside
        ) as scenario:
            parent.serve(Executor(scenario, parent), Opened(provenance(order.study, scenario, order.file)))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        parent.failed(error)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr = sys.__stderr__
    sys.exit(code)
