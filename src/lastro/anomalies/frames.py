"""A neighbour that sends small frames over a link at a stated rate, unlike `network`, which floods it."""

from __future__ import annotations

from lastro.anomalies.base import DOSE, WHOLE, Demand, Dose, off_dose
from lastro.anomalies.network import LINK, Network
from lastro.host.cgroups import Resources

_FRAME_BITS = 8 * 60  # as a link counts a frame: without the frame check sequence


class PacedFrames(Network):
    name = "frames"
    summary = "sends frames of 64 bytes over a link at a stated rate (setting `anomaly_frames`)"
    options = (DOSE, LINK)

    def per_s(self, demand: Demand) -> float:
        return DOSE.of(self.chosen) / WHOLE * demand.frames_per_s

    def argv(self, demand: Demand) -> list[str]:
        return super().argv(demand) if self.per_s(demand) else []

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        asked = self.per_s(demand)
        if limits.link_bps is not None and limits.link_bps < asked * _FRAME_BITS:
            return super().too_little(dose, demand, limits)
        return off_dose(dose.used / dose.elapsed_s, asked, "{:,.0f} frames/s".format)
