"""Plain forwarding in XDP: our own program, on both ports of an instance (image/programs/xdp-forward.c).

The kernel's routes and neighbours decide where a packet goes. Packets that the program cannot forward, it passes to the
kernel, which forwards them. Its counter `crossed` counts only packets that the program itself forwarded from the inside
to the outside.

A veth accepts redirected frames only if its other end has an XDP program, too. So a program that passes everything is
attached there. Since a redirected frame keeps its checksum as it is, the other end also completes checksums. Neither is
needed behind a virtual machine's card. Source: drivers/net/veth.c of Linux."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lastro.errors import CommandFailed, Unavailable
from lastro.functions._forwarding_path import ForwardingPath
from lastro.functions._xdp import PINNED, REMEDY, XdpProgram
from lastro.host.base import Host
from lastro.host.ledger import NETNS_DIR
from lastro.host.local import build_host
from lastro.host.shell import quoted
from lastro.image.programs import BPF, build_program
from lastro.platforms.base import Instance

PACKAGES = ("clang", "libbpf-dev")  # on the host, to compile it
_NAME = "xdp-forward"
_OBJECT = f"usr/local/bin/lastro-{_NAME}"
_MAPS = "forward"
TO_KERNEL = "to_kernel"
_COUNTERS = {0: "crossed", 1: TO_KERNEL}
# The pings make the next hops known, before packets of a measurement need them.
_LOAD = """for end in {source} {sink}; do ping -n -c 1 -W 2 $end >/dev/null || :; done
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
    return (build_program(host, _NAME, f"apt-get install {' '.join(PACKAGES)}", compiler=BPF),)


@contextmanager
def forwarding(instance: Instance, path: ForwardingPath) -> Iterator[XdpProgram]:
    """Forward packets between the two ports of `path` by an XDP program inside the block.

    Raises: Unavailable when the program is not in the root filesystem; and as `XdpProgram.loaded`."""
    if instance.run(["test", "-e", f"/{_OBJECT}"], check=False).returncode != 0:
        programs(build_host(instance.testbed.host))
        raise Unavailable(f"the root filesystem has no {_OBJECT}", "use one that Lastro builds on this host")
    links = {link["ifname"]: link for link in instance.links()}
    script = _LOAD.format(
        source=path.source,
        sink=path.sink,
        object=_OBJECT,
        maps=f"{PINNED}/{_MAPS}",
        inside=_port_struct(links[path.inside], path.ttl or (0, 255)),
        outside=_port_struct(links[path.outside], (0, 255)),
        path=path,
    )
    program = XdpProgram(f"lastro-{_NAME}", instance, (path.inside, path.outside), f"{_MAPS}/counters", _COUNTERS)
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
            raise Unavailable(
                f"the other end of {port['ifname']} cannot receive frames that XDP forwards: {error.message}", REMEDY
            ) from error
