"""Functions that drop frames in XDP: `xdp-filter` of Debian's xdp-tools, on the port where the flow arrives.

The program drops frames before the kernel makes packets of them; the kernel forwards the frames that the program
passes. bpftool puts hundreds of addresses into the map in the time that xdp-filter takes for one; afterwards,
`xdp-filter status` shows whether all are blocked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.errors import Unavailable
from lastro.functions._forwarding_path import BROKEN
from lastro.functions._xdp import PINNED, XdpProgram
from lastro.platforms.base import Instance

PASSED = "passed"
_MOST_ADDRESSES = 10_000  # of xdp-filter's map
_COUNTERS = {0: BROKEN, 1: "blocked", 2: PASSED}  # by enum xdp_action of linux/bpf.h: aborted, drop, pass
_MAPS = "xdp-filter"
# In a row of functions, the previous one may have attached a program to this port. xdp-filter does not replace it.
_LOAD = """ip link set dev {port} xdpdrv off
xdp-filter load --mode native --policy allow --features ipv4,tcp,udp {port}
for port in {ports}; do xdp-filter port $port; done
bpftool batch file - >/dev/null <<'END'
{addresses}END
n=$(xdp-filter status | grep -c ' src ') || :
[ "$n" -eq {n} ] || {{ echo "xdp-filter blocks $n addresses instead of {n}" >&2; exit 1; }}
"""
_ADDRESS = f"map update pinned {PINNED}/{_MAPS}/filter_ipv4 key {{key}} value 1 0 0 0 0 0 0 0\n"  # 1: as a source


@dataclass(frozen=True, slots=True)
class BlockedFrames:
    """The frames that a function drops: those to the TCP and UDP `ports`, and those from the addresses `sources`."""

    ports: Sequence[int]
    sources: Sequence[str]


@contextmanager
def filtering(instance: Instance, blocked: BlockedFrames, port: str) -> Iterator[XdpProgram]:
    """Attach xdp-filter to a port inside the block, so that it drops the frames `blocked`.

    Raises: Unavailable when there are too many addresses; and as `XdpProgram.loaded`."""
    if (n := len(blocked.sources)) > _MOST_ADDRESSES:
        raise Unavailable(
            f"xdp-filter has room for {_MOST_ADDRESSES} addresses, and this function blocks {n}",
            f'block {n - _MOST_ADDRESSES} addresses less, or use implementation = "kernel"',
        )
    addresses = "".join(_ADDRESS.format(key=source.replace(".", " ")) for source in blocked.sources)
    script = _LOAD.format(port=port, ports=" ".join(map(str, blocked.ports)), addresses=addresses, n=n)
    program = XdpProgram("xdp-filter", instance, (port,), f"{_MAPS}/xdp_stats_map", _COUNTERS)
    with program.loaded(script):
        yield program
