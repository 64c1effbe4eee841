"""The contracts of parts, as tests that the author of a plug-in can run, too (they need root and pytest).

A test module of a plug-in has a class like this. The attribute with the name of the kind names the part:

    from lastro.testing import PlatformContract, pool, testbed

    class TestMine(PlatformContract):
        platform = "mine"

Most checks are real runs on real instances. Other attributes of the class declare what is by design, not a fault: for
example, that a guest has its own kernel, or that a bare process keeps all capabilities."""

from __future__ import annotations

import pkgutil

import pytest

# Before they are imported, so that a failed assertion shows its values, as in any test module.
pytest.register_assert_rewrite(*(each.name for each in pkgutil.iter_modules(__path__, f"{__name__}.")))

from lastro.testing.attachments import AttachmentContract  # noqa: E402
from lastro.testing.fixtures import pool, testbed  # noqa: E402
from lastro.testing.instruments import InstrumentContract  # noqa: E402
from lastro.testing.isolations import IsolationContract  # noqa: E402
from lastro.testing.meters import MeterContract  # noqa: E402
from lastro.testing.parts import AnomalyContract, FunctionContract  # noqa: E402
from lastro.testing.platforms import PlatformContract  # noqa: E402
from lastro.testing.scenarios import ScenarioContract  # noqa: E402
from lastro.testing.subject import Subject  # noqa: E402

__all__ = ["AnomalyContract", "AttachmentContract", "FunctionContract", "InstrumentContract", "IsolationContract",
           "MeterContract", "PlatformContract", "ScenarioContract", "Subject", "pool", "testbed"]  # fmt: skip
