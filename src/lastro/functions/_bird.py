"""BIRD, version 2. Source: its manual."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lastro.functions import ospf


class Bird(ospf.Router):
    name = "bird"
    title = "BIRD"
    package = "bird2"
    daemons = ("bird",)
    version_argv = ("bird", "--version")
    home = "/run/bird"

    def configuration(
        self, host_name: str, number: int, ports: Sequence[ospf.Interface], protocol: ospf.OspfSettings
    ) -> dict[str, str]:
        kind = {"broadcast": "broadcast", "point-to-point": "ptp"}[protocol.network_type]
        retransmit = " retransmit 2;" if protocol.timers == "fast" else ""
        interfaces = [
            f'    interface "{port.name}" {{ type {kind}; hello {protocol.hello_s}; dead {protocol.dead_s};'
            f" cost {port.cost};{retransmit} }};"
            for port in ports
        ]
        text = "\n".join(
            [
                f"# {host_name}",
                f'log "{self.log}" all;',
                "timeformat log iso long us;",
                f"router id {ospf.router_id(number)};",
                "protocol device {}",
                "protocol kernel {",
                f"  merge paths on limit {ospf.MOST_PATHS};",
                "  ipv4 { import none; export where source ~ [ RTS_OSPF ]; };",
                "}",
                "protocol ospf v2 lab {",
                f"  debug {{ states, events }}; ecmp yes limit {ospf.MOST_PATHS};",
                "  ipv4 { import all; export none; };",
                "  area 0 {",
                *interfaces,
                "  };",
                "}",
                "",
            ]
        )
        return {"bird.conf": text}

    def start_lines(self) -> list[str]:
        socket = f"{self.home}/bird.ctl"
        return [
            f"bird -c {self.home}/bird.conf -s {socket} -P {self.home}/bird.pid",
            ospf.wait_until_succeeds(f"birdc -s {socket} show status"),
        ]

    def changes(self, log: str) -> Iterator[ospf.NeighbourChange]:
        time, change = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}) .*", r"changed state from [\w-]+ to ([\w-]+)"
        pattern = rf"{time}Neighbor ([\d.]+) on (\w+) {change}"
        for match in re.finditer(pattern, log, re.MULTILINE):
            stamp, neighbour, interface, state = match.groups()
            yield ospf.NeighbourChange(ospf.epoch_s(stamp, "%Y-%m-%d %H:%M:%S.%f"), interface, neighbour, state)
