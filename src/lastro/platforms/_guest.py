"""What all virtual machines share: commands over serial ports, and the reading of the guest's clocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.platforms.base import Instance, InstanceSpec
from lastro.testbed import Testbed

CLIENT = Path(__file__).with_name("_guest_client.py")
# Unix sockets have short names (108 bytes): the directory must be one in the session's run_dir.
SOCKET_PATTERN = "{number}.sock"
PORTS = 4  # commands at the same time: a server, a load, and two that look or prepare
_CLOCK_READINGS = 9


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One reading of a guest's clocks, in seconds. `host_s` is on the host's monotonic clock, `guest_s` on the guest's,

    `guest_real_s` on its wall clock. The reading took place at `host_s` give or take `uncertainty_s`."""

    host_s: float
    guest_s: float
    guest_real_s: float
    uncertainty_s: float


@dataclass(frozen=True, slots=True)
class Drift:
    """How fast the guest's clock ran: guest seconds per host second, 1.0 when right, known to `uncertainty`."""

    ratio: float
    uncertainty: float

    @property
    def significant(self) -> bool:
        """Whether the clock's rate differs from the host's by more than the readings can tell."""
        return abs(self.ratio - 1.0) > self.uncertainty


def drift(before: ClockSample, after: ClockSample) -> Drift:
    """The rate of the guest's monotonic clock between two readings. No time between them: nothing is known."""
    elapsed_s = after.host_s - before.host_s
    if elapsed_s <= 0:
        return Drift(1.0, math.inf)
    # The bracketing intervals are bounds, not deviations: they add up.
    ratio = (after.guest_s - before.guest_s) / elapsed_s
    uncertainty_s = before.uncertainty_s + after.uncertainty_s
    return Drift(ratio, uncertainty_s / elapsed_s)


def sample_of(text: str) -> ClockSample:
    """The reading with the narrowest bracket among the client's lines (host before, after, guest, guest real; ns).

    Raises: ValueError when there is none."""
    readings = [[int(word) for word in line.split()] for line in text.splitlines()]
    before, after, guest, real = min(readings, key=lambda reading: reading[1] - reading[0])
    return ClockSample((before + after) / 2e9, guest / 1e9, real / 1e9, (after - before) / 2e9)


class GuestInstance(Instance):
    """A virtual machine whose agent serves the Unix sockets of a directory: `*.sock`, one command at a time on each."""

    def __init__(self, testbed: Testbed, spec: InstanceSpec, *, netns: str, cgroup: str, sockets: Path) -> None:
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup)
        self.sockets = sockets

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return [*self._client, "--", *argv]

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the agent answers.

        Raises: PlatformError when it does not within `timeout_s`, or the monitor ends."""
        try:
            self.testbed.host.run([*self._client, "--wait-ready", f"{timeout_s:g}"], timeout_s=timeout_s + 10)
        except (CommandFailed, CommandTimeout) as error:
            raise PlatformError(f"guest {self.spec.name} did not come up: {error.message}") from error

    def clock(self) -> ClockSample:
        """The guest's clocks now; the best of a few readings.

        Raises: PlatformError when the guest does not answer."""
        try:
            done = self.testbed.host.run([*self._client, "--clocks", str(_CLOCK_READINGS)], timeout_s=30)
            return sample_of(done.text)
        except (CommandFailed, CommandTimeout, ValueError) as error:
            raise PlatformError(f"the clocks of guest {self.spec.name} cannot be read: {error}") from error

    @property
    def _client(self) -> tuple[str, ...]:
        return ("python3", "-I", "-S", str(CLIENT), str(self.sockets))
