"""The procedure of a trial. A scenario declares what a study may choose, and runs one trial of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from lastro.results.samples import Metric
from lastro.study.model import ScenarioSchema, Setting

if TYPE_CHECKING:
    from lastro.registry import PartInfo
