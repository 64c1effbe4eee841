"""The times of an instance's lifecycle: the seconds until it starts, answers, is reached, and stops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.testbed import Testbed


@dataclass(slots=True)
class InstanceTimes:
    """The times of one instance, in seconds on the monotonic clock. All but `began_s` are durations.

    `create_s` and `port_s` do not include the time in which the attachment makes the links."""

    began_s: float  # when its start was requested
    create_s: float = 0.0  # until `start` has returned
    port_s: float = 0.0  # in which the instance takes its port, and in which a virtual machine boots
    command_s: float = 0.0  # of the first command
    packet_s: float = 0.0  # of the first packet's round trip
    stop_s: float = 0.0  # to remove the instance

    @property
    def start_s(self) -> float:
        return self.create_s + self.port_s

    @property
    def first_command_s(self) -> float:
        return self.start_s + self.command_s

    @property
    def first_packet_s(self) -> float:
        return self.start_s + self.packet_s


class TimedPlatform(Platform):
    """A wrapper of a platform that times its instances; `times_by_name` maps the name of an instance to its times."""

    def __init__(self, platform: Platform) -> None:
        super().__init__()
        self._platform = platform
        self.times_by_name: dict[str, InstanceTimes] = {}

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        times = self.times_by_name[spec.name] = InstanceTimes(time.monotonic())
        with ExitStack() as stack:
            instance = stack.enter_context(self._platform.start(testbed, spec))
            times.create_s = time.monotonic() - times.began_s
            _time_port(instance, times)
            try:
                yield instance
            finally:
                began_s = time.monotonic()
                stack.close()
                times.stop_s = time.monotonic() - began_s


def _time_port(instance: Instance, times: InstanceTimes) -> None:
    """Wrap `plug` and `ready` of an instance to record `port_s`, from the start of `plug` to the end of `ready`."""
    plug, ready = instance.plug, instance.ready
    began_s = time.monotonic()

    def timed_plug(*links: Any) -> None:
        nonlocal began_s
        began_s = time.monotonic()
        plug(*links)

    def timed_ready() -> None:
        ready()
        times.port_s = time.monotonic() - began_s

    vars(instance).update(plug=timed_plug, ready=timed_ready)
