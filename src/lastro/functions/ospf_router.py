"""A router that speaks OSPF in one area, by one of several implementations. It answers its neighbours.

All its files are generated, and readable where the daemons read them. Source: RFC 2328, and each one's manual."""

from __future__ import annotations

from collections.abc import Iterable

from lastro.functions._bird import Bird
from lastro.functions._frr import Frr, Quagga
from lastro.functions._ospf import Router
from lastro.functions.base import Service
from lastro.host.base import Host
from lastro.image.rootfs import Needs

ROUTERS: dict[str, Router] = {router.name: router for router in (Frr(), Bird(), Quagga())}


class OspfRouter(Service):
    name = "ospf-router"
    summary = "a router that speaks OSPF: FRRouting (frr), BIRD (bird), or the user's own Quagga (quagga)"
    packages = tuple(sorted(router.package for router in ROUTERS.values() if router.package))

    @classmethod
    def needs(cls, host: Host, chosen: Iterable[str]) -> Needs:
        """All packages, so that implementations are compared on the same files; programs of the chosen ones alone."""
        return Needs(
            cls.packages, tuple(file for name in sorted(set(chosen)) for file in ROUTERS[name].own_files(host))
        )
