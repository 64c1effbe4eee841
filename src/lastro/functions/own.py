"""A network function that a study brings: a command on its own files, which the root filesystem has.

`image.functions` put them there. The command runs as root in a chroot, with the instance's /dev, /proc, /run, /sys and
/tmp. Lastro mounts these with the rights of the host before it starts the command, since most instances may not mount.
The command's output goes to a file in memory, so that it does not leave the instance during a measurement."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from lastro.errors import CommandFailed, CommandTimeout, LastroError, PlatformError, Unavailable
from lastro.functions.base import CounterReading, ForwardingPath, Function, interface_counters
from lastro.host.base import Process
from lastro.host.shell import quoted
from lastro.image.functions import FUNCTIONS, MOUNT_POINTS, InstalledFunction, function_in
from lastro.platforms.base import Instance

_CHECK_PERIOD_S = 0.1  # between two checks whether the function is ready
_MOST_CHARACTERS = 600  # of the function's own output in a message
_NOT_FORWARDING = {"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0"}


class BroughtFunction(Function):
    """A function that a study brings; `brought_function` makes its class. It needs an instance for itself.

    It must decrement the TTL of each packet, as every hop does: the counter of the next function relies on that."""

    capabilities = ("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_CHROOT")
    per_packet = True

    @contextmanager
    def installed(
        self, instance: Instance, path: ForwardingPath, implementation: str = "kernel"
    ) -> Iterator[Callable[[], dict[str, CounterReading]]]:
        """Run the function's command inside the block; yield a callable that returns its counters' readings by name.

        Raises: Unavailable if the function cannot run here; PlatformError if the command ends before the block does."""
        if implementation != "kernel":
            why = f"function '{self.name}' is a command, which does not run in {implementation}"
            raise Unavailable(why, 'use implementation = "kernel"')
        function = function_in(instance.testbed.original, self.name)
        if function is None:
            raise Unavailable(f"the root filesystem has no function '{self.name}'", "run a study that brings it")
        _mount_own_directories(instance, self.name, function)
        by_kernel = function.forwarding == "kernel"
        if not by_kernel:
            instance.set_sysctls(_NOT_FORWARDING)
        running = _start(self.name, instance, path, function)
        try:
            running.wait()
            if by_kernel:
                self._load(instance, path)  # now, since many rulesets begin with `flush ruleset`
            try:
                yield partial(self.counters if by_kernel else interface_counters, instance, path)
            except LastroError:
                running.require_alive("during the trial")  # its end explains the error
                raise
            running.require_alive("during the trial")
        finally:
            running.process.stop()


def brought_function(name: str) -> type[BroughtFunction]:
    """Return the class of a function that a study brings."""
    return type(name, (BroughtFunction,), {"name": name, "summary": "brought by the study"})


@dataclass(frozen=True, slots=True)
class _RunningFunction:
    """The running process of a function. `log` is the file in the instance with the function's output.

    `enter` is the prefix of each command that must run in the function's chroot and environment."""

    name: str
    instance: Instance
    function: InstalledFunction
    process: Process
    enter: Sequence[str]
    log: str

    def wait(self) -> None:
        """Wait until the function is ready. Raises: PlatformError when it ends, or is not ready in time."""
        check = [*self.enter, *self.function.ready] if self.function.ready else ["test", "-e", self.log]
        deadline_s = time.monotonic() + self.function.ready_s
        while True:
            self.require_alive("at its start")
            try:
                done = self.instance.run(check, timeout_s=max(1.0, deadline_s - time.monotonic()), check=False)
                if done.returncode == 0:
                    return
                result = (done.error_text or done.text).strip()[-_MOST_CHARACTERS:] or f"exit code {done.returncode}"
            except CommandTimeout:
                result = "it did not end"
            if time.monotonic() > deadline_s:
                raise PlatformError(
                    f"function '{self.name}' is not ready within {self.function.ready_s:g} s. Its check: {result}. "
                    f"The function: {self._last_output() or 'no output'}",
                    "raise `ready_s` in the study, or correct what its check waits for",
                )
            time.sleep(_CHECK_PERIOD_S)

    def require_alive(self, when: str) -> None:
        """Check that the function still runs. Raises: PlatformError with its last output when it has ended."""
        if not self.process.alive():
            code = self.process.stop().returncode
            raise PlatformError(
                f"function '{self.name}' ended {when} with exit code {code}: {self._last_output() or 'no output'}",
                "its command must run until the trial ends: `exec sleep infinity` after a set-up that ends",
            )

    def _last_output(self) -> str:
        text = self.instance.run(["tail", "-c", str(_MOST_CHARACTERS), self.log], check=False).text
        return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def _mount_own_directories(instance: Instance, name: str, function: InstalledFunction) -> None:
    """Mount the instance's own /dev, /proc and others below the root of a function's files. Raises: Unavailable."""
    (root, directory) = quoted(f"/{FUNCTIONS}/{name}", f"/{FUNCTIONS}/{name}/{function.directory}")
    mounts = [f"mount --rbind /{name} {root}/{name}\n" for name in MOUNT_POINTS]
    try:
        instance.run_with_rights(f"mkdir -p {directory} || :\n{''.join(mounts)}")
    except CommandFailed as error:
        raise Unavailable(
            f"a function that a study brings cannot have /proc and /dev on this platform: {error.message}",
            "measure it on a platform that shares the host's kernel, such as runc, or in a virtual machine",
        ) from error


