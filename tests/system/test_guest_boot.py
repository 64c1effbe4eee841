"""A guest for real: the kernel, the initramfs, the disk and the agent, on QEMU's emulated processor."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.host.base import Process
from lastro.image import guest
from lastro.platforms._machine import PORTS, SOCKET_PATTERN, GuestInstance
from lastro.platforms.base import InstanceSpec
from lastro.testbed import Testbed
from lastro.validity import drift

from ..support.products import one_of

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs qemu-system-x86"),
]

BOOT_S = 90.0  # on a quiet host it takes two to four seconds
MIB = 1 << 20
DRIVE = "file={disk},if=none,id=d0,format=raw,snapshot=on"
CABLE = ("-netdev", "hubport,hubid=0,id=n0")  # plugged into nothing


@dataclass(frozen=True)
class Machine:
    """Devices of a machine type, and what its kernel must be told."""

    devices: tuple[str, ...]
    words: str
    driver: str


MACHINES = {
    "q35-virtio": Machine(
        ("-M", "q35,sata=off,usb=off,smbus=off", "-device", "virtio-serial-pci",
         "-device", "virtio-blk-pci,drive=d0", "-device", "virtio-net-pci,netdev=n0,romfile="),
        "", "virtio_net",
    ),
    "q35-emulated": Machine(
        ("-M", "q35,usb=off,smbus=off", "-device", "virtio-serial-pci",
         "-device", "ide-hd,drive=d0,bus=ide.0", "-device", "e1000,netdev=n0,romfile="),
        "", "e1000",
    ),
    "microvm": Machine(
        ("-M", "microvm,pcie=off,pit=off,pic=off,rtc=on,isa-serial=on", "-device", "virtio-serial-device",
         "-device", "virtio-blk-device,drive=d0", "-device", "virtio-net-device,netdev=n0"),
        "pci=off tsc_early_khz={khz}", "virtio_net",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Booted:
    instance: GuestInstance
    process: Process
    machine: Machine
    boot_s: float


def tsc_khz() -> int:
    """The rate of the host's cycle counter, which an emulated one runs at, for a machine with nothing to find it by."""
    line = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("cpu MHz"))
    return int(float(line.partition(":")[2]) * 1000)


def argv(files: guest.Guest, machine: Machine, home: Path, scratch: Path) -> list[str]:
    words = (
        "console=ttyS0",
        "loglevel=4",
        "tsc=reliable",
        "mitigations=off",
        *machine.words.format(khz=tsc_khz()).split(),
    )
    ports: list[str] = []
    for number in range(PORTS):
        socket = home / SOCKET_PATTERN.format(number=number)
        ports += ["-chardev", f"socket,path={socket},server=on,wait=off,id=c{number}"]
        ports += ["-device", f"virtserialport,chardev=c{number},name=lastro.{number}"]
    return [
        "env", f"TMPDIR={scratch}", "qemu-system-x86_64",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-accel", "tcg", "-cpu", "max", "-m", "512",
        "-kernel", str(files.fastest), "-initrd", str(files.initramfs),
        "-append", guest.command_line("subject", PORTS, *words),
        "-serial", f"file:{home}/console.log",
        "-drive", DRIVE.format(disk=files.disk), *CABLE, *machine.devices, *ports,
    ]  # fmt: skip


@contextmanager
def booted(testbed: Testbed, machine: Machine, name: str) -> Iterator[Booted]:
    files = guest.ensure(testbed.image, testbed.session.ledger.state / "guest", testbed.host)
    home, scratch = testbed.run_dir / name, testbed.scratch_dir / name
    with testbed.session.owned("directory", str(home)), testbed.session.owned("directory", str(scratch)):
        testbed.host.run(["mkdir", "-p", str(home), str(scratch)])
        spec = InstanceSpec(name=name, role="subject")
        instance = GuestInstance(testbed, spec, netns=testbed.dut, cgroup="", sockets=home)
        started_s = time.monotonic()
        process = testbed.host.spawn(argv(files, machine, home, scratch))
        try:
            last = home / SOCKET_PATTERN.format(number=PORTS - 1)
            while not last.exists() and process.alive():
                time.sleep(0.01)
            try:
                instance.wait_ready(BOOT_S)
            except PlatformError as error:
                console = home / "console.log"
                words = console.read_text(errors="replace")[-3000:] if console.exists() else ""
                pytest.fail(f"{error}\n{words}\n{process.stop().error_text}")
            yield Booted(instance, process, machine, time.monotonic() - started_s)
        finally:
            process.stop()


@pytest.fixture(scope="module", params=one_of(MACHINES, "microvm"))
def box(request: pytest.FixtureRequest, testbed: Testbed) -> Iterator[Booted]:
    with booted(testbed, MACHINES[request.param], request.param) as made:
        print(f"\n{request.param}: {made.boot_s:.2f} s from start to the agent's first answer")
        yield made


