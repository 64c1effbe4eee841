"""Tests that kill Lastro (SIGKILL) while it works: the next cleanup must remove everything, by the ledger."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastro.errors import LastroError
from lastro.host.cgroups import detect
from lastro.host.files import LocalFiles
from lastro.host.ledger import NETNS_DIR, RUN_DIR, Ledger
from lastro.testbed import Testbed
from lastro.testing.subject import live

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
