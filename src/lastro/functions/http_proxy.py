"""A caching HTTP proxy: Squid with a memory cache or none, never a disk cache.

It answers requests itself, and does not forward packets.
Source: squid.conf as documented with Squid 5. Options that are not set here have Squid's own defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar

from lastro.errors import LastroError, PlatformError
from lastro.functions.base import Service
from lastro.host.base import Process
from lastro.platforms.base import Instance

PORT = 3128
MOST_PORTS = 128  # of one Squid: MAXTCPLISTENPORTS in its source
_PLACE = "/var/tmp/lastro-proxy"  # on the instance's own disk on every platform
_CONFIG, _LOG, _PID = f"{_PLACE}/squid.conf", f"{_PLACE}/access.log", f"{_PLACE}/pid"
_USER = "proxy"
# Squid cannot become root again, and has none of its rights. Every container has the rights to start it in this way.
_UNPRIVILEGED = (
    "setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
    "--no-new-privs",
)  # fmt: skip
_UNUSED = "error:transaction-end-before-headers"
# Squid always makes shared memory. Bare processes would leave it on the host; some containers have no place for it.
# If mounts are allowed, Squid gets its own /dev/shm, which vanishes with it; otherwise it uses that of the instance.
_START = f"""echo $$ > {_PID}
mkdir -p -m 1777 /dev/shm
! unshare --mount true 2>/dev/null || exec unshare --mount sh -ec 'mount -t tmpfs tmpfs /dev/shm; exec "$@"' squid "$@"
exec "$@"
"""
MISS, HIT = "TCP_MISS/200", "TCP_MEM_HIT/200"  # whole answers: from the server, and from the cache in memory


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """The configuration of a proxy. The default sizes are those of Eiras, Couto and Rubinstein (2018)."""

    ports: tuple[int, ...] = (PORT,)  # it listens on each of them
    cache: bool = False
    memory_mb: int = 260
    largest_kb: int = 1024
    clients: str = "198.18.0.0/15"  # the addresses that may send requests


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests in a log: `results` counts them by result, such as 'TCP_MEM_HIT/200'; `clients` are source addresses."""

    results: Counter[str] = field(default_factory=Counter)
    clients: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A proxy that runs in its instance."""

    instance: Instance
    process: Process

    def require_alive(self) -> None:
        """Check that the proxy runs. Raises: PlatformError, with its last output, when it has ended."""
        if not self.process.alive():
            done = self.process.stop()
            words = (done.error_text or done.text).strip()[-600:]
            raise PlatformError(f"the proxy in {self.instance.spec.name} exited with code {done.returncode}: {words}")

    def served(self) -> dict[int, RequestCounts]:
        """Return the requests in the proxy's log, by the proxy's TCP port at which they arrived.

        A line for a connection without a request does not count."""
        script = f"grep -v ' {_UNUSED}$' {_LOG} | cut -d ' ' -f 2-4 | sort | uniq -c"
        done = self.instance.run(["sh", "-c", script])
        counts: dict[int, RequestCounts] = {}
        for count, client, port, result in (line.split() for line in done.text.splitlines()):
            of_port = counts.setdefault(int(port), RequestCounts())
            of_port.results[result] += int(count)
            of_port.clients.add(client)
        return counts


class HttpProxy(Service):
    name = "http-proxy"
    summary = "Squid: an HTTP proxy for a server, with or without a cache in memory"
    packages: ClassVar[tuple[str, ...]] = ("squid",)
    capabilities: ClassVar[tuple[str, ...]] = (
        "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID",
    )  # fmt: skip
    version_argv: ClassVar[tuple[str, ...]] = ("squid", "--version")

    def configuration(self, options: ProxyOptions) -> str:
        """Return the complete text of squid.conf."""
        cache = "" if options.cache else "cache deny all\n"
        ports = "\n".join(f"http_port {port}" for port in options.ports)
        return f"""# who may ask, and where
{ports}
acl clients src {options.clients}
http_access allow clients
http_access deny all

# objects are kept in memory alone: there is no cache_dir
{cache}cache_mem {options.memory_mb} MB
maximum_object_size {options.largest_kb} KB
maximum_object_size_in_memory {options.largest_kb} KB

# every request, by time, client, port, what became of it, bytes sent, method and address; written at once
logformat lastro %ts.%03tu %>a %lp %Ss/%03>Hs %<st %rm %ru
access_log stdio:{_LOG} lastro
buffered_logs off
cache_log stdio:{_PLACE}/cache.log
cache_store_log none
logfile_rotate 0

# one process that resolves no names, keeps no other files, and ends at once
visible_hostname proxy
dns_nameservers 127.0.0.1
pid_filename none
coredump_dir none
netdb_filename none
pinger_enable off
max_filedescriptors 4096
shutdown_lifetime 0 seconds
"""

    @contextmanager
    def running(self, instance: Instance, options: ProxyOptions) -> Iterator[RunningProxy]:
        """Run the proxy inside the block. The proxy may not answer yet when the block begins."""
        prepare = f"rm -rf {_PLACE}; mkdir -p {_PLACE}; cat > {_CONFIG}; chown -R {_USER}:{_USER} {_PLACE}"
        instance.run(["sh", "-ec", prepare], stdin=self.configuration(options))
        argv = [*_UNPRIVILEGED, "squid", "-N", "-d", "1", "-f", _CONFIG]
        process = instance.spawn(["sh", "-ec", _START, "squid", *argv])
        try:
            yield RunningProxy(instance, process)
        finally:
            # On another signal, Squid would take two seconds to end, and it has nothing to save.
            with suppress(LastroError):
                instance.run(["sh", "-c", f"kill -KILL $(cat {_PID})"], check=False)
            process.stop()


def judge_served(served: Mapping[str, int], requests: int, *, cache: bool, first: bool = True) -> list[str]:
    """Return why a proxy's log is not as expected; [] if it is. `served` has the number of requests by result.

    The proxy received `requests`: first a single one, then all others. With a cache, the first one is a miss, and all
    others are hits in memory. Without a cache, there are no hits. If `first` is false, there is no miss either, because
    the proxy shares its cache with a port that had requests before."""
    reasons = []
    if sum(served.values()) != requests:
        reasons.append(f"its log has {sum(served.values())} requests instead of {requests}")
    if failed := {result: n for result, n in served.items() if result not in (MISS, HIT)}:
        reasons.append(f"it did not answer all requests: {failed}")
    hits = served.get(HIT, 0)
    if hits != (requests - first if cache else 0):
        reasons.append(f"{hits} of {requests} answers came from the cache, which was {'on' if cache else 'off'}")
    return reasons
