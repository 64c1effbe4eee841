"""Network cards of a host, moved into the network namespace of a trial, and given back as they were.

A card is an interface of the host's own network: a port of a network card, or one of its virtual functions (SR-IOV).
The ledger has the name of each card that is away, so that it comes back even if Lastro is killed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lastro.errors import Unavailable
from lastro.host.base import Host
from lastro.host.ledger import Session
from lastro.host.undo import CARD_FEATURES

_FEATURE = re.compile(r"^([a-z-]{1,40}): on$", re.MULTILINE)
_NAME_ANOTHER = "name a card that nothing else uses: during a trial it is not in the host's own network"


@contextmanager
def moved(session: Session, card: str, netns: str, purpose: str, name: str = "") -> Iterator[None]:
    """Move a card of the session's host into a network namespace inside the block; it is called `name` there.

    An empty `name` leaves its name. The card is given back without addresses, with the name, the state and the offloads
    that it had. `purpose` is for errors, such as 'for the client's link to the dut'. Raises: Unavailable when the host
    does not have the card, or uses it."""
    host = session.host
    shown = host.run(["ip", "-j", "-d", "address", "show", "dev", card], check=False)
    if shown.returncode != 0:
        raise Unavailable(
            f"{host.name} has no network card {card} {purpose}",
            "`ip link` there lists the cards, except those in other namespaces",
        )
    found: dict[str, Any] = next(iter(json.loads(shown.stdout)), {})
    taken = [each["local"] for each in found.get("addr_info", ()) if each.get("scope") == "global"]
    if taken:
        raise Unavailable(
            f"{card} of {host.name} has the address {taken[0]}, and is in use",
            _NAME_ANOTHER,
        )
    if master := found.get("master"):  # it would not come back into it
        raise Unavailable(f"{card} of {host.name} is a port of {master}, and is in use", _NAME_ANOTHER)
    state = _state(host, card, found)
    inside = f"{card}={name}" if name else card
    with session.owned("interface", f"{inside}@{netns}" + (f":{state}" if state else "")):
        host.run(["ip", "link", "set", "dev", card, "netns", netns, *(["name", name] if name else [])])
        yield


def _state(host: Host, card: str, found: Mapping[str, Any]) -> str:
    """Return what the undo of a card switches on again, as words with commas: 'tx,tso,segs65535,up'.

    `found` is the card as `ip -json -details` shows it."""
    printed = host.run(["sh", "-c", 'ethtool --show-offload "$1" 2>/dev/null || :', "sh", card]).text
    on = set(_FEATURE.findall(printed))
    words = [short for long, short in CARD_FEATURES.items() if long in on]
    words += [f"segs{found['gso_max_segs']}"] if "gso_max_segs" in found else []
    return ",".join([*words, *(["up"] if "UP" in found.get("flags", ()) else [])])
