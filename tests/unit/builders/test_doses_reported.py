"""What the neighbour really did, in every form of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastro.analysis.doses import doses_of
from lastro.app.contents import content_of, report_of
from lastro.builders.conditions import doses_table
from lastro.builders.data.results import document
from lastro.words.caveats import caveats
from lastro.words.language import ENGLISH, language

from ...support.campaigns import METRICS, Levels, make_campaign, make_study, plausible_notes
from ...support.documents import render_html, render_latex, render_markdown, render_terminal

STUDY = {"anomaly": ("none", "cpu", "membw"), "isolation": ("none", "cgroups"), "attachment": ("veth-direct", "ovs")}


def noted(levels: Levels, block: int) -> dict[str, Any]:
    """Doses whose CPUs tell the treatment and the block: 1.04 is the cpu anomaly in block 2."""
    notes = plausible_notes(levels, block)
    if levels["anomaly"] == "none":
        return notes
    cpus = (1.0 if levels["anomaly"] == "cpu" else 0.2) * (0.5 if levels["isolation"] == "cgroups" else 1.0)
    moved = 30 << 30 if levels["anomaly"] == "membw" else 0
    dose = {"elapsed_s": 15.0, "cpus": cpus + block / 50, "alive": True, "held": 0, "moved_bytes": moved}
    return {**notes, "doses": dose}


def campaign(directory: Path, notes: Any = noted) -> Path:
    return make_campaign(directory, make_study(STUDY, replicates=2), notes=notes)


def test_each_anomaly_has_its_cpus_under_each_isolation(tmp_path: Path) -> None:
    table = doses_table(report_of(campaign(tmp_path)), ENGLISH)
    assert table.columns == ("anomaly", "isolation", "trials", "CPUs", "moved per s")
    assert table.rows == (
        ("cpu", "none", "4", "1.03 (1.02 – 1.04)", "0 B"),
        ("cpu", "cgroups", "4", "0.530 (0.520 – 0.540)", "0 B"),
        ("membw", "none", "4", "0.230 (0.220 – 0.240)", "2.0 GiB"),
        ("membw", "cgroups", "4", "0.130 (0.120 – 0.140)", "2.0 GiB"),
    )


def test_every_form_of_the_report_has_it(tmp_path: Path, undrawn: None) -> None:
    directory = campaign(tmp_path)
    for code, title, number in (
        ("en", "What the neighbour really did", "0.530 (0.520 – 0.540)"),
        ("pt-BR", "O que o vizinho fez de fato", "0,530 (0,520 – 0,540)"),
    ):
        content = content_of([directory], language(code), all_metrics=False)
        for text in (render_html(content), render_markdown(content), render_latex(content)):
            assert title in text and number in text.replace("--", "–").replace("\\", "")


@pytest.mark.parametrize("width", [120, 50])
def test_the_terminal_has_all_of_it_in_any_width(tmp_path: Path, width: int) -> None:
    lines = [line.plain for line in render_terminal(report_of(campaign(tmp_path)), width)]
    below = lines[lines.index("What the neighbour really did") :]
    assert any("0.530 (0.520 – 0.540)" in line for line in below)
    assert any("2.0 GiB" in line for line in below)
    assert max(map(len, below)) <= width


def test_the_document_has_the_dose_of_each_treatment(tmp_path: Path) -> None:
    found = {
        tuple(each["levels"].values()): each["dose"] for each in document(report_of(campaign(tmp_path)))["treatments"]
    }
    assert found["none", "none", "ovs"] is None
    cpus = found["membw", "cgroups", "ovs"]["cpus"]
    assert cpus == {"mean": pytest.approx(0.13), "least": pytest.approx(0.12), "greatest": pytest.approx(0.14)}
    assert found["membw", "cgroups", "ovs"]["moved_bytes"]["mean"] == 2 << 30


def on_platforms(directory: Path, quantity: str, amounts: dict[str, float]) -> Path:
    def notes(levels: Levels, block: int) -> dict[str, Any]:
        doses = {"elapsed_s": 10.0, "cpus": 0.5, "memory_peak_bytes": 1e6 * amounts[levels["platform"]]}
        return {} if levels["anomaly"] == "none" else {"doses": {**doses, quantity: amounts[levels["platform"]]}}

    factors = {"platform": tuple(amounts), "anomaly": ("none", "cpu")}
    study = make_study(factors, replicates=2, metrics=METRICS[:1])
    return make_campaign(directory, study, notes=notes)


@pytest.mark.parametrize(
    ("quantity", "amounts", "words"),
    [
        (
            "cpus",
            {"native": 0.08, "runc": 0.5, "docker": 0.84},
            "0.0800 at cpu · native, 0.840 at cpu · docker)",
        ),
        ("moved_bytes", {"native": 40e6, "docker": 0}, "(moved per s: 0 B at cpu · docker,"),
        ("cpus", {"native": 0.5, "docker": 0.9}, ""),
        ("cpus", {"native": 0.02, "docker": 0.09}, ""),
        ("memory_peak_bytes", {"native": 1e6, "docker": 9e9}, ""),
    ],
)
def test_neighbours_that_did_not_do_the_same_are_said_to_be_unequal(
    quantity: str, amounts: dict[str, float], words: str, tmp_path: Path
) -> None:
    report = report_of(on_platforms(tmp_path, quantity, amounts))
    found = " ".join(caveats(report, ENGLISH))
    assert words in found if words else not found
    assert ("Os vizinhos fizeram trabalho desigual" in " ".join(caveats(report, language("pt-BR")))) is bool(words)


@pytest.mark.parametrize(
    "dose",
    ["text", [1], {}, {"cpus": 1.0}, {"cpus": 1.0, "elapsed_s": 0.0}, {"cpus": 1e300, "elapsed_s": 1e-300},
     {"cpus": -1, "elapsed_s": 1.0}, {"used": 1e308, "elapsed_s": 1e-308}],
)  # fmt: skip
def test_doses_of_any_shape_do_no_harm(tmp_path: Path, dose: object) -> None:
    report = report_of(campaign(tmp_path, lambda levels, block: {"doses": dose}))
    assert not doses_of(report).rows and not doses_table(report, ENGLISH)
    assert "What the neighbour really did" not in [line.plain for line in render_terminal(report, 100)]
