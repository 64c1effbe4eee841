"""A private containerd: its own root, state and socket, in a mount namespace with its own /run.

So fixed paths of its programs, such as /run/containerd, are private, too. The root remains as a cache of the image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from lastro.errors import PlatformError, TrialError
from lastro.host.shell import quoted
from lastro.host.state_dirs import close_sockets
from lastro.platforms._daemons import DaemonProcess
from lastro.platforms.container import mounts_script
from lastro.testbed import Testbed

_START_S = 30.0
_COPY_TIMEOUT_S = 600.0
UNUSED = ("io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing")
# Delete what a killed session left: containers that do not run, and their layers.
_PURGE = """for name in $(ctr containers list --quiet); do ctr containers delete "$name" >/dev/null 2>&1 || :; done
ctr snapshots list | while read -r key _ kind; do
    [ "$kind" != Active ] || mountpoint -q "$1/$key/rootfs" || ctr snapshots delete "$key" || :
done"""

# An earlier copy may have been interrupted. A failed command in the argument of eval would not end the script.
_COPY = """umount "$3" 2>/dev/null || :
ctr snapshots delete "$1-new" >/dev/null 2>&1 || :
mkdir -p "$3"
mounts=$(ctr snapshots prepare --target "$3" "$1-new")
eval "$mounts"
cp -a --reflink=auto "$2/." "$3/"
sync -f "$3"
umount "$3"
ctr snapshots commit "$1" "$1-new\""""


class Containerd(DaemonProcess):
    """A private containerd."""

    name: ClassVar[str] = "containerd"  # in the names of its directories and its cgroup
    program = "containerd"
    namespace: ClassVar[str] = "lastro"  # containerd's own, by which it separates the objects of its clients
    programs: ClassVar[Mapping[str, str]] = {  # {program that it requires: what installs it}
        "containerd": "apt-get install containerd",
        "ctr": "apt-get install containerd",
        "runc": "apt-get install runc",
    }
    without: ClassVar[tuple[str, ...]] = ("io.containerd.grpc.v1.cri", *UNUSED)  # plug-ins that are off
    answers: ClassVar[str] = "ctr version"  # shell code that succeeds once the daemon answers
    purge: ClassVar[str] = _PURGE

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self.home = testbed.run_dir / self.name  # with its configuration and its socket
        self.instances = self.home / "instances"  # for the small files of its instances
        self.root = testbed.session.state / f"{self.name}{testbed.suffix}"  # with its layers
        self.cgroup = f"{testbed.session.cgroup}/{self.name}-daemon"
        self.inside = ("nsenter", f"--mount={self.home / 'mnt'}")  # runs a command in its mount namespace

    @property
    def base(self) -> str:
        """The name of the snapshot that contains the root filesystem image."""
        return f"lastro-{self._testbed.image.name}"

    @property
    def client(self) -> str:
        """Shell code that defines functions for the clients of this daemon: `ctr`, which is containerd's own."""
        (socket,) = quoted(self.home / "socket")
        return f'ctr() {{ command ctr --address {socket} --namespace {self.namespace} "$@"; }}'

    @property
    def runtime_root(self) -> Path:
        """The directory in which the shims keep the state of runc, in a directory for each namespace of containerd."""
        return self.home / "runc"

    def enter(self, container: str) -> list[str]:
        """Return the prefix of a command line that runs in a container."""
        return [*self.inside, "runc", "--root", str(self.runtime_root / self.namespace), "exec", container]

    def run(
        self, script: str, *words: str, stdin: bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> str:
        """Run a shell script in the daemon's mount namespace, and return what it prints.

        The script can call the functions of `client`; `words` are its arguments $1, $2 and so on."""
        argv = [*self.inside, "sh", "-ec", f"{self.client}\n{script}", "ctr", *words]
        return self._testbed.host.run(argv, stdin=stdin, timeout_s=timeout_s, check=check).text

    def start(self) -> None:
        """Start or restart the daemon, and copy the image into a snapshot unless it exists.

        Raises: Unavailable if a program is missing; PlatformError, with the daemon's last line of output, if it does
        not answer."""
        host = self._testbed.host
        for program, remedy in self.programs.items():
            host.require(program, remedy)
        self.stop()
        if not host.view.exists(str(self.home)):
            self._prepare()
        self._process = host.spawn(self._argv())
        self._wait_for_answer()
        close_sockets(host, self.home)
        self.run(self.purge, str(self.instances))
        self._import_image()

    def _prepare(self) -> None:
        host = self._testbed.host
        host.write_text(str(self.home / "config.toml"), self._settings())
        self._testbed.cgroups.make(host, self.cgroup)
        self._testbed.apparatus.daemons.add(self.cgroup)
        host.run(["sh", "-e"], stdin=mounts_script(self.home, *self._mounts(), propagation="slave"))

    def _mounts(self) -> list[str]:
        """Return shell commands that prepare the daemon's mount namespace."""
        return []

    def _argv(self) -> list[str]:
        """Return the command line of the daemon."""
        daemon = ["containerd", "--config", str(self.home / "config.toml")]
        return [*self._testbed.cgroups.entering(self.cgroup), *self.inside, *daemon]

    def _settings(self) -> str:
        off = ", ".join(f'"{name}"' for name in self.without)
        return (
            f'version = 2\nroot = "{self.root}"\nstate = "{self.home / "state"}"\ndisabled_plugins = [{off}]\n'
            f'[grpc]\naddress = "{self.home / "socket"}"\n[debug]\nlevel = "warn"\n'
        )

    def _wait_for_answer(self) -> None:
        assert self._process is not None
        ask = f"n=0; until {self.answers} >/dev/null 2>&1; do [ $((n += 1)) -lt 300 ]; sleep 0.05; done"
        try:
            self.run(ask, timeout_s=_START_S)
        except TrialError as error:
            lines = self._process.stop().error_text.strip().splitlines() or ["it gave no reason"]
            raise PlatformError(
                f"containerd did not start: {lines[-1]}", "is this version of containerd new enough?"
            ) from error

    def _import_image(self) -> None:
        """Copy the image into a snapshot that all instances share, unless an earlier campaign has done so."""
        if not self.run('ctr snapshots info "$1" 2>/dev/null || :', self.base):
            with self._testbed.session.building():
                places = (str(self._testbed.image.tree), str(self.home / "building"))
                self.run(_COPY, self.base, *places, timeout_s=_COPY_TIMEOUT_S)
