"""A private Docker daemon inside the DUT's network namespace: own data root, own socket, own containerd.

Several can run at the same time, since the directories, socket and cgroup of each have its `name`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lastro.errors import PlatformError, Unavailable
from lastro.host.ledger import NETNS_DIR
from lastro.host.state_dirs import FIRST_ID, N_IDS, close_sockets
from lastro.platforms._daemons import DaemonProcess, must_keep_running
from lastro.platforms._programs import PROGRAM, link_script
from lastro.testbed import Testbed

_START_TRIES = 30  # of about a second each
# dockerd gives its containerd 15 s, and an emulated processor beside other work needs more. Next time, it is in memory.
_SLOW = "timeout waiting for containerd to start"
_SLOW_TRIES = 3
_IMPORT_TIMEOUT_S = 600.0
_CONTAINERD_PID = Path("exec", "containerd", "containerd.pid")

# dockerd uses the host's containerd, and with it the user's containers, if it finds the socket. In its own mount
# namespace that directory is empty, so dockerd starts its own containerd, whose files disappear with the namespace.
_HIDE_CONTAINERD = "mkdir -p /run/containerd; mount -t tmpfs tmpfs /run/containerd; "
# A daemon shifts the user ids of all its containers, or of none. Two files of the host assign the range of ids to a
# user. In the daemon's mount namespace, these files assign a range of Lastro to a user that every distribution has.
_REMAPPED = "daemon"
_SUBORDINATE = ("/etc/subuid", "/etc/subgid")
_IN_PATH = ("containerd", "runc")
_SHIMS = ("containerd-shim-runc-v2", "containerd-shim")  # must be of the same build as containerd
_NO_NETWORK = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
# If firewalld runs, dockerd asks it over D-Bus to make the rules, in the host's network namespace. Without a bus,
# dockerd calls iptables itself, in its own namespace. Source: libnetwork/iptables/firewalld.go in github.com/moby/moby.
_HIDE_FIREWALLD = "export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/dev/null; "
# From version 28 on, dockerd drops what an instance sends to an instance of another network, at the bridge of its own
# one; before 28.0.2, always. Source: libnetwork/drivers/bridge/internal/iptabler in github.com/moby/moby.
ROUTED = "DOCKER_INSECURE_NO_IPTABLES_RAW=1"


class Daemon(DaemonProcess):
    """A private Docker daemon, which `start` starts. If `remapped`, its containers are in user namespaces.

    `hide` is the path of a mount that neither the daemon nor its runtimes may see.
    `bridge` is the address, in CIDR form, of the bridge of Docker's default network, which has Docker's usual firewall
    rules and docker-proxy. If it is empty, the daemon has no network. If `routed`, its networks reach each other.
    `programs` has the programs that a study chose by their path, as {name of the platform's option: path}."""

    def __init__(
        self,
        testbed: Testbed,
        name: str,
        *,
        storage: str,
        runtimes: Mapping[str, Any],
        hide: str | None = None,
        remapped: bool = False,
        bridge: str = "",
        routed: bool = False,
        programs: Mapping[str, str] | None = None,
    ) -> None:
        self.data_root = testbed.session.state / name
        self.cgroup = f"{testbed.session.cgroup}/{name}-daemon"
        self.storage = storage
        self._testbed, self._runtimes, self._hide, self._remapped = testbed, runtimes, hide, remapped
        self._bridge, self._routed = bridge, routed
        # containerd has no option for the program of its shim, nor dockerd for those that it starts: the PATH decides.
        self._program = (programs or {}).get(PROGRAM, "dockerd")
        self._inside = {name: path for name, path in (programs or {}).items() if name in _IN_PATH}
        self._run_dir = testbed.run_dir / name
        self._socket = f"unix://{self._run_dir}/socket"
        self.client = ("docker", "--config", str(self._run_dir / "client"), "--host", self._socket)

    def start(self) -> None:
        """Start the daemon, unless another object of the session with the same directories has started it.

        Raises: Unavailable without Docker; PlatformError, with its last line of output, if it does not answer."""
        host, groups = self._testbed.host, self._testbed.cgroups
        host.require(self._program, "apt-get install docker.io")
        host.require("docker", "apt-get install docker-cli")  # a package of its own since Debian 13
        command = f"/proc/{self._pids()['dockerd']}/cmdline"
        if self._socket in host.view.read([command]).get(command, ""):
            return
        host.write_text(str(self._run_dir / "client" / "config.json"), "{}")
        # This replaces the user's /etc/docker/daemon.json. By default, newer versions have no storage drivers.
        settings: dict[str, Any] = {"features": {"containerd-snapshotter": False}, "runtimes": dict(self._runtimes)}
        if host.read_or_empty("/sys/fs/selinux/enforce"):
            settings["selinux-enabled"] = True  # so that instances can have labels; they are disabled for the others
        script = _HIDE_CONTAINERD + (f"umount {shlex.quote(self._hide)}; " if self._hide else "")
        script += _HIDE_FIREWALLD if self._bridge else ""
        script += f"export {ROUTED}; " if self._routed else ""
        if self._inside:
            links = self._run_dir / "bin"
            host.run(["sh", "-e"], stdin=link_script(self._inside, links, _SHIMS))
            script += f"export PATH={shlex.quote(str(links))}:$PATH; "
        if self._remapped:
            settings["userns-remap"] = f"{_REMAPPED}:{_REMAPPED}"
            script += self._id_mapping_lines()
        host.write_text(str(self._run_dir / "daemon.json"), json.dumps(settings, indent=1))
        groups.make(host, self.cgroup)
        self._testbed.apparatus.daemons.add(self.cgroup)
        for tries_left in reversed(range(_SLOW_TRIES)):
            try:
                self._run(script)
                break
            except PlatformError as error:
                if _SLOW not in error.message or not tries_left:
                    raise

    def _run(self, script: str) -> None:
        """Run the shell commands of `script`, and start the daemon. Raises: PlatformError if it does not answer."""
        host, groups = self._testbed.host, self._testbed.cgroups
        # A dockerd that ends takes containerd with it. Until that has been reaped, the next dockerd would wait for it.
        host.run(["rm", "-f", str(self._run_dir / _CONTAINERD_PID)])
        self._process = host.spawn(
            [
                *groups.entering(self.cgroup),
                "nsenter", f"--net={NETNS_DIR / self._testbed.dut}", "unshare", "--mount", "--propagation", "slave",
                "sh", "-ec", f'{script}exec "$0" "$@"',
                self._program, "--config-file", str(self._run_dir / "daemon.json"), "--host", self._socket,
                "--group", "root",
                "--data-root", str(self.data_root), "--exec-root", str(self._run_dir / "exec"),
                "--pidfile", str(self._run_dir / "pid"), "--exec-opt", "native.cgroupdriver=cgroupfs",
                "--storage-driver", self.storage,
                *((f"--bip={self._bridge}", "--ip6tables=false") if self._bridge else _NO_NETWORK),
                "--log-level", "warn",
            ]
        )  # fmt: skip
        self._wait_for_answer()

    def _id_mapping_lines(self) -> str:
        """Return shell commands that mount a file with Lastro's range of user ids over the host's files of such ranges.

        Raises: Unavailable if the host does not have these files."""
        ids, commands = self._run_dir / "ids", ""
        self._testbed.host.write_text(str(ids), f"{_REMAPPED}:{FIRST_ID}:{N_IDS}\n")
        for file in _SUBORDINATE:
            if self._testbed.host.run(["test", "-e", file], check=False).returncode != 0:
                raise Unavailable(f"this host has no {file}, where Docker looks for the ids to use", f"touch {file}")
            commands += f"mount --bind {shlex.quote(str(ids))} {file}; "
        return commands

    def _wait_for_answer(self) -> None:
        assert self._process is not None
        client = shlex.join(self.client)
        ask = f"n=0; until {client} version >/dev/null 2>&1; do [ $((n += 1)) -lt 20 ]; sleep 0.05; done"
        for _ in range(_START_TRIES):
            if self._testbed.host.run(["sh", "-ec", ask], check=False).returncode == 0:
                break
            if not self._process.alive():
                self._raise_last_words()
        else:
            self._raise_last_words()
        close_sockets(self._testbed.host, self._run_dir)
        # The data root still has the dead containers of a killed daemon, and its networks, which occupy their names.
        for kind in ("container", "network") if self._bridge else ("container",):
            self._testbed.host.run([*self.client, kind, "prune", "--force"])

    def _raise_last_words(self) -> None:
        assert self._process is not None
        last_line = (self._process.stop().error_text.strip().splitlines() or ["it gave no reason"])[-1]
        if "graphdriver" not in last_line:
            remedy = "is this version of Docker new enough?"
        elif self.storage == "aufs":
            remedy = "only Docker before 24 has it, on a kernel with AUFS; `docker:storage=overlay2` replaces it"
        else:
            remedy = f"does the file system of {self.data_root} support that driver? `docker:storage=vfs` works on any"
        raise PlatformError(f"dockerd did not start with storage driver {self.storage}: {last_line}", remedy)

    def import_image(self) -> None:
        """Import the root filesystem as an image, unless the data root has it from an earlier campaign."""
        tag, tar = self._testbed.image.docker_tag, str(self._testbed.image.tar)
        if self._testbed.host.run([*self.client, "image", "inspect", tag], check=False).returncode != 0:
            with self._testbed.session.building():
                self._testbed.host.run([*self.client, "import", tar, tag], timeout_s=_IMPORT_TIMEOUT_S)

    def must_keep_running(self) -> AbstractContextManager[None]:
        """Check that the daemon and its containerd run from the beginning of the block to its end.

        dockerd itself starts another containerd when one has ended. Raises: DaemonEnded."""
        before = self._pids()
        return must_keep_running(lambda: self._ended_daemon(before))

    def _pids(self) -> dict[str, str]:
        """Return {"dockerd": PID, "containerd": PID}, as text; a PID is empty if the daemon has no PID file."""
        files = {"dockerd": self._run_dir / "pid", "containerd": self._run_dir / _CONTAINERD_PID}
        texts = self._testbed.host.view.read([*map(str, files.values())])
        return {name: texts.get(str(file), "").strip() for name, file in files.items()}

    def _ended_daemon(self, before: Mapping[str, str]) -> str | None:
        """Return the name of a daemon that has ended since `_pids` returned `before`; None if both still run."""
        now = self._pids()
        for name, pid in before.items():
            # A dead child of this process is in /proc until it is reaped, which `alive` does.
            is_child = name == "dockerd" and self._process is not None
            is_alive = self._testbed.host.view.exists(f"/proc/{pid}") and (not is_child or self.alive())
            if now[name] != pid or not is_alive:
                return name
        return None
