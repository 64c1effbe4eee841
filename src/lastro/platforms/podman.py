"""Podman, without its service, in a private mount namespace with its configuration, state, locks and caches.

Files of the host's Podman are neither read nor written: overlays that disappear with the session cover /etc and /var,
and /run and /dev/shm are empty. The image is imported once into a store that remains as a cache; the store of the
session only reads from it. The container's runtime executes commands directly: `podman exec` with the same confinement
needs two more processes and five times the time. Tested with Podman 4.3 with runc and crun on cgroup v1."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Interface
from pathlib import Path

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.platforms._podman_conf import containers_conf, storage_conf, ulimits
from lastro.platforms._programs import program_option, suffix
from lastro.platforms.base import Instance, InstanceSpec, Platform, instance_netns
from lastro.platforms.container import (
    ENVIRONMENT,
    INIT,
    ON_DISK,
    OwnNetworks,
    capabilities,
    confinement_flags,
    covering_overlays,
    limit_flags,
    mounts_script,
    seccomp_profile,
)
from lastro.platforms.oci import extra_v2_tree
from lastro.requirements import Requirements
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed

# In a guest, the tar is a block device, whose size is zero for podman, so it is passed as standard input.
_IMPORT = """tag=$1 from=$0
shift
[ ! -b "$0" ] || { from=-; exec <"$0"; }
exec "$@" import --quiet "$from" "$tag\""""
_IMPORT_TIMEOUT_S = 600.0
_PROGRAMS = {"podman": "podman", "runc": "runc", "crun": "crun"}  # package by program
_TRUST_ALL = '{"default": [{"type": "insecureAcceptAnything"}]}'  # the only image is our own
_NETWORK = "lastro"
# With networks of its own, Podman itself names the network namespaces of instances, in the host's directory for such
# names. An empty directory, which disappears with Podman's mount namespace, covers it; the host's names are at _NAMES.
_NAMES = "/run/names"
_HIDE_NAMES = f"mkdir -p {_NAMES}; mount --rbind {NETNS_DIR} {_NAMES}; mount -t tmpfs tmpfs {NETNS_DIR}"
_SHOW_NAMES = f"umount --lazy {NETNS_DIR}; umount --lazy {_NAMES}"
_WITHOUT_DNS = "--disable-dns"  # no daemon beside the instances
_NETAVARK = "netavark"
# Where Podman looks for netavark. Source: containers.conf(5), `helper_binaries_dir`.
_HELPERS = ("/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman")
_MAKERS = {"cni": "CNI plug-ins", _NETAVARK: _NETAVARK}  # by what `podman info` prints
_NETWORKS = Setting(
    "network_backend",
    "default",
    "what makes networks of Podman's own; default: netavark where Podman finds it, or else CNI plug-ins",
    choices=("default", *_MAKERS),
)
_RUNTIME = Setting("runtime", "runc", "container runtime", choices=("runc", "crun"))


