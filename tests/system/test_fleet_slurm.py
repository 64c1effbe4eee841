"""A fleet in an allocation of a real Slurm: two nodes, whose tasks are the workers of a Dask scheduler."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ..cli.conftest import finish, n_done, start, until
from ..support.fleethosts import FleetHost, fleet_hosts, run
from .test_fleet import attempts_of, is_whole, write

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("slurmctld") is None, reason="no Slurm here: apt-get install slurm-wlm"),
]

_NEAR, _PORT = "198.18.220.1", 8786
_CONFIGURATION = """ClusterName=tests
SlurmctldHost={host}({near})
AuthInfo=socket={home}/munge
SlurmUser=root
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool.%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
KillWait=5
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=10
"""


@contextmanager
def started(log: Path, *argv: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program in the foreground, which is ended after the block."""
    with open(log, "ab") as words:
        process = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=os.environ
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def nodes(
    untouched_host: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[FleetHost]]:
    """The nodes of a cluster, and what controls it on this machine."""
    pytest.importorskip("distributed")
    home = tmp_path_factory.mktemp("slurm")
    (home / "state").mkdir()
    (home / "key").write_bytes(os.urandom(128))
    (home / "key").chmod(0o600)
    (configuration := home / "slurm.conf").touch()
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    with ExitStack() as stack:
        hosts = stack.enter_context(fleet_hosts(home / "hosts", "ada", "bea"))
        lines = [f"NodeName={host.name} NodeAddr={host.address} CPUs={os.cpu_count()}" for host in hosts]
        text = _CONFIGURATION.format(host=socket.gethostname(), near=_NEAR, home=home, nodes="\n".join(lines))
        configuration.write_text(text)
        munge = ("munged", "--foreground", "--force", f"--key-file={home}/key", f"--socket={home}/munge")
        more = (f"--pid-file={home}/munged.pid", f"--log-file={home}/munged.log", f"--seed-file={home}/munged.seed")
        stack.enter_context(started(home / "munged.words", *munge, *more))
        until((home / "munge").exists, "munged")
        stack.enter_context(started(home / "slurmctld.log", "slurmctld", "-D"))
        for host in hosts:
            run("ip", "-n", host.netns, "route", "add", "default", "via", host.address.removesuffix("2") + "1")
            enter = ("nsenter", f"--target={host.pid}", "--all", f"--wdns={home}")
            stack.enter_context(started(home / f"{host.name}.log", *enter, "slurmd", "-D"))
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        until(lambda: subprocess.run(idle, capture_output=True, text=True, check=False).stdout.strip() == "2", "nodes")
        yield hosts


@contextmanager
def allocation(place: Path) -> Iterator[None]:
    """One worker on each node, as the guide says."""
    worker = (sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://{_NEAR}:{_PORT}", "--nthreads", "1")
    options = ("--no-nanny", "--no-dashboard", "--local-directory", "/run")
    srun = ("srun", "--nodes=2", "--ntasks-per-node=1", "--job-name=workers", f"--chdir={place}")
    with started(place / "srun.log", *srun, *worker, *options) as process:
        yield
        subprocess.run(["scancel", "--name=workers"], check=True)
        process.wait(60)


def test_an_allocation_ends_and_the_next_one_goes_on(nodes: list[FleetHost], tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    words = write(tmp_path, nodes, replicates=16, settle_s=0.5)
    (tmp_path / "fleet.toml").write_text(f'scheduler = "tcp://{_NEAR}:{_PORT}"\n')
    scheduler = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", _NEAR, "--port", str(_PORT))
    with started(tmp_path / "scheduler.log", *scheduler, "--no-dashboard"):
        with allocation(tmp_path):
            process = start("run", *words)
            until(lambda: n_done(campaign) >= 4, "four trials", 120)
        assert process.poll() is None
        with allocation(tmp_path):
            done = finish(process, 300)
    assert done.code == 0, done.err
    assert done.err.count(" is lost: ") == 2 and done.err.count(" is back") == 2
    assert {attempt.testbed for attempt in attempts_of(campaign)} == {"ada", "bea"} and is_whole(campaign)
    assert [host.left() for host in nodes] == [[]] * 2
