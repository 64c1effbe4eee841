"""Plain forwarding by DPDK: testpmd, which polls both ports of an instance through packet sockets (af_packet).

It needs no network card of its own and no huge pages, so it runs on every platform and link. Polling keeps a CPU busy
even without packets, so each rate is reported with the CPU time that it cost.

testpmd reads frames as the sender's kernel prepared them for a network card. So, as for Click, both ends of the flow
send single segments, and testpmd completes checksums (its mode `csum`). It forwards every frame from one port to the
other, to the hardware address of the next hop, and leaves the TTL as it is. The instance's kernel answers ARP requests,
but does not forward. The driver's sockets reassemble fragments (PACKET_FANOUT_FLAG_DEFRAG); a packet that is then
longer than a frame is lost.

Source: the testpmd user guide and the guide of the af_packet driver, DPDK 22.11."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.functions._forwarding_path import ForwardingPath
from lastro.host.base import Process
from lastro.platforms.base import Instance

PACKAGES = ("dpdk-dev",)  # with testpmd and all drivers
VERSION = {"dpdk-testpmd": ("dpdk-testpmd", "--version")}
CONDITION = {
    "checksums and segments": "source and sink send single segments, which fit a frame; "
    "testpmd completes the checksums of plain forwarding, and the ends of the flow those of a firewall"
}
START_TIMEOUT_S = 120.0  # on an emulated machine; elsewhere a second
NO_HARDWARE = ("--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va")
_MOST_CHARACTERS = 600  # of a program's own error
_MEMORY_MB = 64
_BUFFERS = 8192  # of 2 KiB each: for two rings of 1,024 buffers, and as many again in flight
# testpmd ends when it can read from standard input, so that is a pipe without a writer. Its two threads, of which one
# only waits, may run on every CPU that the instance may use.
_RUN = """mkfifo /run/function.waits && exec 0<>/run/function.waits && rm /run/function.waits
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
exec stdbuf -oL dpdk-testpmd --lcores="(0,1)@($cpus)" "$@"
"""


def _argv(path: ForwardingPath, next_hops: tuple[str, str]) -> list[str]:
    ports = (path.inside, path.outside)
    eal = [*NO_HARDWARE, "-m", f"{_MEMORY_MB}"]
    eal += [f"--vdev=net_af_packet{number},iface={port}" for number, port in enumerate(ports)]
    app = ["--forward-mode=csum", "--nb-cores=1", f"--total-num-mbufs={_BUFFERS}", "--no-mlockall"]
    app += [f"--eth-peer={number},{address}" for number, address in enumerate(next_hops)]
    return ["sh", "-c", _RUN, "sh", *eal, "--", *app]


@contextmanager
def forwarding(instance: Instance, path: ForwardingPath) -> Iterator[None]:
    """Forward packets between the two ports of `path` by testpmd inside the block.

    Raises: Unavailable without testpmd in the root filesystem; PlatformError when a next hop does not answer, or when
    testpmd ends before the block does."""
    if instance.run(["sh", "-c", "command -v dpdk-testpmd"], check=False).returncode != 0:
        raise Unavailable("the root filesystem has no `dpdk-testpmd`", "build one with Debian's package dpdk-dev")
    hops = next_hops(instance, path)
    stop_kernel_forwarding(instance, path)
    process = instance.spawn(_argv(path, hops))
    try:
        with suppress(CommandFailed):
            process.wait_line("Press enter to exit", START_TIMEOUT_S)
        require_alive(process, "dpdk-testpmd", "at its start")
        yield
        require_alive(process, "dpdk-testpmd", "during the trial")
    finally:
        process.stop()


def stop_kernel_forwarding(instance: Instance, path: ForwardingPath) -> None:
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


def require_alive(process: Process, program: str, doing: str) -> None:
    """Check that a program still runs. Raises: PlatformError with its output when it has ended."""
    if not process.alive():
        done = process.stop()
        words = "; ".join(line.strip() for line in (done.error_text or done.text).splitlines() if line.strip())
        raise PlatformError(f"{program} ended {doing}: {words[-_MOST_CHARACTERS:] or f'exit code {done.returncode}'}")
