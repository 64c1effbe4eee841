"""A disposable virtual machine that is the host of a testbed: boot it, reach it by SSH, end it.

Its only network is a forwarded port: QEMU forwards a port of this machine's loopback to sshd inside, whose keys are
made anew for each boot. Its disks are layers below the session's scratch directory: they are removed with the session,
and a guest that is killed loses all its files. It boots on KVM where that works, otherwise in software."""

from __future__ import annotations

import os
import shlex
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from lastro.errors import CommandFailed, CommandTimeout, GuestLost, HostError, LastroError, PlatformError
from lastro.host.base import Host, Process
from lastro.host.connections import SshTarget
from lastro.host.files import SEARCHED
from lastro.host.ledger import Session
from lastro.host.testbed_file import GuestPlan
from lastro.image import guest_host
from lastro.image.guest import BOOT_WORDS
from lastro.image.guest_host import GuestHost
from lastro.image.guest_hypervisor import HYPERVISORS, NOTHING, VIRTIO_UNDER_XEN, start_of, xen_options
from lastro.image.rootfs import Image
from lastro.units import parse_size_bytes

CALLED = "the guest"
_QEMU = "qemu-system-x86_64"
_REMEDY = "lastro setup qemu-tcg"
# By KVM, a guest that boots at all does so in seconds; in software, in about a minute of one CPU.
_PATIENCE_S = {"kvm": 30, "tcg": 420}
_CONNECT_S = 40  # in software, sshd takes seconds for an exchange of keys, and longer where all parts are tried at once
_POLL_S = 0.25
_PORTS_TRIED = 5
_FIRST_ROOT = 2  # the drive of the first root filesystem of instances, after the root of the guest and its keys
# Without AppArmor, Debian's kernel would start SELinux: `none` names the modules without profiles or labels.
_LSM = {"apparmor": ("apparmor=1", "security=apparmor"), "none": ("lsm=landlock,lockdown,yama,bpf",)}
_NAMES = {"apparmor": "AppArmor"}
_FOR_MACHINES = "kvm_amd,kvm_intel,vhost_net"  # kernel modules; of the first two, one loads
# What a guest boots, apart from the image of instances: the same `uname -r` may hide other programs or another build.
_BOOTED = ("release", "userland_sha256", "kernel_sha256")
_DIGEST_CHARS = 12  # as in the name of an image
# In messages of a kernel that hangs or ends; the last is Xen's.
_FAULTS = ("BUG: ", "Kernel panic", "self-detected stall", "Panic on CPU")
_NETWORK = "198.19.255"
_SSHD = """Port 22
ListenAddress {network}.15
HostKey /lastro/host_key
AuthorizedKeysFile /lastro/key.pub
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel ERROR
MaxSessions 32
MaxStartups 64
"""
_KNOWN = 'key=$(cut -d " " -f 1,2 "$2"); echo "[127.0.0.1]:$1 $key" >"$3"'
_ANSWERS = 'n=0; until ssh "$@" true; do [ $((n += 1)) -lt 120 ]; sleep 0.5; done'


@dataclass(frozen=True, slots=True)
class BootedGuest:
    """A guest that has booted."""

    target: SshTarget
    home: Path  # its directory on this machine, which is removed when the guest ends
    pid: int  # of its QEMU process
    facts: Mapping[str, Any]  # its chapter of provenance
    steps: tuple[dict[str, Any], ...]  # the transcript records of the commands that booted it


