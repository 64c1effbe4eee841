"""Functions as an XDP program: `xdp-filter` of Debian's xdp-tools, on the port where the flow arrives.

The program drops frames before the kernel makes packets of them; the kernel forwards the frames that the program
passes. The program runs on the CPU that polls the port, no matter which process attached it. So Lastro attaches it with
rights that the instance does not get: a container that may load programs (CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN) would be
less confined than the containers it is compared with.

xdp-filter keeps program and maps in a file system that is mounted only in the mount namespace of the instance, and ends
with that namespace. So a killed Lastro leaves neither program nor pin behind. bpftool puts hundreds of addresses into
the map in the time that xdp-filter takes for one; afterwards, `xdp-filter status` shows whether all are blocked.

Only the native mode avoids the work for a packet. In this mode, xdp-filter takes single frames: a veth divides segments
before it hands them over, and copies most frames for the program. Behind it, the kernel may merge them (GRO). Source:
drivers/net/veth.c of Linux."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.functions._forwarding_path import BROKEN, CounterReading
from lastro.platforms.base import Instance

PACKAGES = ("bpftool", "xdp-tools")
VERSION_ARGV = ("xdp-filter", "load", "--version")
PASSED = "passed"
# How such links were measured, for the report.
CONDITION = {"XDP": "native, on the port where the flow arrives, which hands it single frames"}
_MOST_ADDRESSES = 10_000  # of xdp-filter's map
_COUNTERS = {0: BROKEN, 1: "blocked", 2: PASSED}  # by enum xdp_action of linux/bpf.h: aborted, drop, pass
_NATIVE = 1  # XDP_ATTACHED_DRV of linux/if_link.h
_MAPS = "/sys/fs/bpf/xdp-filter"
# mount(8) is setuid, and in a user namespace its owner is not the root of the host.
_LOAD = """setpriv --no-new-privs mount -t bpf bpf /sys/fs/bpf
xdp-filter load --mode native --policy allow --features ipv4,tcp,udp {port}
for port in {ports}; do xdp-filter port $port; done
bpftool batch file - >/dev/null <<'END'
{addresses}END
n=$(xdp-filter status | grep -c ' src ') || :
[ "$n" -eq {n} ] || {{ echo "xdp-filter blocks $n addresses instead of {n}" >&2; exit 1; }}
"""
_ADDRESS = "map update pinned {maps}/filter_ipv4 key {key} value 1 0 0 0 0 0 0 0\n"  # 1: as a source
_READ = f"bpftool --json map dump pinned {_MAPS}/xdp_stats_map\n"
_REMEDY = "attach the function by veth, on a platform whose kernel has BPF with BTF (CONFIG_DEBUG_INFO_BTF)"


@dataclass(frozen=True, slots=True)
class BlockedFrames:
    """The frames that a function drops: those to the TCP and UDP `ports`, and those from the addresses `sources`."""

    ports: Sequence[int]
    sources: Sequence[str]


@dataclass(frozen=True, slots=True)
class XdpProgram:
    """An XDP program that is attached to a port of an instance."""

    instance: Instance
    port: str

    def counted(self) -> dict[str, CounterReading]:
        """Return how many frames and bytes the program aborted, blocked and passed, by the name of the counter.

        Raises: PlatformError when the counters cannot be read."""
        try:
            entries = json.loads(self.instance.run_with_rights(_READ, of_host=True))
            by_action = {_number(entry["key"]): [each["value"] for each in entry["values"]] for entry in entries}
            return {
                name: CounterReading(*(sum(_number(cpu[at : at + 8]) for cpu in by_action[action]) for at in (0, 8)))
                for action, name in _COUNTERS.items()
            }
        except (CommandFailed, ValueError, KeyError, TypeError) as error:
            raise PlatformError(f"the counters of the XDP program on {self.port} cannot be read: {error}") from error

    def require_native(self, when: str) -> None:
        """Check that the program is attached in native mode. Raises: PlatformError, which says `when` it was not."""
        (link,) = (each for each in self.instance.links() if each["ifname"] == self.port)
        if (mode := link.get("xdp", {}).get("mode")) != _NATIVE:
            found = "is not attached" if mode is None else "is not in native mode"
            raise PlatformError(f"the XDP program {found} to {self.port} {when}")


def _number(octets: Sequence[str]) -> int:
    """Parse a number that bpftool prints as a list of bytes in the host's order, such as ["0x01", "0x00"]."""
    return int.from_bytes((int(each, 16) for each in octets), sys.byteorder)


@contextmanager
def attached(instance: Instance, blocked: BlockedFrames, port: str) -> Iterator[XdpProgram]:
    """Attach xdp-filter to a port inside the block, so that it drops the frames `blocked`.

    Raises: Unavailable when it cannot be attached natively, or when there are too many addresses; PlatformError when it
    was detached before the block ended."""
    if (n := len(blocked.sources)) > _MOST_ADDRESSES:
        raise Unavailable(
            f"xdp-filter has room for {_MOST_ADDRESSES} addresses, and this function blocks {n}",
            f'block {n - _MOST_ADDRESSES} addresses less, or use implementation = "kernel"',
        )
    keys = (each.replace(".", " ") for each in blocked.sources)
    addresses = "".join(_ADDRESS.format(maps=_MAPS, key=key) for key in keys)
    script = _LOAD.format(port=port, ports=" ".join(map(str, blocked.ports)), addresses=addresses, n=n)
    try:
        instance.run_with_rights(script, of_host=True)
    except CommandFailed as error:
        words = " / ".join(error.stderr.strip().splitlines()[-3:]) or error.message
        raise Unavailable(f"xdp-filter cannot be attached natively to {port}: {words}", _REMEDY) from error
    program = XdpProgram(instance, port)
    program.require_native("at its start")
    yield program
    program.require_native("at the end of the trial")
