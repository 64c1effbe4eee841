"""Days on which the host itself fails in the middle of a trial: each ends in a verdict on every trial or in one error,
nothing that was measured is lost, nothing is left on the host, and the campaign goes on when the host is well again.

What else belongs here is tested where its fakes are: the clock that is set, and Docker's daemons killed, in
tests/system/test_chain_campaign.py, and the clock also in test_injected.py; a full disk under a campaign in
tests/cli/test_full_disk.py."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastro.host.ledger import STATE_DIR, Ledger

from ..cli.conftest import ENVIRONMENT, Finished, Process, command, finish, lastro, no_stragglers, rows, start, until
from ..support.hostlisting import Listing, idle_host, listing, settled_differences
from ..system.test_chain_campaign import chain_text, write

pytestmark = [pytest.mark.root, pytest.mark.slow]
__all__ = ["no_stragglers"]  # a fixture for every test here

STOPPED_S = 65  # longer than a tool may take, and than a minute
STATE_MIB = 64


@dataclass
class Day:
    """One campaign of two trials on native, and the host as it was. `state` is where Lastro keeps what it owns."""

    home: Path
    state: Path = STATE_DIR
    before: Listing = field(default_factory=dict)

    def __post_init__(self) -> None:
        with idle_host(), closing(Ledger(self.state)) as ledger:
            ledger.clean()
            self.before = listing(self.state)

    @property
    def campaign(self) -> Path:
        return self.home / "campaign"

    @property
    def env(self) -> Mapping[str, str]:
        return {"LASTRO_STATE": str(self.state)}

    def measuring(self) -> Process:
        """A campaign that is in the middle of the first measurement of its second trial."""
        study = write(self.home, chain_text(["native"], replicates=2, tcp_s=3))
        process = start("run", study, "-o", self.campaign, "--wait", "--no-report", env=self.env)
        until(lambda: (self.campaign / "campaign.db").exists(), "the campaign", 300)
        until(lambda: [row[3] for row in rows(self.campaign)] == ["valid", "running"], "the second trial", 120)
        time.sleep(2.0)
        assert process.poll() is None
        return process

    def ended(self, process: subprocess.Popen[str], *codes: int) -> Finished:
        """Its end: with one error at most, and the trial that had been measured is as it was."""
        done = finish(process, 240)
        errors = [line for line in done.err.splitlines() if line.startswith("lastro: ")]
        assert done.code in codes and len(errors) == (done.code != 0), done
        assert "defect" not in done.err, done.err
        assert rows(self.campaign)[0][3:] == ("valid", 1)
        return done

    def has_another_disk(self) -> None:
        """The state's own mounts are others now, and none of what is left behind."""
        old, new = self.before["mounts"], listing(self.state)["mounts"]
        of_state = {line for line in old | new if f" {self.state}" in line}
        self.before["mounts"] = (old - of_state) | (new & of_state)

    def goes_on(self) -> None:
        """The host is well: what is left runs, every trial has a verdict, and the host is as it was."""
        assert lastro("resume", self.campaign, "--wait", "--no-report", env=self.env).code == 0
        states = [row[3:] for row in rows(self.campaign)]
        assert states[0] == ("valid", 1) and states[1][0] in ("valid", "invalid"), states
        with idle_host():
            assert settled_differences(self.before, patience_s=30, state=self.state) == []


@pytest.fixture
def day(tmp_path: Path) -> Day:
    return Day(tmp_path)


def test_stopped_for_a_minute(day: Day) -> None:
    """What measures goes on meanwhile. It is no error: the trial ends, and its verdict says whether it counts."""
    process = day.measuring()
    process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    process.send_signal(signal.SIGCONT)
    day.ended(process, 0)
    assert [row[3] for row in rows(day.campaign)][1] in ("valid", "invalid")
    day.goes_on()


