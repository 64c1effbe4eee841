"""Proxies on the DUT: started together, reached from the client over its link, each proven by a complete answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from lastro.attachments.hosting import PORT, HostedInstance, HostingAttachment
from lastro.errors import PlatformError
from lastro.functions.http_proxy import MOST_PORTS, HttpProxy, ProxyOptions, RunningProxy
from lastro.functions.http_proxy import PORT as SERVICE_PORT
from lastro.host.base import Completed
from lastro.host.cgroups import Resources
from lastro.host.shell import quoted
from lastro.host.threads import run_all
from lastro.instruments.http_load import Endpoint, RequestedPage
from lastro.meters.host import HostMeter
from lastro.platforms.base import Instance, InstanceSpec, Platform, start_all
from lastro.results.samples import Reading
from lastro.scenarios.base import Config
from lastro.scenarios.proxy.three_node import CLIENT, SERVER, ThreeNodeTestbed
from lastro.scenarios.shared.host_memory import require_room
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.timing import InstanceTimes, TimedPlatform
from lastro.scenarios.shared.window import Meters
from lastro.testbed import Testbed

ROLE = "proxy"
MOST = 4096  # proxies: their addresses are in one network
_ANSWER_S = 180.0  # a guest without hardware support may take long
_AT_ONCE = 16
_CANNOT_CONNECT, _REFUSED = 7, "Connection refused"  # an exit code of curl, and one of its causes
_TRIES, _ONE_ANSWER_S = 50, 60  # attempts by one command; time limit of one attempt


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that has answered. Proxies that are ports of one server share it as `running`."""

    hosted: HostedInstance
    running: RunningProxy
    endpoint: Endpoint
    seen_as: str  # the address that the server sees
    start_s: float  # from the request for its instance until the instance ran with its network
    answer_s: float  # `start_s`, and the time from the start of the proxy until its first answer

    @property
    def instance(self) -> Instance:
        return self.hosted.instance


class _MemoryCheckedPlatform(TimedPlatform):
    """A platform that checks the host's free memory before each start."""

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        require_room(testbed.host)
        with super().start(testbed, spec) as instance:
            yield instance


