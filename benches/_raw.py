"""One instance by hand, for each platform: what a person who knows the tool would type, and nothing of Lastro's.

The root filesystem, its overlay, the network namespace and the confinement are those that Lastro gives too. Bundles and
configurations are written beforehand, so that the tool itself is what is compared."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lastro.host.ledger import NETNS_DIR
from lastro.platforms._machine import CLIENT
from lastro.platforms.base import InstanceSpec, Security, Tap
from lastro.platforms.lxc import write_configuration
from lastro.platforms.oci import oci_config
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Recipe:
    """Shell: make the namespace `netns` for its links, `start` an instance, what comes before a command `inside` it,
    `stop` it. Docker makes the namespace itself; `name_netns` gives it its name then, and `make_netns` is empty."""

    start: str
    inside: str
    stop: str
    netns: str
    make_netns: str = ""
    name_netns: str = ""

    def run(self, script: str) -> None:
        subprocess.run(["sh", "-e"], input=script, text=True, check=True, stdout=subprocess.DEVNULL)

    def begin(self, command: str = "true") -> None:
        self.run(f"{self.make_netns}\n{self.start}\n{self.inside} {command}\n")

    def end(self) -> None:
        self.run(self.stop)


def _overlay(bed: Testbed, name: str) -> tuple[str, str]:
    """Lines that make the directories of a writable layer, and the mount of it at ROOT."""
    layers, root = bed.scratch_dir / name, bed.run_dir / name / "rootfs"
    options = f"lowerdir={bed.image.tree},upperdir={layers}/upper,workdir={layers}/work"
    return f"mkdir -p {root} {layers}/upper {layers}/work", f"mount -t overlay overlay -o {options} {root}"


def _netns(bed: Testbed, name: str) -> tuple[str, str, str]:
    """A namespace's name, and lines that make it and remove it."""
    netns = bed.session.netns_name(name)
    return netns, f"ip netns add {netns}; ip -n {netns} link set lo up", f"ip netns del {netns}"


def oci(bed: Testbed, ready: Any, name: str, capabilities: tuple[str, ...] = ()) -> Recipe:
    netns, make_netns, remove_netns = _netns(bed, name)
    bundle = bed.run_dir / name
    bundle.mkdir()
    spec = InstanceSpec(name, "raw", security=Security(capabilities=capabilities))
    (bundle / "config.json").write_text(json.dumps(oci_config(spec, netns, f"{bed.session.cgroup}/{name}")))
    runtime = shlex.join(ready.runtime_argv(bed, spec))
    directories, mount = _overlay(bed, name)
    run = f"{runtime} run --detach --pid-file {bundle}/pid --bundle {bundle} {name}"
    return Recipe(
        start=f"{directories}\n"
        f"unshare --mount --propagation private sh -e >{bundle}/log 2>&1 <<'END'\n{mount}\n{run}\nEND",
        inside=f"{runtime} exec {name}",
        stop=f"kill -KILL $(cat {bundle}/pid)\nn=0; until {runtime} delete {name} 2>/dev/null; do "
        f"[ $((n += 1)) -lt 400 ]; sleep 0.005; done\n{remove_netns}\nrm -rf {bed.scratch_dir}/{name}",
        netns=netns,
        make_netns=make_netns,
    )


def docker_client(bed: Testbed, ready: Any) -> str:
    """How a command to the private daemon begins."""
    return shlex.join(ready._daemon(bed, remapped=False).client)


def _docker(bed: Testbed, ready: Any, name: str) -> Recipe:
    """Against the same daemon, which both sides find running."""
    netns = bed.session.netns_name(name)
    docker = docker_client(bed, ready)
    confined = "--security-opt=apparmor=unconfined --security-opt=seccomp=unconfined"
    group = f"--cgroup-parent {bed.session.cgroup}"
    run = f"{docker} run --detach --name {name} {group} --network none {confined} {bed.image.docker_tag} sleep infinity"
    pid = f"$({docker} inspect --format '{{{{.State.Pid}}}}' {name})"
    return Recipe(
        start=run,
        inside=f"{docker} exec {name}",
        stop=f"{docker} rm --force {name}\nip netns del {netns} 2>/dev/null || true",
        netns=netns,
        name_netns=f"ip netns attach {netns} {pid}",
    )


