"""A platform hosts instances: a container, a guest, or the bare host behind a network namespace used as a cable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from lastro.errors import LastroError, PlatformError
from lastro.host.base import Completed, Host, Process
from lastro.host.cgroups import Resources, Usage
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Availability:
    """The outcome of a probe by doing. An unavailable part has a reason, and a remedy where there is one."""

    reason: str | None = None
    remedy: str | None = None

    def __bool__(self) -> bool:
        return self.reason is None


AVAILABLE = Availability()


def unavailable(error: LastroError) -> Availability:
    """What a failed attempt says of a part."""
    return Availability(error.message, error.hint)


@dataclass(frozen=True, slots=True)
class Security:
    """What an instance may not do. None: not confined by that mechanism."""

    apparmor: str | None = None  # name of a profile that the kernel has loaded
    seccomp: Mapping[str, Any] | None = None  # a filter in the form of the OCI runtime specification
    capabilities: tuple[str, ...] = ()  # added to a container's usual ones, such as CAP_NET_ADMIN


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """What to start. `name` is unique in the testbed; `role` says what the instance does in the scenario."""

    name: str
    role: str
    resources: Resources = field(default_factory=Resources)
    security: Security = field(default_factory=Security)
    sysctls: Mapping[str, str] = field(default_factory=dict)

    def with_security(self, **changes: Any) -> InstanceSpec:
        return replace(self, security=replace(self.security, **changes))


class Instance(ABC):
    """A running instance. `netns` names the network namespace (in /run/netns) to plug links into;

    `cgroup` is the group that holds all of it, so that its use can be read from outside."""

    def __init__(self, testbed: Testbed, spec: InstanceSpec, *, netns: str, cgroup: str) -> None:
        self.testbed, self.spec, self.netns, self.cgroup = testbed, spec, netns, cgroup

    @abstractmethod
    def wrap(self, argv: Sequence[str]) -> list[str]:
        """The host's argv that runs `argv` inside, with standard input passed on."""

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        """As `Host.run`, inside the instance."""
        return self.testbed.host.run(self.wrap(argv), stdin=stdin, timeout_s=timeout_s, check=check)

    def spawn(self, argv: Sequence[str]) -> Process:
        return self.testbed.host.spawn(self.wrap(argv))

    def usage(self) -> Usage:
        """CPU time, memory and disk traffic since the start, from the instance's own cgroup.

        Raises: PlatformError when the instance has ended."""
        try:
            return self.testbed.cgroups.usage(self.cgroup)
        except OSError as error:
            raise PlatformError(f"instance {self.spec.name} is gone: {error}") from error

    def pids(self) -> set[int]:
        """The instance's processes, as the host numbers them."""
        return self.testbed.cgroups.pids(self.cgroup)


class Platform(ABC):
    """`version_argv` prints the version of the tool that makes the platform, for provenance."""

    kind = "platform"
    name: ClassVar[str]
    summary: ClassVar[str]
    version_argv: ClassVar[tuple[str, ...]] = ()
    own_cgroups: tuple[str, ...] = ()  # of daemons: what they use is the platform's cost, not foreign load

    @abstractmethod
    def start(self, testbed: Testbed, spec: InstanceSpec) -> AbstractContextManager[Instance]:
        """An instance for as long as the block lasts; afterwards nothing is left of it.

        Raises: PlatformError when it does not start; Unavailable when the platform cannot do what `spec` asks."""

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """What the platform needs once for many instances, such as a daemon."""
        yield

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        """What differs on this platform although the study holds it equal."""
        return {}

    def probe(self, testbed: Testbed) -> Availability:
        """Start an instance, run something in it, and reach it over its own loopback. The platform is prepared."""
        spec = InstanceSpec(name=f"probe-{self.name}", role="probe")
        try:
            with self.start(testbed, spec) as instance:
                instance.run(["ping", "-c", "1", "-W", "2", "127.0.0.1"], timeout_s=20)
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE


def instance_netns(host: Host, testbed: Testbed, spec: InstanceSpec) -> AbstractContextManager[str]:
    """A network namespace of its own for an instance, owned by the session."""
    return _netns(host, testbed, testbed.session.netns_name(spec.name))


@contextmanager
def _netns(host: Host, testbed: Testbed, name: str) -> Iterator[str]:
    with testbed.session.owned("netns", name):
        host.run(["sh", "-ec", f"ip netns add {name}; exec ip -n {name} link set lo up"])
        yield name
