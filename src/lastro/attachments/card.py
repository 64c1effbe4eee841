"""Network cards of the host as links: cables, or a switch outside of the host, join them.

The testbed file names the cards by roles, as for a three-node testbed. In a chain, the source gets the card of the
client, the function both cards of the DUT, and the sink that of the server. Each card is moved into the namespace of
its instance for a trial, and then given back. A virtual function of a card (SR-IOV) is a card like any other.

Tested with ends of veth pairs in place of cards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from lastro.attachments._offloads import switch_off
from lastro.attachments.base import Attachment, Segment
from lastro.errors import PlatformError, Unavailable
from lastro.grouping import by_key
from lastro.host.cards import card_in_namespace
from lastro.platforms.base import Port
from lastro.testbed import Testbed

_LINKS = (("client", "dut"), ("dut", "server"))
_CARRIER_S, _PERIOD_S = 15.0, 0.1  # both ends of a cable first agree on its speed


class Card(Attachment):
    name = "card"
    summary = "network cards or SR-IOV functions that the testbed file names, each moved into its instance"
    remedy = "connect each pair of cards by a cable or a switch that forwards every address"
    wired = True

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        with ExitStack() as stack:
            for port, role, other in _ends(segments):
                card = _card(testbed, role, other)
                purpose = f"for the {role}'s link to the {other}"
                stack.enter_context(card_in_namespace(testbed.session, card, port.netns, purpose, port.name))
            yield

    def plug(self, segments: Sequence[Segment]) -> None:
        super().plug(segments)
        deadline_s = time.monotonic() + _CARRIER_S
        for port, role, other in _ends(segments):
            show = ["ip", "-n", port.netns, "-j", "link", "show", "dev", port.name]
            while "LOWER_UP" not in port.instance.testbed.host.run_json(show)[0]["flags"]:
                if time.monotonic() > deadline_s:
                    raise PlatformError(
                        f"the network card of the {role} for its link to the {other} has no carrier", self.remedy
                    )
                time.sleep(_PERIOD_S)

    def switch_offloads_off(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        switch_off(testbed, by_key((port.netns, port.name) for segment in segments for port in segment.ports))

    def facts(self, testbed: Testbed) -> dict[str, Any]:
        """Return the name and the driver of each card, by its link: {'client to dut': 'enp3s0, driver ixgbe'}."""
        facts = {}
        for role, other in (end for a, b in _LINKS for end in ((a, b), (b, a))):
            card = _card(testbed, role, other)
            printed = testbed.host.run(["sh", "-c", 'ethtool -i "$1" 2>/dev/null || :', "sh", card]).text
            driver = printed.partition("driver: ")[2].partition("\n")[0] or "unknown"
            facts[f"{role} to {other}"] = f"{card}, driver {driver}"
        return facts


def _ends(segments: Sequence[Segment]) -> Iterator[tuple[Port, str, str]]:
    """Yield each port with the role that has its card, and the role at the other end of the link.

    Raises: Unavailable for segments and instances that the cards of two links cannot join."""
    if len(segments) > len(_LINKS):
        raise Unavailable(
            f"the cards of a testbed file are for {len(_LINKS)} links, and this topology has {len(segments)}",
            'use one function and one chain (`length = 1`, `chains = 1`), or placement = "together"',
        )
    for segment, (a, b) in zip(segments, _LINKS, strict=False):
        for port, (role, other) in zip(segment.ports, ((a, b), (b, a)), strict=True):
            if port.instance.takes_taps:
                raise Unavailable(
                    "a network card is moved into a network namespace, and a virtual machine has its ports elsewhere",
                    "use platforms that share the host's kernel, such as runc or docker",
                )
            yield port, role, other


def _card(testbed: Testbed, role: str, other: str) -> str:
    bed = testbed.at(role)
    if bed.session is not testbed.session:
        raise Unavailable(
            f"the {role} is on another host, and a chain has all its instances on one",
            f"in the testbed file, name cards of one host, without an `address` of the {role}",
        )
    if other not in bed.cards:
        raise Unavailable(
            f"no testbed file names the network card of the {role} for its link to the {other}",
            f'write links = {{ {other} = "NAME" }} into the table [{role}] of a file, and pass it with --testbed',
        )
    return bed.cards[other]
