"""A router that speaks OSPF with its neighbours in one area, by one of several implementations.

All its files are generated; they can be read in the instance. Source: RFC 2328, and the daemons' manuals."""

from __future__ import annotations

from collections.abc import Iterable

from lastro.functions._bird import Bird
from lastro.functions._frr import Frr, Quagga
from lastro.functions.base import Service
from lastro.functions.ospf import Router
from lastro.host.base import Host
from lastro.image.rootfs import ImageAdditions

ROUTERS: dict[str, Router] = {router.name: router for router in (Frr(), Bird(), Quagga())}


class OspfRouter(Service):
    name = "ospf-router"
    summary = "a router that speaks OSPF: FRRouting (frr), BIRD (bird), or Quagga, if the user has it (quagga)"
    packages = tuple(sorted(router.package for router in ROUTERS.values() if router.package))

    @classmethod
    def needs(cls, host: Host, chosen: Iterable[str]) -> ImageAdditions:
        """Return what an image needs for the implementations whose names are `chosen`.

        The user's programs are those of the chosen implementations only. The Debian packages are always those of all
        implementations, so that all run on the same files."""
        files = tuple(file for name in sorted(set(chosen)) for file in ROUTERS[name].program_files(host))
        return ImageAdditions(cls.packages, files)
