"""A running chain of instances: source, function and sink, joined by an attachment, with the function installed.

There may be several functions in a row, each in an instance of its own or all in one. The roles of their instances are
`function`, `function2`, `function3` … A trial may have copies of a chain, on separate links with other addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from string import ascii_lowercase

from lastro.attachments.base import Attachment, Segment
from lastro.errors import PlatformError, Unavailable
from lastro.functions.base import PATHS, CounterReading, ForwardingPath, Function
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, start_each
from lastro.scenarios.shared.function_row import EACH, FunctionRow, in_row
from lastro.scenarios.shared.instance_spec import FUNCTION, instance_spec
from lastro.testbed import Testbed

ROLES = ("source", FUNCTION, "sink")
SOURCE_PORT, SINK_PORT = "out0", "in0"
_MEMBER_PORT, _MEMBER = "load0", "198.18.0.20"


@dataclass(frozen=True, slots=True)
class Chain:
    """A deployed chain."""

    # {role in this chain: instance}, in the order of the path; a copy's `spec.role` has its number: 'source-2'.
    instances: Mapping[str, Instance]
    attachment: Attachment
    function: FunctionRow
    path: ForwardingPath  # its addresses and interfaces
    segments: Sequence[Segment]  # its links
    counted: Callable[[], dict[str, CounterReading]]  # reads the functions' own counters
    copies: tuple[Chain, ...] = ()  # the other chains of the trial

    @property
    def source(self) -> Instance:
        return self.instances["source"]

    @property
    def sink(self) -> Instance:
        return self.instances["sink"]

    @property
    def all(self) -> tuple[Chain, ...]:
        """This chain and its copies."""
        return (self, *self.copies)

    def trial_role(self, name: str) -> str:
        """Return the trial's name of a role in this chain: 'source', or 'source-2' if this chain is the second one."""
        return self.instances[name].spec.role


TAKES_ALL_LINKS = (
    "a neighbour cannot join the chain's link: this platform takes all links when an instance starts",
    "use this anomaly on platforms that share the host's kernel, such as runc or docker",
)


@contextmanager
def deployed(
    testbed: Testbed,
    platform: Platform,
    attachment: Attachment,
    *functions: Function,
    hosts: Sequence[Platform] = (),
    implementation: str = "kernel",
    placement: str = EACH,
    offloads: bool = True,
    ip: str = "4",
    isolate: Callable[[InstanceSpec, Platform], InstanceSpec] = lambda spec, _: spec,
    n: int = 1,
) -> Iterator[Chain]:
    """Deploy `n` chains of these functions inside the block, verify each by a ping, and yield the first.

    The other chains are `copies` of the first. `platform` is the platform of source and sink. `hosts` are the platforms
    of the functions, in order; empty means `platform` for all. `offloads` says whether the links keep their offloads;
    `ip` is the version of IP. `isolate` returns the specification with which an instance is started on a platform.
    Raises: Unavailable for functions that cannot be in a row; PlatformError when the ends do not reach each other."""
    n_routers = int(attachment.router_prefix is not None)
    paths = [PATHS[ip].beside(number) for number in range(n)]
    rows = [in_row(functions, path, placement, implementation, n_routers=n_routers) for path in paths]
    platform_of_role = dict(zip((hop.role for hop in rows[0].hops), hosts, strict=True)) if hosts else {}
    ports = _ports(rows[0], PATHS[ip])
    starting = []
    for number, row in enumerate(rows):
        for role, names in ports.items():
            host = platform_of_role.get(role, platform)
            capabilities = row.capabilities(role, implementation)
            spec = instance_spec(testbed, f"{role}-{number + 1}" if number else role, capabilities, names, ip)
            starting.append(host.start(testbed, attachment.adapted_spec(isolate(spec, host), host)))
    with ExitStack() as stack:
        stack.enter_context(attachment.before_start(testbed, [platform, *hosts]))
        started = start_each(stack, starting)
        chains = []
        for number in range(n):
            instances = dict(zip(ports, started[number * len(ports) :], strict=False))
            segments = _segments(instances, paths[number], offloads)
            chains.append(Chain(instances, attachment, rows[number], paths[number], segments, dict))
        segments = [segment for chain in chains for segment in chain.segments]
        stack.enter_context(attachment.connect(testbed, segments))
        for number, chain in enumerate(chains):
            if implementation in ("click", "dpdk"):
                for end, port in ((chain.source, SOURCE_PORT), (chain.sink, SINK_PORT)):
                    end.send_single_segments(port)
                    if implementation == "dpdk" and chain.function.does_more:
                        end.complete_checksums(port)
            counted = stack.enter_context(chain.function.installed(chain.instances, implementation))
            chains[number] = replace(chain, counted=counted)
        if implementation == "xdp" and not offloads:
            attachment.switch_offloads_off(testbed, segments)  # again: a program switches GRO on
        for chain in chains:
            _verify_path(chain)
        yield replace(chains[0], copies=tuple(chains[1:]))


