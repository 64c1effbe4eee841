"""Provenance: which machine a host is, and the versions of what measures on it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from lastro.app.provenance import machines
from lastro.host import facts
from lastro.host.local import LocalHost

from .recording import RecordingHost

HOSTNAME, MACHINE_ID, BOOT_ID = "/proc/sys/kernel/hostname", "/etc/machine-id", "/proc/sys/kernel/random/boot_id"


def host_with(name: str, machine_id: str | None, boot_id: str = "b") -> RecordingHost:
    host, texts = RecordingHost(), {HOSTNAME: f"{name}\n", MACHINE_ID: machine_id, BOOT_ID: boot_id}

    def read(paths: Sequence[str]) -> dict[str, str]:
        return {path: text for path in paths if (text := texts.get(path)) is not None}

    host.view = SimpleNamespace(read=read)  # type: ignore[assignment]
    return host


def test_a_machine_is_known_by_its_id_and_its_name() -> None:
    ada = facts.fingerprint(host_with("ada", "feedface"))
    assert ada == facts.fingerprint(host_with("ada", "feedface\n", "the next boot"))
    assert "feedface" not in ada and len(ada) == 16
    clones = [host_with("bea", "feedface"), host_with("ada", "0ddba11")]
    assert len({ada, *map(facts.fingerprint, clones)}) == 3, "a copied disk, and a lab where all have one name"
    without_id = [host_with(name, text, boot) for name in "xy" for text in (None, "") for boot in "bc"]
    assert len(set(map(facts.fingerprint, without_id))) == 4


def test_a_testbed_has_the_machines_of_its_roles_and_a_guest_the_one_below() -> None:
    hosts = [host_with("dut", "1"), host_with("client", "2")]
    bed: Any = SimpleNamespace(guest=None, sessions=[SimpleNamespace(host=host) for host in hosts])
    assert machines(bed) == [*map(facts.fingerprint, hosts)]
    bed.guest = {"title": "a guest"}
    assert machines(bed) == [facts.fingerprint(LocalHost())]
