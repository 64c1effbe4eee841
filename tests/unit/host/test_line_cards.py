"""A network card that a role has for the time of a trial: it comes back as it was, whatever ends the trial."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from lastro.host import undo
from lastro.host.base import Completed
from lastro.scenarios.proxy import three_node
from lastro.testbed import Testbed

from ...support.recording import RecordingHost, answer, recording_testbed

NETNS = "lastro-0a1b2c-dut"


def bed(place: Path, *flags: str) -> tuple[RecordingHost, Testbed]:
    shown = json.dumps([{"ifname": "eth1", "flags": flags, "addr_info": []}])

    def answers(argv: Sequence[str]) -> Completed | None:
        return answer(shown) if argv[:4] == ["ip", "-j", "address", "show"] else None

    host = RecordingHost(answers)
    made = recording_testbed(host, place)
    return host, Testbed(made.host, made.session, made.image, made.cgroups, made.dut, cards={"client": "eth1"})


@pytest.mark.parametrize(("flags", "state"), [(("BROADCAST", "UP"), "up"), (("BROADCAST",), "")])
def test_a_card_is_given_back_up_or_down_even_when_the_trial_fails(
    tmp_path: Path, flags: Sequence[str], state: str
) -> None:
    host, own = bed(tmp_path, *flags)
    with pytest.raises(RuntimeError, match="in the middle"), three_node._card("dut", own, "client"):
        (owned,) = own.session.owned_objects()  # what a killed Lastro leaves says as much
        assert (owned.kind, owned.name) == ("interface", f"eth1@{NETNS}" + (f":{state}" if state else ""))
        raise RuntimeError("in the middle")
    assert host.commands[-1][-3:] == ["eth1", NETNS, state]
    assert not own.session.owned_objects()


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
    argv = ["sh", "-e", "-c", undo.CARD_BACK, "back", "eth1", NETNS, state]
    subprocess.run(argv, env={**environment, "WHERE": where, "NETNS": NETNS}, check=True, timeout=10)
    changes = [line for line in (tmp_path / "log").read_text().splitlines() if " show " not in line]
    assert len(changes) == len(done) and all(word in line for word, line in zip(done, changes, strict=True))


def test_a_ledger_of_an_older_lastro_is_understood(tmp_path: Path) -> None:
    host, made = bed(tmp_path)
    undo.undo(undo.Owner(host, made.session.token, tmp_path), "interface", f"eth1@{NETNS}")
    assert host.commands[-1][-3:] == ["eth1", NETNS, ""]
