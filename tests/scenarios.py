"""What tests of scenarios on real instances share: a tolerant configuration, and a runtime with little room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lastro.errors import PlatformError
from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.runc import Runc
from lastro.scenarios.base import Scenario
from lastro.testbed import Testbed

TOLERANT: Mapping[str, Any] = {"max_foreign_cpus": 4096.0, "max_steal_percent": 100.0}


def configured(scenario: type[Scenario], **chosen: Any) -> dict[str, Any]:
    """The defaults of its settings under what is chosen, tolerant of whatever else the machine does."""
    return {**{setting.name: setting.default for setting in scenario.settings}, **TOLERANT, **chosen}


class Refusing(Runc):
    """Has room for a few at once."""

    room = 5

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        if self.room == 0:
            raise PlatformError("the runtime has no room for another one")
        self.room -= 1
        try:
            with super().start(testbed, spec) as instance:
                yield instance
        finally:
            self.room += 1