class ProxyStarter:
    """Starts proxies on the DUT. The base network of `links` must be up.

    `client` is the instance that sends the first requests, and `page` the expected answer. `options` and `resources`
    apply to each proxy. With `shared`, for bare proxies only, proxies are ports of one server. `confined` returns an
    instance's specification with its isolation added."""

    def __init__(
        self, nodes: ThreeNodeTestbed, platform: Platform, links: HostingAttachment, client: Instance,
        page: RequestedPage, options: ProxyOptions, resources: Resources, *, shared: bool = False,
        confined: Callable[[InstanceSpec], InstanceSpec] = lambda spec: spec,
    ) -> None:  # fmt: skip
        self._nodes, self._platform, self._links = nodes, platform, links
        self._client, self._page, self._options, self._resources = client, page, options, resources
        self._per_instance = MOST_PORTS if shared else 1  # proxies at most
        self._confined = confined
        self._made = 0
        self.began_s = self.ended_s = 0.0  # of the last `add`, on the host's monotonic clock

    def add(self, stack: ExitStack, n: int) -> list[Proxy]:
        """Start `n` more proxies, and return them when all have answered; they end with the stack.

        Each has its own instance, unless proxies are ports of one server.
        Raises: any error of a start; PlatformError when a proxy does not answer, or not correctly."""
        testbed, timed = self._nodes.dut.testbed, _MemoryCheckedPlatform(self._platform)
        self.began_s = time.monotonic()
        sizes = [min(self._per_instance, n - first) for first in range(0, n, self._per_instance)]
        specs = [self._spec(self._made + number) for number in range(len(sizes))]
        instances = start_all(stack, timed, testbed, specs, at_once=_AT_ONCE)
        sized = zip(instances, sizes, strict=True)
        groups = [[self._hosted(instance) for _ in range(size)] for instance, size in sized]
        all_hosted = [hosted for group in groups for hosted in group]
        stack.enter_context(self._links.hosted(testbed, all_hosted, self._outside))
        managers = [self._answering(group, timed.times_by_name[group[0].instance.spec.name]) for group in groups]
        started: list[AbstractContextManager[list[Proxy]]] = []

        def enter(manager: AbstractContextManager[list[Proxy]]) -> list[Proxy]:
            proxies = manager.__enter__()
            started.append(manager)
            return proxies

        def end_all() -> None:
            """End proxies concurrently, since each exec into an instance takes time."""
            for future in run_all([partial(proxy.__exit__, None, None, None) for proxy in started], _AT_ONCE):
                future.result()

        stack.callback(end_all)
        futures = run_all([partial(enter, manager) for manager in managers], _AT_ONCE)
        self.ended_s = time.monotonic()
        return [proxy for future in futures for proxy in future.result()]

    def start_idle(self, stack: ExitStack, n: int) -> None:
        """Start `n` instances that are reachable like proxies, but run nothing; they end with the stack."""
        testbed = self._nodes.dut.testbed
        specs = [self._spec(self._made + number) for number in range(n)]
        idle = start_all(stack, _MemoryCheckedPlatform(self._platform), testbed, specs, at_once=_AT_ONCE)
        stack.enter_context(self._links.hosted(testbed, [self._hosted(instance) for instance in idle], self._outside))

    @property
    def _outside(self) -> str:
        return self._nodes.dut.addresses[CLIENT]

    def _spec(self, number: int) -> InstanceSpec:
        if self._links.inside_dut:
            return self._confined(self._nodes.dut.spec(ROLE, self._resources))
        spec = instance_spec(self._nodes.dut.testbed, ROLE, HttpProxy.capabilities, (PORT,))
        spec = replace(spec, resources=self._nodes.dut.testbed.on_own_cpus(self._resources))
        return self._confined(self._links.published_spec(spec, number, SERVICE_PORT, self._outside))

    def _hosted(self, instance: Instance) -> HostedInstance:
        number, self._made = self._made, self._made + 1
        # In the DUT's own namespace, proxies share its addresses, and each has a port of its own.
        return HostedInstance(number, instance, SERVICE_PORT + (number if self._links.inside_dut else 0))

    @contextmanager
    def _answering(self, hosted: Sequence[HostedInstance], times: InstanceTimes) -> Iterator[list[Proxy]]:
        """Run the proxies of one instance inside the block; yield them when each has answered.

        `hosted` has one entry for each proxy, and `times` the times of the instance."""
        began_s = time.monotonic()  # not the instance's start: all instances start before any is linked
        options = replace(self._options, ports=tuple(proxy.listens_at for proxy in hosted))
        with HttpProxy().running(hosted[0].instance, options) as running:
            # One after the other: with a cache, the first gets the object from the server for the others.
            proxies = [self._proxy(one_hosted, running, times, began_s) for one_hosted in hosted]
            running.require_alive()
            yield proxies

    def _proxy(self, hosted: HostedInstance, running: RunningProxy, times: InstanceTimes, began_s: float) -> Proxy:
        """Wait for the first answer of a proxy, which was started at `began_s`; return the proxy with its times."""
        endpoint = Endpoint(*self._links.endpoint(hosted, self._outside))
        _wait_for_answer(self._client, self._page, endpoint, running)
        answer_s = times.start_s + (time.monotonic() - began_s)
        seen_as = self._links.seen_as(hosted, self._nodes.dut.addresses[SERVER])
        return Proxy(hosted, running, endpoint, seen_as, times.start_s, answer_s)


def ask(client: Instance, page: RequestedPage, endpoint: Endpoint | None) -> None:
    """Send one request from `client` and check status, length and hash of the answer.

    The request goes through the proxy at `endpoint`, or to the server if that is None.
    Raises: PlatformError unless the answer is correct."""
    _require_whole(_request(client, page, endpoint, tries=1), page, endpoint)


