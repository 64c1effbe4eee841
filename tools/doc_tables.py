"""Write the tables of the documentation that are made from the code: `python tools/doc_tables.py`."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from docs_hooks import ROOT, bounds, metrics_table, settings_table, table, toml, unit
from lastro import registry, testing, validity
from lastro.anomalies import _held_resources as _held
from lastro.anomalies import base, conntrack, cpu, disk, fork, io, network
from lastro.instruments import iperf3_udp
from lastro.instruments.http_load import HttpLoad
from lastro.results.samples import MAX_ATTEMPTS, Metric
from lastro.scenarios import application, chain, compute, exposure, lifecycle, proxy, routing, uplink
from lastro.scenarios.base import schemas
from lastro.scenarios.chain.measuring import SIDE_BY_SIDE
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.measuring import SIDE_BY_SIDE as LOAD_SIDE_BY_SIDE
from lastro.scenarios.shared import calibration, impaired_link
from lastro.study.json_schema import json_schema

GENERATED = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def own_parts(kind: str) -> list[registry.PartInfo]:
    return [info for info in registry.parts(kind).values() if info.origin.startswith("lastro.")]


def workloads() -> list[registry.PartInfo]:
    return [info for info in own_parts("instrument") if info.name in compute.workloads()]


def workloads_table() -> str:
    rows: list[tuple[object, ...]] = []
    for info in workloads():
        assert info.cls is not None
        rows.append((f"`{info.name}`", "", "", "", info.summary))
        for s in info.cls.options:
            work = " (by profile)" if s.by_profile else ""
            rows.append(("", f"`{s.name}`{work}", f"`{toml(s.default)}`", bounds(s) or unit(s), s.summary))
    return table(("instrument", "option", "default", "bounds", "meaning"), rows)


def http_metrics_table() -> str:
    """Each once: closed loops share theirs."""
    found: dict[Metric, list[str]] = {}
    for info in own_parts("instrument"):
        if info.cls is not None and issubclass(info.cls, HttpLoad):
            for metric in info.cls.metrics:
                found.setdefault(metric, []).append(f"`{info.name}`")
    rows = [(", ".join(by), f"`{m.name}`", m.unit, m.better, m.summary) for m, by in found.items()]
    return table(("instrument", "metric", "unit", "better", "meaning"), rows)


def workload_metrics_table() -> str:
    rows = [(f"`{i.name}`", f"`{m.name}`", m.unit, m.better, m.summary) for i in workloads() for m in i.cls.metrics]  # type: ignore[union-attr]
    return table(("instrument", "metric", "unit", "better", "meaning"), rows)


def parts_table() -> str:
    kinds = chain.ChainScenario.parts
    return table(("kind", "level", "what it is"), [(k, f"`{i.name}`", i.summary) for k in kinds for i in own_parts(k)])


def keys_table() -> str:
    tables = json_schema(schemas())["$defs"]["chain"]["$defs"]
    scenarios = [info.name for info in own_parts("scenario")]
    names = {
        "StudyTable": "study",
        "DesignTable": "design",
        "ExcludeTable": "exclude",
        "FunctionTable": "functions.NAME",
    }
    rows = []
    for model, name in names.items():
        required = tables[model].get("required", [])
        for key, schema in tables[model]["properties"].items():
            if key == "scenario":
                schema = {
                    **schema,
                    "type": "string",
                    "description": f"The procedure of a trial: {', '.join(f'`{name}`' for name in scenarios)}.",
                }
            default = "required" if key in required else f"`{toml(schema['default'])}`" if schema.get("default") else ""
            low, high = schema.get("minimum"), schema.get("maximum")
            limits = f"{low:,g} to {high:,g}" if low is not None and key != "seed" else ""
            limits = " or ".join(f"`{toml(word)}`" for word in schema["enum"]) if "enum" in schema else limits
            limits = f"only `{toml(schema['const'])}`" if "const" in schema and key != "scenario" else limits
            rows.append((f"`{name}.{key}`", kind_word(schema), default, limits, schema.get("description", "")))
    return table(("key", "type", "default", "bounds", "meaning"), rows)


def kind_word(schema: dict[str, Any]) -> str:
    words = {"object": "table", "array": "list", "integer": "whole number"}
    found = schema.get("type") or ("table" if "properties" in schema else "string")
    return words.get(found, found)


def limits_table() -> str:
    settings = {setting.name: setting for setting in chain.ChainScenario.settings}
    tolerance, slack = f"{validity._TOLERANCE:.0%}".replace("%", " %"), validity._SLACK_BYTES // 1024
    less, over = f"less than {base.LEAST_SHARE:g} of", f"more than {base.OVER_LIMIT:g} of its limit"
    rows: list[tuple[object, ...]] = [
        ("traffic", "none reached the sink, by TCP, UDP or ping"),
        ("path", f"a hop carried less than arrived at the sink, by more than {tolerance}: another path"),
        ("path", f"a hop received more than was sent to it, by more than {tolerance} and {slack} KiB: foreign traffic"),
        (
            "path",
            "a counter of the links that every flow must increase did not change",
        ),
        ("path", f"the function's own counter saw less than arrived, by more than {tolerance} (in the kernel)"),
        ("path", "a counter of the function that every new flow must increase did not change"),
        ("function of the study", "its command ended before the trial did"),
        (
            "frames",
            "the mean frame that the function received exceeds the MTU and its header, although `offloads` are off",
        ),
        (
            "link with `link.delay_ms`, `link.loss` or `link.rate`",
            "its queueing discipline is not as asked at the end, or passed no packet; a round trip was shorter than"
            " twice the delay, or the delay acted twice in a direction; a flow was faster than the rate; the number of"
            f" lost packets is more than {impaired_link._SIGMAS} standard deviations off `link.loss`",
        ),
        ("generator", f"it offered less than {iperf3_udp._LEAST_OFFERED:.0%} of the UDP rate".replace("%", " %")),
        ("generator", "the duration of iperf3 was wrong by more than 20 %, and by more than 0.5 s"),
        ("dose", "the neighbour's load ended before the measurement did"),
        ("dose of `cpu`", f"less than {cpu._LEAST_SHARE:g} of the CPU time that was available to it"),
        (
            "dose of `cpu:dose=50`, `membw:dose=50`, `diskbw`, `frames`",
            f"over {100 * base.TOLERANCE:g} % off what was asked, or a limit allows",
        ),
        ("dose of `memory`", f"{less} the memory that it wanted, or of its limit"),
        ("dose of `disk`", f"less than {disk._LEAST_BPS // 2**20} MiB written in a second"),
        ("dose of `io`", f"less than {io._LEAST_CPUS:g} CPUs used: almost no calls of sync()"),
        (
            "dose of `fork`",
            f"{less} {fork.N_PROCESSES:,} processes held, or of its limit, at the beginning and "
            f"at the end; or fewer than {fork._LEAST_PER_S} created in a second on the whole host",
        ),
        (
            "dose of `network`",
            f"fewer than {network.LEAST_PER_S:,} frames sent in a second; under a limit, less than"
            f" {base.LEAST_SHARE:g} or more than {base.OVER_LIMIT:g} of its rate",
        ),
        *(
            (
                f"dose of `{name}`",
                f"{less} {_held.N_OBJECTS:,} {name} held, or of its limit; or {over}",
            )
            for name in ("files", "sockets")
        ),
        (
            "dose of `conntrack`",
            f"{less} {conntrack.N_CONNECTIONS:,} connections held, or of its limit; or {over}",
        ),
        ("host", f"steal above `max_steal_percent`, by default {settings['max_steal_percent'].default:g} %"),
        ("host", f"foreign load above `max_foreign_cpus`, by default {settings['max_foreign_cpus'].default:g} CPUs"),
        ("clock", f"that of a host was set by more than {validity._CLOCK_STEP_S:g} s during the trial"),
        ("clock", "that of a remote host, or of a guest as testbed, drifted by more than `max_drift_percent`"),
        ("isolation", "a requested isolation is not in force on an instance"),
        (
            "apparatus",
            f"Lastro, clients and daemons woke up more than {validity._MOST_WAKE_UPS} times and"
            f" {validity._MOST_WAKE_UPS_PER_S} times a second while an instrument measured, beyond what is usual on the"
            " platform",
        ),
        ("tools", "a command failed, did not end in time, or printed anything but a measurement"),
        (
            "calibration",
            f"none of the {MAX_ATTEMPTS} runs that measure the profile for `cgroups` was valid, and neither was"
            " the extra run for this trial",
        ),
    ]
    near = f"(mark only: throughput of {calibration._AT_CEILING:.0%} of plain forwarding or more)".replace("%", " %")
    return table(("witness", "the trial is invalid when"), [*rows, ("ceiling", near)])


def contracts_table() -> str:
    """A row for each kind of part: the class, the attribute that names a part, and what the class says it requires."""
    rows = []
    for kind in registry.KINDS:
        contract = getattr(testing, f"{kind.capitalize()}Contract")
        summary = str(contract.__doc__).splitlines()[0].rstrip(".").partition(": ")[2]
        rows.append((kind, f"`{contract.__name__}`", f"`{kind}`", summary))
    return table(("kind", "contract", "named by", "what it requires"), rows)


TABLES = {
    "settings": partial(settings_table, chain.ChainScenario.settings),
    "metrics": partial(metrics_table, chain.ChainScenario.metrics),
    "chains_metrics": partial(metrics_table, SIDE_BY_SIDE),
    "lifecycle_settings": partial(settings_table, lifecycle.LifecycleScenario.settings),
    "compute_settings": partial(settings_table, compute.ComputeScenario.settings),
    "compute_metrics": partial(metrics_table, compute.ComputeScenario.metrics),
    "workloads": workloads_table,
    "workload_metrics": workload_metrics_table,
    "application_settings": partial(settings_table, application.ApplicationScenario.settings),
    "application_metrics": partial(metrics_table, application.ApplicationScenario.metrics),
    "load_settings": partial(settings_table, LoadScenario.settings),
    "load_metrics": partial(metrics_table, LoadScenario.metrics),
    "load_chains_metrics": partial(metrics_table, LOAD_SIDE_BY_SIDE),
    "uplink_settings": partial(settings_table, uplink.UplinkScenario.settings),
    "uplink_metrics": partial(metrics_table, uplink.UplinkScenario.metrics),
    "proxy_settings": partial(settings_table, proxy.ProxyScenario.settings),
    "http_metrics": http_metrics_table,
    "proxy_metrics": partial(metrics_table, proxy.ProxyScenario.metrics),
    "exposure_metrics": partial(metrics_table, exposure.ExposureScenario.metrics),
    "routing_settings": partial(settings_table, routing.RoutingScenario.settings),
    "routing_metrics": partial(metrics_table, routing.RoutingScenario.metrics),
    "lifecycle_metrics": partial(metrics_table, lifecycle.LifecycleScenario.metrics),
    "parts": parts_table,
    "keys": keys_table,
    "limits": limits_table,
    "contracts": contracts_table,
}


def with_tables(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return GENERATED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[4]}", text)


def pages() -> list[Path]:
    """Return the pages of docs/: no other has generated tables."""
    return sorted((ROOT / "docs").glob("*.md"))


if __name__ == "__main__":
    for page in pages():
        page.write_text(with_tables(page), encoding="utf-8")
