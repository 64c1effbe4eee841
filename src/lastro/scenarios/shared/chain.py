"""A running chain of instances: source, function and sink, joined by an attachment, with the function installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lastro.attachments.base import Attachment, Segment
from lastro.errors import PlatformError, Unavailable
from lastro.functions.base import PATHS, CounterReading, ForwardingPath, Function
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, start_all
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.testbed import Testbed

ROLES = ("source", "function", "sink")
SOURCE_PORT, SINK_PORT = "out0", "in0"
_MEMBER_PORT, _MEMBER = "load0", "198.18.0.20"


@dataclass(frozen=True, slots=True)
class Chain:
    """A deployed chain. `path` has its addresses and interfaces; `segments` are its links.

    `counted` returns what the function's own counters have seen."""

    instances: Mapping[str, Instance]
    attachment: Attachment
    function: Function
    path: ForwardingPath
    segments: Sequence[Segment]
    counted: Callable[[], dict[str, CounterReading]]

    @property
    def source(self) -> Instance:
        return self.instances["source"]

    @property
    def sink(self) -> Instance:
        return self.instances["sink"]


@contextmanager
def deployed(
    testbed: Testbed,
    platform: Platform,
    attachment: Attachment,
    function: Function,
    *,
    implementation: str = "kernel",
    offloads: bool = True,
    ip: str = "4",
    isolate: Callable[[InstanceSpec], InstanceSpec] = lambda spec: spec,
) -> Iterator[Chain]:
    """Deploy a chain inside the block, and prove it by a ping from end to end.

    `offloads` are those of its links; `ip` is the version of IP.
    Raises: PlatformError when the ends do not reach each other."""
    path = PATHS[ip]
    names = {"source": (SOURCE_PORT,), "function": (path.inside, path.outside), "sink": (SINK_PORT,)}
    specs = [
        isolate(instance_spec(testbed, role, function.capabilities if role == "function" else (), names[role], ip))
        for role in ROLES
    ]
    with ExitStack() as stack:
        instances = dict(zip(ROLES, start_all(stack, platform, testbed, specs), strict=True))
        segments = _segments(instances, path, offloads)
        stack.enter_context(attachment.connect(testbed, segments))
        if implementation == "click":
            for role, port in (("source", SOURCE_PORT), ("sink", SINK_PORT)):
                instances[role].send_single_segments(port)
        counted = stack.enter_context(function.installed(instances["function"], path, implementation))
        chain = Chain(instances, attachment, function, path, segments, counted)
        _prove(chain)
        yield chain


@contextmanager
def joined(chain: Chain, third: Instance) -> Iterator[Port]:
    """Make one more instance a member of the link from source to function inside the block; yield its port there.

    Raises: Unavailable where the links or the platform do not allow that."""
    if third.takes_taps or third.starts_on_links:
        raise Unavailable(
            "a neighbour cannot join the chain's link: this platform takes all links when an instance starts",
            "use this anomaly on platforms that share the host's kernel, such as runc or docker",
        )
    if chain.path.version != "4":
        raise Unavailable("a neighbour joins a link of IPv4 only", 'measure this anomaly with ip = "4"')
    port = Port(third, _MEMBER_PORT, f"{_MEMBER}/{chain.path.prefix}")
    with chain.attachment.member(third.testbed, chain.segments, port):
        yield port


def _segments(instances: Mapping[str, Instance], path: ForwardingPath, offloads: bool = True) -> list[Segment]:
    """Return the links. The only path from one end to the other is through the function."""
    source, function, sink = (instances[role] for role in ROLES)
    there = f"{path.sink}/{path.whole} via {path.inside_address}"
    back = f"{path.source}/{path.whole} via {path.outside_address}"
    inside = (
        Port(source, SOURCE_PORT, f"{path.source}/{path.prefix}", (there,)),
        Port(function, path.inside, f"{path.inside_address}/{path.prefix}"),
    )
    outside = (
        Port(function, path.outside, f"{path.outside_address}/{path.prefix}"),
        Port(sink, SINK_PORT, f"{path.sink}/{path.prefix}", (back,)),
    )
    return [Segment("a", inside, offloads), Segment("b", outside, offloads)]


def _prove(chain: Chain) -> None:
    done = chain.source.run(["ping", "-n", "-c", "1", "-w", "5", chain.path.sink], timeout_s=20, check=False)
    if done.returncode == 0:
        return
    words = (done.error_text or done.text).strip()[-200:]
    if "transmitted" in done.text or "ping:" in done.error_text:
        raise PlatformError(f"the chain does not carry a ping from source to sink: {words}")
    said = f": {words}" if words else ""  # the platform's command died, not the chain
    raise PlatformError(f"the ping through the chain has no result: its command exited with {done.returncode}{said}")
