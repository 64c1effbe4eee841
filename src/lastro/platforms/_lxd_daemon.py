"""A private daemon of LXD or Incus inside the DUT's network namespace, with its storage and its image.

Its state is below directories of Lastro. It runs in its own mount namespace, whose /run contains only these directories
and private files with fixed paths, such as liblxc's locks. Storage is mounted only in that namespace, which disappears
with the daemon's last process."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import CommandFailed, PlatformError, TrialError, Unavailable
from lastro.host.base import Host
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.host.state_dirs import close_sockets
from lastro.platforms._daemons import DaemonProcess
from lastro.platforms.container import let_children_inherit
from lastro.testbed import Testbed

IMAGE = POOL = "lastro"

_START_S = 30.0
_IMPORT_TIMEOUT_S = 600.0
_SOCKET_PATH_MAX = 107  # unix(7): sun_path has 108 bytes, the last one 0
_LOOP_FILE_SIZE = "16GiB"  # sparse: only what is written takes space
_STORAGE_TOOLS = {
    "dir": None,
    "btrfs": "apt-get install btrfs-progs, on a kernel that has btrfs",
    "zfs": "install zfsutils-linux and the kernel module of ZFS",
}


@dataclass(frozen=True, slots=True)
class Flavour:
    """The differences between LXD and Incus."""

    name: str
    daemon: str
    client: str
    variable: str  # prefix of the names of environment variables
    guest_interface: str  # the setting that gives instances a socket to the daemon, which Lastro turns off
    remedy: str
    daemon_places: tuple[str, ...] = ()  # where the daemon's program may be if it is not in the PATH


class PrivateDaemon(DaemonProcess):
    """A private daemon. `suffix` distinguishes the directories of daemons of several programs.

    `home` has sockets, database and logs. Its path is short, as paths of sockets must be. `disk` has large files.
    `group` is the cgroup above the cgroups of the daemon and of the monitors that liblxc starts.
    `client` is the prefix of its client's command lines."""

    def __init__(self, testbed: Testbed, flavour: Flavour, storage: str, suffix: str = "") -> None:
        key = f"{flavour.name}-{storage}{suffix}"
        self._testbed, self._flavour, self._storage = testbed, flavour, storage
        self.home, self.disk = testbed.run_dir / key, testbed.scratch_dir / key
        self.group = f"{testbed.session.cgroup}/{key}"
        self.client = ("env", f"{flavour.variable}_DIR={self.home}", f"{flavour.variable}_CONF={self.home}/client",
                       flavour.client)  # fmt: skip
        # A ZFS pool cannot be private: the kernel has one namespace for the names of all pools.
        self._zpool = f"lastro-{testbed.session.token}-{flavour.name}"
        self.program = flavour.daemon
        self._resources = ExitStack()

    def root_of(self, instance: str) -> Path:
        """Return the path of an instance's root filesystem in the daemon's mount namespace."""
        return self.home / "storage-pools" / POOL / "containers" / instance / "rootfs"

    def start(self) -> None:
        """Start the daemon. Raises: Unavailable if this host cannot run one; PlatformError if it does not answer."""
        program = _program(self._testbed.host, self._flavour)
        if len(f"{self.home}/unix.socket") > _SOCKET_PATH_MAX:
            raise Unavailable(
                f"{self.home}/unix.socket is too long for a socket path", "set LASTRO_RUN to a shorter directory"
            )
        session = self._testbed.session
        with ExitStack() as stack:
            for kind, name in (("directory", self.home), ("directory", self.disk), ("cgroup", self.group)):
                stack.enter_context(session.owned(kind, str(name)))
            if self._storage == "zfs":
                stack.enter_context(session.owned("zpool", self._zpool))
            self._spawn(program)
            stack.callback(super().stop)
            self._wait_until_ready()
            close_sockets(self._testbed.host, self.home)
            self._make_storage()
            self._import_image()
            self._resources = stack.pop_all()

    def stop(self) -> None:
        self._resources.close()

    def _spawn(self, program: str) -> None:
        testbed, variable = self._testbed, self._flavour.variable
        let_children_inherit(testbed, testbed.session.cgroup)
        let_children_inherit(testbed, self.group)
        testbed.cgroups.make(testbed.host, f"{self.group}/daemon")
        self._process = testbed.host.spawn(
            [
                *testbed.cgroups.entering(f"{self.group}/daemon"),
                "nsenter", f"--net={NETNS_DIR / testbed.dut}", "unshare", "--mount", "--propagation", "slave",
                "sh", "-ec", private_mounts_script(self.home, self.disk),
                # Load no profiles into the host's AppArmor; liblxc still applies a profile that is loaded.
                "env", f"{variable}_DIR={self.home}", f"{variable}_SECURITY_APPARMOR=false",
                program, "--group", "root",
            ]
        )  # fmt: skip

    def _wait_until_ready(self) -> None:
        (procs,) = quoted(self._testbed.cgroups.directories(f"{self.group}/daemon")[0] / "cgroup.procs")
        # A daemon that has ended leaves its group empty. In the first second, the group may be empty because it is new.
        script = (
            f"n=0; until {shlex.join([*self.client, 'query', '/1.0'])} >/dev/null 2>&1; do "
            f"[ $((n += 1)) -lt 30 ] || grep -q . {procs}; sleep 0.03; done"
        )
        try:
            self._testbed.host.run(["sh", "-ec", script], timeout_s=_START_S)
        except TrialError as error:
            assert self._process is not None
            lines = self._process.stop().error_text.strip().splitlines()[-2:]
            raise PlatformError(
                f"{self._flavour.daemon} did not answer: {' / '.join(lines) or error}", self._flavour.remedy
            ) from error

    def _make_storage(self) -> None:
        size = f"size={_LOOP_FILE_SIZE}"
        settings = {"dir": [f"source={self.disk}/pool"], "btrfs": [size], "zfs": [size, f"zfs.pool_name={self._zpool}"]}
        try:
            self._testbed.host.run([*self.client, "storage", "create", POOL, self._storage, *settings[self._storage]])
        except CommandFailed as error:
            raise Unavailable(
                f"{self._flavour.daemon} cannot create storage '{self._storage}': {error.stderr.strip()}",
                _STORAGE_TOOLS[self._storage],
            ) from error

    def _import_image(self) -> None:
        """Import the image, which consists of two tar files: its metadata and its root filesystem."""
        host, metadata = self._testbed.host, f"{self.home}/metadata"
        directory, file = quoted(self.home, metadata)
        script = (
            f'printf "architecture: %s\\ncreation_date: 1\\n" "$(uname -m)" > {file}.yaml; '
            f"tar --create --directory={directory} --file={file}.tar metadata.yaml"
        )
        host.run(["sh", "-ec", script])
        tars = [f"{metadata}.tar", str(self._testbed.image.tar)]
        host.run([*self.client, "image", "import", *tars, f"--alias={IMAGE}"], timeout_s=_IMPORT_TIMEOUT_S)


