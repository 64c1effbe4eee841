"""LXD, by a private daemon inside the DUT's network namespace.

Tested with LXD 5.0.2 of Debian 12, with storage `dir` and `btrfs`. For `zfs`, tests assert only the commands."""

from __future__ import annotations

from lastro.platforms._lxd import LxdPlatform
from lastro.platforms._lxd_daemon import Flavour
from lastro.requirements import Requirements


class Lxd(LxdPlatform):
    name = "lxd"
    summary = "LXD system containers, by a private daemon, separate from the user's"
    start_s = 3.3  # where nothing can be cloned, the image is unpacked for every instance
    # On a host with only the snap, this may be a script that installs it: asking for the version must not run that.
    version_argv = ("sh", "-c", 'lxd=$(command -v lxd) && head -c 4 "$lxd" | grep -q ELF && exec lxd --version', "lxd")
    requirements = Requirements(packages=("lxd",), optional_packages=("btrfs-progs",))
    flavour = Flavour(
        name="lxd",
        daemon="lxd",
        client="lxc",
        variable="LXD",
        guest_interface="security.devlxd",
        remedy="install LXD as a plain program, such as Debian's package lxd; or Incus (apt-get install incus)",
    )
