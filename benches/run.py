"""Run every bench and write their tables to benches/README.md. Takes most of an hour; needs root and an idle host."""

from __future__ import annotations

import platform
from pathlib import Path

import analysis
import apparatus
import datapath
import fleet
import help as help_bench
import http_load
import idle
import instruments
import network
import parallel
import planning
import routers
import serve
import setup
from _harness import HEAD

_HEADER = """# How fast Lastro itself is

Written by `make bench` on {host}. Times of one machine mean little: read the ratios. Each ratio is the median over
interleaved pairs of runs, with a 95 % bootstrap interval; the raw side is what a person who knows the tools would type.

{head}
{ratios}

Set-up is faster than by hand on runc because a container's end is awaited, where `runc delete --force` looks only
every 100 ms. A start ends with the exit of the first command inside; a platform that this host lacks is left out.

The data path: two instances that Lastro has joined, and two joined by hand, measured in turn. Lastro is out of the way
while packets flow, so the interval should hold 1.

{head}
{datapath}

The apparatus: the same measurement in the same two instances, entered by the platform's own exec and entered from the
host by nsenter(1), past its client, daemon and shim, in turn. How a command enters must not be in its number, so the
interval should hold 1, and its median lie within 3 % for rates and 5 % for latencies and times.

<!-- apparatus -->
{apparatus}
<!-- end of apparatus -->

Workloads on `native` against the same tools run by hand in a chroot, in turn (`python benches/instruments.py --write`,
as root). By hand there is no control group, no meter and no check, so the interval should hold 1, or the difference be
under 1 %.

<!-- instruments -->
{instruments}
<!-- end -->

JMeter through a proxy on `native` against the same test plan started by hand, in turn; then the most that each load
generator was seen to do straight to the server, on the same CPUs as the server.

{http_load}

Sixteen routers by FRR on runc against the same by hand, twenty starts at once on both sides (Lastro's makes and watches
their links, too); then whole trials of large grids, which boot, converge, lose links, get them back, and leave nothing.

{routers}

| what | measured | target |
| --- | ---: | ---: |
{idle}
{memory}

Planning and journalling (each trial is two transactions with a sync to disk). Targets: linear; planning 100,000
trials under 3 s; memory under 300 MB.

{planning}

A fleet of 64 testbeds that answer immediately, a simulation that measures nothing: what its coordinator spends.
Targets: under 1 ms of CPU time a trial; linear; memory under 500 MB.

{fleet}

Reports. The ratio to R is of the median times of one analysis of variance with every interaction of four factors and
blocks, sequential sums of squares.

{reports}
"""


def main() -> None:
    host = f"Linux {platform.release()}, Python {platform.python_version()}"
    together, growth_mib = parallel.measure()
    ratios = [*help_bench.ratios(), *setup.ratios(), *network.ratios(), together]
    text = _HEADER.format(
        host=host,
        head="\n".join(HEAD),
        ratios="\n".join(ratio.row for ratio in ratios),
        datapath="\n".join(ratio.row for ratio in datapath.ratios()),
        instruments=instruments.results().table().rstrip(),
        apparatus=apparatus.table(list(apparatus.ratios())),
        http_load=http_load.table(),
        routers=routers.table(),
        idle="\n".join([*idle.rows(), *serve.rows()]),
        memory=parallel.memory_row(growth_mib),
        planning="\n".join(planning.table()),
        fleet="\n".join(fleet.table()),
        reports="\n".join(analysis.table()),
    )
    Path(__file__).with_name("README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
