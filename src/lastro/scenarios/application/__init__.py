"""A database in an instance: the cost of a platform for an application that computes and writes to the disk.

After Trindade (2018, chapter 6): MySQL, or MariaDB in its place, and sysbench OLTP on one table of 1,000,000 rows, with
the client inside the instance. Here the client may also be on the host; its transactions then come over a link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastro import registry
from lastro.attachments.base import Attachment
from lastro.instruments.base import TIME_HOST, Workload
from lastro.instruments.sysbench_oltp import SysbenchOltp
from lastro.meters.host import HostMeter
from lastro.platforms.base import Availability, Instance, InstanceSpec, Platform
from lastro.results.samples import Metric
from lastro.scenarios.base import Config, isolation_level, platform_level
from lastro.scenarios.compute import ComputeScenario
from lastro.scenarios.shared.accounts import METRICS
from lastro.scenarios.shared.point_to_point import INSTANCE_ADDRESS, PEER, joined
from lastro.scenarios.shared.topology import BuiltTopology
from lastro.study.model import Level, Setting


def known_attachment(name: str) -> object:
    """Return the attachment of this name. Raises: InputError when there is none."""
    return registry.get(Attachment, name)


_INSIDE, _PEER = "inside", "peer"
CLIENT = Setting("client", _INSIDE, "where transactions come from: inside, or the host", choices=(_INSIDE, _PEER))
LINK = Setting("link", "veth-bridge", "attachment over which they come from the host", check=known_attachment)


class ApplicationScenario(ComputeScenario):
    name = "application"
    summary = "transactions on a database in one instance, with equal resources on every platform"
    parts = ("platform", "isolation")
    settings = (*SysbenchOltp.options, CLIENT, LINK, *ComputeScenario.settings)
    metrics = (TIME_HOST, *SysbenchOltp.metrics, *METRICS, *HostMeter.metrics)

    @classmethod
    def known_metrics(cls) -> tuple[Metric, ...]:
        return cls.metrics

    @classmethod
    def tool(cls, config: Config) -> SysbenchOltp:
        return SysbenchOltp(**{option.name: option.of(config) for option in SysbenchOltp.options})

    @classmethod
    def tools(cls, configs: Sequence[Config]) -> list[str]:
        return [SysbenchOltp.name]

    def availability(self, config: Config) -> Availability:
        if CLIENT.of(config) == _PEER:
            availability = self._probes.attachment(LINK.of(config), platform_level(config))
            if not availability:
                return availability
        return super().availability(config)

    @classmethod
    def _place(cls, config: Config) -> tuple[Level, ...]:
        way = (LINK.of(config),) if CLIENT.of(config) == _PEER else ()
        return (*super()._place(config), CLIENT.of(config), *way)

    def _client(self, config: Config) -> str:
        return PEER if CLIENT.of(config) == _PEER else super()._client(config)

    def _daemons(self, config: Config, platform: Platform) -> tuple[str, ...]:
        links = self.attachments.get(LINK.of(config)).own_cgroups if CLIENT.of(config) == _PEER else ()
        return (*super()._daemons(config, platform), *links)

    @contextmanager
    def _start_all(
        self, config: Config, platform: Platform, spec: InstanceSpec, tool: Workload
    ) -> Iterator[tuple[dict[str, Instance], BuiltTopology]]:
        if CLIENT.of(config) != _PEER:
            with super()._start_all(config, platform, spec, tool) as instances_and_topology:
                yield instances_and_topology
            return
        assert isinstance(tool, SysbenchOltp)
        links = self.attachments.get(LINK.of(config))
        with joined(self.testbed, self.pool.native, platform, links, spec) as pair:
            tool.set_client(pair.peer, INSTANCE_ADDRESS)
            isolation = isolation_level(config)
            yield pair.everyone, pair.built(self.testbed, links.name, platform_level(config), isolation=isolation)
