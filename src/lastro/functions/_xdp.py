"""XDP programs on the ports of an instance: how they are loaded, and what they count.

A program runs on the CPU that polls the port, no matter which process attached it. So Lastro attaches it with rights
that the instance does not get: a container that may load programs (CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN) would be less
confined than the containers it is compared with.

Programs and maps are pinned in a file system that is mounted only in the mount namespace of the instance, and ends with
that namespace; a program also ends with its port. So a killed Lastro leaves neither program nor pin behind.

Only the native mode avoids the work for a packet. In this mode, a program takes single frames: a veth divides segments
before it hands them over, and copies most frames for the program. Behind it, the kernel may merge them (GRO). Source:
drivers/net/veth.c of Linux."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.functions._forwarding_path import CounterReading
from lastro.platforms.base import Instance

PACKAGES = ("bpftool", "xdp-tools")
VERSION = {"xdp-filter": ("xdp-filter", "load", "--version")}
# How such links were measured, for the report.
CONDITION = {
    "XDP": "native, on the ports where packets arrive, which hand it single frames; "
    "if it forwards, the other ends of its links complete checksums"
}
PINNED = "/sys/fs/bpf"
_NATIVE = 1  # XDP_ATTACHED_DRV of linux/if_link.h
# mount(8) is setuid, and in a user namespace its owner is not the root of the host.
_MOUNT = f"setpriv --no-new-privs mount -t bpf bpf {PINNED}\n"
REMEDY = "attach the function by veth, on a platform whose kernel has BPF with BTF (CONFIG_DEBUG_INFO_BTF)"


@dataclass(frozen=True, slots=True)
class XdpProgram:
    """An XDP program of `tool` that is attached to ports of an instance.

    `counters` is the path of its map of counters below PINNED; `names` maps the keys of that map to names."""

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
            raise Unavailable(f"{self.tool} cannot be attached natively to {where}: {words}", REMEDY) from error
        self._require_native("at its start")
        yield
        self._require_native("at the end of the trial")

    def counted(self) -> dict[str, CounterReading]:
        """Return what the program has counted, packets and bytes on all CPUs, by the name of the counter.

        Raises: PlatformError when the counters cannot be read."""
        try:
            dump = f"bpftool --json map dump pinned {PINNED}/{self.counters}\n"
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
