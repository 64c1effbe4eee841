"""The command lines of QEMU for a guest, and what is said when none boots, on a host that only records."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lastro.errors import ImageError, PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.host.cgroups import Resources
from lastro.image import guest
from lastro.platforms.base import InstanceSpec, Port, Security, Tap
from lastro.platforms.kvm import Kvm
from lastro.platforms.qemu_tcg import QemuTcg
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ...support.recording import RecordingHost, answer, recording_testbed

SPEC = InstanceSpec("one", "probe")


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel and a disk that somebody has made."""
    made = guest.Guest("6.1", *map(Path, ("/g/vmlinuz", "/g/vmlinux", "/g/initramfs", "/g/disk.img")))
    monkeypatch.setattr(guest, "ensure", lambda *args, **more: made)


def started(tmp_path: Path, platform: Any, spec: InstanceSpec = SPEC, answers: Any = lambda argv: None) -> list[str]:
    """QEMU's argv for a guest without links."""
    host = RecordingHost(answers, programs=["qemu-system-x86_64", "qemu-img"])
    host.files["/proc/cpuinfo"] = "cpu MHz\t\t: 2250.006\n"
    state = Path(tempfile.mkdtemp(dir=tmp_path))
    testbed = recording_testbed(host, state)
    with platform.prepare(testbed), platform.start(testbed, spec):
        argv = host.command("qemu-system-x86_64")
    return [word.replace(str(state), "STATE") for word in argv[argv.index("qemu-system-x86_64") :]]


@pytest.mark.parametrize(("platform", "expected"), [(QemuTcg, True), (Kvm, False)])
def test_only_an_emulated_processor_has_nothing_to_guard_against(platform: Any, expected: bool, tmp_path: Path) -> None:
    [words] = after(started(tmp_path, platform()), "-append")
    assert ("mitigations=off" in words.split()) is expected


def after(argv: Sequence[str], option: str) -> list[str]:
    return [value for flag, value in pairwise(argv) if flag == option]


def test_a_guest_in_software(tmp_path: Path) -> None:
    argv = started(tmp_path, QemuTcg())
    assert after(argv, "-accel") == ["tcg,thread=multi"]
    assert after(argv, "-machine") == ["q35,usb=off,smbus=off,sata=off"]
    assert after(argv, "-cpu") == ["max"]
    assert (after(argv, "-smp"), after(argv, "-m")) == (["1"], ["512M"])
    assert after(argv, "-kernel") == ["/g/vmlinux"]
    assert after(argv, "-drive") == ["if=none,id=root,format=qcow2,file=STATE/scratch/0a1b2c/one/disk.qcow2,cache=none"]
    assert "virtio-blk-pci,drive=root" in after(argv, "-device")
    assert "lastro.hostname=probe" in after(argv, "-append")[0]
    assert not after(argv, "-netdev"), "no card without a link"


def test_hardware_virtualization_is_the_only_difference_of_kvm(tmp_path: Path) -> None:
    soft, hard = started(tmp_path, QemuTcg()), started(tmp_path, Kvm())
    soft = [word.replace(" mitigations=off", "") for word in soft]  # which KVM leaves to its host
    different = {(one, other) for one, other in zip(soft, hard, strict=True) if one != other}
    assert different == {("tcg,thread=multi", "kvm"), ("max", "host")}


def test_limits_are_the_size_of_the_machine_and_of_its_monitors_group(tmp_path: Path) -> None:
    limits = Resources(cpus=1.5, memory_bytes=256 << 20)
    argv = started(tmp_path, QemuTcg(), InstanceSpec("one", "probe", resources=limits))
    assert (after(argv, "-smp"), after(argv, "-m")) == (["2"], ["256M"])
    assert after(started(tmp_path, QemuTcg(vcpus=4)), "-smp") == ["4"]


@pytest.mark.parametrize(
    ("chosen", "devices"),
    [
        ({"disk": "ahci"}, ["ide-hd,drive=root,bus=ide.0"]),
        ({"machine": "microvm"}, ["virtio-blk-device,drive=root", "virtio-rng-device"]),
    ],
)
def test_devices_are_as_chosen(tmp_path: Path, chosen: dict[str, str], devices: list[str]) -> None:
    argv = started(tmp_path, QemuTcg(**chosen))
    assert set(devices) <= set(after(argv, "-device"))
    assert ("tsc_early_khz=" in after(argv, "-append")[0]) is ("machine" in chosen)


def test_a_raw_disk_is_a_copy_that_has_reached_the_hosts_disk(tmp_path: Path) -> None:
    argv = started(tmp_path, QemuTcg(format="raw", cache="writeback"))
    file = "STATE/scratch/0a1b2c/one/disk.raw"
    assert after(argv, "-drive") == [f"if=none,id=root,format=raw,file={file},cache=writeback"]
    host = RecordingHost(programs=["qemu-system-x86_64", "qemu-img"])
    testbed = recording_testbed(host, tmp_path)
    platform = QemuTcg(format="raw")
    with platform.prepare(testbed), platform.start(testbed, SPEC):
        script = host.command("mkdir -p")[-1]
        assert "cp --sparse=always" in script and 'sync "$1"' in script
        assert script.endswith(f"/g/disk.img {testbed.scratch_dir}/one/disk.raw")
        assert platform.residuals(testbed)["root filesystem"] == "ext4 on a disk of its own (raw)"


