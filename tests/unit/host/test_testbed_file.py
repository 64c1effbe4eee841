"""The testbed's file: what it may say, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro.errors import StudyError
from lastro.host.cgroups import parse_cpus
from lastro.host.connections import SshTarget, failure
from lastro.host.testbed_file import ROLES, load, parse

EXAMPLES = Path(__file__).parents[3] / "examples"
THREE = """
[client]
address = "192.0.2.1"
links = { dut = "eth1" }
[dut]
address = "192.0.2.2"
user = "root"
port = 2222
cpus = "0-1,3"
links = { client = "eth1", server = "eth2" }
[server]
links = { dut = "eth9" }
"""


def wrong(text: str) -> str:
    with pytest.raises(StudyError) as caught:
        parse(text, "testbed.toml")
    return f"{caught.value.message} ({caught.value.hint})"


def test_an_empty_file_is_all_on_this_machine() -> None:
    plan = parse("", "testbed.toml")
    assert [plan.roles[role].target for role in ROLES] == [None, None, None]


def test_roles_have_hosts_cpus_and_cards() -> None:
    plan = parse(THREE, "testbed.toml")
    assert plan.roles["dut"].target == SshTarget("192.0.2.2", "root", 2222)
    assert plan.roles["server"].target is None
    assert plan.roles["dut"].links == {"client": "eth1", "server": "eth2"}
    told = plan.provenance()
    assert told["dut"] == {
        "reached": "root@192.0.2.2:2222", "cpu_set": "0-1,3", "links": {"client": "eth1", "server": "eth2"}
    }  # fmt: skip
    assert told["server"]["reached"] == "this machine"


def test_the_examples_are_sound() -> None:
    plan = load(EXAMPLES / "testbeds" / "three-machines.toml")
    identity = plan.roles["dut"].target.identity if plan.roles["dut"].target else None
    assert identity and Path(identity).is_absolute()
    cards = load(EXAMPLES / "testbeds" / "cards.toml").roles
    assert all(each.target is None for each in cards.values())
    assert len({card for each in cards.values() for card in each.links.values()}) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[duts]\n", "did you mean 'dut'"),
        ('[dut]\nadress = "a"\n', "did you mean 'address'"),
        ('[dut]\naddress = "-oProxyCommand=x"\n', "is not a host name or address"),
        ('[dut]\naddress = "a b"\n', "is not a host name or address"),
        ('[dut]\naddress = "a"\nuser = "-x"\n', "is not a user name"),
        ('[dut]\naddress = "a"\nport = 0\n', "dut.port"),
        ('[dut]\nport = 22\n', "there is no `address`"),
        ('[dut]\ncpus = "3-1"\n', "is not a list of CPUs"),
        ('[dut]\nlinks = { dut = "eth0" }\n', "the dut has no such link"),
        ('[dut]\nlinks = { client = "an interface" }\n', "is not the name of a network interface"),
        ('[dut]\nstate = "relative"\n', "is not an absolute path"),
        (
            '[dut]\naddress = "a"\n',
            "client and dut are on different hosts, but the network card of the client is not given",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_its_place(text: str, said: str) -> None:
    assert said in wrong(text)


def test_roles_on_one_remote_host_need_no_cards() -> None:
    roles = "\n".join(f'[{role}]\naddress = "a"\n' for role in ROLES)
    assert len({plan.target for plan in parse(roles, "testbed.toml").roles.values()}) == 1


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", {0}), ("0-2,5", {0, 1, 2, 5}), ("1, 3", {1, 3}), ("", set()), ("x", set()), ("2-1", set())]
)
def test_cpus_are_written_as_the_kernel_does(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("ssh: connect to host a port 22: Connection timed out", "cannot be reached"),
        ("ssh: Could not resolve hostname a: Name or service not known", "cannot be reached"),
        ("root@a: Permission denied (publickey).", "refuses the key"),
        ("No ED25519 host key is known for a.\nHost key verification failed.", "is not known"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "the host key of root@a has changed",
        ),
        ("", "ssh gave no reason"),
    ],
)
def test_what_ssh_prints_becomes_what_to_do(told: str, said: str) -> None:
    error = failure(SshTarget("a", "root"), told)
    assert said in error.message and error.hint


def test_host_keys_are_always_checked_and_no_word_becomes_an_option() -> None:
    argv = SshTarget("192.0.2.1", "root", 22, "/key", "/hosts").argv()
    assert "StrictHostKeyChecking=yes" in argv and argv[-2:] == ["--", "192.0.2.1"]