def _wait_for_answer(client: Instance, page: RequestedPage, endpoint: Endpoint, running: RunningProxy) -> None:
    """Send requests until the proxy at `endpoint`, which takes some time to start, answers.

    Raises: PlatformError when the proxy has ended, does not listen in time, cannot be reached, or answers
    incorrectly."""
    deadline_s = time.monotonic() + _ANSWER_S
    while True:
        done = _request(client, page, endpoint, tries=_TRIES)
        if done.returncode != _CANNOT_CONNECT or _REFUSED not in done.error_text:
            return _require_whole(done, page, endpoint)
        running.require_alive()
        if time.monotonic() > deadline_s:
            raise PlatformError(f"nothing listened at {endpoint} within {_ANSWER_S:g} s")


def _request(client: Instance, page: RequestedPage, endpoint: Endpoint | None, *, tries: int) -> Completed:
    """Request the page from `client`; the command prints status, length and hash of the answer.

    While the connection is refused, it is tried `tries` times.

    A refused connection means that the server does not listen yet. A missing route has the same exit code of curl, but
    is not retried: curl's message distinguishes them. Source: curl(1), exit codes."""
    through, url = quoted(f"http://{endpoint}" if endpoint else "", page.url)
    script = (
        "file=$(mktemp); n=0; exec 3>&1\n"
        f"until status=$(curl --disable --silent --show-error --verbose --max-time {_ONE_ANSWER_S} --proxy {through}"
        f" --output $file --write-out '%{{http_code}} %{{size_download}}\\n' {url} 2>&1 >&3)\n"
        "do code=$?\n"
        f"case $status in *'{_REFUSED}'*) n=$((n + 1)) ;; *) n={tries} ;; esac\n"
        f'[ $n -lt {tries} ] || {{ echo "$status" >&2; rm $file; exit $code; }}\n'
        "sleep 0.03; done\n"
        "sha256sum < $file; rm $file\n"
    )
    return client.run(["sh"], stdin=script, timeout_s=_ANSWER_S, check=False)


def _require_whole(done: Completed, page: RequestedPage, endpoint: Endpoint | None) -> None:
    # The last four words are the status and the length by curl, the hash and "-" by sha256sum.
    answer, wanted = done.text.split()[-4:-1], ["200", str(page.length_bytes), page.sha256]
    if done.returncode == 0 and answer == wanted:
        return
    if done.returncode == 0:
        reason = f"{answer} instead of {wanted}"
    else:  # the kernel's reason if there is one, or else the last line of curl
        lines = done.error_text.strip().splitlines() or [f"curl error {done.returncode}"]
        reason = next((line.lstrip("* ") for line in lines if " failed: " in line), lines[-1])
    sender = f"through proxy {endpoint}" if endpoint else "from the server"
    raise PlatformError(f"no full answer {sender}: {reason}")


def ask_all(client: Instance, page: RequestedPage, proxies: Sequence[Proxy]) -> None:
    """Send one request through each proxy, a few concurrently. Raises: the first error of `ask`."""
    for future in run_all([partial(ask, client, page, proxy.endpoint) for proxy in proxies], _AT_ONCE):
        future.result()


_LEAST_S = 1.0  # CPU time is counted in ticks: in a shorter time, a few ticks would look like a busy CPU


class StartsWindow(Meters):
    """Meters on each distinct host while the proxies start. The CPU time of Lastro's commands is not foreign.

    On a remote host, that CPU time is not known, so foreign load is not judged there, only stolen time. In a guest,
    it is known, since the guest is a process of the machine below, on which foreign load is measured."""

    def __init__(self, nodes: ThreeNodeTestbed, server: Instance, own_cgroups: Sequence[str]) -> None:
        beds = [node.testbed for node in nodes.all]
        super().__init__(nodes.dut.testbed, {SERVER: server}, own_cgroups, elsewhere=beds, with_commands=True)

    def foreign_cpus(self, meter: HostMeter) -> float:
        unknown = meter.testbed.host.remote and not meter.testbed.guest_controller
        return 0.0 if unknown else super().foreign_cpus(meter) * min(1.0, meter.elapsed_s / _LEAST_S)

    def judged(self, config: Config) -> Reading:
        judgement = super().judged(config)
        reasons = tuple(f"while the proxies started, {reason}" for reason in judgement.invalid_because)
        notes = {f"{name} at start": note for name, note in judgement.notes.items()}
        return replace(judgement, notes=notes, invalid_because=reasons)
