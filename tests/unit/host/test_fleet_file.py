"""The fleet file: what it may say, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro.errors import StudyError
from lastro.host.connections import SshTarget
from lastro.host.fleet_file import hosts, load, load_named
from lastro.host.testbed_file import ROLES

EXAMPLE = Path(__file__).parents[3] / "examples" / "testbeds" / "fleet.toml"


def written(place: Path, text: str) -> Path:
    (file := place / "fleet.toml").write_text(text)
    return file


def test_the_example_has_a_testbed_of_each_form(tmp_path: Path) -> None:
    fleet = load(EXAMPLE)
    assert [*fleet.testbeds] == ["three", "guest", "rack-1", "rack-2"] and fleet.scheduler is None
    three, guest, rack, other = fleet.testbeds.values()
    assert three.place == str(EXAMPLE.with_name("three-machines.toml")) and len(hosts(three)) == 3
    assert guest.guest and hosts(guest) == ("this machine",)
    assert {rack.roles[role].target for role in ROLES} == {SshTarget("192.0.2.21", "root")}
    assert other.roles["dut"].cpus == "0-3" and hosts(other) == ("192.0.2.22:22",)
    assert fleet.place == rack.place == str(EXAMPLE)
    assert load_named(EXAMPLE) == fleet
    dask = load(written(tmp_path, 'scheduler = "tcp://192.0.2.10:8786"'))
    assert (dask.scheduler, dask.testbeds) == ("tcp://192.0.2.10:8786", {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has neither testbeds nor a scheduler"),
        ("[testbed.a]\n", "testbed: unknown key\ndid you mean 'testbeds'?"),
        ('scheduler = "192.0.2.1:8786"\n', "scheduler: is not the address of a Dask scheduler, such as tcp://"),
        ('scheduler = "tcp://a:1"\ntestbeds.a = {}\n', "scheduler: give either a scheduler"),
        ("testbeds.a = 3\n", "testbeds.a: must be the path of a testbed file, or a table, but is 3"),
        ("testbeds.A = {}\n", "testbeds.A: is not a valid name"),
        ('testbeds.a.adress = "h"\n', "testbeds.a.adress: unknown key\ndid you mean 'address'?"),
        ("testbeds.a.port = 22\n", "testbeds.a.port: applies only to a remote host"),
        ('testbeds.a = { address = "h", links.dut = "x" }\n', "testbeds.a.links: applies only to roles on different"),
        ('testbeds.a = { address = "h", dut.cpus = "0" }\n', "testbeds.a.dut: the keys beside it describe one host"),
        ('testbeds.a.kind = "guest"\ntestbeds.a.memori = "2G"\n', "a.memori: unknown key\ndid you mean 'memory'?"),
        ('testbeds.a = "wrong.toml"\n', "wrong.toml: dut.adress: unknown key\ndid you mean 'address'?"),
        ('testbeds.a = "nowhere.toml"\n', "nowhere.toml: there is no such file"),
        ('testbeds.a = "no\\nwhere.toml"\n', "no where.toml: there is no such file"),
        ("testbeds.a = {}\ntestbeds.b.kind = 'guest'\n", "testbeds.b: uses this machine, and so does testbed 'a'"),
        ('[testbeds]\na.address = "h"\nb = { address = "H", port = 22 }\n', "testbeds.b: uses h:22, and so does"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "wrong.toml").write_text('dut.adress = "h"')
    with pytest.raises(StudyError) as caught:
        load(written(tmp_path, text))
    assert said in f"{caught.value.message}\n{caught.value.hint}"


def test_the_problems_of_all_testbeds_are_one_error(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('dut.adress = "h"\nserver.port = 0')
    text = '[testbeds]\na.adress = "h"\nb = "wrong.toml"\nc.dut.cpus = "x"'
    text += '\nd.address = "h"\ne = { address = "h", cpu = "0" }'
    with pytest.raises(StudyError) as caught:
        load(written(tmp_path, text))
    told = f"{caught.value.message}\n{caught.value.hint}"
    for said in ("testbeds.a.adress", "wrong.toml: dut.adress", "server.port", "c.dut.cpus", "testbeds.e.cpu: unknown"):
        assert told.count(said) == 1, told
    assert "testbeds.d" not in told
