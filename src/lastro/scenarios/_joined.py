"""One instance joined by an attachment to a network namespace that stands for its host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from lastro.attachments.base import Attachment, Segment
from lastro.errors import PlatformError
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port
from lastro.scenarios._deploy import instance_spec
from lastro.testbed import Testbed

INSTANCE, HOST, PORT = "instance", "host", "eth0"
INSTANCE_ADDRESS, HOST_ADDRESS = "198.18.1.10", "198.18.1.1"
_ARRIVAL_S = 5


@dataclass(frozen=True, slots=True)
class Joined:
    """`host` is bare processes in a namespace of their own, with the same files, without limits."""

    instance: Instance
    host: Instance

    @property
    def everyone(self) -> dict[str, Instance]:
        return {INSTANCE: self.instance, HOST: self.host}


@contextmanager
def joined(
    testbed: Testbed, native: Platform, platform: Platform, attachment: Attachment, spec: InstanceSpec
) -> Iterator[Joined]:
    """Both for as long as the block lasts, proven by a ping. Platforms and attachment are prepared.

    Raises: PlatformError when the instance does not reach its host."""
    own = instance_spec(testbed, HOST, ports=(PORT,))
    with ExitStack() as stack:
        host = stack.enter_context(native.start(testbed, own))
        sysctls = {**own.sysctls, **spec.sysctls}
        instance = stack.enter_context(platform.start(testbed, replace(spec, ports=(PORT,), sysctls=sysctls)))
        # The host's port comes first: it is there when the instance takes its own.
        ports = (Port(host, PORT, f"{HOST_ADDRESS}/24"), Port(instance, PORT, f"{INSTANCE_ADDRESS}/24"))
        stack.enter_context(attachment.connect(testbed, [Segment("u", ports)]))
        _prove(instance)
        yield Joined(instance, host)


def _prove(instance: Instance) -> None:
    argv = ["ping", "-n", "-c", "1", "-w", str(_ARRIVAL_S), HOST_ADDRESS]
    done = instance.run(argv, timeout_s=_ARRIVAL_S + 15, check=False)
    if done.returncode != 0:
        words = (done.error_text or done.text).strip()[-200:]
        raise PlatformError(f"the instance does not reach its host by a ping: {words}")