def _ports(row: FunctionRow, path: ForwardingPath) -> dict[str, tuple[str, ...]]:
    """Return {role: names of its ports} of a chain; roles are in the order of the path."""
    source, _, sink = ROLES
    return {source: (SOURCE_PORT,), **dict.fromkeys(row.roles, (path.inside, path.outside)), sink: (SINK_PORT,)}


@contextmanager
def joined(chain: Chain, third: Instance) -> Iterator[Port]:
    """Put the instance `third` on the link from source to function inside the block; yield its port there.

    Raises: Unavailable if the links, the platform or the version of IP do not allow that."""
    if third.takes_taps or third.starts_on_links:
        raise Unavailable(*TAKES_ALL_LINKS)
    if chain.path.version != "4":
        raise Unavailable("a neighbour joins a link of IPv4 only", 'measure this anomaly with ip = "4"')
    port = Port(third, _MEMBER_PORT, f"{_MEMBER}/{chain.path.prefix}")
    with chain.attachment.member(third.testbed, chain.segments, port):
        yield port


def _segments(instances: Mapping[str, Instance], path: ForwardingPath, offloads: bool = True) -> list[Segment]:
    """Return the links from source to sink; the routes of each port lead through all functions.

    Replies to packets whose source a function translated go to the address of that function. So there are routes to the
    functions' addresses, too."""
    source, *functions, sink = instances.values()
    paths = list(zip(functions, path.through(len(functions)), strict=True))
    senders = [(source, SOURCE_PORT, path.source)]
    senders += [(function, hop.outside, hop.outside_address) for function, hop in paths]
    receivers = [(function, hop.inside, hop.inside_address) for function, hop in paths]
    receivers.append((sink, SINK_PORT, path.sink))
    copy = str(path.chain + 1) if path.chain else ""
    segments = []
    for number, (sender, receiver) in enumerate(zip(senders, receivers, strict=True)):
        near, near_port, near_address = sender
        far, far_port, far_address = receiver
        onwards = () if far is sink else (f"{path.sink}/{path.host_prefix} via {far_address}",)
        back = tuple(f"{address}/{path.host_prefix} via {near_address}" for _, _, address in senders[:number])
        first = Port(near, near_port, f"{near_address}/{path.prefix}", onwards)
        second = Port(far, far_port, f"{far_address}/{path.prefix}", back)
        segments.append(Segment(f"{ascii_lowercase[number]}{copy}", (first, second), offloads))
    return segments


def hops_of(chain: Chain) -> list[tuple[str, str]]:
    """Return the ports that a flow passes as ('ROLE.PORT', 'tx' or 'rx'), in the order of the path."""
    hops = [(f"source.{SOURCE_PORT}", "tx")]
    for role in chain.instances:
        if role.startswith(FUNCTION):
            hops += [(f"{role}.{chain.path.inside}", "rx"), (f"{role}.{chain.path.outside}", "tx")]
    return [*hops, (f"sink.{SINK_PORT}", "rx")]


def _verify_path(chain: Chain) -> None:
    done = chain.source.run(["ping", "-n", "-c", "1", "-w", "5", chain.path.sink], timeout_s=20, check=False)
    if done.returncode == 0:
        return
    words = (done.error_text or done.text).strip()[-200:]
    if "transmitted" in done.text or "ping:" in done.error_text:
        raise PlatformError(f"the chain does not carry a ping from source to sink: {words}")
    suffix = f": {words}" if words else ""  # the platform's command died, not the chain
    raise PlatformError(f"the ping through the chain has no result: its command exited with {done.returncode}{suffix}")
