"""What a trial was built of, as text and as a figure, from what trials note; notes may hold anything."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.topology import drawn_topology
from lastro.builders import page_figures
from lastro.builders.content import Content
from lastro.figures.topology import topology_picture
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.results.topology import Topology
from lastro.words.language import language
from lastro.words.topology import topology_lines

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ...support.documents import render_html
from ...support.topologies import chain, grid, proxies

NEIGHBOUR = """\
┌────────────────────────────────────────────────┐
│ source                                         │
│ runc 1.1.5 · isolation cgroups                 │
└─ out0 198.18.0.10/24 (veth) ───────────────────┘
    │ veth-bridge
    │ hub-aa (veth) ─ hub-br (bridge) ─ hub-ab (veth)
┌─ in0 198.18.0.1/24 (veth) ─────────────────────┐
│ function                                       │
│ runc 1.1.5 · firewall (kernel) · isolation     │
│ cgroups                                        │
└─ out0 198.18.1.1/24 (veth) ────────────────────┘
    │ veth-bridge
    │ hub-ba (veth) ─ hub-br (bridge) ─ hub-bb (veth)
┌─ in0 198.18.1.10/24 (veth) ────────────────────┐
│ sink                                           │
│ runc 1.1.5 · isolation cgroups                 │
└────────────────────────────────────────────────┘

┌────────────────────────────────────────────────┐
│ neighbour                                      │
│ runc 1.1.5 · anomaly cpu: stress-ng --cpu 2    │
│ --timeout 77 · isolation cgroups               │
└────────────────────────────────────────────────┘
    no link: it shares the host with the others

loads
  source → sink   iperf3-tcp, ping

witnesses
  interfaces      source, function, sink: bytes and packets over every interface
                  of every instance
  host            busy CPUs, steal and pressure of the whole host
  dose            neighbour: what the neighbour really did
"""

PROXIES = """\
┌────────────────────────────────────────────────┐
│ client                                         │
│ native · on load-1                             │
└─ eth1 198.19.1.10/24 ──────────────────────────┘
    │ network cards
┌─ eth1 198.19.1.1/24 ───────────────────────────┐
│ dut                                            │
│ forwards · on edge-7                           │
└─ eth2 198.19.2.1/24 ───────────────────────────┘
    │ network cards
┌─ eth2 198.19.2.10/24 ──────────────────────────┐
│ server                                         │
│ native · on load-1                             │
└────────────────────────────────────────────────┘

┌────────────────────────────────────────────────┐
│ proxy × 8                                      │
│ docker:storage=vfs 20.10.24 · http-proxy · on  │
│ edge-7                                         │
└─ eth0 198.18.64.2/18 (veth) ───────────────────┘
    │ nat to dut
    │ hub-h0 (veth) ─ br-hosted (bridge) 198.18.64.1/18

loads
  client → server jmeter

witnesses
  logs            proxy: every request
