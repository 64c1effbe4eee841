"""The kinds of claims, one module each. To add a kind, add its module; no other file changes."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from pydantic import create_model

from lastro.analysis.claims.claim import Claim, Statement

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def _kinds(base: type[Statement]) -> list[type[Statement]]:
    """Return the class and all of its subclasses that are kinds of claims, which have a key."""
    below = [kind for subclass in base.__subclasses__() for kind in _kinds(subclass)]
    return [base, *below] if base.key else below


KINDS = {kind.key: kind for kind in sorted(_kinds(Statement), key=lambda kind: kind.key)}

if TYPE_CHECKING:
    AnyClaim = Claim
else:
    AnyClaim = create_model("AnyClaim", __base__=Claim, **{key: (kind | None, None) for key, kind in KINDS.items()})
