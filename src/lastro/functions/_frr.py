"""FRRouting, and its ancestor Quagga, with the same two daemons, files and log. Source: the manuals of both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from lastro.functions import ospf


class Frr(ospf.Router):
    """FRRouting, with its daemons zebra and ospfd."""

    name = "frr"
    all_timers = True
    title = "FRRouting"
    package: ClassVar[str | None] = "frr"
    daemons = ("zebra", "ospfd")
    version_argv = ("/usr/lib/frr/ospfd", "--version")
    home = "/run/frr"
    more_lines: ClassVar[tuple[str, ...]] = (f" maximum-paths {ospf.MOST_PATHS}",)
    fast_lines: ClassVar[tuple[str, ...]] = (
        " timers throttle lsa all 100", " timers lsa min-arrival 50", " timers throttle spf 10 50 500",
    )  # fmt: skip

    def configuration(
        self, host_name: str, number: int, ports: Sequence[ospf.Interface], protocol: ospf.OspfSettings
    ) -> dict[str, str]:
        hostname = f"hostname {host_name}"
        lines = [hostname, f"log file {self.log} notifications", "log timestamp precision 6", "!"]
        for port in ports:
            lines += [
                f"interface {port.name}",
                " ip ospf area 0.0.0.0",
                f" ip ospf network {protocol.network_type}",
                f" ip ospf hello-interval {protocol.hello_s}",
                f" ip ospf dead-interval {protocol.dead_s}",
                f" ip ospf cost {port.cost}",
            ]
            if protocol.timers == "fast":
                lines.append(" ip ospf retransmit-interval 1")
            lines.append("!")
        lines += ["router ospf", f" ospf router-id {ospf.router_id(number)}", " log-adjacency-changes detail"]
        lines += [*self.more_lines, *(self.fast_lines if protocol.timers == "fast" else ())]
        return {"zebra.conf": f"{hostname}\n!\n", "ospfd.conf": "\n".join([*lines, "!", ""])}

    def start_lines(self) -> list[str]:
        query = "printf 'show version\\0' | nc -N -U -w 2"
        run = f"-d -z {self.home}/zserv.api --vty_socket {self.home} -P 0"
        return [
            f"chown -R frr:frr {self.home}",
            *(
                f"/usr/lib/frr/{name} {run} -f {self.home}/{name}.conf -i {self.home}/{name}.pid"
                for name in self.daemons
            ),
            # The query of vtysh, without vtysh itself, which takes as much CPU time as a daemon.
            *(ospf.wait_until_succeeds(f"{query} {self.home}/{name}.vty | grep -q Copyright") for name in self.daemons),
        ]

    def changes(self, log: str) -> Iterator[ospf.NeighbourChange]:
        pattern = r"^(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6}) .*AdjChg: Nbr ([\d.]+).*? on (\w+):.*? -> ([\w-]+)"
        for match in re.finditer(pattern, log, re.MULTILINE):
            stamp, neighbour, interface, state = match.groups()
            yield ospf.NeighbourChange(ospf.epoch_s(stamp, "%Y/%m/%d %H:%M:%S.%f"), interface, neighbour, state)


class Quagga(Frr):
    """The last releases of Quagga, 1.x. Debian no longer packages it: the user must install its programs in the path.

    The configuration omits settings that only FRRouting has: the limit of paths, which is fixed when Quagga is built,
    and the timers of link-state updates, which are those of RFC 2328 even with fast `timers`.

    Not yet tested with the real program: written from its manual and its source code."""

    name = "quagga"
    all_timers = False
    title = "Quagga"
    package = None
    programs = ("zebra", "ospfd")
    remedy = (
        "build Quagga 1.x with --enable-user=root --enable-group=root --disable-shared --disable-vtysh"
        f" --enable-multipath={ospf.MOST_PATHS}, put its zebra and ospfd into this host's PATH; Lastro copies them in"
    )
    version_argv = ("/usr/local/bin/ospfd", "--version")
    home = "/run/quagga"
    more_lines = ()
    fast_lines = (" timers throttle spf 10 50 500",)
    _ports: ClassVar[dict[str, int]] = {"zebra": 2601, "ospfd": 2604}

    def start_lines(self) -> list[str]:
        """Return the shell lines that start the daemons, and wait until each sends its password prompt on a TCP port.

        TCP is used because Quagga has no option for the path of a control socket."""
        return [
            *(
                f"/usr/local/bin/{daemon} -d -z {self.home}/zserv.api -A 127.0.0.1 -P {self._ports[daemon]}"
                f" -f {self.home}/{daemon}.conf -i {self.home}/{daemon}.pid"
                for daemon in self.daemons
            ),
            *(
                ospf.wait_until_succeeds(f"nc -d -w 2 127.0.0.1 {port} | grep -q assword")
                for port in self._ports.values()
            ),
        ]
