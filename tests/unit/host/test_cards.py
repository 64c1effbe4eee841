"""A network card that is in a namespace for the time of a trial: it comes back as it was, whatever ends the trial."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lastro.errors import Unavailable
from lastro.host import undo
from lastro.host.base import Completed
from lastro.host.cards import card_in_namespace
from lastro.host.ledger import Session

from ...support.recording import RecordingHost, answer, recording_testbed

NETNS = "lastro-0a1b2c-dut"


OFFLOADS = """Features for eth1:
rx-checksumming: on
tx-checksumming: off
tcp-segmentation-offload: on [fixed]
generic-receive-offload: on
large-receive-offload: off
"""


def session_of(place: Path, *flags: str, address: str = "", **shown: object) -> tuple[RecordingHost, Session]:
    addresses = [{"local": address, "scope": "global"}] if address else []
    printed = json.dumps([{"ifname": "eth1", "flags": flags, "addr_info": addresses, **shown}])

    def answers(argv: Sequence[str]) -> Completed | None:
        if "address" in argv:
            return answer(printed)
        return answer(OFFLOADS if shown else "") if argv[0] == "sh" and "ethtool --show" in argv[2] else None

    host = RecordingHost(answers)
    return host, recording_testbed(host, place).session


@pytest.mark.parametrize(("flags", "state"), [(("BROADCAST", "UP"), "up"), (("BROADCAST",), "")])
def test_a_card_is_given_back_up_or_down_even_when_the_trial_fails(
    tmp_path: Path, flags: Sequence[str], state: str
) -> None:
    host, session = session_of(tmp_path, *flags)
    with pytest.raises(RuntimeError, match="in the middle"), card_in_namespace(session, "eth1", NETNS, "for a link"):
        (owned,) = session.owned_objects()  # what a killed Lastro leaves says as much
        assert (owned.kind, owned.name) == ("interface", f"eth1@{NETNS}" + (f":{state}" if state else ""))
        assert host.commands[-1] == ["ip", "link", "set", "dev", "eth1", "netns", NETNS]
        raise RuntimeError("in the middle")
    assert host.commands[-1][-4:] == ["eth1", "eth1", NETNS, state]
    assert not session.owned_objects()


def test_a_card_comes_back_with_its_name_and_the_offloads_that_it_had(tmp_path: Path) -> None:
    host, session = session_of(tmp_path, "UP", gso_max_segs=65535)
    with card_in_namespace(session, "eth1", NETNS, "for a link", "out0"):
        (owned,) = session.owned_objects()
        assert owned.name == f"eth1=out0@{NETNS}:rx,gro,segs65535,up"
        assert host.commands[-1] == ["ip", "link", "set", "dev", "eth1", "netns", NETNS, "name", "out0"]
    assert host.commands[-1][-4:] == ["eth1", "out0", NETNS, "rx,gro,segs65535,up"]


@pytest.mark.parametrize(
    ("shown", "use"),
    [
        ({"address": "192.0.2.7"}, r"has the address 192\.0\.2\.7, and is in use"),
        ({"master": "br0"}, "is a port of br0, and is in use"),
    ],
)
def test_a_card_that_is_in_use_stays(tmp_path: Path, shown: dict[str, Any], use: str) -> None:
    host, session = session_of(tmp_path, "UP", **shown)
    with pytest.raises(Unavailable, match=rf"eth1 of .* {use}"):
        card_in_namespace(session, "eth1", NETNS, "for a link").__enter__()
    assert not session.owned_objects() and len(host.commands) == 1


FAKE_IP = """#!/bin/sh
echo "$*" >>"$LOG"
case "$*" in
"-n $NETNS link show dev eth1") [ "$WHERE" = namespace ] ;;
"link show dev eth1") [ "$WHERE" != nowhere ] ;;
esac
"""


@pytest.mark.parametrize(
    ("where", "state", "done"),
    [
        ("namespace", "up", ["address flush", "netns", "link set dev eth1 up"]),
        ("namespace", "", ["address flush", "netns"]),
        ("home", "up", ["link set dev eth1 up"]),  # a first attempt was cut short
        ("home", "", []),
        ("nowhere", "up", []),
    ],
)
def test_how_far_a_card_is_back_does_not_matter(tmp_path: Path, where: str, state: str, done: list[str]) -> None:
    (tmp_path / "ip").write_text(FAKE_IP)
    (tmp_path / "ip").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    argv = ["sh", "-e", "-c", undo.CARD_BACK, "back", "eth1", "eth1", NETNS, state]
    subprocess.run(argv, env={**environment, "WHERE": where, "NETNS": NETNS}, check=True, timeout=10)
    changes = [line for line in (tmp_path / "log").read_text().splitlines() if " show " not in line]
    assert len(changes) == len(done) and all(word in line for word, line in zip(done, changes, strict=True))


def test_what_was_on_is_switched_on_again(tmp_path: Path) -> None:
    for program in ("ip", "ethtool"):
        (tmp_path / program).write_text(FAKE_IP)
        (tmp_path / program).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log"), "NETNS": NETNS}
    argv = ["sh", "-e", "-c", undo.CARD_BACK, "back", "eth1", "out0", NETNS, "tx,tso,segs65535,up"]
    subprocess.run(argv, env={**environment, "WHERE": "namespace"}, check=True, timeout=10)
    lines = [line for line in (tmp_path / "log").read_text().splitlines() if " show " not in line]
    assert lines[-4:] == [
        "--offload eth1 tx on", "--offload eth1 tso on", "link set dev eth1 gso_max_segs 65535", "link set dev eth1 up",
    ]  # fmt: skip


def test_a_ledger_of_an_older_lastro_is_understood(tmp_path: Path) -> None:
    host, session = session_of(tmp_path)
    undo.undo(undo.Owner(host, session.token, tmp_path), "interface", f"eth1@{NETNS}")
    assert host.commands[-1][-4:] == ["eth1", "eth1", NETNS, ""]
