"""Functions in DPDK, which polls both ports of an instance through packet sockets (af_packet).

It needs no network card of its own and no huge pages, so it runs on every platform and link. Polling keeps a CPU busy
even without packets, so each rate is reported with the CPU time that it cost. The driver's sockets reassemble fragments
(PACKET_FANOUT_FLAG_DEFRAG); a packet that is then longer than a frame is lost.

Plain forwarding is by testpmd. It reads frames as the sender's kernel prepared them for a network card. So, as for
Click, both ends of the flow send single segments, and testpmd completes checksums (its mode `csum`). It forwards every
frame from one port to the other, to the hardware address of the next hop, and leaves the TTL as it is. The instance's
kernel answers ARP requests, but does not forward.

testpmd hands its own rules (`flow create`) to a network card, and packet sockets have none. So functions that drop
packets are an Open vSwitch inside the instance, with DPDK's datapath, which matches in software. Its OpenFlow flows
drop the packets that the function drops, and forward the rest to the next hop, with hardware addresses and TTL as a
router sets them. Packets to the function itself are left to the kernel of the instance, which sees a copy of every
frame. The switch cannot complete checksums, so the ends of the flow do (`Instance.complete_checksums`). Its bridge has
no interface of its own in the kernel, which would need /dev/net/tun in a container: its datapath is the one for the
switch's own tests (`--enable-dummy`), which differs in nothing else.

Source: the testpmd user guide and the guide of the af_packet driver, DPDK 22.11; "Open vSwitch with DPDK",
ovs-vswitchd(8), ovs-ofctl(8) and ovs-actions(7), Open vSwitch 3.1."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lastro.errors import CommandFailed, PlatformError, TrialError, Unavailable
from lastro.functions._forwarding_path import CounterReading, ForwardingPath
from lastro.host.base import Process
from lastro.host.cgroups import parse_cpus
from lastro.platforms.base import Instance

_SWITCH = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"  # an alternative to the usual program
# testpmd with all drivers, the switch, and ethtool: in a machine, it leaves checksums to the kernel
PACKAGES = ("dpdk-dev", "openvswitch-switch-dpdk", "ethtool")
VERSION = {"dpdk-testpmd": ("dpdk-testpmd", "--version"), "ovs-vswitchd": (_SWITCH, "--version")}
CONDITION = {
    "checksums and segments": "source and sink send single segments, which fit a frame; "
    "testpmd completes the checksums of plain forwarding, and the ends of the flow those of a firewall"
}
_START_TIMEOUT_S = 120.0  # on an emulated machine; elsewhere a second
_NO_HARDWARE = ("--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va")
_MOST_CHARACTERS = 600  # of a program's own error
_TESTPMD_MB = 64
_BUFFERS = 8192  # of 2 KiB each: for two rings of 1,024 buffers, and as many again in flight
# testpmd ends when it can read from standard input, so that is a pipe without a writer. Its two threads, of which one
# only waits, may run on every CPU that the instance may use.
_TESTPMD = """mkfifo /run/function.waits && exec 0<>/run/function.waits && rm /run/function.waits
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
exec stdbuf -oL dpdk-testpmd --lcores="(0,1)@($cpus)" "$@"
"""


def _argv(path: ForwardingPath, next_hops: tuple[str, str]) -> list[str]:
    ports = (path.inside, path.outside)
    eal = [*_NO_HARDWARE, "-m", f"{_TESTPMD_MB}"]
    eal += [f"--vdev=net_af_packet{number},iface={port}" for number, port in enumerate(ports)]
    app = ["--forward-mode=csum", "--nb-cores=1", f"--total-num-mbufs={_BUFFERS}", "--no-mlockall"]
    app += [f"--eth-peer={number},{address}" for number, address in enumerate(next_hops)]
    return ["sh", "-c", _TESTPMD, "sh", *eal, "--", *app]


@contextmanager
def forwarding(instance: Instance, path: ForwardingPath) -> Iterator[None]:
    """Forward packets between the two ports of `path` by testpmd inside the block.

    Raises: Unavailable without testpmd in the root filesystem; PlatformError when a next hop does not answer, or when
    testpmd ends before the block does."""
    if instance.run(["sh", "-c", "command -v dpdk-testpmd"], check=False).returncode != 0:
        raise Unavailable("the root filesystem has no `dpdk-testpmd`", "build one with Debian's package dpdk-dev")
    hops = next_hops(instance, path)
    _stop_kernel_forwarding(instance, path)
    process = instance.spawn(_argv(path, hops))
    try:
        with suppress(CommandFailed):
            process.wait_line("Press enter to exit", _START_TIMEOUT_S)
        _require_alive(process, "dpdk-testpmd", "at its start")
        yield
        _require_alive(process, "dpdk-testpmd", "during the trial")
    finally:
        process.stop()


def _stop_kernel_forwarding(instance: Instance, path: ForwardingPath) -> None:
    """Stop forwarding by the instance's kernel, since DPDK forwards.

    This is set from outside: /proc/sys is read-only in a container."""
    forwarding = "conf.all.forwarding" if path.version == "6" else "ip_forward"
    instance.set_sysctls({f"net.ipv{path.version}.{forwarding}": "0"})


def next_hops(instance: Instance, path: ForwardingPath) -> tuple[str, str]:
    """Return the hardware addresses towards source and sink. Raises: PlatformError if one does not answer."""
    return _next_hop(instance, path.source), _next_hop(instance, path.sink)


def _next_hop(instance: Instance, address: str) -> str:
    """Return the hardware address of the next hop towards `address`. Raises: PlatformError if it does not answer."""
    instance.run(["ping", "-n", "-c", "1", "-W", "2", address], check=False)
    (route,) = json.loads(instance.run(["ip", "-j", "route", "get", address]).text)
    hop = route.get("gateway", address)
    neighbours = json.loads(instance.run(["ip", "-j", "neigh", "show", hop, "dev", route["dev"]]).text)
    addresses = [entry["lladdr"] for entry in neighbours if "lladdr" in entry]
    if not addresses:
        raise PlatformError(f"no hardware address answers for {hop} on {route['dev']}")
    return str(addresses[0])


def _require_alive(process: Process, program: str, doing: str) -> None:
    """Check that a program still runs. Raises: PlatformError with its output when it has ended."""
    if not process.alive():
        done = process.stop()
        words = "; ".join(line.strip() for line in (done.error_text or done.text).splitlines() if line.strip())
        raise PlatformError(f"{program} ended {doing}: {words[-_MOST_CHARACTERS:] or f'exit code {done.returncode}'}")


_SWITCH_MB = 128  # as for the attachment ovs-dpdk: two ports take less than half of it
# Without huge pages, the switch must have the old layout of DPDK's memory.
_DPDK = " ".join((*_NO_HARDWARE, "--legacy-mem", "-m", f"{_SWITCH_MB}"))
_HOME, _BRIDGE = "/run/function.ovs", "function"
_CROSSED, _BLOCKED = 1, 2  # cookies of flows
_COOKIES = {"crossed": _CROSSED, "blocked": _BLOCKED}

# Each command must find both daemons, and the switch must find its own files; the last variable is DPDK's.
_VARIABLES = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY")
_EXPORTS = "".join(f"export {variable}={_HOME}\n" for variable in _VARIABLES)
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
_CONNECT = f"""{_EXPORTS}vsctl="ovs-vsctl --timeout={_START_TIMEOUT_S:.0f}"
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
        cookies = _COOKIES.items()
        return {name: CounterReading.of_frames(packets[cookie], frame_bytes[cookie]) for name, cookie in cookies}


