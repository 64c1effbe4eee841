"""The path of a flow through a network function, and what a counter on it has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Path:
    """The path through a function: its two interfaces with their addresses, and the ends of the flow."""

    inside: str = "in0"
    outside: str = "out0"
    source: str = "198.18.0.10"
    inside_address: str = "198.18.0.1"
    outside_address: str = "198.18.1.1"
    sink: str = "198.18.1.10"


class Counted(NamedTuple):
    packets: int
    bytes: int
