"""Tests of the end of an instance: it leaves nothing behind, even after an error or a kill of Lastro (SIGKILL)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastro.errors import CommandTimeout, LastroError, TrialError
from lastro.host.cgroups import Resources, detect
from lastro.host.files import LocalFiles
from lastro.host.ledger import NETNS_DIR, RUN_DIR, Ledger
from lastro.testbed import Testbed
from lastro.testing.subject import Subject, inside, live

# A Lastro process that puts something to work, and then hangs until it is killed. This session has checked the image.
_VICTIM = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from lastro import registry
from lastro.attachments.base import Segment
from lastro.host.ledger import session
from lastro.image.rootfs import Image
from lastro.platforms.base import InstanceSpec, Port
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.testbed import local_testbed

state, image = Path(sys.argv[1]), Image(sys.argv[-2], Path(sys.argv[-1]))
with session("a victim", state=state, beside=True) as held, ExitStack() as stack:  # this session holds the host
    bed = stack.enter_context(local_testbed(held, image))
    pool = PlatformPool(bed, stack)
{work}
    print("started", held.token, flush=True)
    time.sleep(120)
"""
_WORK = """
platform = pool.get(sys.argv[2])
instance = stack.enter_context(platform.start(bed, InstanceSpec("victim", "victim")))
instance.spawn(["sleep", "86390"])
"""


class Ending:
    contained: bool
    shares_kernel: bool

    def test_stopping_leaves_nothing_and_ends_even_what_keeps_forking(self, subject: Subject) -> None:
        """Stop an instance whose processes fork and exit at once: listing PIDs and then killing them misses some."""
        before = subject.leftovers()
        session = subject.testbed.session
        view = subject.testbed.host.view
        hop = 'n=$1; [ "$n" -gt 0 ] || exit 0; sh -c "$0" "$0" $((n - 1)) & exit 0'
        with subject.start() as instance:
            instance.spawn(["sleep", "86395"])
            script = (
                "sleep 86394 >/dev/null 2>&1 & mount -t tmpfs tmpfs /mnt 2>/dev/null; head -c 9000000 /dev/zero > /big"
            )
            instance.run(["sh", "-c", script])
            assert len(subject.leftovers()) > len(before)
            with pytest.raises(CommandTimeout):  # a command that is given up must end with the instance, too
                instance.run(["sleep", "86399"], timeout_s=0.5)
            # In a container, nobody may reap them, so they must not be too many. A guest that ends takes all with it.
            hops = "3000" if not self.contained else "300" if self.shares_kernel else "30"
            for _ in range(4):
                instance.run(["sh", "-c", hop, hop, hops])
            pids, marked = instance.pids(), view.owned_pids(session.token)
            group = instance.cgroup
            assert pids
        assert subject.leftovers() == before
        assert not subject.live(pids)
        assert len(view.owned_pids(session.token)) < len(marked)
        assert not any(view.exists(str(directory)) for directory in subject.testbed.cgroups.directories(group))

    def test_after_a_start_that_failed_and_an_error_nothing_is_left_and_the_name_is_free(
        self, subject: Subject
    ) -> None:
        """The next instance with the same name must get a new root filesystem, without the changes of the first one."""
        before = subject.leftovers()
        with pytest.raises(TrialError), subject.start("again", resources=Resources(cpuset="4095")):
            pytest.fail("no host has this CPU")
        assert subject.leftovers() == before
        with pytest.raises(ZeroDivisionError), subject.start("again") as first:
            first.run(["sh", "-c", "echo dirt > /usr/bin/dirt; rm /usr/bin/stress; echo dirt > /etc/hostname"])
            assert inside(first, "/usr/bin/dirt") == "dirt"
            raise ZeroDivisionError
        assert subject.leftovers() == before
        with subject.start("again") as second:
            assert second.run(["ls", "/usr/bin/dirt"], check=False).returncode != 0
            assert second.run(["ls", "/usr/bin/stress"]).returncode == 0
            with pytest.raises(TrialError, match="again"), subject.start("again"):
                pytest.fail("two instances of one name")
            assert second.run(["echo", "unharmed"]).text == "unharmed\n"
        tree, files = subject.testbed.image.tree, subject.testbed.host.view
        assert not files.exists(f"{tree}/usr/bin/dirt")
        assert files.exists(f"{tree}/usr/bin/stress")

    @pytest.mark.parametrize("name", ["", "a", "a b", "ü", "x'y", "../x", "a/b", "$x", "-x", "x" * 41])
    def test_odd_names_are_refused(self, subject: Subject, name: str) -> None:
        with pytest.raises(TrialError, match="cannot name an instance"):
            subject.spec(name)

    def test_probing_finds_it_available_and_leaves_nothing(self, subject: Subject) -> None:
        before = subject.leftovers()
        availability = subject.platform.probe(subject.testbed)
        assert availability, availability.reason
        assert subject.leftovers() == before
        assert subject.platform.residuals(subject.testbed)["root filesystem"]

    def test_killed_and_cleaned_up_after_it_leaves_nothing(self, subject: Subject, level: str, tmp_path: Path) -> None:
        nothing_is_left_after_a_kill(subject.testbed, tmp_path, _WORK, level)


def nothing_is_left_after_a_kill(testbed: Testbed, state: Path, work: str, *words: str) -> None:
    """Kill a session that has done `work`, run the cleanup, and assert that the session left nothing behind.

    `state` is an empty directory for the session's files. `work` has Python statements, which can use the variables
    `bed`, `pool` and `stack`. They find `words` in `sys.argv`, from index 2 on."""
    for name in ("rootfs", "guest"):  # built once; no instance writes to them
        if (directory := testbed.session.ledger.state / name).is_dir():
            (state / name).symlink_to(directory)
    script = _VICTIM.format(work="\n".join(f"    {line}" for line in work.strip().splitlines()))
    argv = [sys.executable, "-c", script, str(state), *words, testbed.image.digest, str(testbed.image.directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as victim:
        try:
            assert victim.stdout is not None
            started, _, token = victim.stdout.readline().strip().partition(" ")
            assert started == "started", "the victim did not get to work"
            marked = LocalFiles().owned_pids(token)
            assert list(NETNS_DIR.glob(f"*{token}*"))
        finally:
            victim.kill()
    ledger = Ledger(state)
    try:
        ledger.clean()
        assert ledger.dead_sessions() == []
    except LastroError as error:
        pytest.fail(f"could not be cleaned: {error}")
    finally:
        ledger.close()
    time.sleep(0.2)
    assert not live(marked)
    assert not LocalFiles().owned_pids(token)
    assert not [group for group in detect().directories(f"/lastro/{token}") if group.exists()]
    assert not list(NETNS_DIR.glob(f"*{token}*"))
    assert token not in Path("/proc/self/mountinfo").read_text(errors="replace")
    assert str(state) not in Path("/proc/self/mountinfo").read_text(errors="replace")
    assert not (RUN_DIR / token).exists()
