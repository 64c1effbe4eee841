"""Round trips of ping between an instance and a peer, over any attachment: a scenario of its own in one file.

An example of docs/howto-platforms.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastro.instruments.ping import PING_INTERVAL_MS, PING_S, Ping
from lastro.platforms.base import Availability, InstanceSpec
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config, links_level, platform_level, start_s
from lastro.scenarios.shared.bases import OnLinks
from lastro.scenarios.shared.flow import rest
from lastro.scenarios.shared.host_limits import HOST_LIMITS
from lastro.scenarios.shared.point_to_point import INSTANCE, PEER, PEER_ADDRESS, joined
from lastro.scenarios.shared.topology import note_load
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.study.model import DAY_S, Setting

SETTLE_S = Setting("settle_s", 0.5, "time between the set-up of the links and the first request", 0, DAY_S)


class RoundTrips(OnLinks):
    name = "round-trips"
    summary = "echo requests from one instance to a peer behind its link"
    parts = ("platform", "attachment")
    settings = (SETTLE_S, PING_S, PING_INTERVAL_MS, *HOST_LIMITS)
    metrics = Ping.metrics

    @classmethod
    def duration_s(cls, config: Config) -> float:
        return start_s(config) + SETTLE_S.of(config) + PING_S.of(config) + 0.5

    def availability(self, config: Config) -> Availability:
        return self.parts_available(config)

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        outcome, level = Outcome(), platform_level(config)
        platform, links = self.pool.get(level), self.attachments.get(links_level(config))
        spec = InstanceSpec(self.testbed.session.unique(INSTANCE), INSTANCE)
        with joined(self.testbed, self.pool.native, platform, links, spec) as pair:
            pair.built(self.testbed, links.level, level).note(outcome)
            rest(SETTLE_S.of(config))
            daemons = (*platform.own_cgroups, *links.own_cgroups)
            window = MeasuredWindow(self.testbed, pair.everyone, config, daemons, links=links)
            with window:
                outcome.add(Ping().measure(pair.instance, pair.peer, PEER_ADDRESS, config))
            note_load(outcome, Ping.name, INSTANCE, PEER)
            window.judge(outcome)
        return outcome
