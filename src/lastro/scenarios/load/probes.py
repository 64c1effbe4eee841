"""The probe of a generator of frames: it sends a few over the links of a chain, on the platform."""

from __future__ import annotations

from lastro import registry
from lastro.functions.base import Function
from lastro.instruments.load_generator import LoadGenerator, Traffic
from lastro.platforms.base import AVAILABLE, Availability, Platform
from lastro.scenarios.load.probing import Prober
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.chain_probes import ChainProbes
from lastro.study.levels import NONE

_RATE_FPS, _SECONDS = 500, 0.2
_SIZE = "128"  # large enough for every generator and version of IP


class LoadProbes(ChainProbes):
    def generator(self, name: str, attachment: str, platform: str, ip: str = "4") -> Availability:
        """Return whether frames of the generator arrive, by sending some."""
        return self._once(("generator", platform, attachment, name, ip), self._probe_generator)

    def _probe_generator(self, platform: Platform, attachment: str, name: str, ip: str) -> Availability:
        links, forwarding = self._attachments.get(attachment), registry.get(Function, NONE)()
        with deployed(self._testbed, platform, links, forwarding, offloads=False, ip=ip) as chain:
            prober = Prober(self._testbed, chain, registry.get(LoadGenerator, name)(), Traffic.of(_SIZE, ip=ip))
            with prober.ready():
                probe = prober.probe(_RATE_FPS, _SECONDS)
        if not probe.received:
            return Availability(f"no frame of {name} arrived over {attachment} on {platform.name}")
        return AVAILABLE