def _lxc(bed: Testbed, _ready: Any, name: str) -> Recipe:
    netns, make_netns, remove_netns = _netns(bed, name)
    home = bed.run_dir / name
    home.mkdir()
    write_configuration(bed, InstanceSpec(name, "raw"), home, netns, f"{bed.session.cgroup}/{name}")
    directories, mount = _overlay(bed, name)
    keep = f"mount --bind {home} {home}; mount --make-private {home}; touch {home}/mnt"
    enter = f"nsenter --mount={home}/mnt"
    return Recipe(
        start=f"{directories}\n{keep}\nunshare --mount={home}/mnt --propagation private sh -e <<'END'\n"
        f"{mount}\nmkdir -p /run/lxc\nmount -t tmpfs tmpfs /run/lxc\n"
        f"lxc-start -P {bed.run_dir} -n {name} --daemon\nEND",
        inside=f"{enter} lxc-attach -P {bed.run_dir} -n {name} --clear-env --",
        stop=f"{enter} lxc-stop -P {bed.run_dir} -n {name} --kill\numount --lazy {home}/mnt {home}\n"
        f"{remove_netns}\nrm -rf {bed.scratch_dir}/{name}",
        netns=netns,
        make_netns=make_netns,
    )


def _nspawn(bed: Testbed, _ready: Any, name: str) -> Recipe:
    netns, make_netns, remove_netns = _netns(bed, name)
    home = bed.run_dir / name
    directories, mount = _overlay(bed, name)
    nspawn = (
        f"systemd-nspawn --quiet --directory={home}/rootfs --machine={name} --keep-unit --register=no --settings=no "
        f"--link-journal=no --resolv-conf=off --timezone=off --network-namespace-path={NETNS_DIR / netns}"
    )
    start = f"SYSTEMD_SECCOMP=0 {_in_cgroup(bed, name)} unshare --mount --propagation private sh -e >{home}/log 2>&1"
    # nspawn stays in the foreground and runs one command; a second one enters by the first one's process.
    inside = "sh -c 'echo $$ > /pid; exec sleep infinity'"
    return Recipe(
        start=f"{directories}\n"
        f"{start} <<'END' &\n{mount}\nmkdir -p /run/systemd\nmount -t tmpfs tmpfs /run/systemd\n"
        f"exec {nspawn} {inside} </dev/null\nEND\n"
        f"echo $! > {home}/supervisor\n"
        f"until leader=$(pgrep -P $(cat {home}/supervisor) -x sleep); do sleep 0.002; done; echo $leader > {home}/pid",
        inside=f"nsenter --all --target=$(cat {home}/pid)",
        stop=f"kill $(cat {home}/supervisor); while kill -0 $(cat {home}/pid) 2>/dev/null; do sleep 0.002; done\n"
        f"{remove_netns}\nrm -rf {bed.scratch_dir}/{name}",
        netns=netns,
        make_netns=make_netns,
    )


def _podman(bed: Testbed, ready: Any, name: str) -> Recipe:
    """Against the same stores. A command enters by `podman exec`, as the manual has it."""
    netns, make_netns, remove_netns = _netns(bed, name)
    podman = shlex.join(ready._podman())
    return Recipe(
        start=shlex.join(ready._run_argv(bed, InstanceSpec(name, "raw"), netns)),
        inside=f"{podman} exec {name}",
        stop=f"{podman} rm --force --time 0 {name}\n{remove_netns}",
        netns=netns,
        make_netns=make_netns,
    )


def qemu(bed: Testbed, ready: Any, name: str, tap: Tap | None = None, netns: str | None = None) -> Recipe:
    """QEMU's command line with the same kernel, initramfs and disk; commands through the same agent in the guest."""
    home, scratch = bed.run_dir / name, bed.scratch_dir / name
    cards = [(tap, f"52:54:00:00:00:{sum(name.encode()) % 256:02x}")] if tap else []
    argv = shlex.join(ready.argv(bed, InstanceSpec(name, "raw"), home, cards, home / "console.log"))
    disk = shlex.join(ready.overlay_argv(scratch))
    place = f"ip netns exec {netns or bed.dut}"
    agent = f"python3 -I -S {CLIENT} {home}/ports"
    return Recipe(
        start=f"mkdir -p {home}/ports {scratch}\n{disk}\n{_in_cgroup(bed, name)} {place} {argv} </dev/null & "
        f"echo $! > {home}/pid\nuntil [ -S {home}/ports/0.sock ]; do sleep 0.01; done\n{agent} --wait-ready 60",
        inside=f"{agent} --",
        stop=f"while kill $(cat {home}/pid) 2>/dev/null; do sleep 0.01; done\nrm -rf {home} {scratch}",
        netns=netns or bed.dut,
    )


def _in_cgroup(bed: Testbed, name: str) -> str:
    """What starts a command in a group beside those of Lastro's own instances, so that both have the same share."""
    group = f"{bed.session.cgroup}/{name}"
    bed.cgroups.make(bed.host, group)
    return shlex.join(bed.cgroups.entering(group))


MACHINES = frozenset({"qemu-tcg", "kvm"})
RECIPES: dict[str, Callable[[Testbed, Any, str], Recipe]] = {
    "runc": oci,
    "crun": oci,
    "gvisor": oci,
    "docker": _docker,
    "lxc": _lxc,
    "nspawn": _nspawn,
    "podman": _podman,
    "qemu-tcg": qemu,
    "kvm": qemu,
}
