"""The functions of a chain in the order of the path: where each runs, and the counters that prove its position.

A function's counter counts only packets whose TTL fits its position: each hop decrements the TTL, and so does each
router between two hops. So packets that took another path, or the same hops in another order, are not counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from lastro.errors import Unavailable
from lastro.functions.base import IMPLEMENTATIONS, MOST_CHAINS, CounterReading, ForwardingPath, Function
from lastro.platforms.base import Instance
from lastro.scenarios.shared.instance_spec import FUNCTION
from lastro.study.design import EACH, TOGETHER
from lastro.study.levels import MOST_HOPS
from lastro.study.model import Setting

LENGTH = Setting("length", 1, "how often the function, or the chain of functions, comes in a row", 1, MOST_HOPS)
CHAINS = Setting("chains", 1, "copies of the chain that carry the traffic at the same time", 1, MOST_CHAINS)
PLACEMENT = Setting(
    "placement", EACH, "each function of a chain in an instance of its own, or all in one", choices=(EACH, TOGETHER)
)
_FIRST_TTL = 64  # of Linux and of gVisor, for both versions of IP


@dataclass(frozen=True, slots=True)
class Hop:
    """A function of a chain, with its name in the chain, the role of its instance, and its addresses."""

    name: str
    role: str
    function: Function
    path: ForwardingPath

    def counter(self, name: str) -> str:
        """Return the name of a counter of this function, which is unique in the chain, such as 'function2.crossed'."""
        return name if self.name == FUNCTION else f"{self.name}.{name}"


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """The functions of a chain in the order of the path, used like a single function."""

    hops: tuple[Hop, ...]

    @property
    def roles(self) -> list[str]:
        """The roles of the instances in which the functions run, in order, each once."""
        return list(dict.fromkeys(hop.role for hop in self.hops))

    @property
    def per_packet(self) -> bool:
        return any(hop.function.per_packet for hop in self.hops)

    @property
    def does_more(self) -> bool:
        """Whether one of the functions does more than forward packets."""
        return any(hop.function.does_more(hop.path) for hop in self.hops)

    @property
    def tracks(self) -> str:
        """The role of the first instance that tracks connections; empty if none does."""
        return next((hop.role for hop in self.hops if hop.function.tracks), "")

    @property
    def crossings(self) -> tuple[str, ...]:
        return tuple(hop.counter(name) for hop in self.hops for name in hop.function.crossings)

    @property
    def witnesses(self) -> tuple[str, ...]:
        return tuple(hop.counter(name) for hop in self.hops for name in hop.function.witnesses)

    def capabilities(self, role: str, implementation: str) -> tuple[str, ...]:
        """Return the capabilities that the functions in the instance with this role need; empty for source and sink."""
        further = IMPLEMENTATIONS[implementation].capabilities
        names = [name for hop in self.hops if hop.role == role for name in (*hop.function.capabilities, *further)]
        return tuple(dict.fromkeys(names))

    @contextmanager
    def installed(
        self, instances: Mapping[str, Instance], implementation: str
    ) -> Iterator[Callable[[], dict[str, CounterReading]]]:
        """Run the functions inside the block; yield a callable that returns the readings of all counters, by name."""
        with ExitStack() as stack:
            readers = [
                (hop, stack.enter_context(hop.function.installed(instances[hop.role], hop.path, implementation)))
                for hop in self.hops
            ]

            def read_all() -> dict[str, CounterReading]:
                return {hop.counter(name): reading for hop, read in readers for name, reading in read().items()}

            yield read_all


def in_row(
    functions: Sequence[Function], path: ForwardingPath, placement: str, implementation: str, *, n_routers: int
) -> FunctionRow:
    """Return these functions as a row. Each link between two instances has `n_routers` routers.

    Raises: Unavailable for functions that cannot be combined in a row."""
    _require_combinable(functions, placement, implementation)
    names = [FUNCTION, *(f"{FUNCTION}{number}" for number in range(2, len(functions) + 1))]
    if placement == TOGETHER:
        placed = enumerate(zip(names, functions, strict=True), 1)
        hops = [Hop(name, FUNCTION, function, replace(path, place=place)) for place, (name, function) in placed]
        return FunctionRow(tuple(hops))
    hops = []
    most = least = _FIRST_TTL
    for name, function, hop_path in zip(names, functions, path.through(len(functions)), strict=True):
        most, least = most - 1 - n_routers, least - 1 - n_routers
        if len(functions) > 1:
            hop_path = replace(hop_path, ttl=(least, most))
        hops.append(Hop(name, name, function, hop_path))
        least -= function.passes - 1
    return FunctionRow(tuple(hops))


def _require_combinable(functions: Sequence[Function], placement: str, implementation: str) -> None:
    names = ">".join(function.name for function in functions)
    if len(functions) > MOST_HOPS:
        why = f"a chain has at most {MOST_HOPS} hops, and this one has {len(functions)}: {names}"
        raise Unavailable(why, "lower `length`")
    if len(functions) > 1 and implementation not in ("kernel", "xdp"):
        why = f"functions in a row run in the kernel or in XDP, not in {implementation}: {names}"
        raise Unavailable(why, 'use implementation = "kernel"')
    if placement == EACH or len(functions) == 1:
        return
    if implementation == "xdp":
        raise Unavailable(f"a port has one XDP program, of one function: {names}", 'use placement = "each"')
    hooks = [function.hook for function in functions]
    if "" in hooks:
        why = f"{functions[hooks.index('')].name} needs an instance for itself: {names}"
        raise Unavailable(why, 'use placement = "each"')
    if hooks != sorted(hooks) or hooks.count("postrouting") > 1:
        why = f"one kernel cannot pass these functions in this order: {names}"
        raise Unavailable(why, 'put one function that translates at the end, or use placement = "each"')
