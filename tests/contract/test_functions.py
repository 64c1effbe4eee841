"""What every function that forwards must do, on real instances: the contract that is shipped."""

from __future__ import annotations

import pytest

from lastro.scenarios.chain import ChainScenario
from lastro.testing import FunctionContract

pytestmark = pytest.mark.root

for name in sorted(ChainScenario.part_names("function")):
    title = "".join(map(str.capitalize, name.split("-")))
    globals()[f"Test{title}"] = type(f"Test{title}", (FunctionContract,), {"function": name, "__module__": __name__})
