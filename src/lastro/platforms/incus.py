"""Incus, the community's successor of LXD, by a private daemon inside the DUT's network namespace.

Not yet tested with the real program, which Debian 12 does not have. Its command lines are LXD's with other names."""

from __future__ import annotations

from lastro.platforms._lxd import LxdPlatform
from lastro.platforms._lxd_daemon import Flavour
from lastro.requirements import Requirements


class Incus(LxdPlatform):
    name = "incus"
    summary = "Incus system containers, by a private daemon, separate from the user's"
    version_argv = ("incus", "--version")
    requirements = Requirements(packages=("incus",), optional_packages=("btrfs-progs",))
    flavour = Flavour(
        name="incus",
        daemon="incusd",
        client="incus",
        variable="INCUS",
        guest_interface="security.guestapi",
        remedy="apt-get install incus (Debian 13, Debian 12's backports, Ubuntu 24.04)",
        daemon_places=("/usr/libexec/incus/incusd", "/usr/lib/incus/incusd"),
    )
