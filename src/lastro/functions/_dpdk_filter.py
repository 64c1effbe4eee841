"""Functions that drop packets in DPDK: an Open vSwitch inside the instance, which polls both ports as testpmd does.

testpmd hands its own rules (`flow create`) to a network card, and packet sockets have none. So a switch with DPDK's
datapath matches in software: its OpenFlow flows drop the packets that the function drops, and forward the rest to the
next hop, with hardware addresses and TTL as a router sets them. Packets to the function itself are left to the kernel
of the instance, which sees a copy of every frame.

The switch cannot complete checksums, so the ends of the flow do (`Instance.complete_checksums`). Its bridge has no
interface of its own in the kernel, which would need /dev/net/tun in a container: its datapath is the one for the
switch's own tests (`--enable-dummy`), which differs in nothing else.

Source: "Open vSwitch with DPDK", ovs-vswitchd(8), ovs-ofctl(8) and ovs-actions(7), Open vSwitch 3.1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.errors import CommandFailed, PlatformError, TrialError, Unavailable
from lastro.functions._dpdk import NO_HARDWARE, START_TIMEOUT_S, next_hops, require_alive, stop_kernel_forwarding
from lastro.functions._forwarding_path import CounterReading, ForwardingPath
from lastro.host.base import Process
from lastro.host.cgroups import parse_cpus
from lastro.platforms.base import Instance

PACKAGES = ("openvswitch-switch-dpdk", "ethtool")  # in a machine, ethtool leaves checksums to the kernel
_SWITCH = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"  # an alternative to the usual program
VERSION = {"ovs-vswitchd": (_SWITCH, "--version")}
_MEMORY_MB = 128  # as for the attachment ovs-dpdk: two ports take less than half of it
# Without huge pages, the switch must have the old layout of DPDK's memory.
_DPDK = " ".join((*NO_HARDWARE, "--legacy-mem", "-m", f"{_MEMORY_MB}"))
_HOME, _BRIDGE = "/run/function.ovs", "function"
_CROSSED, _BLOCKED = 1, 2  # cookies of flows
_COOKIES = {"crossed": _CROSSED, "blocked": _BLOCKED}

# Each command must find both daemons, and the switch must find its own files.
_EXPORTS = "".join(
    f"export {variable}={_HOME}\n"
    for variable in (
        "OVS_RUNDIR",
        "OVS_DBDIR",
        "OVS_LOGDIR",
        "OVS_SYSCONFDIR",
        "RUNTIME_DIRECTORY",
    )  # the last is DPDK's
)
_RUN = f"""{_EXPORTS}quiet='--no-chdir -vconsole:warn -vsyslog:off -vfile:off'
mkdir -p {_HOME}
ovsdb-tool create {_HOME}/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server {_HOME}/conf.db --remote=punix:{_HOME}/db.sock --pidfile=database.pid --unixctl=database.ctl $quiet \\
    >{_HOME}/database.log 2>&1 & # else the end of the switch would not end this command
until [ -S {_HOME}/db.sock ]; do sleep 0.01; done
ovs-vsctl --no-wait init -- set Open_vSwitch . other_config:dpdk-init=true \\
    other_config:dpdk-extra="{_DPDK}" other_config:pmd-cpu-mask=$1
exec {_SWITCH} --enable-dummy --pidfile=switch.pid --unixctl=switch.ctl $quiet
"""
_CONNECT = f"""{_EXPORTS}vsctl="ovs-vsctl --timeout={START_TIMEOUT_S:.0f}"
until [ -S {_HOME}/switch.ctl ]; do sleep 0.01; done
$vsctl wait-until Open_vSwitch . dpdk_initialized=true
$vsctl add-br {_BRIDGE} -- set bridge {_BRIDGE} datapath_type=dummy fail_mode=secure
for port; do
    n=$((n + 1))
    $vsctl add-port {_BRIDGE} $port -- set interface $port type=dpdk ofport_request=$n \\
        options:dpdk-devargs=net_af_packet$n,iface=$port
