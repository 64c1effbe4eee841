"""What a campaign recorded about its hosts: typed fields for the code, and the whole record to show and to compare.

Each field has a default, since other versions of Lastro record fewer facts. Facts without a field here, such
as those that only another version records, are in `Provenance.chapters` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lastro.shapes import OpenRecord, from_plain

THIS_MACHINE = "this machine"  # the value of `RecordedRole.reached` without SSH


@dataclass(frozen=True, slots=True)
class HostFacts(OpenRecord):
    """A machine. `machine` is a hash of its ID; `cpus` is a text if it describes guests with different numbers."""

    hostname: str = ""
    machine: str = ""
    cpu_model: str = ""
    cpus: int | str = 0
    memory_bytes: int = 0
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class RecordedGuest(OpenRecord):
    """The guest in which a campaign ran; without a `title`, it ran on a real host.

    For the guests of one campaign, see `guest.several_guests_chapter`."""

    title: str = ""
    full_title: str = ""
    emulated: bool = False
    partly: bool = False


@dataclass(frozen=True, slots=True)
class GuestChapter(OpenRecord):
    guest: RecordedGuest = RecordedGuest()


@dataclass(frozen=True, slots=True)
class RecordedRole(OpenRecord):
    """How the host of a role was reached, its CPUs, and its network cards, as {neighbouring role: card}."""

    reached: str = THIS_MACHINE
    cpu_set: str = "all"
    links: Mapping[str, str] = field(default_factory=dict)
    machine: HostFacts = HostFacts()


@dataclass(frozen=True, slots=True)
class RecordedTestbed(OpenRecord):
    file: str = ""
    roles: Mapping[str, RecordedRole] = field(default_factory=dict)
    shared_cpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedFleet(OpenRecord):
    file: str = ""


@dataclass(frozen=True, slots=True)
class RecordedTool(OpenRecord):
    version: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class VariantRoot(OpenRecord):
    image_tools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedRoot(OpenRecord):
    sha256: str = ""
    debian_snapshot: str = ""
    variants: Mapping[str, VariantRoot] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedCores(OpenRecord):
    """Which CPUs share a core, as `host.processors.shared_cores` found it."""

    shared: tuple[str, ...] = ()
    known_by: str = ""
    speed_beside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedProperty(OpenRecord):
    """A property of a part: see `scenarios.shared.property.Property`."""

    text: str = ""
    value: bool | int | float | None = None
    at_least: bool = False
    how: str = ""


@dataclass(frozen=True, slots=True)
class Provenance(OpenRecord):
    """The provenance of a campaign or of a testbed. `properties` is {kind of part: {level: {name: property}}}."""

    host: HostFacts = HostFacts()
    controller: HostFacts = HostFacts()
    machines: tuple[str, ...] = ()
    guest: RecordedGuest = RecordedGuest()
    guests: Mapping[str, GuestChapter] = field(default_factory=dict)
    testbed: RecordedTestbed = RecordedTestbed()
    fleet: RecordedFleet = RecordedFleet()
    tools: Mapping[str, RecordedTool] = field(default_factory=dict)
    image_tools: Mapping[str, str] = field(default_factory=dict)
    root_filesystem: RecordedRoot = RecordedRoot()
    cores: RecordedCores = RecordedCores()
    properties: Mapping[str, Mapping[str, Mapping[str, RecordedProperty]]] = field(default_factory=dict)
    noise_floor_of: str = ""
    chapters: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, chapters: Mapping[str, Any]) -> Provenance:
        """Return recorded chapters as provenance. Raises: MisshapenData for a fact of another type."""
        typed: Provenance = from_plain(cls, {key: value for key, value in chapters.items() if key != "chapters"})
        return replace(typed, chapters=chapters)

    def __or__(self, other: Provenance) -> Provenance:
        """Return the chapters of both. If both have a chapter, the chapter of `other` is returned."""
        return Provenance.of({**self.chapters, **other.chapters})


def common_provenance(all_provenances: Sequence[Provenance]) -> Provenance:
    """Return the facts that are equal in the provenance of several hosts; an empty provenance for no hosts."""
    return Provenance.of(_common([provenance.chapters for provenance in all_provenances]) if all_provenances else {})


def _common(all_chapters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that are equal in all mappings. Nested mappings are reduced in the same way."""
    first, *others = all_chapters
    common: dict[str, Any] = {}
    for key, value in first.items():
        if all(key in other for other in others):
            values = [value, *(other[key] for other in others)]
            if all(isinstance(item, Mapping) for item in values):
                common[key] = _common(values)
            elif all(item == value for item in values):
                common[key] = value
    return common
