"""How fast a report is: the whole analysis and the page of 2,160 trials with four metrics, the table of 100,000 trials,

and one analysis of variance against R's `aov` on the same values, where R is there.

    python benches/analysis.py [analysis] [page] [table] [r]        all of them without a word"""

from __future__ import annotations

import json
import math
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from _harness import words
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.results.read import load_campaign
from lastro.results.samples import Metric
from lastro.results.store import Store
from lastro.study.design import treatments, trials
from lastro.study.model import Design, Factor, Level, Study

METRICS = (
    Metric("throughput", "Mbit/s", "higher", ""),
    Metric("jitter", "ms", "lower", ""),
    Metric("latency_mean", "ms", "lower", ""),
    Metric("latency_max", "ms", "lower", ""),
)
CHAIN: dict[str, tuple[Level, ...]] = {
    "attachment": ("veth-bridge", "veth-direct", "macvlan-bridge"),
    "isolation": ("none", "cgroups", "apparmor", "cgroups+apparmor"),
    "function": ("firewall", "dpi", "nat"),
    "anomaly": ("none", "cpu", "memory", "disk", "io"),
}
LARGE: dict[str, tuple[Level, ...]] = {"isolation": ("none", "cgroups"), "instances": tuple(range(1, 51))}


def campaign(directory: Path, factors: dict[str, tuple[Level, ...]], replicates: int) -> Path:
    """A campaign of every treatment in so many blocks, written at once: its journal is not what is measured here."""
    baseline = {"isolation": "none"}
    study = Study(
        "bench", "", "", "chain", tuple(Factor(name, levels) for name, levels in factors.items()), {}, METRICS,
        Design(replicates=replicates, seed=7, baseline=baseline),
    )  # fmt: skip
    planned = treatments(study)
    ordered = list(trials(study, len(planned)))
    with Store.create(directory, study, planned, ordered, {}) as store:
        notes = json.dumps({"usage": {"function": {"cpu_s": 3.5, "memory_bytes": 2**24}}, "host": {"steal_percent": 0}})
        db = store._db
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO attempt(id, trial, attempt, started_utc, duration_s, valid, reasons, notes, transcript)"
            " VALUES (?, ?, 1, ?, 18.5, 1, '[]', ?, x'')",
            ((t.number, t.number, _utc(t.number), notes) for t in ordered),
        )
        effect = {level: random.Random(str(level)).uniform(0.8, 1.2) for of in factors.values() for level in of}
        draw = random.Random(1)
        db.executemany(
            "INSERT INTO measurement VALUES (?, ?, ?)",
            (
                (
                    t.number,
                    m.name,
                    math.prod(effect[v] for v in planned[t.treatment].levels.values()) * draw.gauss(1, 0.05),
                )
                for t in ordered
                for m in METRICS
            ),
        )
        db.execute("UPDATE trial SET state = 'valid'")
        db.execute("COMMIT")
    return directory


def _utc(number: int) -> str:
    days, seconds = divmod(number * 20, 86400)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"2026-{1 + days // 28:02d}-{1 + days % 28:02d}T{clock}Z"


def report_of(directory: Path) -> CampaignResults:
    with Store.open(directory, readonly=True) as store:
        return build_report(load_campaign(store))


Seconds = tuple[float, float]  # on the clock, and of CPU


def timed(work: Callable[[], object], n: int = 5) -> list[Seconds]:
    """Both times of each of `n` runs, those of the processes that it starts included."""
    found = []
    for _ in range(n):
        started_s, cpu_s = time.monotonic(), _cpu_s()
        work()
        found.append((time.monotonic() - started_s, _cpu_s() - cpu_s))
    return found


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def row(what: str, seconds: Sequence[Seconds], target: str, remark: str = "") -> str:
    clock, cpu = zip(*seconds, strict=True)
    middle = statistics.median(clock)
    return (
        f"| {what} | {middle:.2f} s ({min(clock):.2f} – {max(clock):.2f}) | {statistics.median(cpu):.2f} s"
        f" | {target} | {remark} |"
    )