@contextmanager
def booted_guest(controller: Session, images: Sequence[Image], plan: GuestPlan) -> Iterator[BootedGuest]:
    """Boot a guest that contains `images`, the root filesystems of instances; end the guest after the block.

    Raises: HostError when it boots neither on KVM nor in software; GuestLost when it ended or hung inside the block;
    ImageError when its files cannot be made."""
    host = controller.host
    with host.recorded():
        host.require(_QEMU, _REMEDY)
        host.require("qemu-img", _REMEDY)
        with controller.building():
            state, what = controller.ledger.state, (plan.release, plan.kernel, plan.platforms, plan.hypervisor)
            files = guest_host.ensure(images, state, host, *what)
    called = "-".join(filter(None, ("guest", plan.name)))
    home, scratch = controller.run_dir / called, controller.scratch_dir / called
    with ExitStack() as stack:
        for place in (home, scratch):
            stack.enter_context(controller.owned("directory", str(place)))
        with host.recorded() as transcript:
            _make_keys_and_disk(host, home, files, plan)
            start = _GuestBoot(host, tuple(images), plan, files, home, scratch)
            accelerator, why_not, port, qemu = start.first_that_boots()
        stack.callback(qemu.stop)
        target = _ssh_target(home, port, plan.name)
        facts = _facts(plan, accelerator, why_not) | files.digests
        pid = int(host.read_text(str(home / "qemu.pid")))
        machine = BootedGuest(target, home, pid, facts, tuple(transcript.records))
        try:
            yield machine
        except LastroError as error:
            if not qemu.alive():
                why = f"has ended: {_last_words(host, home, qemu)}"
            elif error.message.startswith(f"{target.name} cannot be reached") and (fault := _fault(host, home)):
                why = f"hangs; its kernel says: {fault}"
            else:
                raise
            raise GuestLost(f"{target.called} {why}", "`lastro resume` boots another and continues") from error


def _facts(plan: GuestPlan, accelerator: str, why_not_kvm: str) -> dict[str, Any]:
    """Return the chapter of provenance on a guest. Campaigns in guests with different titles are not comparable."""
    emulated = accelerator == "tcg"
    title = f"a guest {'emulated in software' if emulated else 'on KVM'} ({plan.memory}, cgroup {plan.cgroups}"
    title += f", {_NAMES[plan.lsm]}" if plan.lsm in _NAMES else ""
    title += f", {HYPERVISORS[plan.hypervisor].called})" if plan.hypervisor in HYPERVISORS else ")"
    facts = plan.facts() | {"accelerator": accelerator, "emulated": emulated, "title": title}
    facts |= {"address_randomization": "off"} if emulated else {}
    return facts | ({"why_not_kvm": why_not_kvm} if why_not_kvm else {})


def several_guests_chapter(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the chapter of provenance on several guests among which the treatments of a campaign are divided.

    `facts` is {name of a guest: its own chapter}. If the kernels differ, `full_title` names them. `title` does not,
    because it identifies the guests, and the kernels are in the chapter of the host. A release or hash that is common
    to all guests is given once; otherwise it is given for each guest. `partly` is true if only some are emulated."""
    titles = {name: str(guest["title"]) for name, guest in facts.items()}
    chapter: dict[str, Any] = {"title": _several_guests_title(titles)}
    if len({guest["kernel"] for guest in facts.values()}) > 1:
        with_kernels = {name: f"{title} with {facts[name]['kernel']}" for name, title in titles.items()}
        chapter["full_title"] = _several_guests_title(with_kernels)
    known = [key for key in _BOOTED if all(key in guest for guest in facts.values())]
    chapter |= {key: _digests_text({name: str(guest[key]) for name, guest in facts.items()}) for key in known}
    fixed = [name for name, guest in facts.items() if "address_randomization" in guest]
    chapter |= {"address_randomization": f"off in {', '.join(fixed)}"} if fixed else {}
    emulated = [bool(guest["emulated"]) for guest in facts.values()]
    return chapter | {"emulated": any(emulated)} | ({"partly": True} if any(emulated) and not all(emulated) else {})


def _digests_text(values: Mapping[str, str]) -> str:
    """Return the digest that all guests share, or else each one, shortened, with the name of its guest."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{value[:_DIGEST_CHARS]} ({name})" for name, value in values.items())


def _several_guests_title(titles: Mapping[str, str]) -> str:
    return f"{len(titles)} guests in turn ({'; '.join(f'{name}: {title}' for name, title in titles.items())})"


