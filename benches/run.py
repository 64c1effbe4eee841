"""Run every bench and write their tables to benches/README.md. About three minutes; needs root and an idle host."""

from __future__ import annotations

import platform
from pathlib import Path

import help as help_bench
import idle
import planning
import setup

_HEADER = """# How fast Lastro itself is

Written by `make bench` on {host}. Times of one machine mean little: read the ratios. Each ratio is the median over
interleaved pairs of runs, with a 95 % bootstrap interval; the raw side is what a person who knows the tools would type.

| what | Lastro | raw tools | ratio | target | pairs |
| --- | ---: | ---: | ---: | ---: | ---: |
{ratios}

Set-up is faster than by hand on runc because a container's end is awaited, where `runc delete --force` looks only
every 100 ms.

| what | measured | target |
| --- | ---: | ---: |
{idle}

Planning and journalling (each trial is two transactions with a sync to disk). Targets: linear; planning 100,000
trials under 3 s; memory under 300 MB.

{planning}
"""


def main() -> None:
    host = f"Linux {platform.release()}, Python {platform.python_version()}"
    ratios = help_bench.rows() + setup.rows()
    text = _HEADER.format(
        host=host, ratios="\n".join(ratios), idle="\n".join(idle.rows()), planning="\n".join(planning.table())
    )
    Path(__file__).with_name("README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
