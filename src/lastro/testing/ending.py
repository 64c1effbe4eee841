"""The end of an instance: nothing is left, even after an error or a kill."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastro.errors import LastroError, TrialError
from lastro.host.cgroups import Resources, detect
from lastro.host.ledger import NETNS_DIR, RUN_DIR, Ledger
from lastro.testing.subject import Subject, live, owned_processes

# A Lastro process that starts an instance with work in it, and then hangs until it is killed.
_VICTIM = """
import sys, time
from pathlib import Path
from lastro.host.ledger import session
from lastro.image import rootfs
from lastro.platforms.base import InstanceSpec
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import local_testbed
from contextlib import ExitStack
state, level = Path(sys.argv[1]), sys.argv[2]
with session("a victim", state=state) as held, ExitStack() as stack:
    image = rootfs.ensure(rootfs.Recipe.of_this_host(held.host), state / "rootfs", held.host)
    bed = stack.enter_context(local_testbed(held, image))
    platform = PlatformPool(bed, stack).get(level)
    instance = stack.enter_context(platform.start(bed, InstanceSpec("victim", "victim")))
    instance.spawn(["sleep", "86390"])
    print("started", held.token, flush=True)
    time.sleep(120)
"""


class Ending:
    contained: bool
    shares_kernel: bool

    def test_stopping_leaves_nothing_and_ends_even_what_keeps_forking(self, subject: Subject) -> None:
        """Each process lives for a moment and leaves a child: listing them and then signalling misses some."""
        before = subject.leftovers()
        hop = 'n=$1; [ "$n" -gt 0 ] || exit 0; sh -c "$0" "$0" $((n - 1)) & exit 0'
        with subject.start() as instance:
            instance.spawn(["sleep", "86395"])
            script = (
                "sleep 86394 >/dev/null 2>&1 & mount -t tmpfs tmpfs /mnt 2>/dev/null; head -c 9000000 /dev/zero > /big"
            )
            instance.run(["sh", "-c", script])
            assert len(subject.leftovers()) > len(before)
            for _ in range(4):  # in a container, they may stay unreaped: not too many
                instance.run(["sh", "-c", hop, hop, "300" if self.contained else "3000"])
            pids, marked = instance.pids(), owned_processes(subject.testbed.session.token)
            group = instance.cgroup
            assert pids
        assert subject.leftovers() == before
        assert not live(pids)
        assert len(owned_processes(subject.testbed.session.token)) < len(marked)
        assert not any(directory.exists() for directory in subject.testbed.cgroups.directories(group))

    def test_after_a_start_that_failed_and_an_error_nothing_is_left_and_the_name_is_free(
        self, subject: Subject
    ) -> None:
        before = subject.leftovers()
        with pytest.raises(TrialError), subject.start("again", resources=Resources(cpuset="4095")):
            pytest.fail("no host has this CPU")
        assert subject.leftovers() == before
        with pytest.raises(ZeroDivisionError), subject.start("again"):
            raise ZeroDivisionError
        assert subject.leftovers() == before
        with subject.start("again") as first:
            with pytest.raises(TrialError, match="again"), subject.start("again"):
                pytest.fail("two instances of one name")
            assert first.run(["echo", "unharmed"]).text == "unharmed\n"

    @pytest.mark.parametrize("name", ["", "a", "a b", "ü", "x'y", "../x", "a/b", "$x", "-x", "x" * 41])
    def test_odd_names_are_refused(self, subject: Subject, name: str) -> None:
        with pytest.raises(TrialError, match="cannot name an instance"):
            subject.spec(name)

    def test_probing_finds_it_available_and_leaves_nothing(self, subject: Subject) -> None:
        before = subject.leftovers()
        found = subject.platform.probe(subject.testbed)
        assert found, found.reason
        assert subject.leftovers() == before
        assert subject.platform.residuals(subject.testbed)["root filesystem"]

    def test_killed_and_cleaned_up_after_it_leaves_nothing(self, subject: Subject, level: str, tmp_path: Path) -> None:
        """Kill Lastro (SIGKILL) with an instance at work: the next cleanup knows from the ledger what to remove."""
        state = subject.testbed.session.ledger.state
        for kept in ("rootfs", "guest"):  # built once; no instance writes to them
            if (state / kept).is_dir():
                (tmp_path / kept).symlink_to(state / kept)
        victim = subprocess.Popen(
            [sys.executable, "-c", _VICTIM, str(tmp_path), level], stdout=subprocess.PIPE, text=True
        )
        try:
            assert victim.stdout is not None
            words = victim.stdout.readline().split()
            assert words[:1] == ["started"], "the victim did not start an instance"
            marked = owned_processes(words[1])
        finally:
            victim.kill()
            victim.wait(timeout=20)
        ledger = Ledger(tmp_path)
        try:
            ledger.clean()
            assert ledger.dead_sessions() == []
        except LastroError as error:
            pytest.fail(f"could not be cleaned: {error}")
        finally:
            ledger.close()
        time.sleep(0.2)
        token = words[1]
        assert not live(marked)
        assert not owned_processes(token)
        assert not [group for group in detect().directories(f"/lastro/{token}") if group.exists()]
        assert not list(NETNS_DIR.glob(f"*{token}*"))
        assert token not in Path("/proc/self/mountinfo").read_text()
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
        assert not (RUN_DIR / token).exists()