def _make_keys_and_disk(host: Host, home: Path, files: GuestHost, plan: GuestPlan) -> None:
    """Make the SSH keys for this boot, and the disk with the guest's files: a tar, so it needs no file system."""
    # The parent is for a script that repeats it.
    host.run(["mkdir", "-p", str(home.parent), str(home), str(home / "inside")])
    for key in (home / "key", home / "inside/host_key"):
        host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lastro", "-f", str(key)])
    host.run(["mv", str(home / "key.pub"), str(home / "inside/key.pub")])
    host.write_text(str(home / "inside/sshd_config"), _SSHD.format(network=_NETWORK))
    host.write_text(str(home / "inside/profile"), files.profile)
    host.write_text(str(home / "inside/start"), start_of(plan.hypervisor))
    content = [f"--directory={home}/inside", "."]
    if files.boots:  # sent by SSH, they would take most of a minute on an emulated processor
        store = files.boots.initramfs.parent
        content += [f"--directory={store}", *(str(file.relative_to(store)) for file in files.boots.to_send)]
    host.run(["tar", "--create", f"--file={home}/door.tar", *content])
    programs = sorted({str(each.relative_to("/")) for path in plan.programs for each in _with_siblings(Path(path))})
    if programs:
        inside = "--transform=s,^,programs/,S"  # but not in targets of symbolic links
        host.run(["tar", "--append", f"--file={home}/door.tar", "--numeric-owner", inside, "--directory=/", *programs])


def _with_siblings(program: Path) -> list[Path]:
    """Return a program of this machine with the programs beside it, such as containerd with its shims.

    From a directory of the PATH, only the program itself is returned; nothing if it is not on this machine."""
    if not program.is_file():
        return []
    if str(program.parent) in SEARCHED.split(":"):
        return [program]
    return [each for each in program.parent.iterdir() if each.is_file() and os.access(each, os.X_OK)]


def _ssh_target(home: Path, port: int, name: str = "") -> SshTarget:
    called = f"{CALLED} {name}".strip()
    keys = str(home / "key"), str(home / "known_hosts")
    return SshTarget("127.0.0.1", "root", port, *keys, connect_s=_CONNECT_S, called=called)


