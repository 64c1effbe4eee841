"""The platforms and the attachments of a session, each prepared on first use and torn down with the session."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from lastro import registry
from lastro.attachments.base import Attachment
from lastro.errors import ImageError, LastroError
from lastro.host.base import ON_A_HOST
from lastro.image.guest_hypervisor import HYPERVISORS
from lastro.instruments.base import WORK_DIR
from lastro.platforms.base import Availability, InstanceSpec, Platform, unavailable
from lastro.platforms.native import Native
from lastro.scenarios.base import make_part
from lastro.scenarios.shared.storage import storage
from lastro.testbed import Testbed

# Facts that may differ between platforms although the study holds everything equal, with the commands that show them.
_SEEN_INSIDE = {
    "kernel": "uname -sr",
    "CPUs": "nproc",
    "clock source": "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
    "open files": "ulimit -n",
    "capabilities": "sed -n 's/^CapEff:\\t//p' /proc/self/status",
    "seccomp mode": "sed -n 's/^Seccomp:\\t//p' /proc/self/status",
    "file system of /": "stat --file-system --format=%T /",
    "file system of /tmp": "stat --file-system --format=%T /tmp",
}


_Part = TypeVar("_Part", Platform, Attachment)


@dataclass(frozen=True, slots=True)
class MissingPlatform:
    """A platform that is not available here, and the seconds that its probe took."""

    availability: Availability
    took_s: float


class _PartPool(Generic[_Part]):
    """The parts of one kind in a session, by level; `preparations` has the transcripts of their preparations."""

    _kind: type[_Part]

    def __init__(self, testbed: Testbed, stack: ExitStack) -> None:
        self._testbed, self._stack = testbed, stack
        self._ready: dict[str, _Part] = {}
        self.preparations: dict[str, list[dict[str, Any]]] = {}

    def get(self, level: str) -> _Part:
        """Return the part with this level; prepare it on first use. Raises: any error of its preparation."""
        if level not in self._ready:
            part = make_part(self._kind, level)
            with self._testbed.host.recorded() as transcript:
                self._stack.enter_context(part.prepare(self._testbed))
            self._ready[level] = part
            self.preparations[level] = transcript.records
        return self._ready[level]


class PlatformPool(_PartPool[Platform]):
    """The platforms of a session, each prepared on first use and torn down with the session.

    Platforms are keyed by level: `docker` and `docker:storage=vfs` are two. `missing` has the platforms that are not
    available; they are not probed again. `spared_s` is the seconds that this has saved."""

    _kind = Platform

    def __init__(self, testbed: Testbed, stack: ExitStack) -> None:
        super().__init__(testbed, stack)
        self.missing: dict[str, MissingPlatform] = {}
        self.spared_s = 0.0
        self._unchanged_native: Native | None = None
        self._probed: dict[str, Availability] = {}
        self._residuals: dict[str, dict[str, str]] = {}

    @property
    def native(self) -> Platform:
        """The bare host, for roles that take part in a trial but are not under test.

        If a variant has a testbed of its own, these roles keep the root filesystem that no variant changes
        (`Testbed.base`)."""
        if self._testbed.base is None:
            return self.get(Native.name)
        if self._unchanged_native is None:
            self._unchanged_native = Native()
            self._unchanged_native.uses_base = True
        return self._unchanged_native

    def availability(self, name: str) -> Availability:
        if name not in self._probed:
            if known := self.missing.get(name):
                self.spared_s += known.took_s
            self._probed[name] = known.availability if known else self._probe(name)
        return self._probed[name]

    def _probe(self, name: str) -> Availability:
        session = self._testbed.session
        began_s, built_s = time.monotonic(), session.built_s
        try:
            availability = self.get(name).probe(self._testbed)
        except ImageError as error:  # a fault of this study's image: another image may work
            return unavailable(error)
        except LastroError as error:
            availability = unavailable(error)
        availability = _with_guest_remedy(name.partition(":")[0], availability)
        if not availability:
            self.missing[name] = MissingPlatform(availability, time.monotonic() - began_s - (session.built_s - built_s))
        return availability

    def residuals(self, name: str) -> dict[str, str]:
        """Return what an idle instance sees of its environment, and the storage of its files, by name; {} on an error.

        The first call for a level starts an instance, and the result is kept."""
        if name not in self._residuals:
            try:
                platform = self.get(name)
                spec = InstanceSpec("residuals", "probe")
                with self._testbed.host.recorded(), platform.start(self._testbed, spec) as instance:
                    script = "\n".join(f"echo $({command} 2>/dev/null)" for command in _SEEN_INSIDE.values())
                    lines = instance.run(["sh"], stdin=script + "\n").text.splitlines()
                    seen = {fact: line for fact, line in zip(_SEEN_INSIDE, lines, strict=False) if line}
                    of_files = {f"under {WORK_DIR}": storage(platform, instance)["in short"]}
                    self._residuals[name] = {**seen, **of_files, **platform.residuals(self._testbed)}
            except LastroError:  # a description must not invalidate a trial; the next one tries again
                return {}
        return self._residuals[name]


def _with_guest_remedy(name: str, availability: Availability) -> Availability:
    """Return `availability` with a better remedy if a guest only lacks the Debian packages of the platform `name`.

    The remedy is to name the platform in the guest's testbed file."""
    platform = registry.get(Platform, name)
    requirements, hypervisor = platform.requirements, platform.hypervisor
    is_packaged = requirements.program is None and requirements.packages
    if availability.remedy != ON_A_HOST or not (is_packaged or hypervisor in HYPERVISORS):
        return availability
    setting = f'set hypervisor = "{hypervisor}" and ' if hypervisor in HYPERVISORS else ""
    remedy = f"in the testbed file of the guest, {setting}add {name!r} to `platforms`, or {ON_A_HOST}"
    return replace(availability, remedy=remedy)


class AttachmentPool(_PartPool[Attachment]):
    """The attachments of a session, keyed by level, each prepared on first use and torn down with the session."""

    _kind = Attachment

    def residuals(self, name: str) -> dict[str, str]:
        """Return `Attachment.residuals` of this level by '{level}: {name}'; {} unless the attachment is prepared."""
        residuals = self._ready[name].residuals(self._testbed) if name in self._ready else {}
        return {f"{name}: {what}": text for what, text in residuals.items()}