def test_commands(box: Booted) -> None:
    run = box.instance.run
    assert run(["hostname"]).text == "subject\n"
    assert run(["sh", "-c", "exit 7"], check=False).returncode == 7
    assert run(["wc", "-c"], stdin=b"\0\xff" * 1000).text == "2000\n"
    missing = run(["no-such-program"], check=False)
    assert missing.returncode == 127 and "no-such-program" in missing.error_text
    data = os.urandom(MIB)
    assert run(["cat"], stdin=data * 3, timeout_s=60).stdout == data * 3


def test_a_command_that_takes_too_long_ends_with_its_client(box: Booted) -> None:
    with pytest.raises(CommandTimeout):
        box.instance.run(["sleep", "7005"], timeout_s=2)
    gone = ["sh", "-c", "while cat /proc/[0-9]*/comm 2>/dev/null | grep -qx sleep; do :; done"]
    box.instance.run(gone, timeout_s=30)


def test_a_background_command_is_stopped_by_sigterm(box: Booted) -> None:
    server = box.instance.spawn(["sh", "-c", "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; done"])
    server.wait_line("up", 30)
    assert box.instance.run(["echo", "beside"]).text == "beside\n"
    done = server.stop()
    assert (done.returncode, done.text) == (9, "up\nbye\n")


def test_the_files_are_those_of_every_platform(box: Booted, testbed: Testbed) -> None:
    paths = ["/usr/bin/iperf3", "/etc/passwd", "/usr/sbin/xtables-nft-multi", "/usr/lib/x86_64-linux-gnu/libc.so.6"]
    wanted = [hashlib.sha256((testbed.image.tree / path[1:]).read_bytes()).hexdigest() for path in paths]
    printed = box.instance.run(["sha256sum", *paths]).text.splitlines()
    assert [line.split()[0] for line in printed] == wanted
    extra = box.instance.run(["ls", "-A", "/"]).text.split()
    assert sorted(set(extra) - {"lost+found"}) == sorted(path.name for path in testbed.image.tree.iterdir())


def test_the_root_is_the_disk_and_can_be_written(box: Booted) -> None:
    run = box.instance.run
    assert " / ext4 rw" in run(["cat", "/proc/mounts"]).text
    assert run(["sh", "-c", "echo x > /root/new && cat /root/new"]).text == "x\n"
    run(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"])  # refused in a mere chroot


def test_the_network_card_and_the_loopback(box: Booted) -> None:
    run = box.instance.run
    driver = run(["readlink", "/sys/class/net/eth0/device/driver"]).text.strip().rpartition("/")[2]
    assert driver == box.machine.driver
    run(["ping", "-c", "1", "-W", "2", "127.0.0.1"])


def test_firewall_rules_load(box: Booted) -> None:
    rules = """table ip t {
        chain forward { type filter hook forward priority 0; policy accept;
            ct state established,related counter accept
            tcp dport { 80, 443 } limit rate 10/second log prefix "x" counter drop
        }
        chain nat { type nat hook postrouting priority 100; masquerade; }
    }\n"""
    run = box.instance.run
    run(["nft", "-f", "-"], stdin=rules)
    run(["iptables", "-A", "FORWARD", "-m", "string", "--string", "attack", "--algo", "bm", "-j", "DROP"])
    run(["iptables", "-t", "nat", "-A", "POSTROUTING", "-s", "198.18.0.0/24", "-j", "MASQUERADE"])
    run(["iptables", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "NEW", "-m", "limit", "-j", "LOG"])
    assert "attack" in run(["iptables", "-S", "FORWARD"]).text


def test_links_of_every_kind(box: Booted) -> None:
    script = (
        "ip link add br0 type bridge; ip link add v0 type veth peer name v1; ip link add d0 type dummy;"
        "ip link add link v0 m0 type macvlan; ip tuntap add t0 mode tap; ip link set v1 master br0;"
        "tc qdisc add dev v0 root netem delay 1ms; for l in v0 d0 t0; do ip link del $l; done; ip link del br0"
    )
    box.instance.run(["sh", "-ec", script])


def test_the_clock_can_be_read(box: Booted) -> None:
    before = box.instance.clock()
    time.sleep(1)
    after = box.instance.clock()
    rate = drift(before, after)
    print(f"\nclock: {rate.ratio:.5f} ± {rate.uncertainty:.5f}, read within {after.uncertainty_s * 1e3:.2f} ms")
    assert abs(rate.ratio - 1.0) < 0.2 + rate.uncertainty
    assert abs(after.guest_real_s - time.time()) < 3600


def test_a_round_trip_is_short(box: Booted) -> None:
    times = sorted(box.instance.run(["true"]).duration_s for _ in range(15))
    print(f"\n`true`: {times[0] * 1e3:.1f} ms at best, {times[7] * 1e3:.1f} ms in the middle")
    assert times[0] < 0.5


def test_a_dead_machine_is_told(box: Booted) -> None:
    """The last test of each machine: it ends it."""
    box.process.stop()
    with pytest.raises(CommandFailed, match="the guest is gone"):
        box.instance.run(["true"])
    with pytest.raises(PlatformError):
        box.instance.clock()