@contextmanager
def filtering(instance: Instance, path: ForwardingPath, blocked: Sequence[str]) -> Iterator[FilteringSwitch]:
    """Forward packets between the two ports of `path` inside the block, except those that match one of `blocked`.

    Raises: Unavailable without the switch in the root filesystem; PlatformError when a next hop does not answer, or
    when the switch does not start or ends before the block does."""
    if instance.run(["test", "-x", _SWITCH], check=False).returncode != 0:
        why = f"the root filesystem has no {_SWITCH}"
        raise Unavailable(why, "build one with Debian's package openvswitch-switch-dpdk")
    flows = "".join(f"{flow}\n" for flow in flows_of(instance, path, blocked))
    allowed = instance.run(["sed", "-n", r"s/^Cpus_allowed_list:\s*//p", "/proc/self/status"]).text
    _stop_kernel_forwarding(instance, path)
    # The last CPU, to which no other role is pinned.
    process = instance.spawn(["sh", "-ec", _RUN, "sh", f"{1 << max(parse_cpus(allowed)):#x}"])
    try:
        try:
            connect = ["sh", "-ec", _CONNECT, "sh", path.inside, path.outside]
            done = instance.run(connect, stdin=flows, timeout_s=_START_TIMEOUT_S)
        except TrialError:
            _require_alive(process, "ovs-vswitchd", "at its start")
            raise
        if "Error detected" in done.error_text:
            raise PlatformError(f"the switch cannot use the ports: {done.error_text.strip()}")
        yield FilteringSwitch(instance, process)
        _require_alive(process, "ovs-vswitchd", "during the trial")
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
