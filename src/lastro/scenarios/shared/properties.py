"""Properties of parts other than performance. Each is found by trying it once on started instances.

Corrêa and others (2011, section 3) require these properties of virtualizers and of virtual links: isolation,
flexibility, multiple access, extensibility."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

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

    Attachments are tried between instances on the bare host, since what links carry does not depend on the platform.
    `say` is called with 'KIND LEVEL' before each part. Afterwards, only what the pools prepared remains on the host."""

    def found(kind: str, level: str, names: Sequence[str], find: Callable[[], list[Property]]) -> PartProperties:
        say(f"{kind} {level}")
        try:
            return PartProperties(kind, level, tuple(find()))
        except LastroError as error:
            return PartProperties(kind, level, tuple(unknown(names, error.message)))

    def of_platform(level: str) -> list[Property]:
        return platform_properties(testbed, pool.get(level), pool.native, links.get("veth-direct"))

    parts = [found("platform", level, OF_PLATFORM, partial(of_platform, level)) for level in platforms]
    if not attachments:
        return parts
    with ExitStack() as stack:
        specs = [instance_spec(testbed, "member") for _ in range(MOST_MEMBERS)]
        members = start_all(stack, pool.native, testbed, specs)

        def of_link(level: str) -> list[Property]:
            return link_properties(testbed, links.get(level), members)

        return parts + [found("attachment", level, OF_LINK, partial(of_link, level)) for level in attachments]
