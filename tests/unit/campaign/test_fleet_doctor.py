"""`lastro doctor --fleet`: groups of testbeds that are alike, and what is told of the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lastro.analysis.host_facts import AskedTestbed, comparable_facts, group_testbeds
from lastro.app import fleets
from lastro.cli import doctor, main
from lastro.cli._fleet_lines import document, lines
from lastro.errors import NeedsRoot

from ...support.asked_testbeds import LOST, PROVENANCE, ROLES, asked


def test_testbeds_with_the_same_facts_are_one_group_and_the_largest_is_first() -> None:
    odd = asked("odd", host__kernel="6.6.0", host__memory_bytes=(4 << 30) + 4096, tools__crun={"version": "crun 1.8"})
    found = group_testbeds([odd, asked("a"), LOST, asked("b")])
    assert [[each.name for each in group] for group in found.groups] == [["a", "b"], ["odd"]]
    assert found.differing == {"kernel": ("6.1.0", "6.6.0"), "tools.crun.version": (None, "crun 1.8")}
    assert found.same["tools.runc"] == "runc 1.1.5 (SHA-256 00)" and found.same["root filesystem"] == "ab" * 6
    assert found.same["host.memory_bytes"] == "4 GiB" and found.same["isolation.cgroup_version"] == "2"
    assert not {"host", "Lastro"} & found.same.keys() and found.sharing == ()


def test_hosts_of_other_roles_count_where_they_are_not_that_of_the_dut() -> None:
    machine = {"machine": {"kernel": "5.10", "cpu_model": "Xeon"}}
    beside = comparable_facts(PROVENANCE | {"testbed": {"roles": ROLES | {"client": ROLES["client"] | machine}}})
    assert beside == comparable_facts(PROVENANCE)
    client = {"reached": "other", "cpu_set": "0-3", "links": {}, "machine": {"hostname": "o", "kernel": "5.10"}}
    apart = comparable_facts(PROVENANCE | {"testbed": {"roles": ROLES | {"client": client}}})
    assert apart.items() - comparable_facts(PROVENANCE).items() == {
        ("testbed.roles.client.cpu_set", "0-3"), ("testbed.roles.client.machine.kernel", "5.10"),
    }  # fmt: skip


def test_testbeds_on_one_kernel_are_told() -> None:
    a, b = (AskedTestbed(name, (), PROVENANCE, frozenset("xy")) for name in "ab")
    c = AskedTestbed("c", (), PROVENANCE, frozenset("z"))
    assert group_testbeds([a, b, c]).sharing == (("a", "b"),)
    assert any(line.startswith("a, b share a kernel") for line in lines([a, b, c], group_testbeds([a, b, c]), 80))


@pytest.mark.parametrize("width", [60, 80])
def test_many_groups_fit_the_screen(width: int) -> None:
    testbeds = [asked(f"testbed-{n}", host__cpu_model=f"AMD EPYC {n} 64-Core Processor at 2 GHz") for n in range(9)]
    text = list(lines([*testbeds, LOST], group_testbeds(testbeds), width))
    assert max(map(len, text)) <= width
    assert " ".join(text).startswith("9 of 10 testbeds can be used, in 9 groups that differ ")
    assert sum(line.split().count("testbed-4") for line in text) == 1
    assert text[-2:] == ["✗ lost: it cannot be reached", "  remedy: is it up?"]


def test_alike_testbeds_need_no_table() -> None:
    testbeds = [asked("a"), asked("b")]
    text = "\n".join(lines(testbeds, group_testbeds(testbeds), 200))
    assert text.startswith("2 of 2 testbeds can be used, and they are alike\n\nThe same on all: distribution Debian; ")
    assert "\ngroup" not in text
    found = document([*testbeds, LOST], group_testbeds(testbeds))
    assert [each["group"] for each in found["testbeds"]] == [1, 1, None] and found["groups"] == [["a", "b"]]


def test_its_exit_code_and_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "require_root", lambda command: None)
    (file := tmp_path / "fleet.toml").write_text('testbeds.lost.address = "h9"')
    for answer, code in (([LOST], 3), ([LOST, asked("a")], 0)):
        monkeypatch.setattr(fleets, "ask", lambda fleet, wait, answer=answer: answer)
        assert main(["doctor", "--fleet", str(file)]) == code
        assert f"{len(answer) - 1} of {len(answer)} testbeds can be used\n" in capsys.readouterr().out
    assert main(["doctor", "--fleet", str(file), "--quick"]) == 2
    assert "does not take --quick" in capsys.readouterr().err


def test_workers_of_dask_are_not_asked_and_root_is_not_needed_to_be_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def need_root(command: str) -> None:
        raise NeedsRoot("root")

    monkeypatch.setattr(doctor, "require_root", need_root)
    (file := tmp_path / "fleet.toml").write_text('scheduler = "tcp://h:8786"')
    assert main(["doctor", "--fleet", str(file)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "asks hosts that it reaches itself, and not the workers of a Dask scheduler" in told
    assert "run `lastro doctor --json` on the host of each worker" in told


BUSY = AskedTestbed("again", ("again:22",), None, machines=frozenset("m"), reason="again is in use", remedy="wait")


@pytest.mark.parametrize("second", ["in use by the first", "with a lock of its own"])
def test_a_host_with_two_names_is_one_testbed(second: str) -> None:
    first, bea = replace(asked("ada"), machines=frozenset("m")), asked("bea")
    testbeds = [BUSY, bea, first] if second.startswith("in use") else [first, bea, replace(first, name="again")]
    found = fleets.without_shared_hosts(testbeds)
    assert [each.name for each in found] == [each.name for each in testbeds]
    refused = next(each for each in found if each.name == "again")
    assert refused.reason == "it uses the same host as testbed ada" and refused.remedy != BUSY.remedy
    assert refused.provenance is None and not refused.kernels
    assert {each.name for each in found if each.provenance} == {"ada", "bea"}


def test_a_host_in_use_by_others_is_that_of_its_testbed() -> None:
    testbeds = [replace(asked("ada"), machines=frozenset("n")), BUSY]
    assert fleets.without_shared_hosts(testbeds) == testbeds
