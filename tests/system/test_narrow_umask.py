"""Lastro started with umask 077: other users inside an instance, such as that of a proxy, still read its files."""

from __future__ import annotations

import os

import pytest

from lastro.platforms.base import InstanceSpec
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

pytestmark = pytest.mark.root
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.parametrize("platform", ["native", "runc"])
def test_another_user_reads_the_root_of_an_instance(testbed: Testbed, pool: PlatformPool, platform: str) -> None:
    usual = os.umask(0o077)
    try:
        with pool.get(platform).start(testbed, InstanceSpec("aa", "aa")) as instance:
            found = instance.run([*AS_NOBODY, "sh", "-c", "umask; head -1 /etc/passwd"]).text.split("\n")
    finally:
        os.umask(usual)
    assert found[0] == "0022" and found[1].startswith("root:")
