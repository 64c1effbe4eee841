"""The base of all implementations of an OSPF router: their configuration, and the parsing of their logs."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from lastro.host.base import Host
from lastro.platforms.base import AVAILABLE, Availability

CAPABILITIES = ("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN")
# With standard timers, a router delays its next LSA by 5 s, and retransmits an unacknowledged LSA after 5 s (RFC 2328,
# appendix B). The fast timers are those that operators set where convergence matters.
TIMERS = ("standard", "fast")
NETWORK_TYPES = ("broadcast", "point-to-point")
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")
_ANSWER_S = 15
MOST_PATHS = 64  # of equal cost to one subnet


@dataclass(frozen=True, slots=True)
class Interface:
    """A router's interface to a link: its name, and the OSPF cost of sending over it."""

    name: str
    cost: int


@dataclass(frozen=True, slots=True)
class OspfSettings:
    """OSPF settings that are the same on all routers of a network."""

    hello_s: int = 1
    dead_s: int = 4
    network_type: str = "broadcast"
    timers: str = "standard"


@dataclass(frozen=True, slots=True)
class NeighbourChange:
    """The new state of a router's neighbour, from the router's log. `at_s` is in seconds since the epoch, UTC."""

    at_s: float
    interface: str
    neighbour: str
    state: str


def router_id(number: int) -> str:
    """Return the OSPF router ID of the router with this number, counted from 0; it need not be an address."""
    high, low = divmod(number + 1, 256)
    return f"0.0.{high}.{low}"


def host_name(name: str, number: int) -> str:
    """Return the host name of a router: its name in the topology, or 'router-NUMBER' if that is not a valid host name.

    A topology file may contain any names, but only a plain word may enter a script."""
    return name if _HOST_NAME.fullmatch(name) else f"router-{number}"


class Router(ABC):
    """An implementation of OSPF.

    The image gets it from the Debian package `package`. If that is None, `programs` are copied from this host, where
    the user has installed them."""

    name: ClassVar[str]
    title: ClassVar[str]
    package: ClassVar[str | None] = None
    programs: ClassVar[tuple[str, ...]] = ()
    remedy: ClassVar[str | None] = None
    daemons: ClassVar[tuple[str, ...]]
    version_argv: ClassVar[tuple[str, ...]]
    home: ClassVar[str]
    all_timers: ClassVar[bool] = False  # whether all timers can be fast, including those of link-state updates

    @abstractmethod
    def configuration(
        self, host_name: str, number: int, ports: Sequence[Interface], protocol: OspfSettings
    ) -> dict[str, str]:
        """Return {file name: text} of the configuration files of the router with this number, counted from 0."""

    @abstractmethod
    def start_lines(self) -> list[str]:
        """Return shell lines that start the configured daemons and wait until all answer, or fail if one does not."""

    @abstractmethod
    def changes(self, log: str) -> Iterator[NeighbourChange]:
        """Yield the state changes of neighbours in the text of a router's log, in the log's order."""

    def program_files(self, host: Host) -> tuple[str, ...]:
        """Return the paths of the router's programs on this host, to copy into the image; empty if one is missing."""
        files = [file for program in self.programs if (file := host.which(program))]
        return tuple(files) if len(files) == len(self.programs) else ()

    def availability(self, host: Host) -> Availability:
        """Return whether the router's programs exist on this host, without checking that they work."""
        if missing := [program for program in self.programs if host.which(program) is None]:
            return Availability(f"this host has no program '{missing[0]}' of {self.title}", self.remedy)
        return AVAILABLE

    @property
    def log(self) -> str:
        return f"{self.home}/ospf.log"

    def start_script(self, files: Mapping[str, str]) -> str:
        """Return the script that starts the router, for `sh -e` inside the instance."""
        written = [f"cat > {self.home}/{name} <<'END'\n{text.rstrip()}\nEND" for name, text in files.items()]
        return "\n".join(["umask 022", f"mkdir -p {self.home}", *written, *self.start_lines(), ""])

    def dead_script(self) -> str:
        """Return shell lines that print the name of every daemon that no longer runs.

        A zombie counts as ended: it remains where the first process of a container does not wait for its children."""
        pid_files = " ".join(f"{daemon}:{self.home}/{daemon}.pid" for daemon in self.daemons)
        return (
            f"for each in {pid_files}; do pid=$(cat ${{each#*:}} 2>/dev/null)"
            " && grep -q '^State:[[:space:]]*[^ZX]' /proc/$pid/status 2>/dev/null || echo ${each%%:*}; done\n"
        )


def wait_until_succeeds(command: str) -> str:
    """Return shell code that repeats a command until it succeeds, or exits with 1 after `_ANSWER_S` seconds."""
    return f"n=0; until {command} >/dev/null 2>&1; do [ $((n += 1)) -lt {20 * _ANSWER_S} ] || exit 1; sleep 0.05; done"


def epoch_s(stamp: str, form: str) -> float:
    """Return a log's time stamp, in UTC and in the `strptime` format `form`, as seconds since the epoch."""
    return datetime.strptime(stamp, form).replace(tzinfo=UTC).timestamp()
