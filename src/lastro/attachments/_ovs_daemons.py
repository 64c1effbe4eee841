"""The daemons of Open vSwitch: an ovsdb-server and an ovs-vswitchd inside the DUT's namespace, with private files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lastro.attachments.base import Attachment
from lastro.errors import CommandFailed, PlatformError, TrialError
from lastro.host.base import Completed, Host, Process
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.host.state_dirs import close_sockets
from lastro.study.model import Level
from lastro.testbed import Testbed

_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_DATABASE = "ovsdb-server"
SWITCH = "ovs-vswitchd"
START_S = 10.0
DIED = "`dmesg` shows whether the kernel killed a daemon for lack of memory; the next trial starts both again"
_QUIET = ("-vconsole:warn", "-vsyslog:off", "-vfile:off")
# The last one is DPDK's.
_DIRECTORY_VARIABLES = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY")


class OvsDaemons(Attachment):
    """An attachment whose two daemons run from its preparation to its end."""

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._daemons: dict[str, Process] = {}
        self._directory = Path()

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Run both daemons inside the block, in a separate directory and cgroup, since each DUT may have a switch."""
        place = testbed.session.unique(self.name)
        self._directory = testbed.run_dir / place
        self.own_cgroups = (f"{testbed.session.cgroup}/{place}",)
        testbed.apparatus.instances.add(self.own_cgroups[0])  # its data path is what is measured
        owned = testbed.session.owned
        with owned("directory", str(self._directory)), owned("cgroup", self.own_cgroups[0]):
            try:
                self._start(testbed)
                yield
            finally:
                self._stop()

    def _start(self, testbed: Testbed) -> None:
        for program in (_DATABASE, "ovs-vsctl", "ovs-appctl", "ovsdb-tool"):
            testbed.host.require(program, self.requirements.install)
        switch, home = self.switch_program(testbed.host), self._directory
        (place,) = quoted(home)
        testbed.host.run(["sh", "-ec", f"rm -rf {place}; mkdir -p {place}"])
        testbed.host.run(["ovsdb-tool", "create", f"{home}/conf.db", str(_SCHEMA)])
        testbed.cgroups.make(testbed.host, self.own_cgroups[0])
        self._spawn(testbed, "db", _DATABASE, [_DATABASE, f"{home}/conf.db", f"--remote=punix:{home}/db.sock"])
        self._vsctl(testbed, "--no-wait", "init", *self.switch_settings(testbed))
        self._spawn(testbed, "vs", SWITCH, [switch, f"unix:{home}/db.sock"])
        close_sockets(testbed.host, home)

    def switch_program(self, host: Host) -> str:
        """Return the program that is ovs-vswitchd, as a name or a path. Raises: Unavailable if the host has none."""
        host.require(SWITCH, self.requirements.install)
        return SWITCH

    def switch_settings(self, testbed: Testbed) -> list[str]:
        """Return the arguments of `ovs-vsctl` that configure the switch before it starts."""
        return []

    def _spawn(self, testbed: Testbed, short: str, name: str, argv: Sequence[str]) -> None:
        """Start the daemon `name` in the foreground, and wait until it has made its control socket."""
        home = self._directory
        variables = [f"{name}={home}" for name in _DIRECTORY_VARIABLES]
        daemon = testbed.host.spawn(
            [
                *testbed.cgroups.entering(self.own_cgroups[0]),
                "env", *variables, "nsenter", f"--net={NETNS_DIR / testbed.dut}",
                *argv, f"--unixctl={home}/{short}.ctl", f"--pidfile={home}/{short}.pid", "--no-chdir", *_QUIET,
            ]
        )  # fmt: skip
        self._daemons[name] = daemon
        (control,) = quoted(home / f"{short}.ctl")
        wait = f"n=0; until [ -S {control} ]; do [ $((n += 1)) -lt 500 ]; sleep 0.01; done"
        try:
            testbed.host.run(["sh", "-ec", wait], timeout_s=START_S)
        except TrialError as error:
            raise self.failed_start(name, error) from error

    def failed_start(self, name: str, error: TrialError) -> PlatformError:
        """Stop the daemon `name`, and return the error that it did not start, with its last output or else `error`."""
        words = self._daemons.pop(name).stop().error_text.strip().splitlines()[-2:]
        remedy = f"the host may lack memory, or a package of the switch: {self.requirements.install}"
        return PlatformError(f"{name} did not start: {' / '.join(words) or error}", remedy)

    def _stop(self) -> None:
        while self._daemons:
            self._daemons.popitem()[1].stop()

    def _dead(self) -> list[str]:
        """Return a message for each daemon that has ended, with its exit code."""
        ended = {name: daemon.stop() for name, daemon in self._daemons.items() if not daemon.alive()}
        return [f"{name} exited with code {done.returncode}" for name, done in ended.items()]

    @contextmanager
    def _alive_throughout(self) -> Iterator[None]:
        """Check that no daemon ends inside the block.

        Raises: PlatformError when one does, even if that caused another error. It is unknown which packets a dead
        switch forwarded and which it lost, so no value of the trial may enter a mean."""
        try:
            yield
        except TrialError as error:
            if dead := self._dead():
                raise PlatformError(f"Open vSwitch: {', '.join(dead)}; {error.message}", error.hint or DIED) from error
            raise
        if dead := self._dead():
            raise PlatformError(f"Open vSwitch: {', '.join(dead)} before the links were torn down", DIED)

    def _vsctl(self, testbed: Testbed, *words: str, check: bool = True) -> Completed:
        """Run ovs-vsctl. Raises: CommandFailed, also when ovs-vsctl only prints that the switch failed."""
        argv = ["ovs-vsctl", f"--db=unix:{self._directory}/db.sock", "--timeout=10", *words]
        done = testbed.host.run(argv, check=check)
        if check and "Error detected" in done.error_text:
            raise CommandFailed(argv, done.returncode, done.error_text.splitlines()[0])
        return done

    def _appctl(self, testbed: Testbed, *words: str) -> Completed:
        argv = ["ovs-appctl", "--timeout=10", f"--target={self._directory}/vs.ctl", *words]
        return testbed.host.run(argv, check=False)