class Podman(Platform):
    name = "podman"
    summary = "Podman containers, without a service, separate from the user's"
    version_argv = ("podman", "--version")
    requirements = Requirements(packages=("podman", "runc"), optional_packages=("crun",), instead=_PROGRAMS)
    confines = frozenset({"apparmor", "drop_capabilities", "read_only_root", "seccomp", "selinux"})
    options = (
        _RUNTIME,
        _NETWORKS,
        program_option("podman", "podman version "),
        program_option("conmon", "conmon version ", "conmon"),
        program_option("runc", "runc version ", "runc"),
        program_option("crun", "crun version ", "crun"),
    )

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._home = self._scratch = Path()
        self._networked = ""  # the namespace of the DUT with Podman's own network, inside `own_network`

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Make the mount namespace and the configuration, and import the root filesystem, which remains as a cache."""
        runtime = _RUNTIME.of(self.chosen)
        for program in (self.chosen_path("podman"), self.chosen_path(runtime, runtime)):
            testbed.host.require(program, f"apt-get install {_PROGRAMS.get(program, program)}")
        self.require_programs(testbed)
        chosen = {each: self.chosen[each.name] for each in (_RUNTIME, _NETWORKS)}
        others = [str(level) for option, level in chosen.items() if level != option.default]
        directory = "-".join(["podman", *others]) + suffix(self.programs)
        self._home, self._scratch = testbed.run_dir / directory, testbed.scratch_dir / directory
        self._configure(testbed)
        # The cgroup of conmon, the process with which Podman monitors a container.
        self.own_cgroups = (f"{testbed.session.cgroup}/conmon",)
        testbed.cgroups.make(testbed.host, self.own_cgroups[0])
        self._import_image(testbed)
        yield

    def _configure(self, testbed: Testbed) -> None:
        cache, runtime = testbed.session.state / "podman", _RUNTIME.of(self.chosen)
        program = self.chosen_path(testbed.host.which(runtime) or runtime, runtime)
        files = {
            "containers.conf": containers_conf(
                runtime, program, ulimits(testbed), self.programs.get("conmon"), self._network_backend(testbed)
            ),
            "storage.conf": storage_conf(self._scratch / "store", "storage", cache),
            "cache.conf": storage_conf(cache, "cache"),
            "policy.json": _TRUST_ALL,
        }
        for name, text in files.items():
            testbed.host.write_text(str(self._home / name), text)
        hidden = extra_v2_tree(testbed) if runtime == "crun" else None
        mounts = _mounts(self._home, self._scratch, testbed.session.state)
        mounts += [f"umount {shlex.quote(hidden)}"] if hidden else []
        # Later mounts, such as network namespaces, must be visible there too.
        testbed.host.run(["sh", "-e"], stdin=mounts_script(self._home, *mounts, propagation="slave"))

    def _network_backend(self, testbed: Testbed) -> str:
        """Return the backend for networks that Podman chooses on a new host; empty if Podman shall choose.

        Podman itself would choose CNI plug-ins, since it finds an image of ours in its store."""
        if self.chosen[_NETWORKS.name] != _NETWORKS.default:
            return _NETWORKS.of(self.chosen)
        return _NETAVARK if any(testbed.host.which(f"{place}/{_NETAVARK}") for place in _HELPERS) else ""

    def _import_image(self, testbed: Testbed) -> None:
        """Import the root filesystem into the store that remains as a cache, unless an earlier campaign has done so.

        The state of this store is in another directory than that of the session's store: it cannot be shared."""
        argv = [*self._podman("cache.conf"), "--tmpdir", "/run/cache"]
        tag = _image_reference(testbed)
        if testbed.host.run([*argv, "image", "exists", tag], check=False).returncode != 0:
            command = ["sh", "-ec", _IMPORT, str(testbed.image.tar), tag, *argv]
            try:
                with testbed.session.building():
                    testbed.host.run(command, timeout_s=_IMPORT_TIMEOUT_S)
            except CommandFailed as error:
                raise PlatformError(f"podman did not import the root filesystem: {_reason(error)}") from error

    @contextmanager
    def own_network(self, testbed: Testbed, gateway: str, *, routed: bool = False) -> Iterator[OwnNetworks]:
        """Keep a network like Podman's default one inside the block, on which instances with `own_network` start.

        `gateway` is the address of the network's bridge in CIDR form. Nothing else may use the DUT's namespace during
        the block or later: Podman changes the firewall rules in it, and leaves them there. Its networks are always
        `routed`."""
        self._networked, bridge = testbed.dut, IPv4Interface(gateway)
        options = [_WITHOUT_DNS, f"--subnet={bridge.network}", f"--gateway={bridge.ip}"]
        inside = ["nsenter", f"--mount={self._home / 'mnt'}", "sh", "-ec"]
        try:
            testbed.host.run([*inside, _HIDE_NAMES])
            try:
                testbed.host.run([*self._podman(), "network", "create", *options, _NETWORK])
            except CommandFailed as error:
                raise Unavailable(
                    f"podman makes no network: {_reason(error)}",
                    "apt-get install netavark (Podman 4 or later) or containernetworking-plugins (up to Podman 4)",
                ) from error
            asked = testbed.host.run([*self._podman(), "info", "--format", "{{.Host.NetworkBackend}}"]).text.strip()
            made_by = _MAKERS.get(asked, asked)
            yield OwnNetworks(tuple(self._podman()), first=_NETWORK, made_by=made_by, options=(_WITHOUT_DNS,))
        finally:
            testbed.host.run([*self._podman(), "network", "rm", "--force", _NETWORK], check=False)
            testbed.host.run([*inside, _SHOW_NAMES], check=False)
            self._networked = ""

    def _podman(self, storage: str = "storage.conf") -> list[str]:
        """Return the prefix of a Podman command in the private namespace; `storage` is the file for its store."""
        network = [f"--net={NETNS_DIR / self._networked}"] if self._networked else []
        return [
            "nsenter", f"--mount={self._home / 'mnt'}", *network, "env",
            f"CONTAINERS_CONF={self._home / 'containers.conf'}", f"CONTAINERS_STORAGE_CONF={self._home / storage}",
            f"TMPDIR={self._scratch / 'tmp'}", self.chosen_path("podman"),
        ]  # fmt: skip

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        with ExitStack() as stack:
            assert self._networked or not spec.own_network, "such instances start inside `own_network`"
            by_podman = spec.own_network
            netns = stack.enter_context(instance_netns(testbed.host, testbed, spec, made_by_runtime=by_podman))
            removal = [*self._podman(), "rm", "--force", "--time", "0", "--volumes", spec.name]
            stack.callback(testbed.host.run, removal, check=False)
            try:
                container = testbed.host.run(self._run_argv(testbed, spec, netns)).text.strip()
            except CommandFailed as error:
                raise PlatformError(f"podman did not start instance {spec.name}: {_reason(error)}") from error
            cgroup = f"{testbed.session.cgroup}/libpod-{container}"
            stack.enter_context(testbed.session.owned("cgroup", cgroup))
            if spec.own_network:
                pid = shlex.join([*self._podman(), "inspect", "--format", "{{.State.Pid}}", spec.name])
                testbed.host.run(["sh", "-ec", f"ip netns attach {netns} $({pid})"])
            testbed.cgroups.complete(testbed.host, cgroup, spec.resources)
            runtime = self.chosen_path(_RUNTIME.of(self.chosen), _RUNTIME.of(self.chosen))
            enter = ["nsenter", f"--mount={self._home / 'mnt'}", runtime, "exec", container]
            yield Instance(testbed, spec, netns=netns, cgroup=cgroup, enter=enter)

    def _run_argv(self, testbed: Testbed, spec: InstanceSpec, netns: str) -> list[str]:
        argv = [*self._podman(), "run", "--detach", "--name", spec.name, "--hostname", spec.role]
        names = _NAMES if self._networked else NETNS_DIR
        argv += [f"--network={_NETWORK if spec.own_network else f'ns:{names}/{netns}'}"]
        argv += [f"--publish={spec.published}"] if spec.published else []
        argv += ["--cgroup-parent", testbed.session.cgroup]
        argv += ["--pull=never", "--log-driver=none", "--no-hosts", "--dns=none"]
        argv += [f"--env={name}={value}" for name, value in ENVIRONMENT.items()]
        argv += [f"--sysctl={key}={value}" for key, value in spec.sysctls.items()]
        argv += [f"--security-opt=seccomp={seccomp_profile(testbed, spec, self._home)}"]
        argv += ["--cap-drop=all", *(f"--cap-add={name}" for name in capabilities(spec.security))]
        if spec.security.read_only_root:
            argv += ["--read-only-tmpfs=false", f"--volume={ON_DISK}"]
        argv += [*confinement_flags(spec.security), *limit_flags(spec.resources)]
        return [*argv, _image_reference(testbed), *INIT]

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {"root filesystem": "overlay", "instance's disk": str(self._scratch)}


def _reason(error: CommandFailed) -> str:
    """Return the last line that Podman printed, which has the reason, or else the error's message."""
    lines = [line.removeprefix("Error: ") for line in error.stderr.strip().splitlines()]
    return lines[-1] if lines else error.message


def _image_reference(testbed: Testbed) -> str:
    """Return the image's name with a registry, since Podman looks up short names in files of the host."""
    return f"localhost/{testbed.image.docker_tag}"


def _mounts(home: Path, scratch: Path, state: Path) -> list[str]:
    """Return shell commands that cover the directories to which Podman writes, and the user's configuration.

    Lastro's state directory `state`, which may be below /var, remains visible."""
    disk, policy = quoted(scratch, home / "policy.json")
    return [
        f"mkdir -p {disk}/tmp",
        *covering_overlays(home / "covers", state, "/etc", "/var"),
        "mkdir -p /etc/containers /etc/cni/net.d",
        "mount -t tmpfs tmpfs /etc/containers",
        "mount -t tmpfs tmpfs /etc/cni/net.d",
        f"cp {policy} /etc/containers/",
        "mount -t tmpfs tmpfs /dev/shm",
    ]
