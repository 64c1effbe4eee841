"""What every isolation must do, on real instances: the contract that is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.testing import IsolationContract

pytestmark = pytest.mark.root

PLATFORMS = ("native", "runc", "crun", "docker", "podman", "lxc", "nspawn")  # that start at once
APPARMOR = Path("/sys/module/apparmor/parameters/enabled")
SELINUX = Path("/sys/fs/selinux/enforce")
# What differs from part to part by its nature. The profile of AppArmor is Docker's own, which Docker loads.
ANYWHERE = ("native", "runc")  # for what asks nothing of a platform
PROPERTIES: dict[str, dict[str, Any]] = {
    "apparmor": {"supported": APPARMOR.exists() and APPARMOR.read_text().strip() == "Y", "platforms": ("docker",)},
    "landlock": {"platforms": ANYWHERE},
    "none": {"visible": False, "platforms": ANYWHERE},
    "selinux": {"supported": SELINUX.exists() and SELINUX.read_text().strip() == "1"},
}

for name in sorted(registry.names("isolation")):
    title = "".join(map(str.capitalize, name.split("-")))
    attributes = {"isolation": name, "platforms": PLATFORMS, "__module__": __name__, **PROPERTIES.get(name, {})}
    globals()[f"Test{title}"] = type(f"Test{title}", (IsolationContract,), attributes)
