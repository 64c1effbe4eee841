"""Move network cards of a host into the network namespace of a trial, and back, with their former settings.

A card is an interface of the host's own network: a port of a network card, or one of its virtual functions (SR-IOV).
The ledger has the name of each moved card, so that the card is moved back even if Lastro is killed."""

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
def card_in_namespace(session: Session, card: str, netns: str, purpose: str, name: str = "") -> Iterator[None]:
    """Move a card of the session's host into the network namespace `netns` for the time of the block.

    The card's name in the namespace is `name`, or its own name if `name` is empty. After the block, the card is back,
    without addresses, and with its former name, state and offloads. `purpose` is for messages: 'for the client's link'.

    Raises: Unavailable when the host does not have the card, or uses it."""
    host = session.host
    shown = host.run(["ip", "-j", "-d", "address", "show", "dev", card], check=False)
    if shown.returncode != 0:
        raise Unavailable(
            f"{host.name} has no network card {card} {purpose}",
            "`ip link` there lists the cards, except those in other namespaces",
        )
    link: dict[str, Any] = next(iter(json.loads(shown.stdout)), {})
    for address in link.get("addr_info", ()):
        if address.get("scope") == "global":
            raise Unavailable(f"{card} of {host.name} has the address {address['local']}, and is in use", _NAME_ANOTHER)
    if master := link.get("master"):  # the card could not be put back into it
        raise Unavailable(f"{card} of {host.name} is a port of {master}, and is in use", _NAME_ANOTHER)
    state = _state(host, card, link)
    inside = f"{card}={name}" if name else card
    with session.owned("interface", f"{inside}@{netns}" + (f":{state}" if state else "")):
        host.run(["ip", "link", "set", "dev", card, "netns", netns, *(["name", name] if name else [])])
        yield


def _state(host: Host, card: str, link: Mapping[str, Any]) -> str:
    """Return the state of a card, shown as `link` by `ip -json -details`, as words: 'tx,tso,segs65535,up'."""
    output = host.run(["sh", "-c", 'ethtool --show-offload "$1" 2>/dev/null || :', "sh", card]).text
    enabled = set(_FEATURE.findall(output))
    words = [short for long, short in CARD_FEATURES.items() if long in enabled]
    if "gso_max_segs" in link:
        words.append(f"segs{link['gso_max_segs']}")
    if "UP" in link.get("flags", ()):
        words.append("up")
    return ",".join(words)