"""

KNOWN = {"runc": "1.1.5", "docker": "20.10.24"}


@pytest.mark.parametrize(
    ("topology", "expected"), [(chain(anomaly="cpu"), NEIGHBOUR), (proxies(), PROXIES)], ids=["chain", "proxies"]
)
def test_a_chain_is_a_column_of_boxes_with_what_stands_beside_it(topology: Topology, expected: str) -> None:
    assert "\n".join(topology_lines(topology, KNOWN, 80)) + "\n" == expected


def test_a_network_is_a_list_of_its_instances_and_links() -> None:
    lines = topology_lines(grid(), KNOWN, 80)
    assert lines[:2] == ["4 instances", "  r0-0            runc 1.1.5 · frr"]
    assert lines[-1] == "  r1-0 – r0-0     veth-direct · e0 198.18.3.1/30 ─ e1 198.18.3.2/30"


@pytest.mark.parametrize("topology", [chain(anomaly="cpu"), proxies(), grid()], ids=["chain", "proxies", "grid"])
def test_no_line_is_wider_than_a_small_terminal(topology: Topology) -> None:
    assert max(map(len, topology_lines(topology, KNOWN, 60))) <= 60


@pytest.mark.parametrize("topology", [chain(anomaly="cpu"), proxies(), grid()], ids=["chain", "proxies", "grid"])
def test_a_figure_names_every_node_and_says_what_it_is_to_who_cannot_see_it(topology: Topology) -> None:
    root = ElementTree.fromstring(topology_picture("Trial 1 <&>", "platform = runc", topology, KNOWN).svg())
    names = {"s": "http://www.w3.org/2000/svg"}
    words = [text.text or "" for text in root.iterfind(".//s:text", names)]
    for node in topology.nodes:
        assert any(word.startswith(node.role) for word in words), node.role
    assert [child.tag.partition("}")[2] for child in root][:2] == ["title", "desc"]
    told = root.findtext("s:desc", "", names)
    assert root.findtext("s:title", "", names) == "Trial 1 <&>"
    assert all(node.role in told for node in topology.nodes)
    assert all(f"{link.a.role} – {link.b.role}: {link.attachment}" in told for link in topology.links)


def test_a_note_is_read_as_it_was_written() -> None:
    for topology in (chain(anomaly="cpu"), proxies()):
        assert Topology.of({"topology": json.loads(json.dumps(topology.as_note()))}) == topology


@pytest.mark.parametrize(
    "note", [None, 3, "x", [], {}, {**chain().as_note(), "nodes": 1}, {**chain().as_note(), "links": [1]}]
)
def test_what_is_no_topology_is_none(note: Any) -> None:
    assert Topology.of({"topology": note}) is None


def test_a_later_version_may_note_more() -> None:
    note = chain().as_note()
    note["nodes"] = [{**node, "colour": "red"} for node in note["nodes"]]
    assert Topology.of({"topology": note}) == chain()


# In a report

FACTORS: dict[str, tuple[str, ...]] = {"isolation": ("none", "cgroups"), "anomaly": ("none", "cpu", "memory")}


def built(levels: Levels, block: int) -> dict[str, Any]:
    topology = chain(anomaly=str(levels["anomaly"]).removeprefix("none"))
    nodes = tuple(replace(node, isolation=str(levels["isolation"])) for node in topology.nodes)
    return {"topology": replace(topology, nodes=nodes).as_note()}


def content_of(directory: Path, notes: Any, code: str = "en") -> Content:
    study = make_study(FACTORS, replicates=2, metrics=METRICS[:1], baseline={"isolation": "none", "anomaly": "none"})
    with Store.open(make_campaign(directory, study, notes=notes), readonly=True) as store:
        report = build_report(load_campaign(store))
    return Content(report, analyse(report), language(code))


@pytest.fixture
def topology_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has no other figure."""
    drawn = page_figures.svgs_of
    monkeypatch.setattr(page_figures, "svgs_of", lambda plan: drawn(plan) if plan.kind == "topology" else ())


def test_a_report_draws_the_baseline_and_the_neighbours_that_other_treatments_have(
    tmp_path: Path, topology_alone: None
) -> None:
    content = content_of(tmp_path / "c", built, "pt-BR")
    found = drawn_topology(content.report)
    assert found is not None
    assert dict(found.treatment.levels) == {"isolation": "none", "anomaly": "none"}
    assert [(node.role, node.anomaly, node.isolation) for node in found.others] == [
        ("neighbour", "cpu, memory", "none")
    ]
    page = render_html(content)
    section = page[page.index('<h2 id="testbed">') : page.index('<h2 id="repeat">')]
    words = re.findall(r"<text[^>]*>(.*?)</text>", section)
    assert {"source", "function", "sink", "neighbour", "anomalia cpu, memory", "em outros tratamentos"} <= set(words)
    assert page.index('class="opening"') < page.index('id="testbed"')


def test_a_campaign_that_recorded_no_topology_has_no_such_section(tmp_path: Path, topology_alone: None) -> None:
    page = render_html(content_of(tmp_path / "c", lambda levels, block: {}))
    assert 'id="testbed"' not in page and "#testbed" not in page
