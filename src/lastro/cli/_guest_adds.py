"""The features that studies need and that a guest has, but the machine below it lacks."""

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


def guest_additions(bed: Testbed, probes: PartProbes, links: AttachmentPool) -> list[str]:
    """Return the names of isolation features and links that a testbed's guest has, and the machine below it lacks.

    Links are tried on both. Empty if the testbed has no guest."""
    if bed.guest_controller is None:
        return []
    below, in_guest = _links_of_machine(bed.guest_controller), supported_links(probes, links)
    more = isolation_additions(facts.isolation(bed.guest_controller.host), facts.isolation(bed.host))
    return [*more, *(name for name, works in in_guest.items() if works and below.get(name) is False)]


def isolation_additions(machine: Mapping[str, Any], guest: Mapping[str, Any]) -> list[str]:
    """Return the isolation features that the kernel of a guest has and the kernel of this machine lacks.

    Both arguments have the form of `host.facts.isolation`."""
    additions = []
    if guest["apparmor"] == "Y" != machine["apparmor"]:
        additions.append("AppArmor")
    if (version := guest["cgroup_version"]) > machine["cgroup_version"]:
        additions.append(f"cgroup v{version}")
    if machine["security_modules"] == "unknown":
        return additions
    machine_modules, guest_modules = (
        set(str(kernel["security_modules"]).split(",")) - {"apparmor"} for kernel in (machine, guest)
    )
    return [*additions, *sorted(guest_modules - machine_modules)]


def supported_links(probes: PartProbes, links: AttachmentPool) -> dict[str, bool]:
    """Return {link: whether the kernel supports it}; links that cannot be tried are left out.

    If Open vSwitch is not installed, its kernel datapath cannot be tried."""
    if not probes.platform(Native.name):
        return {}
    works_by_link = {"ipvlan": bool(probes.attachment("ipvlan", Native.name))}
    if probes.attachment("ovs", Native.name):
        works_by_link[_DATAPATH] = "in the kernel" in links.residuals("ovs").get("ovs: datapath", "")
    return works_by_link


def _links_of_machine(near: Session) -> dict[str, bool]:
    try:
        with local_testbed(near, image_of(near)) as here, ExitStack() as stack:
            links = AttachmentPool(here, stack)
            return supported_links(PartProbes(here, PlatformPool(here, stack), links), links)
    except LastroError:  # it can measure nothing itself
        return {}
