"""What a part declares: its names, what it requires of the host, and options that a study may choose."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from lastro.requirements import NOTHING, Requirements
from lastro.study.model import Level, Setting


class Part(ABC):
    """The base of parts. `kind` is that of the base class of a kind; each part has its own `name` and `summary`.

    A study may choose `options` by a level such as `docker:storage=vfs`, or by a factor such as `platform.storage`."""

    kind: str
    name: ClassVar[str]
    summary: ClassVar[str]
    requirements: ClassVar[Requirements] = NOTHING  # of the host; `lastro setup` installs them
    options: ClassVar[tuple[Setting[Any], ...]] = ()

    def __init__(self, **chosen: Level) -> None:
        self.chosen: dict[str, Level] = {option.name: option.default for option in self.options} | chosen