@dataclass(frozen=True, slots=True)
class _GuestBoot:
    """The start of a guest. `home` is the directory of its SSH keys and console, `scratch` that of its disk layers."""

    host: Host
    images: tuple[Image, ...]
    plan: GuestPlan
    files: GuestHost
    home: Path
    scratch: Path

    def first_that_boots(self) -> tuple[str, str, int, Process]:
        """Boot the guest with the first accelerator that works; return (accelerator, why not KVM, port, QEMU process).

        "Why not KVM" is empty if KVM works or was not tried. The port of this machine is forwarded to the guest's sshd.
        Raises: HostError if the guest boots with no accelerator."""
        wanted = ("kvm", "tcg") if self.plan.accelerator == "auto" else (self.plan.accelerator,)
        why_not = {}
        for accelerator in wanted:
            with self.host.recorded() as steps:
                try:
                    port, qemu = self._boot_with(accelerator)
                except PlatformError as error:
                    why_not[accelerator] = error.message
                    continue
            self.host.transcript.records += steps.records  # an attempt that failed is not repeated
            return accelerator, why_not.get("kvm", ""), port, qemu
        raise HostError(
            "the guest did not boot: " + "; ".join(f"{name}: {why}" for name, why in why_not.items()),
            "in the testbed file, try another `kernel` or `accelerator`, or more `memory`",
        )

    def _boot_with(self, accelerator: str) -> tuple[int, Process]:
        """Boot with one accelerator; return the forwarded port and the QEMU process. Raises: PlatformError."""
        if accelerator == "kvm" and not _has_kvm():
            raise PlatformError("this host has no usable /dev/kvm")
        for tried in range(_PORTS_TRIED):
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                port = int(listener.getsockname()[1])
            qemu = self._qemu(accelerator, port)
            try:
                self._wait(qemu, port, _PATIENCE_S[accelerator])
                return port, qemu
            except BaseException as error:
                words = _last_words(self.host, self.home, qemu)
                qemu.stop()
                if not isinstance(error, LastroError):
                    raise
                if "host forwarding" not in words or tried == _PORTS_TRIED - 1:  # another took the port first
                    raise PlatformError(words or str(error)) from error
        raise AssertionError

    def _qemu(self, accelerator: str, port: int) -> Process:
        layers = {"root": self.files.root, **self._layers}
        self.host.run(["mkdir", "-p", str(self.scratch.parent), str(self.scratch)])
        for name, disk in layers.items():
            below = ["-b", str(disk), "-F", "raw"]
            self.host.run(["qemu-img", "create", "-q", "-f", "qcow2", *below, f"{self.scratch}/{name}.qcow2"])
        keys = [str(self.home / name) for name in ("inside/host_key.pub", "known_hosts")]
        self.host.run(["sh", "-ec", _KNOWN, "known", str(port), *keys])  # repeatable: a script makes another key
        return self.host.spawn(self.argv(accelerator, port))

    def argv(self, accelerator: str, port: int) -> list[str]:
        """Return QEMU's command line; `port` of this machine's loopback is forwarded to the guest's sshd."""
        cpus = self.plan.cpus or len(os.sched_getaffinity(0))
        accel = "tcg,thread=multi" if accelerator == "tcg" else accelerator
        argv = [
            _QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name", "lastro-guest",
            "-pidfile", f"{self.home}/qemu.pid",
            "-machine", "q35,usb=off,smbus=off,sata=off", "-accel", accel,
            "-cpu", HYPERVISORS.get(self.plan.hypervisor, NOTHING).cpu if accelerator == "tcg" else "host",
            "-smp", str(cpus), "-m", f"{parse_size_bytes(self.plan.memory) >> 20}M",
            *self._loading(accelerator), "-serial", f"file:{self.home}/console.log",
            "-device", f"virtio-rng-pci{self._virtio_options}",
        ]  # fmt: skip
        drives = [f"format=qcow2,file={self.scratch}/root.qcow2", f"format=raw,readonly=on,file={self.home}/door.tar"]
        for name, image in zip(self._layers, self.images, strict=True):
            drives += [f"format=qcow2,file={self.scratch}/{name}.qcow2", f"format=raw,readonly=on,file={image.tar}"]
        if self.files.modules:
            drives.append(f"format=raw,readonly=on,file={self.files.modules}")
        for number, drive in enumerate(drives):
            argv += ["-drive", f"if=none,id=d{number},{drive}"]
            argv += ["-device", f"virtio-blk-pci,drive=d{number}{self._virtio_options}"]
        net = f"net={_NETWORK}.0/24,host={_NETWORK}.2,restrict=on"
        argv += ["-netdev", f"user,id=door,{net},hostfwd=tcp:127.0.0.1:{port}-{_NETWORK}.15:22"]
        return [*argv, "-device", f"virtio-net-pci,netdev=door,romfile={self._virtio_options}"]

    @property
    def _layers(self) -> dict[str, Path]:
        """Return {name of a layer: disk below it} of the root filesystems of instances."""
        return {f"instances-{number}": disk for number, disk in enumerate(self.files.instances)}

    @property
    def _virtio_options(self) -> str:
        return VIRTIO_UNDER_XEN if self.files.xen else ""

    def _loading(self, accelerator: str) -> list[str]:
        """Return QEMU's options that load the guest's kernel; if the guest has Xen, they load Xen with that kernel."""
        files, words = self.files, self.command_line(accelerator)
        if files.xen:
            size_mib = parse_size_bytes(self.plan.memory) >> 20
            emulated = accelerator == "tcg"
            return xen_options(files.xen, files.kernel, files.initramfs, words, size_mib, emulated=emulated)
        return ["-kernel", str(files.kernel), "-initrd", str(files.initramfs), "-append", " ".join(words)]

    def command_line(self, accelerator: str) -> list[str]:
        """Return the guest kernel's parameters.

        In software, mitigations are off: an emulated processor has none of the flaws that they mitigate. Randomized
        addresses are off, too: otherwise, QEMU would translate each program again, and its start take twice as long."""
        unguarded = ["mitigations=off", "tsc=reliable", "norandmaps"] if accelerator == "tcg" else []
        console = "hvc0" if self.files.xen else "ttyS0"
        words = [f"console={console}", "loglevel=4", *BOOT_WORDS, *unguarded, *_LSM[self.plan.lsm]]
        words += [f"lastro.cgroups={self.plan.cgroups}", *self._roots()]
        if self.files.modules:
            words.append(f"lastro.modules={_device(_FIRST_ROOT + 2 * len(self.images))}")
        if self.files.boots and self.plan.hypervisor not in HYPERVISORS:
            words.append(f"lastro.load={_FOR_MACHINES}")
        return words

    def _roots(self) -> Iterator[str]:
        """Yield the parameter that describes each root filesystem of instances: see `guest_host_init.sh`."""
        state = Path(_ssh_target(self.home, 0).state)
        for number, (image, disk) in enumerate(zip(self.images, self.files.instances, strict=True)):
            devices = [_device(_FIRST_ROOT + 2 * number + each) for each in (0, 1)]
            epoch = int(image.tree.stat().st_mtime)
            fields = [*devices, state / "rootfs" / image.name / "rootfs", epoch]
            fields += [state / "guest" / disk.name] if self.files.boots else []
            yield f"lastro.root={':'.join(map(str, fields))}"

    def _wait(self, qemu: Process, port: int, patience_s: int) -> None:
        """Wait until the guest's sshd answers. Raises: PlatformError when it does not within `patience_s` seconds."""
        deadline_s = time.monotonic() + patience_s
        while "lastro: sshd starts" not in _console(self.host, self.home):
            if not qemu.alive():
                raise PlatformError("QEMU ended")
            if time.monotonic() > deadline_s:
                raise PlatformError(f"no sshd within {patience_s} s")
            time.sleep(_POLL_S)
        argv = ["sh", "-ec", _ANSWERS, "wait", "-o", "ConnectTimeout=10", *_ssh_target(self.home, port).argv()]
        try:
            self.host.run(argv, timeout_s=patience_s)
        except (CommandFailed, CommandTimeout) as error:
            raise PlatformError(f"its sshd does not answer: {shlex.join(error.message.splitlines()[-1:])}") from error


