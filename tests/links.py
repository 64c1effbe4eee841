"""Links between instances, for tests: made by an attachment, looked at from both ends, and gone again."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from lastro import registry
from lastro.attachments.base import Attachment, Segment
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from .tapmachine import TapMachine

LEFT, RIGHT, OTHER = "198.18.200.1", "198.18.200.2", "198.18.200.3"


def unstarted(netns: str, *, takes_taps: bool = False) -> Any:
    """What a topology needs to know of an instance."""
    return SimpleNamespace(netns=netns, takes_taps=takes_taps)


def platform_of(name: str, pool: PlatformPool) -> Platform:
    return TapMachine() if name == "taps" else pool.get(name)


def two_natives(stack: ExitStack, testbed: Testbed, pool: PlatformPool) -> list[Instance]:
    specs = [InstanceSpec(name, name) for name in ("left", "right")]
    return [stack.enter_context(pool.get("native").start(testbed, spec)) for spec in specs]


def attachment(name: str) -> Attachment:
    made: Attachment = registry.get("attachment", name)()
    return made


def segment(a: Instance, b: Instance) -> Segment:
    return Segment("s", (Port(a, "eth0", f"{LEFT}/24"), Port(b, "eth0", f"{RIGHT}/24")))


def links(testbed: Testbed, netns: str) -> list[str]:
    """Without those of a machine's guest, which go with the machine and not with its taps."""
    found = testbed.host.run_json(["ip", "-n", netns, "-j", "-d", "link"])
    return [link["ifname"] for link in found if link.get("linkinfo", {}).get("info_kind") != "tun"]


def reaches(instance: Instance, address: str, within_s: int = 5) -> bool:
    """One answer is enough: where the whole machine is busy, a first packet may be lost."""
    return instance.run(["ping", "-n", "-c", "1", "-w", str(within_s), address], check=False).returncode == 0


def contents(testbed: Testbed) -> dict[str, list[str]]:
    """Whatever the DUT's namespace may hold of an attachment, and which namespaces there are."""
    inside = ["nsenter", f"--net=/run/netns/{testbed.dut}"]
    listed = {
        "links": ["ip", "-o", "link"],
        "addresses": ["ip", "-o", "address"],
        "routes": ["ip", "route", "show", "table", "all"],
        "rules": ["ip", "rule"],
        "nft": ["nft", "list", "ruleset"],
        "sysctls": ["sh", "-c", "cd /proc/sys/net/ipv4; grep -r . ip_forward conf neigh 2>/dev/null"],
        "namespaces": ["sh", "-c", f"ls /run/netns | grep {testbed.session.token}"],
    }
    return {what: sorted(testbed.host.run([*inside, *argv]).text.splitlines()) for what, argv in listed.items()}
