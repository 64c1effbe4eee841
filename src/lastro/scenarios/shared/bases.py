"""The two bases of scenarios: instances on platforms, and instances that links join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from lastro.attachments.base import Attachment
from lastro.errors import LastroError
from lastro.isolation.base import parts_of
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec
from lastro.platforms.native import Native
from lastro.scenarios.base import (
    Config,
    Scenario,
    isolation_level,
    links_level,
    make_part,
    platform_level,
    platform_levels,
)
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.scenarios.shared.probes import PartProbes
from lastro.testbed import Testbed

NOT_RUN = (126, 127)  # exit codes of a launcher that cannot run its program


class OnPlatforms(Scenario):
    """A scenario whose instances run on the platforms of a pool. Its probes may also try attachments and isolations.

    `pool` and `attachments` have the parts that this session has prepared."""

    def __init__(self, testbed: Testbed | None) -> None:
        super().__init__(testbed)
        self.pool = PlatformPool(self.testbed, self._stack)
        self.attachments = AttachmentPool(self.testbed, self._stack)
        self._probes = PartProbes(self.testbed, self.pool, self.attachments)

    def parts_available(self, config: Config) -> Availability:
        """Return whether the treatment's platform works here and, on it, the treatment's attachment and isolations."""
        return first_unavailable(self._probe_parts(config))

    def _probe_parts(self, config: Config) -> Iterator[Availability]:
        level = platform_level(config)
        yield self._probes.platform(level)
        if "attachment" in config:
            yield self._probes.attachment(links_level(config), self.linked_level(config))
        if "isolation" in config:
            yield from (self._probes.isolation(part, level) for part in parts_of(isolation_level(config)))

    def version_commands(self, configs: Sequence[Config]) -> Mapping[str, Sequence[str]]:
        """Return {tool: command that prints its version} for the study's tools in the image."""
        return {}

    def facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Return the facts of the scenario by chapter of the provenance.

        If an error prevented further facts, the chapter `not_told` has its message."""
        chapters: dict[str, Any] = {}
        try:
            for chapter, facts in self.facts_by_chapter(configs):
                chapters.setdefault(chapter, {}).update(facts)
        except LastroError as error:
            chapters["not_told"] = error.message
        return chapters | self._attachment_facts(configs)

    def _attachment_facts(self, configs: Sequence[Config]) -> dict[str, Any]:
        """Return {'attachments': {level: facts of this attachment}}; {} if no attachment of the study has facts."""
        facts_by_level: dict[str, Any] = {}
        for level in dict.fromkeys(links_level(config) for config in configs if "attachment" in config):
            with suppress(LastroError):  # its treatments have the reason
                if facts := make_part(Attachment, level).facts(self.testbed):
                    facts_by_level[level] = facts
        return {"attachments": facts_by_level} if facts_by_level else {}

    def facts_by_chapter(self, configs: Sequence[Config]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield pairs (chapter of the provenance, its facts). Here, one: ('image_tools', {tool: version line})."""
        if commands := self.version_commands(configs):
            spec = InstanceSpec(self.testbed.session.unique("facts"), "probe")
            with self.pool.get(Native.name).start(self.testbed, spec) as instance:
                done = {name: instance.run(argv, check=False) for name, argv in commands.items()}
            ran = {name: completed for name, completed in done.items() if completed.returncode not in NOT_RUN}
            lines = {name: (completed.text + completed.error_text).splitlines() for name, completed in ran.items()}
            yield "image_tools", {name: printed[0] for name, printed in lines.items() if printed}

    def linked_level(self, config: Config) -> str:
        """Return the level of the platform on which the treatment's attachment is probed."""
        return platform_level(config)

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        records = list(self.testbed.preparation)
        for level in platform_levels(config):
            records += self.pool.preparations.get(level, ())
        return records

    def residuals(self, config: Config) -> dict[str, Any]:
        """Return the residuals of the treatment's platform and of further platforms that its functions name.

        The name of a residual of a further platform begins with the level of the platform: 'docker: NAME'."""
        level, *further_levels = platform_levels(config)
        residuals = {**self.pool.residuals(level)}
        for further in further_levels:
            residuals |= {f"{further}: {name}": text for name, text in self.pool.residuals(further).items()}
        return residuals


class OnLinks(OnPlatforms):
    """A scenario whose instances are also joined by the links of a pool."""

    def preparation(self, config: Config) -> list[dict[str, Any]]:
        return [*super().preparation(config), *self.attachments.preparations.get(links_level(config), ())]

    def residuals(self, config: Config) -> dict[str, Any]:
        return {**super().residuals(config), **self.attachments.residuals(links_level(config))}


def first_unavailable(probes: Iterable[Availability]) -> Availability:
    """Return the first result that is unavailable, else AVAILABLE. If `probes` is lazy, later probes do not run."""
    return next((availability for availability in probes if not availability), AVAILABLE)
