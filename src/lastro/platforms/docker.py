"""Docker, by a private daemon of ours inside the DUT's network namespace: own data root, own socket, own containerd.

The user's own Docker, its images, networks and firewall rules are never touched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lastro.errors import CommandFailed, PlatformError, TrialError, Unavailable
from lastro.host.base import Process
from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.study.model import Level
from lastro.testbed import Testbed

_DAEMON_START_S = 30.0
_IMPORT_TIMEOUT_S = 600.0

# dockerd uses the host's containerd wherever it finds its socket, and the user's containers with it. In a mount
# namespace of its own the place is empty, so dockerd starts a containerd of its own, whose files go with it.
_HIDE_CONTAINERD = 'mkdir -p /run/containerd; mount -t tmpfs tmpfs /run/containerd; exec "$0" "$@"'


class DockerInstance(Instance):
    def __init__(self, testbed: Testbed, spec: InstanceSpec, client: Sequence[str], *, netns: str, cgroup: str) -> None:
        super().__init__(testbed, spec, netns=netns, cgroup=cgroup)
        self._client = tuple(client)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return [*self._client, "exec", "--interactive", self.spec.name, *argv]


class Docker(Platform):
    name = "docker"
    summary = "Docker containers, by a private daemon that leaves the user's own alone"
    version_argv = ("dockerd", "--version")
    confines = frozenset({"apparmor", "seccomp"})

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._daemon: Process | None = None
        self._client: tuple[str, ...] = ()

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """The daemon and the image: started and imported once. The data root is kept between campaigns, as a cache."""
        assert self._daemon is None, "one daemon for one object: prepare it once"
        try:
            self._start_daemon(testbed)
            self._import_image(testbed)
            yield
        finally:
            self._stop_daemon()

    def _start_daemon(self, testbed: Testbed) -> None:
        for program in ("dockerd", "docker"):
            if testbed.host.which(program) is None:
                raise Unavailable(f"this host has no program '{program}'", "apt-get install docker.io")
        run_dir = testbed.run_dir / "docker"
        socket = f"unix://{run_dir}/socket"
        self._client = ("docker", "--config", str(run_dir / "client"), "--host", socket)
        testbed.host.write_text(str(run_dir / "client" / "config.json"), "{}")
        testbed.host.write_text(str(run_dir / "daemon.json"), "{}")  # not the user's /etc/docker/daemon.json
        self.own_cgroups = (f"{testbed.session.cgroup}/docker-daemon",)
        testbed.cgroups.make(testbed.host, self.own_cgroups[0])
        self._daemon = testbed.host.spawn(
            [
                *testbed.cgroups.entering(self.own_cgroups[0]),
                "nsenter", f"--net={NETNS_DIR / testbed.dut}", "unshare", "--mount", "--propagation", "slave",
                "sh", "-ec", _HIDE_CONTAINERD,
                "dockerd", "--config-file", str(run_dir / "daemon.json"), "--host", socket,
                "--data-root", str(testbed.session.ledger.state / "docker"), "--exec-root", str(run_dir / "exec"),
                "--pidfile", str(run_dir / "pid"), "--exec-opt", "native.cgroupdriver=cgroupfs",
                "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
                "--log-level", "warn",
            ]
        )  # fmt: skip
        self._wait_until_ready(testbed)

    def _wait_until_ready(self, testbed: Testbed) -> None:
        probe = (
            f"n=0; until {' '.join(self._client)} version >/dev/null 2>&1; do [ $((n += 1)) -lt 300 ]; sleep 0.05; done"
        )
        try:
            testbed.host.run(["sh", "-ec", probe], timeout_s=_DAEMON_START_S)
        except TrialError as error:
            assert self._daemon is not None
            words = self._daemon.stop().error_text.strip().splitlines()[-2:]
            raise PlatformError(
                f"dockerd did not answer: {' / '.join(words) or error}", "is docker.io installed?"
            ) from error
        # A killed daemon's containers are still in its data root, dead, and hold their names.
        testbed.host.run([*self._client, "container", "prune", "--force"])

    def _import_image(self, testbed: Testbed) -> None:
        tag = testbed.image.docker_tag
        if testbed.host.run([*self._client, "image", "inspect", tag], check=False).returncode != 0:
            testbed.host.run([*self._client, "import", str(testbed.image.tar), tag], timeout_s=_IMPORT_TIMEOUT_S)

    def _stop_daemon(self) -> None:
        if self._daemon is not None:
            self._daemon.stop()
            self._daemon = None

    def _forget_containerd(self, testbed: Testbed) -> None:
        """A killed dockerd takes containerd with it; as long as nobody has reaped that, the next would wait for it."""
        file = testbed.run_dir / "docker" / "exec" / "containerd" / "containerd.pid"
        testbed.host.run(["rm", "-f", str(file)])

    def _end_orphan(self, testbed: Testbed, cgroup: str) -> None:
        """A container outlives a killed daemon, and would disturb the trials after it."""
        if self._daemon is None or not self._daemon.alive():
            testbed.cgroups.remove(cgroup)

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        if self._daemon is None or not self._daemon.alive():
            self._stop_daemon()
            self._forget_containerd(testbed)
            self._start_daemon(testbed)  # it was killed: the trial in flight is lost, the next one is not
        netns = testbed.session.netns_name(spec.name)
        with ExitStack() as stack:
            stack.enter_context(testbed.session.owned("netns", netns))  # first: it refuses a name that is in use
            stack.callback(self._remove, testbed, spec.name)
            try:
                container = testbed.host.run(self._run_argv(testbed, spec)).text.strip()
            except CommandFailed as error:
                raise PlatformError(f"docker did not start instance {spec.name}: {error.message}") from error
            cgroup = f"{testbed.session.cgroup}/{container}"
            stack.callback(self._end_orphan, testbed, cgroup)
            pid = f"$({' '.join(self._client)} inspect --format '{{{{.State.Pid}}}}' {spec.name})"
            testbed.host.run(["sh", "-ec", f"ip netns attach {netns} {pid}"])
            testbed.cgroups.complete(testbed.host, cgroup, spec.resources)
            yield DockerInstance(testbed, spec, self._client, netns=netns, cgroup=cgroup)

    def _run_argv(self, testbed: Testbed, spec: InstanceSpec) -> list[str]:
        argv = [*self._client, "run", "--detach", "--name", spec.name, "--hostname", spec.role, "--network", "none"]
        argv += ["--cgroup-parent", testbed.session.cgroup]
        argv += [f"--sysctl={key}={value}" for key, value in spec.sysctls.items()]
        argv += [f"--cap-add={capability.removeprefix('CAP_')}" for capability in spec.security.capabilities]
        argv += [f"--security-opt=apparmor={spec.security.apparmor or 'unconfined'}"]
        argv += [f"--security-opt=seccomp={self._seccomp(testbed, spec)}"]
        argv += _limits(spec.resources)
        return [*argv, testbed.image.docker_tag, "sleep", "infinity"]

    def _seccomp(self, testbed: Testbed, spec: InstanceSpec) -> str:
        if spec.security.seccomp is None:
            return "unconfined"
        file = testbed.run_dir / f"seccomp-{spec.name}.json"
        testbed.host.write_text(str(file), json.dumps(spec.security.seccomp))
        return str(file)

    def _remove(self, testbed: Testbed, name: str) -> None:
        testbed.host.run([*self._client, "rm", "--force", "--volumes", name], check=False)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        driver = testbed.host.run([*self._client, "info", "--format", "{{.Driver}}"], check=False).text.strip()
        return {"root filesystem": driver, "instance's disk": str(testbed.session.ledger.state / "docker")}


def _limits(resources: Resources) -> list[str]:
    r = resources
    device = _device_node(r.block_device) if r.block_device else None
    flags = {
        "--cpus": f"{r.cpus:.3f}" if r.cpus is not None else None,
        "--cpu-shares": r.cpu_shares,
        "--cpuset-cpus": r.cpuset,
        "--memory": r.memory_bytes,
        "--memory-reservation": r.memory_reserved_bytes,
        "--device-read-bps": f"{device}:{r.read_bps}" if device and r.read_bps else None,
        "--device-write-bps": f"{device}:{r.write_bps}" if device and r.write_bps else None,
        "--device-read-iops": f"{device}:{r.read_iops}" if device and r.read_iops else None,
        "--device-write-iops": f"{device}:{r.write_iops}" if device and r.write_iops else None,
    }
    return [f"{flag}={value}" for flag, value in flags.items() if value is not None]


def _device_node(number: str) -> str:
    """'254:0' -> '/dev/vda', since Docker takes devices by path."""
    return f"/dev/{Path(f'/sys/dev/block/{number}').resolve().name}"
