"""What `lastro doctor` makes of what its probes have found: tables that fit, each reason once, every combination."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.cli import doctor
from lastro.cli._matrix import ProbedPart, cells, lines, parts, summary
from lastro.errors import InputError
from lastro.platforms.base import AVAILABLE, Availability
from lastro.scenarios.chain import ChainScenario

from ...cli.conftest import study_text
from ...support.recording import RecordingHost, answer

PLATFORMS = ("crun", "docker", "gvisor", "kvm", "lxc", "lxd", "native", "nspawn", "podman", "qemu-tcg", "runc")
ATTACHMENTS = ("ipvlan", "macvlan-bridge", "nat", "ovs", "routed", "veth-bridge", "veth-direct", "vxlan")
ISOLATIONS = (
    "apparmor", "cgroups", "drop-capabilities", "landlock", "none", "read-only-root", "seccomp", "selinux",
    "user-namespace",
)  # fmt: skip
NO_GUEST = Availability("no guest boots on /dev/kvm within 20 s, though the device is there", "use qemu-tcg")
NO_IPVLAN = Availability("this kernel has no ipvlan")


def found(kind: str, name: str, platform: str) -> Availability:
    if platform == "kvm":
        return NO_GUEST
    if name == "ipvlan":
        return NO_IPVLAN
    if name == "seccomp" and platform == "native":
        return Availability("native cannot confine an instance by seccomp", "compare it elsewhere")
    return AVAILABLE


def everything() -> list[ProbedPart]:
    findings = [ProbedPart("platform", name, name, found("platform", name, name)) for name in PLATFORMS]
    for kind, names in (("attachment", ATTACHMENTS), ("isolation", ISOLATIONS)):
        findings += [ProbedPart(kind, name, on, found(kind, name, on)) for on in PLATFORMS for name in names]
    return findings


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_tables_fit_and_hold_every_cell(width: int) -> None:
    text = list(lines(everything(), width))
    assert max(map(len, text)) <= width
    marks = re.findall(r"✓|✗\d+", "\n".join(text[: next(at for at, line in enumerate(text) if "works here" in line)]))
    assert len(marks) == len(PLATFORMS) * (len(ATTACHMENTS) + len(ISOLATIONS))


def test_at_80_columns_each_attachment_has_one_row_of_heads() -> None:
    text = list(lines(everything(), 80))
    heads = [line for line in text if line.startswith("platform")]
    assert heads[0].split() == ["platform", "ipvlan", "bridge", "nat", "ovs", "routed", "bridge", "direct", "vxlan"]
    assert text[text.index(heads[0]) - 1].split() == ["macvlan-", "veth-", "veth-"]
    assert next(line for line in text if line.startswith("runc")).split() == ["runc", "✗2", *"✓✓✓✓✓✓✓"]


def test_each_reason_is_told_once_with_its_remedy() -> None:
    text = "\n".join(lines(everything(), 80))
    assert text.count("no guest boots") == text.count("remedy: use qemu-tcg") == 1
    assert text.count("this kernel has no ipvlan") == 1
    assert next(row.split()[1:] for row in text.splitlines() if row.startswith("kvm")) == ["✗1"] * len(ATTACHMENTS)
    n = len(PLATFORMS) * (1 + len(ATTACHMENTS) + len(ISOLATIONS))
    fails = (1 + len(ATTACHMENTS) + len(ISOLATIONS)) + (len(PLATFORMS) - 1) + 1
    assert f"{n - fails} of {n} work." in text


def test_every_combination_has_a_mark_and_a_reason() -> None:
    matrix = cells(everything())
    assert len(matrix) == len(PLATFORMS) * len(ATTACHMENTS) * len(ISOLATIONS)
    by = {(cell["platform"], cell["attachment"], cell["isolation"]): cell for cell in matrix}
    assert len(by) == len(matrix)
    works: dict[str, Any] = by["runc", "veth-direct", "seccomp"]
    assert works["available"] and (works["mark"], works["reason"], works["remedy"]) == ("✓", None, None)
    for place, reason in (
        (("runc", "ipvlan", "none"), NO_IPVLAN.reason),
        (("native", "veth-direct", "seccomp"), "native cannot confine an instance by seccomp"),
        (("kvm", "ipvlan", "none"), NO_GUEST.reason),
    ):
        assert not by[place]["available"] and (by[place]["mark"], by[place]["reason"]) == ("✗", reason)


def test_what_was_not_tried_is_no_failure() -> None:
    findings = [
        ProbedPart("platform", "native", "native", AVAILABLE),
        ProbedPart("platform", "runc", "runc", AVAILABLE),
        ProbedPart("function", "in Click", "native", Availability("no click")),
    ]
    text = list(lines(findings, 80))
    assert "native    ✗1" in text and "runc      ·" in text
    native, runc, click = parts(findings, {"runc": "runc version 1.1.5"})
    assert native["on"] is None and click["on"] == "native"
    assert (native["version"], runc["version"], "version" in click) == (None, "runc version 1.1.5", False)


class Probes:
    """Answers as `found` does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def platform(self, name: str) -> Availability:
        return found("platform", name, name)

    def __getattr__(self, kind: str) -> Any:
        def probe(name: str, platform: str, *more: str) -> Availability:
            self.asked.append((kind, name, platform, *more))
            return found(kind, name, platform)

        return probe


