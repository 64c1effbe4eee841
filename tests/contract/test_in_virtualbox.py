"""The platform `virtualbox` in a guest of Debian sid: machines boot there, run commands, and reach each other.

Not the whole contract: in software, a machine takes minutes to start. The userland and VirtualBox's kernel modules are
built here, which needs the network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lastro.testbed import Testbed
from lastro.testing.network import linked_pair, reach_each_other_and_nothing_else
from lastro.testing.platforms import OnPlatform
from lastro.testing.subject import Subject

from .test_in_guest import in_guest

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.measures]
LINES = ('memory = "3G"', 'release = "sid"', 'hypervisor = "virtualbox"')


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """Yield a testbed in a guest with VirtualBox, in place of the one on this machine."""
    with in_guest(("native", "virtualbox"), *LINES) as made:
        yield made


class TestVirtualbox(OnPlatform):
    platform = "virtualbox:memory=256M"

    def test_a_machine_boots_and_has_a_kernel_of_its_own(self, subject: Subject) -> None:
        with subject.start("alone") as alone:
            assert alone.run(["hostname"]).text == "subject\n"
            assert alone.run(["uname", "-r"]).text != subject.testbed.host.run(["uname", "-r"]).text
            done = alone.run(["sh", "-c", "cat; echo words >&2; exit 7"], stdin="given\n", check=False)
            assert (done.returncode, done.text, done.error_text) == (7, "given\n", "words\n")
            measured = alone.measure(["sh", "-c", "echo out; sleep 0.2"])
            assert measured.done.text == "out\n" and measured.done.duration_s >= 0.2

    def test_two_reach_each_other_over_a_bridge_and_nothing_else(self, subject: Subject) -> None:
        before = subject.leftovers()
        with linked_pair(subject, "veth-bridge") as (left, right):
            reach_each_other_and_nothing_else(left, right)
        assert subject.leftovers() == before
