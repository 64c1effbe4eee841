"""What a guest adds to the machine below it, of what studies need."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from lastro.app.hosts import image_of
from lastro.errors import LastroError
from lastro.host import facts
from lastro.host.ledger import Session
from lastro.platforms.native import Native
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.scenarios.shared.probes import PartProbes
from lastro.testbed import Testbed, local_testbed

_DATAPATH = "Open vSwitch's datapath in the kernel"


def added(bed: Testbed, probes: PartProbes, links: AttachmentPool) -> list[str]:
    """Return what the guest of a testbed offers and the machine below does not; nothing if it is not a guest.

    Links are tried on both."""
    if bed.near is None:
        return []
    here, inside = _links_below(bed.near), links_of(probes, links)
    more = added_isolation(facts.isolation(bed.near.host), facts.isolation(bed.host))
    return [*more, *(name for name, works in inside.items() if works and here.get(name) is False)]


def added_isolation(here: Mapping[str, Any], guest: Mapping[str, Any]) -> list[str]:
    """Return what a guest's kernel offers to isolate instances and this machine's does not.

    Both are the chapter of `host.facts`."""
    found = ["AppArmor"] if guest["apparmor"] == "Y" != here["apparmor"] else []
    version = guest["cgroup_version"]
    found += [f"cgroup v{version}"] if version > here["cgroup_version"] else []
    if here["security_modules"] == "unknown":
        return found
    ours, theirs = (set(str(each["security_modules"]).split(",")) - {"apparmor"} for each in (here, guest))
    return [*found, *sorted(theirs - ours)]


def links_of(probes: PartProbes, links: AttachmentPool) -> dict[str, bool]:
    """Return which links a kernel has, without those that cannot be tried.

    Where Open vSwitch is not installed, its datapath in the kernel cannot be tried."""
    if not probes.platform(Native.name):
        return {}
    found = {"ipvlan": bool(probes.attachment("ipvlan", Native.name))}
    if probes.attachment("ovs", Native.name):
        found[_DATAPATH] = "in the kernel" in links.residuals("ovs").get("ovs: datapath", "")
    return found


def _links_below(near: Session) -> dict[str, bool]:
    try:
        with local_testbed(near, image_of(near)) as here, ExitStack() as stack:
            links = AttachmentPool(here, stack)
            return links_of(PartProbes(here, PlatformPool(here, stack), links), links)
    except LastroError:  # it can measure nothing itself
        return {}
