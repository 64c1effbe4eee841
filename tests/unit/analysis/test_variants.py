"""The tools that have other versions in the root filesystem of a variant: their change is a part of the answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lastro.analysis.variants import differing_tools
from lastro.results.provenance import Provenance

OLD, NEW = {"iperf3": "iperf 3.12 (cJSON 1)", "ping": "ping 1"}, {"iperf3": "iperf 3.18 (cJSON 2)", "ping": "ping 1"}


def report(variants: dict[str, dict[str, str]], files: Any) -> Any:
    provenance = {"image_tools": OLD, "root_filesystem": {"sha256": "0", "variants": files}}
    return SimpleNamespace(provenance=Provenance.of(provenance), study=SimpleNamespace(variants=variants))


def test_the_tools_of_the_study_count_where_a_variant_leaves_them() -> None:
    files = {"release = trixie": {"image_tools": NEW}}
    found = differing_tools(report({"a": {}, "b": {"release": "trixie"}}, files))
    assert found == {"iperf3": ("iperf 3.12", "iperf 3.18")}
    both = {"release = trixie": {"image_tools": NEW}, "packages = jq": {"image_tools": NEW}}
    assert not differing_tools(report({"a": {"release": "trixie"}, "b": {"packages": "jq"}}, both))
    assert not differing_tools(report({"a": {}, "b": {"cpus": "1"}}, {}))
