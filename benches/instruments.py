"""Each instrument by Lastro on `native` against the same tool run by hand in a chroot, in the same session, in turn.

By hand there is no control group, no meter and no check, only the files and the CPUs that the instance had: what Lastro
adds to a measurement would show. What switches between processes all the time (GROUPED) is run by hand in a group with
the instance's limits, too: the kernel's price of that is no measurement's. The interval of the ratio should hold 1, or
differ from it by less than 1 %. Most tools are called and read by hand, too, by a command and a line of their own
(LITERAL, and _flows.py): of the others, a column or a unit that Lastro takes wrong is the same on both sides. Disks and
databases vary, so that theirs are more pairs.

    python benches/instruments.py [INSTRUMENT ...] [--json] [--write]

Default: all that this host can run, in 25 to 45 minutes, by the disk. --write puts the table into README.md. A word
such as 3 is the number of pairs: for a look at whether it runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import _flows
from _by_hand import by_hand
from _harness import HEAD, Ratio, interleaved, show, words
from lastro import registry
from lastro.app.hosts import testbed
from lastro.errors import LastroError, TrialError, Unavailable
from lastro.host.base import Host
from lastro.image.rootfs import ImageAdditions
from lastro.instruments.base import TIME_HOST, TIME_TOOL, Workload
from lastro.scenarios.compute import ComputeScenario, workloads
from lastro.scenarios.shared.resources import resources
from lastro.scenarios.uplink import UplinkScenario
from lastro.study.levels import split_options
from lastro.study.model import Level
from lastro.testbed import Testbed

N_PAIRS = 10
MORE_PAIRS = {"bonnie": 24, "fio": 30, "sysbench-oltp": 20, "iperf3-tcp": 20}
GROUPED = ("sysbench-oltp", "iperf3-tcp")
# Long enough for a ratio, short enough for a bench; of others, their defaults.
SHORT = {
    "sysbench-cpu": "sysbench-cpu:time_s=1",
    "sysbench-memory": "sysbench-memory:block=1M,time_s=1",
    "stream": "stream:repeats=10",
    "pi": "pi:digits=1000000",
    "john": "john:time_s=1",
    "mbw": "mbw:array=256,runs=20",
    "gzip": "gzip:size=32M",
    "bonnie": "bonnie:files=0,size=1G,seeks=100,direct=yes",
    "fio": "fio:size=256M,time_s=1,direct=yes",
    "dbench": "dbench:time_s=2",
    "sysbench-oltp": "sysbench-oltp:rows=10000,time_s=1",
    "y-cruncher": "y-cruncher:digits=5000000",
}
Value = Callable[[str], float]
_DBENCH = "Throughput ([0-9.]+) MB/sec"
_FIO = r"WRITE: .* io=([0-9.]+)MiB .* run=(\d+)-"
_GZIP = "gzip -6 -n -c /var/tmp/lastro-gzip > /var/tmp/lastro-gzip.gz"
_SOCKET = "/var/tmp/lastro-mariadb/mariadb.sock"
_DATABASE = f"--db-driver=mysql --mysql-socket={_SOCKET} --mysql-user=sbtest --mysql-db=sbtest"
_BONNIE = re.compile(
    r"^1\.98,(?:[^,]*,){10}(\d+),", re.MULTILINE
)  # its 12th column: the table for people rounds to 1.1g


def _number(before: str, text: str) -> float:
    """The first one after these words."""
    return float(re.findall(r"[0-9.]+", text.partition(before)[2])[0])


# A script in place of Lastro's own command, by level, and what its output says in the unit of the level's first metric.
LITERAL: dict[str, tuple[str, Value]] = {
    SHORT["sysbench-cpu"]: ("sysbench cpu --time=1 run", lambda text: _number("events per second:", text)),
    SHORT["sysbench-memory"]: (
        "sysbench memory --memory-block-size=1M --memory-total-size=100T --time=1 run",
        lambda text: _number("MiB transferred (", text),
    ),
    SHORT["sysbench-oltp"]: (
        f"sysbench oltp_read_only {_DATABASE} --table-size=10000 --time=1 run",
        lambda text: _number("(", text.partition("transactions:")[2]),
    ),
    SHORT["john"]: (
        "OMP_NUM_THREADS=1 john --test=1 --format=bcrypt",
        lambda text: float(re.findall(r"(\d+) c/s real", text)[0]),
    ),
    SHORT["mbw"]: ("mbw -n 20 -t 0 256", lambda text: _number("Copy:", text.partition("AVG")[2])),
    SHORT["gzip"]: (f"TIMEFORMAT=%R; time {_GZIP}", lambda text: 32 / float(text)),
    SHORT["dbench"]: ("dbench -D /var/tmp -t 2 6", lambda text: float(re.findall(_DBENCH, text)[-1])),
    SHORT["fio"]: (
        "fio --name=write --filename=/var/tmp/by-hand --size=256M --rw=write --bs=1M --direct=1 --end_fsync=1",
        lambda text: 1000 * float(re.findall(_FIO, text)[-1][0]) / float(re.findall(_FIO, text)[-1][1]),
    ),
    SHORT["bonnie"]: (
        "bonnie++ -d /var/tmp -u root -f -D -r 0 -n 0 -s 1024:8k:100:4",
        lambda text: int(_BONNIE.findall(text)[0]) / 1024,
    ),
}
_TRIES = 4  # of a trial that is found invalid, say since something else ran on the host
_NEAR = 0.01
_README = Path(__file__).with_name("README.md")
_PLACE = re.compile(r"(<!-- instruments -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(slots=True)
class Results:
    """What was measured; and of what was not, why: since this host has not what it needs, or since it failed here."""

    ratios: list[Ratio] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def take(self, name: str, measure: Callable[[], Ratio]) -> None:
        try:
            ratio = measure()
            self.ratios.append(ratio)
            print(_row(ratio), file=sys.stderr)  # the table comes at the end, and that is half an hour away
        except LastroError as error:
            why = f"`{name}`: {' '.join(error.message.split())}"
            (self.missing if isinstance(error, Unavailable) else self.failed).append(why)
            print(why, file=sys.stderr)

    def table(self) -> str:
        """Markdown: a row for each, and what could not be measured below."""
        lines = [*HEAD, *(_row(ratio) for ratio in self.ratios), ""]
        for title, whys in (("Not on this host", self.missing), ("Failed here", self.failed)):
            lines += [f"{title}: {'; '.join(whys)}.", ""] if whys else []
        return "\n".join(lines).rstrip() + "\n"


def results(names: Sequence[str] = (), n_pairs: int | None = None) -> Results:
    """`n_pairs`: of each, where it is not the usual number."""
    found = Results()
    chosen = list(names) or [*sorted(workloads()), *_flows.TOOLS]
    with (
        testbed("benches", wait=True, needs=lambda host: _needs(host, chosen)) as bed,
        closing(ComputeScenario(bed)) as compute,
        closing(UplinkScenario(bed)) as uplink,
    ):
        for name in chosen:
            pairs = n_pairs or MORE_PAIRS.get(name, N_PAIRS)
            for grouped in (False, True) if name in GROUPED else (False,):
                if name not in _flows.TOOLS:
                    found.take(SHORT.get(name, name), partial(_ratio, compute, config(name), pairs, grouped=grouped))
                    continue
                for rate in _flows.TOOLS[name].rates:
                    measure = partial(_flows.ratio, uplink, name, rate, pairs, _TRIES, grouped=grouped)
                    found.take(f"{name} at {rate}", measure)
    return found


def config(name: str) -> dict[str, Level]:
    settings = {setting.name: setting.default for setting in ComputeScenario.settings}
    level = SHORT.get(name, name)
    return {**settings, "platform": "native", "isolation": "none", "instrument": level}


def _needs(host: Host, names: Sequence[str]) -> ImageAdditions:
    flows = [_flows.config(name, _flows.BELOW) for name in names if name in _flows.TOOLS]
    computing = [config(name) for name in names if name not in _flows.TOOLS]
    return ComputeScenario.image_needs(host, computing).combined_with(UplinkScenario.image_needs(host, flows))


def _ratio(scenario: ComputeScenario, chosen: dict[str, Level], n_pairs: int, *, grouped: bool) -> Ratio:
    if not (found := scenario.availability(chosen)):
        raise Unavailable(str(found.reason))
    kind: type[Workload] = registry.get("instrument", split_options(str(chosen["instrument"]))[0])
    metric = next(each for each in kind.metrics if each.name not in {TIME_TOOL.name, TIME_HOST.name})
    how = (_flows.BY_HAND if chosen["instrument"] in LITERAL else "") + (_flows.GROUP if grouped else "")
    return interleaved(
        f"{metric.name} by `{chosen['instrument']}`{how}",
        "holds 1, or within 1 %",
        lambda: _ours(scenario, chosen, metric.name),
        lambda: _raw(scenario.testbed, chosen, metric.name, grouped=grouped),
        n_pairs,
        unit=metric.unit,
    )


def _ours(scenario: ComputeScenario, chosen: dict[str, Level], metric: str) -> float:
    for _ in range(_TRIES):
        with scenario.attempt():
            outcome = scenario.run(chosen, {})
        if outcome.valid and metric in outcome.measurements:
            return outcome.measurements[metric]
    raise TrialError("; ".join(outcome.invalid_because) or f"it measured no {metric}")


def _raw(bed: Testbed, chosen: dict[str, Level], metric: str, *, grouped: bool) -> float:
    tool, limit_s = ComputeScenario.tool(chosen), float(chosen["limit_s"])
    with by_hand(bed, resources(chosen, bed), grouped=grouped) as chroot, tool.prepared(chroot):
        if literal := LITERAL.get(str(chosen["instrument"])):
            script, value = literal
            done = chroot.run(["bash", "-ec", script], timeout_s=limit_s)
            return read(value, done.text + done.error_text)
        measured = tool.run(chroot, limit_s).measurements
        if metric not in measured:
            raise TrialError(f"by hand, it measured no {metric}")
        return measured[metric]


def read(value: Value, text: str) -> float:
    """Raises: TrialError when the line is not there."""
    try:
        return value(text)
    except (LookupError, ValueError):
        raise TrialError(f"by hand, it printed no number where one was expected: …{text[-80:]!r}") from None


def _row(ratio: Ratio) -> str:
    """With the digits that a target of 1 % needs, and whether it was met."""
    low, high = ratio.interval()
    near = abs(ratio.median - 1) < _NEAR
    met = "holds 1" if low <= 1 <= high else "within 1 %" if near else "**missed**"
    start, _, _ = ratio.row.rpartition(f"{ratio.median:.2f} [")
    return f"{start}{ratio.median:.3f} [{low:.3f}, {high:.3f}] | {met} | {len(ratio.pairs)} |"


def main() -> None:
    chosen = words()
    n_pairs = next((int(word) for word in chosen if word.isdecimal()), None)
    names = [word for word in chosen if not word.isdecimal()]
    found = results(names, n_pairs)
    if "--json" in sys.argv:
        show(found.ratios)
        return
    text = found.table()
    print(text)
    if "--write" in sys.argv:
        old = _README.read_text(encoding="utf-8")
        _README.write_text(_PLACE.sub(lambda found: f"{found[1]}{text}{found[2]}", old), encoding="utf-8")


if __name__ == "__main__":
    main()