@pytest.mark.parametrize("chosen", [{"nic": "e1000"}, {"nic": "rtl8139"}, {"disk": "ahci"}])
def test_a_microvm_has_no_bus_for_emulated_devices(tmp_path: Path, chosen: dict[str, str]) -> None:
    with pytest.raises(Unavailable, match="no PCI bus"):
        started(tmp_path, QemuTcg(machine="microvm", **chosen))


@pytest.mark.parametrize(
    ("nic", "tap", "netdev", "card"),
    [
        ("virtio", Tap("hub-aa"), "tap,id=n3,ifname=hub-aa,script=no,downscript=no", "virtio-net-pci"),
        ("e1000", Tap("hub-aa"), "tap,id=n3,ifname=hub-aa,script=no,downscript=no", "e1000"),
        ("rtl8139", Tap("hub-aa"), "tap,id=n3,ifname=hub-aa,script=no,downscript=no", "rtl8139"),
        ("virtio", Tap("hub-aa", "macvtap"), "tap,id=n3,fd=3", "virtio-net-pci"),
    ],
)
def test_a_guest_with_a_port_waits_for_its_link(tmp_path: Path, nic: str, tap: Tap, netdev: str, card: str) -> None:
    host = RecordingHost(programs=["qemu-system-x86_64", "qemu-img"])
    testbed = recording_testbed(host, tmp_path)
    platform = QemuTcg(nic=nic)
    spec = InstanceSpec("one", "probe", ports=("eth0",))
    with platform.prepare(testbed), platform.start(testbed, spec) as instance:
        assert not [argv for argv in host.commands if "qemu-system-x86_64" in argv]
        instance.plug([Port(instance, "eth0", "198.18.0.1/24", ("198.18.1.0/24 via 198.18.0.2",))], {"eth0": tap})
        instance.ready()
        argv = host.command("qemu-system-x86_64")
        assert after(argv, "-netdev") == [netdev]
        (device,) = [device for device in after(argv, "-device") if "netdev=n3" in device]
        assert device.startswith(f"{card},netdev=n3,mac=52:54:00:")
        if tap.kind == "macvtap":
            assert "exec 3<>" in " ".join(argv) and "mknod" in " ".join(argv)
            assert host.command("address")[:6] == ["ip", "-n", testbed.dut, "link", "set", "hub-aa"]
        naming = str(host.stdins[-1])
        assert f"{device.split('mac=')[1].split(',')[0]} ]" in naming and "name eth0" in naming
        assert "address add 198.18.0.1/24 dev eth0" in naming
        assert "route add 198.18.1.0/24 via 198.18.0.2 dev eth0" in naming


@pytest.mark.parametrize(
    ("nic", "offloads", "told"), [("virtio", False, True), ("virtio", True, False), ("e1000", False, False)]
)
def test_a_guest_finishes_its_packets_where_the_reader_of_its_tap_cannot(
    tmp_path: Path, nic: str, offloads: bool, told: bool
) -> None:
    host = RecordingHost(programs=["qemu-system-x86_64", "qemu-img"])
    testbed, platform = recording_testbed(host, tmp_path), QemuTcg(nic=nic)
    spec = InstanceSpec("one", "probe", ports=("eth0",))
    with platform.prepare(testbed), platform.start(testbed, spec) as instance:
        instance.plug([Port(instance, "eth0", "198.18.0.1/24")], {"eth0": Tap("hub-aa", offloads=offloads)})
        (device,) = [each for each in after(host.command("qemu-system-x86_64"), "-device") if "netdev=n3" in each]
        assert device.endswith(",csum=off") is told


def test_a_guest_that_does_not_boot_tells_its_monitors_words(tmp_path: Path) -> None:
    def answers(argv: Sequence[str]) -> Completed | None:
        if "qemu-system-x86_64" in argv:
            return answer(code=1, error="qemu: could not set up host forwarding")
        return answer(code=125, error="the guest is gone") if "--wait-ready" in argv else None

    with pytest.raises(PlatformError, match="could not set up host forwarding"):
        started(tmp_path, QemuTcg(), answers=answers)


def silent(argv: Sequence[str]) -> Completed | None:
    """A host on whose /dev/kvm guests start, and never say a word."""
    said = "lastro: the guest's agent did not answer within 20 s\n"
    return answer(code=124, error=said) if "--wait-ready" in argv else None


def pool_of(tmp_path: Path) -> tuple[RecordingHost, PlatformPool]:
    host = RecordingHost(silent, programs=["qemu-system-x86_64", "qemu-img"])
    host.files["/proc/cpuinfo"] = "cpu MHz\t\t: 2250.006\n"
    return host, PlatformPool(recording_testbed(host, Path(tempfile.mkdtemp(dir=tmp_path))), ExitStack())


