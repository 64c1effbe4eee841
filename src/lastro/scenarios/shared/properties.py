"""Properties of parts other than performance. Each is found by trying it once on started instances.

Corrêa and others (2011, section 3) require these properties of virtualizers and of virtual links: isolation,
flexibility, multiple access, extensibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from lastro.errors import LastroError
from lastro.platforms.base import start_all
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.link_properties import MOST_MEMBERS, link_properties
from lastro.scenarios.shared.platform_properties import platform_properties
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.scenarios.shared.property import Property, unknown
from lastro.study.requirement import OF_LINK, OF_PLATFORM
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class PartProperties:
    """The properties of one part. `kind` is "platform" or "attachment"."""

    kind: str
    level: str
    properties: tuple[Property, ...]


def probe_properties(
    testbed: Testbed,
    pool: PlatformPool,
    links: AttachmentPool,
    platforms: Sequence[str],
    attachments: Sequence[str],
    say: Callable[[str], None],
) -> list[PartProperties]:
    """Find the properties of the parts with these levels: first `platforms`, then `attachments`.

    `say` is called with 'KIND LEVEL' before each part. Afterwards, only what the pools prepared remains on the host."""
    return [*_platforms(testbed, pool, links, platforms, say), *_links(testbed, pool, links, attachments, say)]


def _platforms(
    testbed: Testbed, pool: PlatformPool, links: AttachmentPool, levels: Sequence[str], say: Callable[[str], None]
) -> Iterator[PartProperties]:
    for level in levels:
        say(f"platform {level}")
        try:
            properties = platform_properties(testbed, pool.get(level), pool.native, links.get("veth-direct"))
        except LastroError as error:
            properties = unknown(OF_PLATFORM, error.message)
        yield PartProperties("platform", level, tuple(properties))


def _links(
    testbed: Testbed, pool: PlatformPool, links: AttachmentPool, levels: Sequence[str], say: Callable[[str], None]
) -> Iterator[PartProperties]:
    """Yield the properties of each attachment, tried between instances on the bare host.

    What links carry does not depend on the platform."""
    if not levels:
        return
    with ExitStack() as stack:
        specs = [instance_spec(testbed, "member") for _ in range(MOST_MEMBERS)]
        members = start_all(stack, pool.native, testbed, specs)
        for level in levels:
            say(f"attachment {level}")
            try:
                properties = link_properties(testbed, links.get(level), members)
            except LastroError as error:
                properties = unknown(OF_LINK, error.message)
            yield PartProperties("attachment", level, tuple(properties))