def _program(host: Host, flavour: Flavour) -> str:
    """Return the path of the daemon's program. Raises: Unavailable when none can run as a private daemon."""
    program = host.which(flavour.daemon) or next(
        (path for path in flavour.daemon_places if _succeeds(host, ["test", "-x", path])), None
    )
    if program is None:
        is_snap = _succeeds(host, ["test", "-x", f"/snap/bin/{flavour.daemon}"])
    else:  # Ubuntu's script with the daemon's name installs the snap
        no_snap = '! { head -c 2 "$0" | grep -q "^#!" && grep -q snap "$0"; }'
        is_snap = not _succeeds(host, ["sh", "-c", no_snap, program])
    if is_snap:
        raise Unavailable(
            f"{flavour.name} is installed only as a snap, whose daemon is tied to snapd's mount namespace and "
            "directories: Lastro cannot start a private one",
            flavour.remedy,
        )
    if program is None or host.which(flavour.client) is None:
        raise host.lacks(f"program '{flavour.client if program else flavour.daemon}'", flavour.remedy)
    return program


def _succeeds(host: Host, argv: Sequence[str]) -> bool:
    return host.run(argv, check=False).returncode == 0


def private_mounts_script(home: Path, disk: Path) -> str:
    """Return a script that arranges the mounts in a new mount namespace, and then executes its arguments.

    In the namespace, /run contains only `home` and `disk`, if they are below /run. Large files are in `disk`."""
    small, large, run = quoted(home, disk, disk / "run")
    visible = [path for path in (home, disk) if path.is_relative_to("/run")]
    copies = [quoted(path, disk / "run" / path.relative_to("/run")) for path in visible]
    return "\n".join(
        [
            *(
                f"mkdir -p {small}/{name} {large}/{name}; mount --bind {large}/{name} {small}/{name}"
                for name in ("images", "disks")
            ),
            f"mkdir -p {large}/pool {run}; mount -t tmpfs tmpfs {run}",
            *(f"mkdir -p {copy}; mount --rbind {path} {copy}" for path, copy in copies),
            f"mount --rbind {run} /run",
            # With the user's lxcfs, instances would see another /proc than on other platforms.
            "[ ! -d /var/lib/lxcfs ] || mount -t tmpfs tmpfs /var/lib/lxcfs",
            'exec "$0" "$@"',
        ]
    )
