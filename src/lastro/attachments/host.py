"""The DUT's own interfaces: instances listen on the DUT's addresses, as on a machine without virtualization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from lastro.attachments.base import Attachment, Segment
from lastro.attachments.hosting import HostedInstance, HostingAttachment
from lastro.errors import Unavailable
from lastro.testbed import Testbed


class HostNetwork(HostingAttachment, Attachment):
    name = "host"
    summary = "no link: an instance uses the DUT's own interfaces and addresses"
    inside_dut = True

    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> AbstractContextManager[None]:
        raise Unavailable(
            "the DUT's own interfaces do not join two instances",
            'use it where instances are reached from outside, as in scenario "proxy"; otherwise choose another',
        )

    @contextmanager
    def hosted(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> Iterator[None]:
        yield

    def compile_hosted(self, hosted: HostedInstance) -> list[str]:
        return []

    def endpoint(self, hosted: HostedInstance, outside: str) -> tuple[str, int]:
        return outside, hosted.listens_at

    def seen_as(self, hosted: HostedInstance, outward: str) -> str:
        return outward