done
ovs-ofctl add-flows {_BRIDGE} -
"""
# The switch counts in its cache, and adds the counts to the flows from time to time.
_COUNT = f"""{_EXPORTS}ovs-appctl --target={_HOME}/switch.ctl revalidator/wait
ovs-ofctl dump-flows {_BRIDGE}
"""
_END = f"cd {_HOME} && kill $(cat switch.pid database.pid) || :\n"


@dataclass(frozen=True, slots=True)
class FilteringSwitch:
    """A switch that runs in an instance."""

    instance: Instance
    process: Process

    def counted(self) -> dict[str, CounterReading]:
        """Return the packets and bytes that it forwarded from inside to outside, and those that it dropped.

        Raises: PlatformError when the switch does not answer."""
        try:
            text = self.instance.run(["sh", "-ec", _COUNT]).text
        except CommandFailed as error:
            raise PlatformError(f"the flows of the switch cannot be read: {error.message}") from error
        packets, frame_bytes = Counter[int](), Counter[int]()  # by cookie
        for numbers in re.findall(r"cookie=0x(\d+),.*n_packets=(\d+), n_bytes=(\d+)", text):
            cookie, n_packets, n_bytes = map(int, numbers)
            packets[cookie] += n_packets
            frame_bytes[cookie] += n_bytes
        return {
            name: CounterReading.of_frames(packets[cookie], frame_bytes[cookie]) for name, cookie in _COOKIES.items()
        }


@contextmanager
def filtering(instance: Instance, path: ForwardingPath, blocked: Sequence[str]) -> Iterator[FilteringSwitch]:
    """Forward packets between the two ports of `path` inside the block, except those that match one of `blocked`.

    Raises: Unavailable without the switch in the root filesystem; PlatformError when a next hop does not answer, or
    when the switch does not start or ends before the block does."""
    if instance.run(["test", "-x", _SWITCH], check=False).returncode != 0:
        raise Unavailable(f"the root filesystem has no {_SWITCH}", f"build one with Debian's package {PACKAGES[0]}")
    flows = "".join(f"{flow}\n" for flow in flows_of(instance, path, blocked))
    allowed = instance.run(["sed", "-n", r"s/^Cpus_allowed_list:\s*//p", "/proc/self/status"]).text
    stop_kernel_forwarding(instance, path)
    # The last CPU, to which no other role is pinned.
    process = instance.spawn(["sh", "-ec", _RUN, "sh", f"{1 << max(parse_cpus(allowed)):#x}"])
    try:
        try:
            done = instance.run(
                ["sh", "-ec", _CONNECT, "sh", path.inside, path.outside], stdin=flows, timeout_s=START_TIMEOUT_S
            )
        except TrialError:
            require_alive(process, "ovs-vswitchd", "at its start")
            raise
        if "Error detected" in done.error_text:
            raise PlatformError(f"the switch cannot use the ports: {done.error_text.strip()}")
        yield FilteringSwitch(instance, process)
        require_alive(process, "ovs-vswitchd", "during the trial")
    finally:
        instance.run(["sh", "-c", _END], check=False)
        process.stop()


def flows_of(instance: Instance, path: ForwardingPath, blocked: Sequence[str]) -> Iterator[str]:
    """Yield OpenFlow flows that forward, as a router does, the packets sent to the hardware addresses of the ports."""
    macs = {link["ifname"]: link["address"] for link in instance.links()}
    ip, sink = ("ipv6", "ipv6_dst") if path.version == "6" else ("ip", "nw_dst")
    own_addresses = [path.inside_address, path.outside_address, *(["fe80::/10"] if path.version == "6" else [])]
    yield from (f"priority=2,{ip},{sink}={address},actions=drop" for address in own_addresses)
    yield from (f"table=1,priority=2,cookie={_BLOCKED},{match},actions=drop" for match in blocked)
    to_source, to_sink = next_hops(instance, path)
    forth = (1, macs[path.inside], 2, macs[path.outside], to_sink, _CROSSED)
    back = (2, macs[path.outside], 1, macs[path.inside], to_source, 0)
    for in_port, in_mac, out_port, out_mac, next_mac, cookie in (forth, back):
        yield f"priority=1,in_port={in_port},dl_dst={in_mac},{ip},actions=resubmit(,1)"
        actions = f"dec_ttl,mod_dl_src:{out_mac},mod_dl_dst:{next_mac},output:{out_port}"
        yield f"table=1,priority=1,cookie={cookie},in_port={in_port},actions={actions}"