def command(*argv: str) -> Callable[[], object]:
    """Lastro as a user starts it, in a process of its own."""
    return lambda: subprocess.run([sys.executable, "-m", "lastro", *argv], check=True, capture_output=True)


def bench_analysis(folder: Path) -> str:
    from lastro.analysis import analyse

    report = report_of(campaign(folder / "chain", CHAIN, 12))
    return row("every analysis of 2,160 trials × 4 metrics", timed(lambda: analyse(report)), "< 5 s")


def bench_page(folder: Path) -> str:
    directory, page = campaign(folder / "page", CHAIN, 12), folder / "page.html"
    seconds = timed(command("report", str(directory), "-o", str(page)), 3)
    return row("`lastro report` of the same", seconds, "< 20 s, < 5 MB", f"{page.stat().st_size / 1e6:.2f} MB")


def bench_table(folder: Path) -> str:
    directory = campaign(folder / "large", LARGE, 1000)
    return row("`lastro results` of 100,000 trials × 4 metrics", timed(command("results", str(directory)), 3), "< 5 s")


_R = r"""
d <- read.csv(commandArgs(TRUE)[1], stringsAsFactors = TRUE)
d$block <- factor(d$block)
once <- function() summary(aov(y ~ block + F0 * F1 * F2 * F3, data = d))[[1]]
took <- replicate(5, system.time(once())["elapsed"])
found <- once()
cat(median(took), "\n")
for (i in seq_len(nrow(found))) cat(trimws(rownames(found)[i]), sprintf("%.15e", found[i, 2]), "\n")
"""


def bench_r(folder: Path) -> str:
    """Compare with R on the same values and model; the design is balanced, so all types of sums are equal."""
    if not (rscript := shutil.which("Rscript")):
        return "| an analysis of variance against R's `aov` | R is not installed here | | same digits | |"
    from lastro.analysis.metric_values import values_of
    from lastro.stats.anova import anova

    data = values_of(report_of(campaign(folder / "r", CHAIN, 12)).views[0])
    found = list(data.trials())
    levels = {name: [data.levels[index][name] for index, _, _ in found] for name in data.factors}
    blocks, values = [block for _, block, _ in found], [value for _, _, value in found]
    names = {f"F{at}": name for at, name in enumerate(levels)} | {"block": "block", "Residuals": "residual"}
    file, script = folder / "values.csv", folder / "bench.R"
    lines = [",".join(map(str, each)) for each in zip(values, blocks, *levels.values(), strict=True)]
    file.write_text("\n".join(["y,block,F0,F1,F2,F3", *lines, ""]))
    script.write_text(_R)
    done = subprocess.run([rscript, str(script), str(file)], check=True, capture_output=True, text=True)
    took_s, *table = done.stdout.splitlines()
    sums = [line.rsplit(maxsplit=1) for line in table]
    theirs = {frozenset(names[part] for part in name.split(":")): float(ss) for name, ss in sums}
    seconds = timed(lambda: anova(values, levels, block=blocks))
    ours = anova(values, levels, block=blocks)
    digits = [
        -math.log10(max(abs(effect.ss / theirs[frozenset(effect.factors)] - 1), 1e-15))
        for effect in (*ours.effects, ours.residual)
    ]
    ratio = statistics.median(clock for clock, _ in seconds) / float(took_s)
    remark = f"R {float(took_s):.2f} s, ratio {ratio:.2f}; {len(digits)} sums agree to {min(digits):.1f} digits or more"
    return row("an analysis of variance against R's `aov`, 2,160 values", seconds, "same digits", remark)


BENCHES = {"analysis": bench_analysis, "page": bench_page, "table": bench_table, "r": bench_r}

HEAD = ["| what | on the clock: median (least – most) | CPU | target | |", "| --- | ---: | ---: | ---: | --- |"]


def table(names: Sequence[str] = ()) -> Iterator[str]:
    """The rows of these benches, by default of all, each as soon as it is known."""
    yield from HEAD
    for name in names or BENCHES:
        with tempfile.TemporaryDirectory() as folder:
            yield BENCHES[name](Path(folder))


if __name__ == "__main__":
    for line in table(words()):
        print(line, flush=True)
