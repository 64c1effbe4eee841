"""XDP programs on the ports of an instance: how they are loaded, what they count, and the functions that use them.

A program runs on the CPU that polls the port, no matter which process attached it. So Lastro attaches it with rights
that the instance does not get: a container that may load programs (CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN) would be less
confined than the containers it is compared with.

Programs and maps are pinned in a file system that is mounted only in the mount namespace of the instance, and ends with
that namespace; a program also ends with its port. So a killed Lastro leaves neither program nor pin behind.

Only the native mode avoids the work for a packet. In this mode, a program takes single frames: a veth divides segments
before it hands them over, and copies most frames for the program. Behind it, the kernel may merge them (GRO).

A function that drops frames uses `xdp-filter` of Debian's xdp-tools, on the port where the flow arrives: it drops them
before the kernel makes packets of them, and the kernel forwards the frames that it passes. bpftool puts hundreds of
addresses into the map in the time that xdp-filter takes for one; afterwards, `xdp-filter status` shows whether all are
blocked.

Plain forwarding uses our own program, on both ports (image/programs/xdp-forward.c). The kernel's routes and neighbours
decide where a packet goes. Packets that the program cannot forward, it passes to the kernel, which forwards them. Its
counter `crossed` counts only packets that the program itself forwarded from the inside to the outside. A veth accepts
redirected frames only if its other end has an XDP program, too. So a program that passes everything is attached there.
Since a redirected frame keeps its checksum as it is, the other end also completes checksums. Neither is needed behind a
virtual machine's card. Source: drivers/net/veth.c of Linux."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.functions._forwarding_path import BROKEN, CounterReading, ForwardingPath
from lastro.host.base import Host
from lastro.host.ledger import NETNS_DIR
from lastro.host.local import build_host
from lastro.host.shell import quoted
from lastro.image.programs import BPF, build_program
from lastro.platforms.base import Instance

PACKAGES = ("bpftool", "xdp-tools")
HOST_PACKAGES = ("clang", "libbpf-dev")  # to compile our program
VERSION = {"xdp-filter": ("xdp-filter", "load", "--version")}
# How such links were measured, for the report.
CONDITION = {
    "XDP": "native, on the ports where packets arrive, which hand it single frames; "
    "if it forwards, the other ends of its links complete checksums"
}
_PINNED = "/sys/fs/bpf"
_NATIVE = 1  # XDP_ATTACHED_DRV of linux/if_link.h
# mount(8) is setuid, and in a user namespace its owner is not the root of the host.
_MOUNT = f"setpriv --no-new-privs mount -t bpf bpf {_PINNED}\n"
_REMEDY = "attach the function by veth, on a platform whose kernel has BPF with BTF (CONFIG_DEBUG_INFO_BTF)"


@dataclass(frozen=True, slots=True)
class XdpProgram:
    """An XDP program of `tool` that is attached to ports of an instance.

    `counters` is the path of its map of counters below _PINNED; `names` maps the keys of that map to names."""

    tool: str
    instance: Instance
    ports: Sequence[str]
    counters: str
    names: Mapping[int, str]

    @contextmanager
    def loaded(self, script: str) -> Iterator[None]:
        """Attach the program by a shell script inside the block.

        Raises: Unavailable when it cannot be attached natively; PlatformError when it was detached before the block
        ended."""
        try:
            self.instance.run_with_rights(_MOUNT + script, of_host=True)
        except CommandFailed as error:
            words = " / ".join(error.stderr.strip().splitlines()[-3:]) or error.message
            where = " and ".join(self.ports)
            raise Unavailable(f"{self.tool} cannot be attached natively to {where}: {words}", _REMEDY) from error
        self._require_native("at its start")
        yield
        self._require_native("at the end of the trial")

    def counted(self) -> dict[str, CounterReading]:
        """Return what the program has counted, packets and bytes on all CPUs, by the name of the counter.

        Raises: PlatformError when the counters cannot be read."""
        try:
            dump = f"bpftool --json map dump pinned {_PINNED}/{self.counters}\n"
            entries = json.loads(self.instance.run_with_rights(dump, of_host=True))
            by_key = {_number(entry["key"]): [cpu["value"] for cpu in entry["values"]] for entry in entries}
            readings = {}
            for key, name in self.names.items():
                octets_by_cpu = by_key[key]  # two numbers of eight octets: packets and bytes
                packets = sum(_number(octets[:8]) for octets in octets_by_cpu)
                readings[name] = CounterReading(packets, sum(_number(octets[8:16]) for octets in octets_by_cpu))
            return readings
        except (CommandFailed, ValueError, KeyError, TypeError) as error:
            where = " and ".join(self.ports)
            raise PlatformError(f"the counters of the XDP program on {where} cannot be read: {error}") from error

    def _require_native(self, when: str) -> None:
        links = {link["ifname"]: link for link in self.instance.links()}
        for port in self.ports:
            if (mode := links[port].get("xdp", {}).get("mode")) != _NATIVE:
                state = "is not attached" if mode is None else "is not in native mode"
                raise PlatformError(f"the XDP program {state} to {port} {when}")


def _number(octets: Sequence[str]) -> int:
    """Parse a number that bpftool prints as a list of bytes in the host's order, such as ["0x01", "0x00"]."""
    return int.from_bytes((int(octet, 16) for octet in octets), sys.byteorder)