def n_boots(host: RecordingHost) -> int:
    return sum("qemu-system-x86_64" in argv for argv in host.commands)


def test_why_a_guest_does_not_boot_reads_the_same_in_every_session(tmp_path: Path) -> None:
    _, pool = pool_of(tmp_path)
    found = pool.availability("kvm")
    assert found.reason == "the guest did not boot: its agent did not answer within 20 s"
    assert found.remedy and "qemu-tcg" in found.remedy


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (125, "lastro: the guest is gone: its monitor closed the connection\n", "its monitor closed the connection"),
        (125, "lastro: the guest is gone: /run/lastro/0a1b2c/one has no sockets", "/run/lastro/…/one has no sockets"),
        (1, "Traceback:\n  a line\nMemoryError: \n", "MemoryError:"),
        (137, "", "its agent did not answer within 20 s"),
    ],
)
def test_what_else_is_said_of_a_guest_that_does_not_boot(tmp_path: Path, code: int, said: str, reason: str) -> None:
    with pytest.raises(PlatformError) as caught:
        started(
            tmp_path, Kvm(), InstanceSpec("source", "source"),
            lambda argv: answer(code=code, error=said) if "--wait-ready" in argv else None,
        )  # fmt: skip
    assert caught.value.message == f"the guest source did not boot: {reason}"


def test_ports_that_its_monitor_never_opens_are_told_without_the_command_that_waits(tmp_path: Path) -> None:
    with pytest.raises(PlatformError) as caught:
        started(tmp_path, QemuTcg(), answers=lambda argv: answer(code=1) if "until" in " ".join(argv) else None)
    assert caught.value.message == "the guest did not boot: QEMU did not open the guest's ports within 5 s"


def test_a_platform_that_was_sought_in_vain_is_not_probed_again(tmp_path: Path) -> None:
    first, pool = pool_of(tmp_path)
    found = pool.availability("kvm")
    assert pool.availability("kvm") is found and n_boots(first) == 1 and pool.spared_s == 0
    second, later = pool_of(tmp_path)
    later.missing = pool.missing
    assert later.availability("kvm") is found and n_boots(second) == 0
    assert later.spared_s == pool.missing["kvm"].took_s >= 0
    assert not later.availability("kvm:machine=microvm") and n_boots(second) == 1, "another configuration is another"


def test_an_image_that_cannot_be_made_says_nothing_of_other_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise ImageError("kernel and disk of virtual machines could not be stored", "free some space")

    monkeypatch.setattr(guest, "ensure", no_room)
    _, pool = pool_of(tmp_path)
    assert not pool.availability("kvm") and pool.missing == {}


@pytest.mark.parametrize("platform", [QemuTcg(), Kvm()])
def test_a_missing_program_is_named_with_its_package(tmp_path: Path, platform: Any) -> None:
    with pytest.raises(Unavailable, match="qemu-system-x86_64") as caught, platform.prepare(bare(tmp_path)):
        pass
    assert "qemu-system-x86" in str(caught.value.hint)


def test_a_guest_writes_into_a_file_of_its_own_over_the_shared_disk(tmp_path: Path) -> None:
    host = RecordingHost(programs=["qemu-system-x86_64", "qemu-img"])
    testbed = recording_testbed(host, tmp_path)
    platform = QemuTcg()
    with platform.prepare(testbed), platform.start(testbed, SPEC):
        overlay = ["-q", "-f", "qcow2", "-b", "/g/disk.img", "-F", "raw", f"{testbed.scratch_dir}/one/disk.qcow2"]
        assert host.command("qemu-img")[-1].endswith(f"; {shlex.join(['qemu-img', 'create', *overlay])}")


def test_the_tool_that_makes_disks_is_missed_too(tmp_path: Path) -> None:
    host = RecordingHost(programs=["qemu-system-x86_64"])
    with pytest.raises(Unavailable, match="qemu-img"), QemuTcg().prepare(recording_testbed(host, tmp_path)):
        pass


def test_a_host_without_kvm_says_so(tmp_path: Path) -> None:
    host = RecordingHost(
        lambda argv: answer(code=1) if argv[0] == "test" else None, programs=["qemu-system-x86_64", "qemu-img"]
    )
    with pytest.raises(Unavailable, match="/dev/kvm") as caught, Kvm().prepare(recording_testbed(host, tmp_path)):
        pass
    assert "firmware" in str(caught.value.hint)


def test_what_cannot_be_asked_of_a_guest(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not boot"):
        started(tmp_path, QemuTcg(), InstanceSpec("one", "probe", resources=Resources(memory_bytes=64 << 20)))
    with pytest.raises(Unavailable, match="cannot confine an instance by seccomp"):
        started(tmp_path, QemuTcg(), InstanceSpec("one", "probe", security=Security(seccomp={"x": 1})))


def bare(tmp_path: Path) -> Testbed:
    return recording_testbed(RecordingHost(), tmp_path)