def test_the_namespace_of_the_dut_is_deleted(day: Day) -> None:
    process = day.measuring()
    (name,) = [place.name for place in Path("/run/netns").glob("lastro-*-dut")]
    subprocess.run(["ip", "netns", "del", name], check=True, timeout=20)
    day.ended(process, 0, 3)
    day.goes_on()


def test_no_more_memory_for_lastro_itself(day: Day) -> None:
    """As by `ulimit -v`, from the middle of a trial on: threads and large objects cannot be made any more."""
    process = day.measuring()
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE")
    resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))
    day.ended(process, 0, 1, 3)
    day.goes_on()


@pytest.mark.parametrize("limit_mib", [60, 120, 240, 480])
def test_too_little_memory_from_the_start(tmp_path: Path, limit_mib: int) -> None:
    """`ulimit -v`: a campaign or one line that says that there is no memory, whatever was being imported."""
    day = Day(tmp_path)
    study = write(tmp_path, chain_text(["native"]))
    words = command("run", study, "-o", day.campaign, "--wait", "--no-report")
    argv = ["sh", "-c", f'ulimit -v {limit_mib << 10}; exec "$@"', "sh", *words]
    done = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
    assert "Traceback" not in done.stderr and "defect" not in done.stderr, done
    assert done.returncode in (0, 1, 3) and done.stderr.count("lastro: ") == (done.returncode != 0), done
    with idle_host(), closing(Ledger()) as ledger:
        ledger.clean()
        assert settled_differences(day.before, patience_s=30) == []


# The file system of the state


@pytest.fixture
def small_state(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for the state, on a loop device, with the images of this host in it."""
    disk, state = tmp_path / "disk.ext4", tmp_path / "state"
    with open(disk, "wb") as file:
        file.truncate(STATE_MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True, timeout=60)
    state.mkdir()
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", disk, state], check=True, timeout=20)
    try:
        (state / "rootfs").mkdir()
        subprocess.run(["mount", "--bind", STATE_DIR / "rootfs", state / "rootfs"], check=True, timeout=20)
        try:
            yield state
        finally:
            subprocess.run(["umount", "--lazy", state / "rootfs"], check=True, timeout=20)
    finally:
        subprocess.run(["umount", "--lazy", state], check=True, timeout=20)


def test_the_disk_of_the_state_is_full(tmp_path: Path, small_state: Path) -> None:
    day = Day(tmp_path, small_state)
    process = day.measuring()
    ballast = small_state / "ballast"
    with open(ballast, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    day.ended(process, 0, 3, 5)
    ballast.unlink()
    day.goes_on()


def test_the_state_is_mounted_read_only(tmp_path: Path, small_state: Path) -> None:
    """As the kernel does when the disk fails: not even what is open for writing can be written any more."""
    day = Day(tmp_path, small_state)
    process = day.measuring()
    device = subprocess.run(["findmnt", "-no", "SOURCE", small_state], capture_output=True, text=True).stdout.strip()
    Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("a test")
    with pytest.raises(OSError, match="Read-only file system"):
        (small_state / "ballast").touch()
    day.ended(process, 3, 5)
    mend(small_state, tmp_path / "disk.ext4")
    day.has_another_disk()
    day.goes_on()


def mend(state: Path, disk: Path) -> None:
    """Check a copy of the disk and mount it in its place: the old one may still be held by others' mount namespaces."""
    mended = disk.with_name("mended.ext4")
    for place in (state / "rootfs", state):
        subprocess.run(["umount", "--lazy", place], check=True, timeout=20)
    subprocess.run(["cp", "--sparse=always", disk, mended], check=True, timeout=60)
    subprocess.run(["fsck.ext4", "-y", "-f", mended], check=False, capture_output=True, timeout=60)
    subprocess.run(["mount", "-o", "loop", mended, state], check=True, timeout=20)
    subprocess.run(["mount", "--bind", STATE_DIR / "rootfs", state / "rootfs"], check=True, timeout=20)
