"""The contract of a meter: it reads the load between its start and stop, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from lastro import registry
from lastro.meters.base import Meter
from lastro.platforms.base import Instance, InstanceSpec
from lastro.results.samples import Better
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

_ROLE = "function"
# One busy CPU for half a second, 8 MiB written past the cache, and 20 pings of 1000 bytes over an interface.
_LOAD = (
    "timeout 0.5 sh -c 'while :; do :; done'; dd if=/dev/zero of=/var/tmp/file bs=1M count=8 oflag=direct 2>/dev/null; "
    "ping -n -q -c 20 -i 0.02 -s 1000 127.0.0.1"
)


class MeterContract:
    """The contract of a meter: it reads a known load, and nothing after its stop; no counter decreases."""

    meter: ClassVar[str]
    unread: ClassVar[frozenset[str]] = frozenset()  # metrics that a reading may lack: some kernels do not report them

    def test_it_reads_a_known_load_and_nothing_after_it(self, testbed: Testbed, pool: PlatformPool) -> None:
        with pool.get("runc").start(testbed, InstanceSpec("loaded", _ROLE)) as instance:
            idle, objects = instance.pids(), testbed.session.mark()
            meter = registry.get(Meter, self.meter)(testbed, {_ROLE: instance})
            declared = {metric.name: metric for metric in meter.metrics}
            quiet, loaded = _read(meter, instance, "sleep 0.2"), _read(meter, instance, _LOAD)
            instance.run(["sh", "-c", _LOAD])
            assert (meter.read(), meter.notes()) == loaded, "what comes after the end is not part of it"
            for values, notes in (quiet, loaded):
                assert declared.keys() - self.unread <= values.keys() <= declared.keys()
                assert all(map(math.isfinite, values.values()))
                assert all(value >= 0 or declared[name].signed for name, value in values.items()), "a counter fell"
                json.dumps(notes)
            self.check(*loaded)
            assert instance.pids() == idle, "it left processes behind"
            assert testbed.session.mark() == objects, "it left objects behind"

    def check(self, values: Mapping[str, float], notes: Mapping[str, Any]) -> None:
        """Assert what must be true of this meter's reading of the known load; a subclass may define it."""

    def test_its_metrics_are_declared_in_full(self) -> None:
        metrics = registry.get(Meter, self.meter).metrics
        assert len({metric.name for metric in metrics}) == len(metrics)
        assert all(metric.unit and metric.summary and metric.better in get_args(Better) for metric in metrics)


def _read(meter: Meter, instance: Instance, script: str) -> tuple[dict[str, float], dict[str, Any]]:
    meter.start()
    instance.run(["sh", "-c", script])
    meter.stop()
    return meter.read(), meter.notes()
