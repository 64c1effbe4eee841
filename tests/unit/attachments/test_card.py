"""Network cards as links: which card an instance gets, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.attachments.base import Segment
from lastro.attachments.card import Card, _card, _ends
from lastro.errors import Unavailable
from lastro.platforms.base import Port
from lastro.testing.attachments import unstarted

CARDS = {"client": {"dut": "eth1"}, "dut": {"client": "eth2", "server": "eth3"}, "server": {"dut": "eth4"}}


def testbed(cards: Mapping[str, Mapping[str, str]], **sessions: str) -> Any:
    beds = {role: SimpleNamespace(cards=own, session=sessions.get(role, "here")) for role, own in cards.items()}
    dut = beds.get("dut", SimpleNamespace(cards={}, session="here"))
    dut.at = lambda role: beds.get(role, dut)
    return dut


testbed.__test__ = False  # type: ignore[attr-defined]


def chain(n: int = 2, *, takes_taps: bool = False) -> list[Segment]:
    instances = [unstarted(f"N{number}", takes_taps=takes_taps) for number in range(n + 1)]
    return [
        Segment(str(number), (Port(instances[number], "out0", ""), Port(instances[number + 1], "in0", "")))
        for number in range(n)
    ]


def test_each_end_of_a_chain_has_the_card_of_its_role() -> None:
    bed = testbed(CARDS)
    found = [(port.netns, port.name, _card(bed, role, other)) for port, role, other in _ends(chain())]
    assert found == [("N0", "out0", "eth1"), ("N1", "in0", "eth2"), ("N1", "out0", "eth3"), ("N2", "in0", "eth4")]


@pytest.mark.parametrize(
    ("cards", "sessions", "reason", "hint"),
    [
        ({}, {}, "no testbed file names the network card of the client for its link to the dut", "[client] of a file"),
        ({**CARDS, "server": {}}, {}, "card of the server for its link to the dut", 'links = { dut = "NAME" }'),
        (CARDS, {"client": "there"}, "the client is on another host", "without an `address` of the client"),
    ],
)
def test_a_card_that_nothing_names_is_unavailable_with_a_remedy(
    cards: dict[str, dict[str, str]], sessions: dict[str, str], reason: str, hint: str
) -> None:
    with pytest.raises(Unavailable, match=reason) as caught:
        [_card(testbed(cards, **sessions), role, other) for _, role, other in _ends(chain())]
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        (chain(3), "are for 2 links, and this topology has 3"),
        (chain(takes_taps=True), "a virtual machine has its ports"),
    ],
)
def test_what_cards_cannot_join_is_refused(segments: list[Segment], reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        list(_ends(segments))
    with pytest.raises(Unavailable, match="a link of card has two ends"):
        Card().member(testbed(CARDS), chain(), chain()[0].ports[0])
