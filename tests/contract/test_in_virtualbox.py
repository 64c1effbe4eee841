"""The platform `virtualbox` in a guest of Debian sid: a machine boots there, and runs commands.

Not the whole contract: in software, a machine takes minutes to start. The userland and VirtualBox's kernel modules are
built here, which needs the network."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from lastro.platforms.base import InstanceSpec
from lastro.scenarios.shared.pools import PlatformPool

from .test_in_guest import in_guest

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.measures]
LINES = ('memory = "3G"', 'release = "sid"', 'hypervisor = "virtualbox"')


def test_a_machine_boots_and_has_a_kernel_of_its_own() -> None:
    with in_guest(("native", "virtualbox"), *LINES) as testbed, ExitStack() as stack:
        platform = PlatformPool(testbed, stack).get("virtualbox:memory=256M")
        with platform.start(testbed, InstanceSpec("alone", "subject")) as alone:
            assert alone.run(["hostname"]).text == "subject\n"
            assert alone.run(["uname", "-r"]).text != testbed.host.run(["uname", "-r"]).text
            done = alone.run(["sh", "-c", "cat; echo words >&2; exit 7"], stdin="given\n", check=False)
            assert (done.returncode, done.text, done.error_text) == (7, "given\n", "words\n")