PASSED = "passed"
_MOST_ADDRESSES = 10_000  # of xdp-filter's map
_FILTER_COUNTERS = {0: BROKEN, 1: "blocked", 2: PASSED}  # by enum xdp_action of linux/bpf.h: aborted, drop, pass
_FILTER_MAPS = "xdp-filter"
# In a row of functions, the previous one may have attached a program to this port. xdp-filter does not replace it.
_FILTER_LOAD = """ip link set dev {port} xdpdrv off
xdp-filter load --mode native --policy allow --features ipv4,tcp,udp {port}
for port in {ports}; do xdp-filter port $port; done
bpftool batch file - >/dev/null <<'END'
{addresses}END
n=$(xdp-filter status | grep -c ' src ') || :
[ "$n" -eq {n} ] || {{ echo "xdp-filter blocks $n addresses instead of {n}" >&2; exit 1; }}
"""
_ADDRESS = (
    f"map update pinned {_PINNED}/{_FILTER_MAPS}/filter_ipv4 key {{key}} value 1 0 0 0 0 0 0 0\n"  # 1: as a source
)


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
        why = f"xdp-filter has room for {_MOST_ADDRESSES} addresses, and this function blocks {n}"
        raise Unavailable(why, f'block {n - _MOST_ADDRESSES} addresses less, or use implementation = "kernel"')
    addresses = "".join(_ADDRESS.format(key=source.replace(".", " ")) for source in blocked.sources)
    script = _FILTER_LOAD.format(port=port, ports=" ".join(map(str, blocked.ports)), addresses=addresses, n=n)
    program = XdpProgram("xdp-filter", instance, (port,), f"{_FILTER_MAPS}/xdp_stats_map", _FILTER_COUNTERS)
    with program.loaded(script):
        yield program


_NAME = "xdp-forward"
_OBJECT = f"usr/local/bin/lastro-{_NAME}"
_FORWARD_MAPS = "forward"
TO_KERNEL = "to_kernel"
_FORWARD_COUNTERS = {0: "crossed", 1: TO_KERNEL}
# The pings make the next hops known, before packets of a measurement need them.
_FORWARD_LOAD = """for end in {source} {sink}; do ping -n -c 1 -W 2 $end >/dev/null || :; done
bpftool prog loadall /{object} {maps} type xdp pinmaps {maps}
bpftool map update pinned {maps}/ports key 0 0 0 0 value {inside}
bpftool map update pinned {maps}/ports key 1 0 0 0 value {outside}
bpftool net attach xdpdrv pinned {maps}/xdp_inside dev {path.inside} overwrite
bpftool net attach xdpdrv pinned {maps}/xdp_outside dev {path.outside} overwrite
"""
# If functions of a row are joined directly, the other end may already have a program, which forwards.
_PREPARE_OTHER_END = """end=$(ip -o link show | sed -n 's/^{index}: \\([^@:]*\\).*/\\1/p')
ethtool --offload $end tx off
ip link show dev $end | grep -q prog/xdp || ip link set dev $end xdpdrv object {file} program xdp_pass
"""


def programs(host: Host) -> tuple[str, ...]:
    """Return the path, on this host, of the compiled program, to copy into the image. Raises: Unavailable."""
    return (build_program(host, _NAME, f"apt-get install {' '.join(HOST_PACKAGES)}", compiler=BPF),)


@contextmanager
def forwarding(instance: Instance, path: ForwardingPath) -> Iterator[XdpProgram]:
    """Forward packets between the two ports of `path` by an XDP program inside the block.

    Raises: Unavailable when the program is not in the root filesystem; and as `XdpProgram.loaded`."""
    if instance.run(["test", "-e", f"/{_OBJECT}"], check=False).returncode != 0:
        programs(build_host(instance.testbed.host))
        raise Unavailable(f"the root filesystem has no {_OBJECT}", "use one that Lastro builds on this host")
    links = {link["ifname"]: link for link in instance.links()}
    script = _FORWARD_LOAD.format(
        source=path.source,
        sink=path.sink,
        object=_OBJECT,
        maps=f"{_PINNED}/{_FORWARD_MAPS}",
        inside=_port_struct(links[path.inside], path.ttl or (0, 255)),
        outside=_port_struct(links[path.outside], (0, 255)),
        path=path,
    )
    ports, counters = (path.inside, path.outside), f"{_FORWARD_MAPS}/counters"
    program = XdpProgram(f"lastro-{_NAME}", instance, ports, counters, _FORWARD_COUNTERS)
    with program.loaded(script):
        if instance.shares_kernel:  # the card of a virtual machine has no other end that is a veth
            _prepare_other_ends(instance, path)
        yield program


def _port_struct(link: dict[str, Any], ttl: tuple[int, int]) -> str:
    """Return `struct port` of the program as bytes for bpftool: index and address of a link, and the TTLs to count."""
    octets = [*link["ifindex"].to_bytes(4, sys.byteorder), *bytes.fromhex(link["address"].replace(":", "")), *ttl]
    return " ".join(map(str, octets))


def _prepare_other_ends(instance: Instance, path: ForwardingPath) -> None:
    """Make the other ends of both ports accept redirected frames and complete checksums. Raises: Unavailable."""
    host, file = instance.testbed.host, instance.testbed.image.tree / _OBJECT
    namespaces = host.run_json(["ip", "-n", instance.netns, "-j", "netns", "list-id"])
    names: dict[Any, str] = {entry["nsid"]: entry.get("name", "") for entry in namespaces}
    for port in (link for link in instance.links() if link["ifname"] in (path.inside, path.outside)):
        netns = names.get(port.get("link_netnsid"), instance.netns)
        script = _PREPARE_OTHER_END.format(index=port["link_index"], file=quoted(file)[0])
        try:
            # In a separate mount namespace, since `ip` mounts a file system for the programs that it loads.
            host.run(["nsenter", f"--net={NETNS_DIR / netns}", "unshare", "--mount", "sh", "-e"], stdin=script)
        except CommandFailed as error:
            why = f"the other end of {port['ifname']} cannot receive frames that XDP forwards: {error.message}"
            raise Unavailable(why, _REMEDY) from error
