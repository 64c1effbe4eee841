"""Each workload by Lastro on `native` against the same tool run by hand in a chroot, in the same session, in turn.

By hand there is no control group, no meter and no check, only the files and the CPUs that the instance had: what Lastro
adds to a measurement would show. The interval of the ratio should hold 1, or differ from it by less than 1 %.

    python benches/instruments.py [INSTRUMENT ...] [--json]    default: every workload that this host can run"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from _harness import Ratio, interleaved, show, words
from lastro import registry
from lastro.cli._host import testbed
from lastro.errors import LastroError, TrialError, Unavailable
from lastro.image.rootfs import Needs
from lastro.instruments.base import TIME_HOST, TIME_TOOL, Workload
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios._workload import resources, workload, workloads
from lastro.scenarios.compute import ComputeScenario
from lastro.study.levels import split_options
from lastro.testbed import Testbed

N_PAIRS = 10
# Long enough for a ratio, short enough for a bench; of others, their defaults.
SHORT = {
    "sysbench-cpu": "sysbench-cpu:time_s=3",
    "sysbench-memory": "sysbench-memory:block=1M,time_s=3",
    "stream": "stream:repeats=20",
    "pi": "pi:digits=2000000",
    "john": "john:time_s=3",
    "mbw": "mbw:runs=20",
    "gzip": "gzip:size=64M",
    "bonnie": "bonnie:files=0,size=256M,direct=yes",
    "fio": "fio:size=256M,time_s=3,direct=yes",
    "dbench": "dbench:time_s=5",
    "sysbench-oltp": "sysbench-oltp:rows=20000,time_s=3",
}


class ByHand(Instance):
    """A chroot into the image, with a layer to write into: `unshare` and `chroot`, as one would type it."""

    def __init__(self, testbed: Testbed, spec: InstanceSpec) -> None:
        super().__init__(testbed, spec, netns=testbed.dut, cgroup="")
        self.home = testbed.scratch_dir / spec.name
        for part in ("upper", "work", "root"):
            (self.home / part).mkdir(parents=True)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        root = self.home / "root"
        layers = f"lowerdir={self.testbed.image.tree},upperdir={self.home}/upper,workdir={self.home}/work"
        script = (
            f"mount -t overlay overlay -o {layers} {root}; mount -t proc proc {root}/proc; "
            f'mount --rbind /dev {root}/dev; exec taskset -c {self.spec.resources.cpuset} chroot {root} "$@"'
        )
        return ["unshare", "--mount", "sh", "-ec", script, "by-hand", *argv]


def ratios(names: Sequence[str] = (), n_pairs: int = N_PAIRS) -> list[Ratio]:
    found = []
    chosen = [config(name) for name in names or sorted(workloads())]
    with testbed("benches", wait=True, needs=lambda host: _needs(host, chosen)) as bed:
        scenario = ComputeScenario(bed)
        try:
            for each in chosen:
                try:
                    found.append(_ratio(scenario, each, n_pairs))
                except LastroError as error:
                    print(f"{each['instrument']}: {error}", file=sys.stderr)
        finally:
            scenario.close()
    return found


def config(name: str) -> dict[str, str | int | float | bool]:
    settings = {setting.name: setting.default for setting in ComputeScenario.settings}
    level = SHORT.get(name, name)
    return {**settings, "platform": "native", "isolation": "none", "instrument": level}


def _needs(host: object, configs: Sequence[dict[str, str | int | float | bool]]) -> Needs:
    return ComputeScenario.image_needs(host, configs)  # type: ignore[arg-type]


def _ratio(scenario: ComputeScenario, chosen: dict[str, str | int | float | bool], n_pairs: int) -> Ratio:
    if not (found := scenario.availability(chosen)):
        raise Unavailable(str(found.reason))
    kind: type[Workload] = registry.get("instrument", split_options(str(chosen["instrument"]))[0])
    metric = next(each for each in kind.metrics if each.name not in {TIME_TOOL.name, TIME_HOST.name})
    return interleaved(
        f"{metric.name} by `{chosen['instrument']}`",
        "holds 1, or within 1 %",
        lambda: _ours(scenario, chosen, metric.name),
        lambda: _raw(scenario.testbed, chosen, metric.name),
        n_pairs,
        unit=metric.unit,
    )


def _ours(scenario: ComputeScenario, chosen: dict[str, str | int | float | bool], metric: str) -> float:
    with scenario.attempt():
        outcome = scenario.run(chosen, {})
    if not outcome.valid:
        raise TrialError("; ".join(outcome.invalid_because))
    return outcome.measurements[metric]


def _raw(bed: Testbed, chosen: dict[str, str | int | float | bool], metric: str) -> float:
    by_hand = ByHand(bed, InstanceSpec(bed.session.unique("by-hand"), "instance", resources=resources(chosen)))
    tool = workload(chosen)
    try:
        with tool.prepared(by_hand):
            return tool.run(by_hand, float(chosen["limit_s"])).measurements[metric]
    finally:
        shutil.rmtree(by_hand.home)


if __name__ == "__main__":
    show(ratios(words()))
