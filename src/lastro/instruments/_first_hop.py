"""The first hop of a load, for generators that write frames themselves, with all their headers."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lastro.errors import InstrumentError
from lastro.instruments.load_generator import Direction


@dataclass(frozen=True, slots=True)
class FirstHop:
    """The first hop of a direction: the sender's device and addresses, and the MAC address to which it sends.

    `source` and `target` are IP addresses.
    `own_mac` is the address of `device`, `next_mac` that of the next hop."""

    device: str
    source: str
    target: str
    own_mac: str
    next_mac: str

    @classmethod
    def of(cls, direction: Direction) -> FirstHop:
        """Return the first hop, as the sender's kernel routes it. Raises: InstrumentError if it has no route."""
        direction.sender.run(["ping", "-n", "-c", "1", "-w", "5", direction.target], timeout_s=20, check=False)
        try:
            (route,) = json.loads(direction.sender.run(["ip", "-j", "route", "get", direction.target]).text)
            device = str(route["dev"])
            next_address = str(route.get("gateway", direction.target))
            neighbours = direction.sender.run(["ip", "-j", "neigh", "show", next_address, "dev", device]).text
            (neighbour,) = json.loads(neighbours)
            (link,) = json.loads(direction.sender.run(["ip", "-j", "link", "show", "dev", device]).text)
            return cls(device, str(route["prefsrc"]), direction.target, str(link["address"]), str(neighbour["lladdr"]))
        except (ValueError, KeyError, TypeError):
            raise InstrumentError(f"the sender has no route and hardware address to {direction.target}") from None