def surely_emulated(plan: GuestPlan) -> bool:
    """Return whether a guest is certain to be emulated in software; False if only booting it can show whether it is."""
    return plan.accelerator == "tcg" or (plan.accelerator == "auto" and not _has_kvm())


def _device(number: int) -> str:
    """Return the name in the guest of the disk that is QEMU's drive `number`, counted from 0."""
    return f"/dev/vd{ascii_lowercase[number]}"


def _has_kvm() -> bool:
    return os.access("/dev/kvm", os.W_OK)


def _console(host: Host, home: Path) -> str:
    return host.read_or_empty(str(home / "console.log"))


def _fault(host: Host, home: Path) -> str:
    """Return the guest kernel's last console message that it hangs or has panicked; empty if there is none."""
    lines = [line.strip() for line in _console(host, home).splitlines() if any(fault in line for fault in _FAULTS)]
    return lines[-1][-300:] if lines else ""


def _last_words(host: Host, home: Path, qemu: Process) -> str:
    """Return why QEMU has ended or, while it runs, the last two lines of the guest's console."""
    if not qemu.alive():
        done = qemu.stop()
        lines = done.error_text.strip().splitlines() or [f"QEMU exited with {done.returncode}"]
        return lines[-1][-300:]
    lines = [line.strip() for line in _console(host, home).strip().splitlines()]
    return " / ".join(lines[-2:])[-300:] or "its console is empty"