def _start(name: str, instance: Instance, path: ForwardingPath, function: InstalledFunction) -> _RunningFunction:
    root, log = f"/{FUNCTIONS}/{name}", f"{instance.memory_dir}/function.log"
    variables = {**function.environment, **_port_variables(instance, path)}
    enter = [
        "/usr/bin/env", "-i", *(f"{key}={value}" for key, value in variables.items()),
        "/usr/bin/nsenter", f"--root={root}", f"--wd={root}/{function.directory}", "--",
    ]  # fmt: skip
    logged = ["sh", "-c", 'exec "$@" >"$0" 2>&1', log, *enter, *function.command]
    return _RunningFunction(name, instance, function, instance.spawn(logged), enter, log)


def _port_variables(instance: Instance, path: ForwardingPath) -> dict[str, str]:
    """Return environment variables that describe both ports: name, addresses, and the next hop behind each port.

    Pings make the hardware addresses of the next hops known, for functions that do not use the kernel's neighbour
    table."""
    source, sink = quoted(path.source, path.sink)
    ip = "ip -j -6" if path.version == "6" else "ip -j"
    script = f"""for end in {source} {sink}; do ping -n -c 1 -w 3 $end >/dev/null || :; done
{ip} route get {source}
{ip} route get {sink}
{ip} neigh show
"""
    text = instance.run(["sh", "-e"], stdin=script).text
    *routes, neighbours = (json.loads(line) for line in text.splitlines() if line.strip())
    next_macs = {(entry["dst"], entry["dev"]): entry.get("lladdr", "") for entry in neighbours}
    macs = {link["ifname"]: link.get("address", "") for link in instance.links()}
    variables: dict[str, str] = {}
    sides = (("IN", path.inside, path.inside_address), ("OUT", path.outside, path.outside_address))
    for (side, port, address), (route,) in zip(sides, routes, strict=True):
        next_hop = route.get("gateway", route["dst"])
        variables |= {
            f"LASTRO_{side}": port,
            f"LASTRO_{side}_ADDRESS": f"{address}/{path.prefix}",
            f"LASTRO_{side}_MAC": macs.get(port, ""),
            f"LASTRO_{side}_NEXT": next_hop,
            f"LASTRO_{side}_NEXT_MAC": next_macs.get((next_hop, port), ""),
        }
    return variables