def wanted(*words: str) -> doctor.PartsToTry:
    parser = argparse.ArgumentParser()
    doctor.configure(parser)
    return doctor._wanted(parser.parse_args(words))


def test_a_study_or_haste_narrows_what_is_tried(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    factors = {"platform": ["runc", "lxc:storage=dir"], "isolation": ["none", "cgroups+seccomp"]}
    study.write_text(study_text(factors, scenario="chain", attachment="nat", function="dpi"))
    assert wanted("--study", str(study)) == doctor.PartsToTry(
        ["runc", "lxc:storage=dir"],
        {"attachment": ["nat"], "isolation": ["cgroups", "none", "seccomp"], "function": ["dpi"], "anomaly": ["none"]},
    )
    study.write_text(study_text({"platform": ["runc"]}, scenario="chain", attachment="nat", function="nat@docker>dpi"))
    mixed = wanted("--study", str(study))
    assert (mixed.platforms, mixed.names["function"]) == (["runc", "docker"], ["nat@docker>dpi"])
    assert wanted("--quick", "--platform", "runc") == doctor.PartsToTry(["runc"], {})
    everything = wanted()
    assert set(everything.platforms) == registry.names("platform") and everything.in_click


def test_without_options_a_host_fits_a_screen() -> None:
    text = list(summary(everything(), 80))
    assert len(text) < 30 and max(map(len, text)) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in text if line.strip()}
    assert rows["platform"] == ["attachment", "isolation"]
    assert rows["runc"] == ["7/8", "9/9"] and rows["native"] == ["7/8", "8/9"]
    assert next(line for line in text if line.startswith("kvm")).endswith(
        "✗ no guest boots on /dev/kvm within 20 s, though the device is there"
    )
    assert next(summary([ProbedPart("platform", "runc", "runc", AVAILABLE)], 80)).split() == ["platform"]
    short = [ProbedPart("platform", "runc", "runc", AVAILABLE), ProbedPart("anomaly", "cpu", "runc", AVAILABLE)]
    assert list(summary(short, 80)) == ["platform  anomaly", "runc      1/1"]
    assert text[-2:] == ["unavailable on every platform:", "  attachment ipvlan: this kernel has no ipvlan"]


def test_every_part_is_tried_on_every_platform_and_told_before(capsys: pytest.CaptureFixture[str]) -> None:
    probes = Probes()
    two = wanted("--platform", "kvm", "--platform", "runc")
    with doctor.ProbeProgress(two) as progress:
        findings = doctor.examine(probes, two, progress)  # type: ignore[arg-type]
    kinds = ("attachment", "isolation", "function", "anomaly")
    tried = {(kind, name, on) for kind in kinds for name in ChainScenario.part_names(kind) for on in ("kvm", "runc")}
    assert {asked[:3] for asked in probes.asked} == tried
    assert ("function", "none", "runc", "click") in probes.asked, "in Click, on the first platform that works"
    first, second, whole, *trying = capsys.readouterr().err.splitlines()
    assert (first, second) == ("starting kvm … (1/2)", "starting runc … (2/2)")
    n = sum(map(len, two.names.values()))
    assert whole.startswith(f"1 of 2 platforms starts; {n} parts are tried on it, about ")
    assert len(trying) == 1 and trying[0].startswith(f"trying runc … (1/{n + 1}, about "), "nothing of kvm takes time"
    assert [f.kind for f in findings] == sorted((f.kind for f in findings), key=list(registry.KINDS).index)


def test_platforms_by_name() -> None:
    assert wanted().platforms == sorted(registry.names("platform"))
    assert wanted("--platform", "runc", "--platform", "native", "--platform", "runc").platforms == ["runc", "native"]
    assert wanted("--platform", "docker:storage=vfs").platforms == ["docker:storage=vfs"]
    with pytest.raises(InputError, match="no platform is named 'dokcer'") as caught:
        wanted("--platform", "dokcer")
    assert "did you mean 'docker'?" in str(caught.value.hint)


def test_the_version_is_that_of_each_platform_that_works() -> None:
    findings = [
        ProbedPart("platform", "native", "native", AVAILABLE),  # it has no program of its own
        ProbedPart("platform", "crun", "crun", AVAILABLE),
        ProbedPart("platform", "docker:storage=vfs", "docker:storage=vfs", AVAILABLE),
        ProbedPart("platform", "lxc", "lxc", Availability("it does not start")),
        ProbedPart("attachment", "nat", "crun", AVAILABLE),
    ]
    host = RecordingHost(lambda argv: answer(f"{argv[0]} version 1\nand more\n"))
    assert doctor._versions(host, findings) == {"crun": "crun version 1", "docker:storage=vfs": "dockerd version 1"}
    assert host.commands == [["crun", "--version"], ["dockerd", "--version"]]
