"""The DUT's own interfaces: instances listen on the DUT's addresses, as on a machine without virtualization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastro.attachments._hosting import Hosted, Hosting
from lastro.attachments.base import Attachment, Segment
from lastro.errors import Unavailable
from lastro.testbed import Testbed


class HostNetwork(Hosting, Attachment):
    name = "host"
    summary = "no link: an instance uses the DUT's own interfaces and addresses"
    inside_dut = True

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        raise Unavailable(
            "the DUT's own interfaces do not join two instances",
            'use it where instances are reached from outside, as in scenario "proxy"; otherwise choose another',
        )

    @contextmanager
    def hosted(self, testbed: Testbed, instances: Sequence[Hosted], outside: str) -> Iterator[None]:
        yield

    def compile_hosted(self, hosted: Hosted) -> list[str]:
        return []

    def endpoint(self, hosted: Hosted, outside: str) -> tuple[str, int]:
        return outside, hosted.listens_at

    def seen_as(self, hosted: Hosted, outward: str) -> str:
        return outward
