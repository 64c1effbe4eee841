"""The network of a container platform: its bridge and rules, with a published port for each instance.

The platform makes everything, when the network begins and whenever an instance starts. It leaves rules behind, and may
set the policy of forwarding to DROP. So each trial has its own namespace for the DUT, which ends with the trial."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import ClassVar

from lastro.attachments.base import Attachment, Segment
from lastro.attachments.hosting import GATEWAY, NETWORK, HostedInstance, HostingAttachment
from lastro.attachments.routing import forwarded, inside
from lastro.errors import Unavailable
from lastro.platforms.base import InstanceSpec, Platform
from lastro.platforms.docker import Docker
from lastro.platforms.podman import Podman
from lastro.requirements import Requirements
from lastro.testbed import Testbed

_COUNTERS = {"DNAT": "published", "MASQUERADE": "translated"}  # by the target of a rule
_RULE = re.compile(r"^\[(\d+):\d+\] -A .* -j (DNAT|MASQUERADE)\b", re.MULTILINE)


class OwnNetwork(HostingAttachment, Attachment):
    """The network that `platform` makes for its instances; `title` is the platform's name in messages."""

    platform: ClassVar[type[Docker] | type[Podman]]
    title: ClassVar[str]
    requirements = Requirements(packages=("iptables",))
    own_dut = True
    lasting = frozenset({"translated"})  # counts connections, as with `nat`

    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> AbstractContextManager[None]:
        raise Unavailable(
            f"{self.title}'s own network publishes ports, and does not join the instances of a chain",
            'use it in the scenario "proxy"; otherwise choose "nat"',
        )

    @contextmanager
    def base_network(self, testbed: Testbed, platform: Platform) -> Iterator[None]:
        if not isinstance(platform, self.platform):
            raise Unavailable(
                f"{platform.name} does not start instances on {self.title}'s own network",
                f'use it with the platform {self.platform.name}; otherwise choose "nat"',
            )
        with platform.own_network(testbed, f"{GATEWAY}/{NETWORK.prefixlen}"):
            yield

    def announced(self, spec: InstanceSpec, number: int, inside: int, outside: str) -> InstanceSpec:
        return replace(spec, published=f"{outside}:{inside + number}:{inside}")

    @contextmanager
    def hosted(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> Iterator[None]:
        yield  # the platform has connected them, and gave each the next free address

    def compile_hosted(self, hosted: HostedInstance) -> list[str]:
        return []

    def endpoint(self, hosted: HostedInstance, outside: str) -> tuple[str, int]:
        return outside, hosted.listens_at + hosted.number

    def seen_as(self, hosted: HostedInstance, outward: str) -> str:
        return outward

    def carried(self, testbed: Testbed) -> dict[str, int]:
        """Return how many packets were `routed`, and how many connections were `published` or `translated`.

        The last two count the matches of the platform's DNAT and MASQUERADE rules."""
        counted = dict.fromkeys(_COUNTERS.values(), 0)
        for packets, target in _RULE.findall(inside(testbed, ["iptables-save", "--counters", "--table", "nat"])):
            counted[_COUNTERS[target]] += int(packets)
        return {"routed": forwarded(testbed), **counted}
