"""The exact commands of hypervisors that few hosts have, in their order, on a host that only records."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro import registry
from lastro.attachments.base import Segment
from lastro.attachments.ovs import Ovs
from lastro.attachments.veth_bridge import VethBridge
from lastro.errors import HostError, PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.host.cgroups import Resources, Usage
from lastro.host.undo import Owner, undo
from lastro.image import guest
from lastro.platforms._machine import CLIENT, PORTS
from lastro.platforms.base import InstanceSpec, Platform, Port, Security, Tap
from lastro.platforms.cloud_hypervisor import CloudHypervisor
from lastro.platforms.firecracker import Firecracker
from lastro.platforms.hypervisor import Hypervisor
from lastro.platforms.openvz import OpenVz, container_id
from lastro.platforms.virtualbox import VirtualBox
from lastro.platforms.xen import Xen, domains, replace_tap
from lastro.testbed import Testbed

from ...support.recording import Answer, RecordingHost, answer, recording_testbed

ALONE = InstanceSpec("one", "probe")
LINKED = InstanceSpec("one", "function", ports=("in0", "out0"))
TAPS = {"in0": Tap("hub-aa"), "out0": Tap("hub-ba")}
HYPERVISORS: tuple[type[Platform], ...] = (Xen, VirtualBox, Firecracker, CloudHypervisor)
PROGRAMS = ("xl", "VBoxManage", "VBoxHeadless", "grub-mkrescue", "firecracker", "cloud-hypervisor", "vzctl", "ploop")
QUIET = "cryptomgr.notests audit=0 panic=-1 net.ifnames=0 no_timer_check"


@pytest.fixture(autouse=True)
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> guest.Guest:
    """What a guest boots, without making it."""
    kernel = tmp_path / "kernel"
    files = (kernel / "vmlinuz", kernel / "vmlinux", tmp_path / "initramfs", tmp_path / "root.img")
    made = guest.Guest("6.1.0-1-amd64", *files)
    monkeypatch.setattr(guest, "ensure", lambda *_: made)
    return made


def answers(argv: Sequence[str]) -> Completed | None:
    """What a host with all of these hypervisors says."""
    if argv[-2:] == ["domid", "lastro-0a1b2c-one"]:
        return answer("7\n")
    if "xl" in argv and "list" in argv:
        return answer("Name ID Mem VCPUs State Time(s)\nlastro-0a1b2c-one  7  256  1  -b----  2.5\n")
    if argv[:1] == ["ip"] and "show" in argv:
        return answer(json.dumps([{"ifname": argv[-1], "master": "hub-br"}]))
    return answer("7.1.4r165100\n") if argv[-1] == "--version" else None


def bed(tmp_path: Path, says: Answer = answers, programs: Sequence[str] = PROGRAMS) -> tuple[RecordingHost, Testbed]:
    host = RecordingHost(says, programs=programs)
    return host, recording_testbed(host, tmp_path)


def plain(host: RecordingHost, testbed: Testbed, *, since: int = 0) -> list[str]:
    """Commands as lines, places and what enters cgroups in short, without what every platform does alike."""
    entering = " ".join(testbed.cgroups.entering(f"{testbed.session.cgroup}/one"))
    lines = [" ".join(argv) for argv in host.commands[since:]]
    short = ((entering, "<enter>"), (str(testbed.run_dir), "RUN"), (str(testbed.scratch_dir), "SCRATCH"))
    for long, name in short:
        lines = [line.replace(long, name) for line in lines]
    alike = ("mkdir -p /", "rm -rf", str(CLIENT), "--json")
    return [line for line in lines if not any(word in line for word in alike)]


def start(platform: Platform, testbed: Testbed, spec: InstanceSpec = LINKED) -> list[str]:
    """Run an instance with two links from its start to its end; the commands in between."""
    host = testbed.host
    assert isinstance(host, RecordingHost)
    with platform.prepare(testbed):
        before = len(host.commands)
        with platform.start(testbed, spec) as instance:
            ports = (Port(instance, "in0", "198.18.1.2/24"), Port(instance, "out0", "198.18.2.1/24"))
            if spec.ports:
                instance.plug(ports, TAPS)
                instance.ready()
        return plain(host, testbed, since=before)


# All


@pytest.mark.parametrize("platform", [each for each in HYPERVISORS if issubclass(each, Hypervisor)])
def test_a_limit_of_processes_is_not_one_of_the_threads_of_a_monitor(
    platform: type[Hypervisor], tmp_path: Path
) -> None:
    """The processes inside a guest are in a table of its own kernel, which no group of the host counts."""
    limits = Resources(cpus=0.5, memory_bytes=256 << 20, write_bps=10**6, block_device="8:0", pids=64)
    kept = platform().cgroup_limits(limits)
    assert (kept.pids, kept.memory_bytes) == (None, None) and kept.write_bps == limits.write_bps
    host, testbed = bed(tmp_path)
    start(platform(), testbed, InstanceSpec("one", "function", limits, ports=("in0", "out0")))
    cgroup = f"{testbed.session.cgroup}/one"
    assert f"{testbed.cgroups.pids_directory(cgroup)}/pids.max" not in host.files
    with testbed.session.owned("cgroup", cgroup):
        testbed.cgroups.make(host, cgroup, limits)
    assert host.files[f"{testbed.cgroups.pids_directory(cgroup)}/pids.max"] == "64", "what a container gets"


def test_settings_of_a_guest_are_set_without_the_confinement_of_its_commands(tmp_path: Path) -> None:
    """Under Landlock, a command may not write to /proc/sys, which the platform itself does at the start of a guest."""
    host, testbed = bed(tmp_path)
    confined = LINKED.with_security(prefix=("confined",))
    start(Firecracker(), testbed, replace(confined, sysctls={"net.ipv4.ip_forward": "1"}))
    inside = [argv[argv.index("--") + 1 :] for argv in host.commands if str(CLIENT) in argv and "--" in argv]
    script = "[ ! -e /proc/sys/net/ipv4/ip_forward ] || echo 1 > /proc/sys/net/ipv4/ip_forward\n"
    assert inside[0] == ["sh", "-e"] and script in host.stdins
    assert inside[1][0] == "confined"


@pytest.mark.parametrize("platform", HYPERVISORS)
def test_a_guest_guards_against_flaws_of_processors_as_its_host_does(platform: type[Platform], tmp_path: Path) -> None:
    """Or a machine would be spared what containers and the bare host pay."""
    for name, words, expected in (("a", "ro quiet", False), ("b", "ro mitigations=off quiet", True)):
        (tmp_path / name).mkdir()
        host, testbed = bed(tmp_path / name)
        host.files["/proc/cmdline"] = f"{words}\n"
        made = platform()
        start(made, testbed)
        told = [*host.files.values(), *(" ".join(argv) for argv in host.commands)]
        booted = [text for text in told if "lastro.hostname=" in text]
        assert booted and all(("mitigations=off" in text) is expected for text in booted)
        ledger = made.residuals(testbed)["guest kernel"]
        assert ledger.endswith("as the host's" if expected else "with its own mitigations of processor flaws")


# Xen


def test_xen_creates_joins_and_unpauses(tmp_path: Path) -> None:
    host, testbed = bed(tmp_path)
    dut = testbed.dut
    assert start(Xen(), testbed) == [
        f"sh -ec mkdir -p RUN/one/ports SCRATCH/one; "
        f"cp --sparse=always --reflink=auto {tmp_path}/root.img SCRATCH/one/disk.img",
        "<enter> xl create -p RUN/one/domain.cfg",
        "xl domid lastro-0a1b2c-one",
        f"ip -n {dut} -j link show dev hub-aa",
        f"tc -n {dut} filter show dev hub-aa ingress",
        f"ip link set vif7.0 netns {dut}",
        f"ip -n {dut} -batch -",
        f"ip -n {dut} -j link show dev hub-ba",
        f"tc -n {dut} filter show dev hub-ba ingress",
        f"ip link set vif7.1 netns {dut}",
        f"ip -n {dut} -batch -",
        "xl unpause lastro-0a1b2c-one",
        "xl domid lastro-0a1b2c-one",
        "xl destroy lastro-0a1b2c-one",
    ]
    batches = [text for argv, text in zip(host.commands, host.stdins, strict=True) if argv[-2:] == ["-batch", "-"]]
    assert batches[0] == (
        "link del dev hub-aa\nlink set dev vif7.0 name hub-aa\nlink set dev hub-aa master hub-br up\n"
    )


def test_xen_is_told_all_of_a_domain(tmp_path: Path, boots: guest.Guest) -> None:
    host, testbed = bed(tmp_path)
    limits = Resources(cpus=1.5, cpu_weight=50, cpuset="0-1", memory_bytes=256 << 20)
    start(Xen(type="pvh"), testbed, InstanceSpec("one", "function", limits, ports=("in0", "out0")))
    run, scratch = testbed.run_dir, testbed.scratch_dir
    channels = [f"connection=socket,name=lastro.{n},path={run}/one/ports/{n}" for n in ("unused", "0.sock", "1.sock")]
    config = host.files[f"{run}/one/domain.cfg"].splitlines()
    assert config[:10] == [
        'name = "lastro-0a1b2c-one"',
        'type = "pvh"',
        f'kernel = "{boots.image}"',
        f'ramdisk = "{boots.initramfs}"',
        f'cmdline = "lastro.hostname=function lastro.ports=hvc1,hvc2,hvc3,hvc4,hvc5 {QUIET} console=hvc0 quiet"',
        "memory = 256",
        "vcpus = 2",
        "cap = 150",
        "cpu_weight = 128",
        'cpus = "0-1"',
    ]
    assert config[10] == f'disk = ["format=raw,vdev=xvda,access=rw,backendtype=qdisk,target={scratch}/one/disk.img"]'
    assert config[11].startswith("channel = [" + ", ".join(f'"{channel}"' for channel in channels))
    assert config[11].count("connection=socket") == PORTS + 1
    assert config[12].count(f"script={run}/xen/vif") == 2
    assert config[13:] == ['on_poweroff = "destroy"', 'on_reboot = "destroy"', 'on_crash = "destroy"']
    assert "hotplug-status" in host.files[f"{run}/xen/vif"]


def test_a_domain_of_xen_takes_both_ends_of_a_redirection(tmp_path: Path) -> None:
    def says(argv: Sequence[str]) -> Completed | None:
        if "filter" in argv:
            return answer("filter u32\n  action order 1: mirred (Egress Redirect to device hub-pb) stolen\n")
        return answer('[{"ifname": "hub-pa"}]') if "show" in argv else None

    host, testbed = bed(tmp_path, says)
    replace_tap(testbed, "vif3.0", Tap("hub-pa"))
    assert host.stdins[-1] == (
        "qdisc add dev hub-pa clsact\n"
        "filter add dev hub-pa ingress protocol all u32 match u32 0 0 action mirred egress redirect dev hub-pb\n"
        "filter del dev hub-pb ingress\n"
        "filter add dev hub-pb ingress protocol all u32 match u32 0 0 action mirred egress redirect dev hub-pa\n"
    )
    assert host.stdins[-2] == "link del dev hub-pa\nlink set dev vif3.0 name hub-pa\nlink set dev hub-pa up\n"


def test_a_tap_that_is_joined_otherwise_is_refused(tmp_path: Path) -> None:
    _, testbed = bed(tmp_path, lambda argv: answer('[{"ifname": "hub-aa"}]') if "-j" in argv else None)
    with pytest.raises(Unavailable, match="neither on a bridge"):
        replace_tap(testbed, "vif3.0", Tap("hub-aa"))


def test_a_domain_of_xen_becomes_the_port_of_an_open_vswitch_in_place_of_its_tap(tmp_path: Path) -> None:
    """The kernel's master of such a tap is `ovs-system`, to which only the switch itself adds a device."""
    host, testbed = bed(tmp_path)
    ovs = Ovs()
    ovs.separated = True
    ends = [SimpleNamespace(netns=testbed.dut, takes_taps=True)] * 2
    segment = Segment("a", tuple(Port(cast(Any, end), "eth0", f"198.18.1.{n}/24") for n, end in enumerate(ends, 1)))
    replace_tap(testbed, "vif3.0", Tap("hub-ab", swapping=ovs.swapping(testbed, [segment], "hub-ab")))
    vsctl = "ovs-vsctl --db=unix:./db.sock --timeout=10 --"
    assert [" ".join(argv).replace("unix:db.sock", "unix:./db.sock") for argv in host.commands] == [
        f"{vsctl} del-port hub-ab",
        f"ip link set vif3.0 netns {testbed.dut}",
        f"ip -n {testbed.dut} -batch -",
        f"{vsctl} add-port br-a hub-ab",
    ]
    assert host.stdins[2] == "link del dev hub-ab\nlink set dev vif3.0 name hub-ab\nlink set dev hub-ab up\n"


XL_LIST = """Name                                        ID   Mem VCPUs\tState\tTime(s)
Domain-0                                     0  1024     2     r-----     321.5
lastro-0a1b2c-router0                        4   128     1     -b----      12.3
lastro-0a1b2c-router1                        5   128     1     -b----       7.7
lastro-ffffff-router0                        6   128     1     ------     900.0
"""


def test_what_the_hosts_own_domain_does_not_see_is_read_from_the_hypervisor(tmp_path: Path) -> None:
    says = {
        ("xl", "list"): answer(XL_LIST),
        ("xl", "info"): answer("release  : 6.1.0\nnr_cpus  : 4\n"),
    }
    _, testbed = bed(tmp_path, lambda argv: says.get(tuple(argv)))
    used = Xen().hidden_usage(testbed)
    assert (used.cpu_s, used.memory_bytes) == (pytest.approx(20.0), 256 << 20), "of this session alone"
    assert Xen().host_cpus(testbed) == 4, "of the machine, of which Domain-0 has two"
    assert domains(XL_LIST)["Domain-0"].memory_bytes == 1024 << 20
    with pytest.raises(PlatformError, match="printed no domain: 'Domain-0 x'"):
        domains("Name ID\nDomain-0 x\n")
    assert VirtualBox().hidden_usage(testbed) == Usage(), "a machine of a process is in /proc"


def test_what_a_domain_uses_is_counted_with_its_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, testbed = bed(tmp_path)
    xen = Xen()
    with xen.prepare(testbed), xen.start(testbed, LINKED) as instance:
        around = Usage(cpu_s=1.0, memory_bytes=10, memory_peak_bytes=20)
        monkeypatch.setattr(type(testbed.cgroups), "usage", lambda *_: around)
        used = instance.usage()
    assert (used.cpu_s, used.memory_bytes, used.memory_peak_bytes) == (3.5, (256 << 20) + 10, (256 << 20) + 20)


# Firecracker, Cloud Hypervisor


def test_firecracker_gets_one_file(tmp_path: Path, boots: guest.Guest) -> None:
    host, testbed = bed(tmp_path)
    limits = Resources(cpus=0.5, memory_bytes=200 << 20)
    links = "".join(f"; ln -s ../vsock RUN/one/ports/{port}.sock" for port in range(5000, 5000 + PORTS))
    assert start(Firecracker(vcpus=2), testbed, InstanceSpec("one", "function", limits, ports=("in0", "out0"))) == [
        f"sh -ec mkdir -p RUN/one/ports SCRATCH/one; "
        f"cp --sparse=always --reflink=auto {tmp_path}/root.img SCRATCH/one/disk.img{links}",
        f"<enter> ip netns exec {testbed.dut} firecracker --no-api --config-file RUN/one/config.json",
    ]
    config = json.loads(host.files[f"{testbed.run_dir}/one/config.json"])
    cards = config.pop("network-interfaces")
    assert [(card["iface_id"], card["host_dev_name"]) for card in cards] == [("card0", "hub-aa"), ("card1", "hub-ba")]
    assert all(card["guest_mac"].startswith("52:54:00:") for card in cards)
    assert config == {
        "boot-source": {
            "kernel_image_path": str(boots.elf),
            "initrd_path": str(boots.initramfs),
            "boot_args": "lastro.hostname=function lastro.ports=vsock=5000,vsock=5001,vsock=5002,vsock=5003 "
            f"{QUIET} console=ttyS0 quiet reboot=k pci=off",
        },
        "drives": [
            {
                "drive_id": "root",
                "path_on_host": f"{testbed.scratch_dir}/one/disk.img",
                "is_root_device": False,
                "is_read_only": False,
            }
        ],
        "machine-config": {"vcpu_count": 2, "mem_size_mib": 200},
        "vsock": {"guest_cid": 3, "uds_path": f"{testbed.run_dir}/one/vsock"},
        "entropy": {},
    }


def test_firecracker_needs_a_kernel_that_is_unpacked(
    tmp_path: Path, boots: guest.Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, testbed = bed(tmp_path)
    monkeypatch.setattr(guest, "ensure", lambda *_: replace(boots, elf=None))
    with pytest.raises(Unavailable, match="ELF"):
        start(Firecracker(), testbed)


def test_cloud_hypervisor_is_told_all_on_its_command_line(tmp_path: Path, boots: guest.Guest) -> None:
    host, testbed = bed(tmp_path)
    start(CloudHypervisor(), testbed)
    argv = host.command("--initramfs")
    first = argv.index("cloud-hypervisor")
    nets = argv[-2:]
    assert [net.partition(",mac=")[0] for net in nets] == ["tap=hub-aa", "tap=hub-ba"]
    assert argv[first - 4 : -2] == [
        "ip", "netns", "exec", testbed.dut,
        "cloud-hypervisor", "--kernel", str(boots.elf), "--initramfs", str(boots.initramfs),
        "--cmdline", "lastro.hostname=function lastro.ports=vsock=5000,vsock=5001,vsock=5002,vsock=5003 "
        f"{QUIET} console=ttyS0 quiet",
        "--cpus", "boot=1", "--memory", "size=512M", "--disk", f"path={testbed.scratch_dir}/one/disk.img",
        "--serial", "tty", "--console", "off", "--vsock", f"cid=3,socket={testbed.run_dir}/one/vsock", "--net",
    ]  # fmt: skip


def test_without_links_there_are_no_cards_and_it_boots_at_once(tmp_path: Path) -> None:
    host, testbed = bed(tmp_path)
    start(CloudHypervisor(), testbed, ALONE)
    assert "--net" not in host.command("--initramfs")
    assert any("--wait-ready" in argv for argv in host.commands)


@pytest.mark.parametrize("platform", [Firecracker, CloudHypervisor])
def test_the_monitors_last_words_are_the_reason(platform: type[Platform], tmp_path: Path) -> None:
    def says(argv: Sequence[str]) -> Completed | None:
        if "--wait-ready" in argv:
            return answer(code=125, error="lastro: the guest is gone")
        return answer(code=1, error="KVM is not for you\n") if "netns" in argv and "exec" in argv else None

    _, testbed = bed(tmp_path, says)
    with pytest.raises(PlatformError, match="KVM is not for you"):
        start(platform(), testbed, ALONE)


# VirtualBox


def test_virtualbox_makes_a_machine_and_starts_it(tmp_path: Path) -> None:
    _, testbed = bed(tmp_path)
    lines = start(VirtualBox(nic="e1000"), testbed)
    inside = "--mount=RUN/virtualbox/mnt env VBOX_USER_HOME=RUN/virtualbox/user VBOX_IPC_SOCKETID=lastro-0a1b2c"
    manage = f"nsenter {inside} VBoxManage --nologo"
    [modify] = [line for line in lines if " modifyvm " in line]
    lines.remove(modify)
    attach = f"{manage} storageattach one --storagectl SATA --device 0"
    assert lines == [
        "sh -ec mkdir -p RUN/one/ports SCRATCH/one",
        f"ip -n {testbed.dut} link set dev hub-aa promisc on",
        f"ip -n {testbed.dut} link set dev hub-ba promisc on",
        f"{manage} convertfromraw {tmp_path}/root.img SCRATCH/one/disk.vdi --format VDI",
        f"{manage} createvm --name one --ostype Debian_64 --register --basefolder SCRATCH/one/machines "
        "--platform-architecture=x86",
        f"{manage} storagectl one --name SATA --add sata --controller IntelAhci --portcount 2",
        f"{attach} --port 0 --type hdd --medium SCRATCH/one/disk.vdi",
        f"{attach} --port 1 --type dvddrive --medium RUN/virtualbox/boot.iso",
        f"<enter> nsenter --net=/run/netns/{testbed.dut} {inside} VBoxHeadless --startvm one --vrde off",
        "sh -ec n=0; until [ -S RUN/one/ports/3.sock ]; do [ $((n += 1)) -lt 20 ]; sleep 0.1; done",
        f"{manage} controlvm one poweroff",
        f"{manage} unregistervm one --delete",
    ]
    words = modify.partition(" modifyvm ")[2]
    uarts = " ".join(
        f"--uart{n} {port} {irq} --uartmode{n} server RUN/one/ports/{n - 1}.sock"
        for n, port, irq in ((1, "0x3F8", 4), (2, "0x2F8", 3), (3, "0x3E8", 4), (4, "0x2E8", 3))
    )
    assert words.startswith(
        f"one --memory 512 --cpus 1 --ioapic on --rtcuseutc on --boot1 dvd {uarts} "
        "--nic1 bridged --bridgeadapter1 hub-aa --nicpromisc1 allow-all --cableconnected1 on --nictype1 82540EM "
        "--macaddress1 525400"
    )
    assert "--nic2 bridged --bridgeadapter2 hub-ba" in words


def test_virtualboxes_own_nat_is_a_level_whose_guest_sends_by_sockets_of_its_host(tmp_path: Path) -> None:
    host, testbed = bed(tmp_path)
    platform = VirtualBox(nic="e1000", network="nat")
    lines = start(platform, testbed)
    assert not any("promisc" in line for line in lines), "its taps carry nothing"
    [modify] = [line for line in lines if " modifyvm " in line]
    assert "--nic1 nat --natnet1 198.18.241.0/24 --cableconnected1 on --nictype1 82540EM --macaddress1 5254" in modify
    assert "--nic2 nat --natnet2 198.18.242.0/24" in modify and "bridged" not in modify
    [inside] = [str(text) for text in host.stdins if text and "198.18.241" in str(text)]
    assert "address add 198.18.241.15/24 dev in0" in inside and "address add 198.18.242.15/24 dev out0" in inside
    assert "route add 198.18.1.0/24 via 198.18.241.2 dev in0" in inside
    reason = VethBridge().probe(testbed, platform)
    assert not reason and "sends by the host's own network" in str(reason.reason)
    assert "network nat" in platform.residuals(testbed)["machine"]


def test_virtualbox_boots_from_a_disc_of_ours(tmp_path: Path, boots: guest.Guest) -> None:
    host, testbed = bed(tmp_path)
    with VirtualBox().prepare(testbed):
        home = testbed.run_dir / "virtualbox"
        script = next(str(text) for text in host.stdins if text and "grub-mkrescue" in str(text))
        service = host.command("VBoxSVC")
        waits = host.command(f"until [ -S {home}/tmp/.vbox-lastro-0a1b2c-ipc/ipcd ]")
    assert script.splitlines()[-3:] == [
        f"cp {boots.image} {home}/disc/boot/vmlinuz",
        f"cp {boots.initramfs} {home}/disc/boot/initramfs",
        f"grub-mkrescue --output={home}/boot.iso {home}/disc",
    ]
    assert f"kept {home} private mount --bind {home}/tmp /tmp" in script
    menu = host.files[f"{home}/disc/boot/grub/grub.cfg"]
    assert f"VBOX_USER_HOME={home}/user" in service and service[-3:-1] == ["sh", "-ec"]
    assert host.commands.index(service) < host.commands.index(waits)
    assert "linux /boot/vmlinuz lastro.hostname=guest lastro.ports=ttyS0,ttyS1,ttyS2,ttyS3 " in menu


def test_the_service_of_virtualbox_must_listen(tmp_path: Path) -> None:
    _, testbed = bed(tmp_path, lambda argv: answer(code=1) if "-ipc/ipcd" in argv[-1] else answers(argv))
    with pytest.raises(PlatformError, match="service did not start"), VirtualBox().prepare(testbed):
        pass


def test_a_boot_that_hangs_on_an_emulated_host_begins_again(tmp_path: Path) -> None:
    hangs = iter([True, True, False])

    def says(argv: Sequence[str]) -> Completed | None:
        if "--hear-ready" in argv and next(hangs):
            return answer(code=124)
        return answers(argv)

    host, testbed = bed(tmp_path, says)
    start(VirtualBox(), replace(testbed, guest={"emulated": True}), ALONE)
    modify = " ".join(host.command("modifyvm"))
    assert " --paravirt-provider none --nested-paging off " in modify
    waits = [argv[-2:] for argv in host.commands if argv[-1] == "reset" or "--hear-ready" in argv]
    assert waits == [["--hear-ready", "360"], ["one", "reset"]] * 2 + [["--hear-ready", "360"]]


def test_older_virtualboxes_know_one_architecture(tmp_path: Path) -> None:
    host, testbed = bed(tmp_path, lambda argv: answer("6.1.50r161033\n") if argv[-1] == "--version" else None)
    start(VirtualBox(), testbed, ALONE)
    assert not any("platform-architecture" in word for word in host.command("createvm"))
    assert host.command("modifyvm")[-2:] == ["--nic1", "none"]


# OpenVZ


def test_openvz_fills_a_disk_registers_and_starts(tmp_path: Path) -> None:
    host, testbed = bed(tmp_path)
    limits = Resources(
        cpus=0.5, cpu_weight=50, cpuset="0", memory_bytes=64 << 20, read_bps=1000, write_bps=1000, pids=256
    )
    spec = InstanceSpec("one", "subject", limits, sysctls={"net.ipv4.ip_forward": "1"})
    ctid = container_id(testbed, spec)
    assert ctid.startswith("1a570a1b-2c00-4000-8000-")
    with OpenVz().prepare(testbed):
        before = len(host.commands)
        with OpenVz().start(testbed, spec) as instance:
            assert instance.wrap(["sh", "-c", "echo $HOME"]) == ["vzctl", "exec2", ctid, "sh -c 'echo $HOME'"]
            assert (instance.netns, instance.cgroup) == (ctid, f"/machine.slice/{ctid}")
        lines = plain(host, testbed, since=before)
        making = next(str(text) for text in host.stdins if text and "ploop" in str(text))
    assert lines == [
        "sh -e",
        f"vzctl register SCRATCH/one/private {ctid}",
        f"vzctl start {ctid}",
        f"ip -n {ctid} link set lo up",
        f"nsenter --net=/run/netns/{ctid} sh -e",
        f"vzctl status {ctid}",
    ]
    scratch = f"{testbed.scratch_dir}/one"
    assert host.files[f"{scratch}/private/ve.conf"].splitlines() == [
        f'VE_ROOT="{scratch}/root"', f'VE_PRIVATE="{scratch}/private"', 'HOSTNAME="subject"', 'ONBOOT="no"',
        'CPULIMIT="50"', 'CPUUNITS="500"', 'CPUMASK="0"', 'PHYSPAGES="16384:16384"', 'NUMPROC="256:256"',
        'SWAPPAGES="0:0"',
        'IOLIMIT="1000"',
    ]  # fmt: skip
    assert making.splitlines()[:4] == [
        f"mkdir -p {scratch}/root {scratch}/mounted {scratch}/private/root.hdd",
        f"ln -s 5 {scratch}/private/.ve.layout",
        f"ploop init -s 4G -t ext4 {scratch}/private/root.hdd/root.hds",
        f"ploop mount -m {scratch}/mounted {scratch}/private/root.hdd/DiskDescriptor.xml",
    ]


def test_limits_that_openvz_has_not_are_refused(tmp_path: Path) -> None:
    _, testbed = bed(tmp_path)
    for limits in (Resources(read_bps=1), Resources(read_iops=1, write_iops=2), Resources(memory_reserved_bytes=1)):
        with pytest.raises(Unavailable), OpenVz().start(testbed, InstanceSpec("one", "subject", limits)):
            pass


# What is not there, and what is left


@pytest.mark.parametrize("platform", [*HYPERVISORS, OpenVz])
def test_what_is_missing_is_named_with_a_remedy(platform: type[Platform], tmp_path: Path) -> None:
    _, testbed = bed(tmp_path, programs=())
    with pytest.raises(Unavailable, match="no program") as caught, platform().prepare(testbed):
        pass
    assert caught.value.hint


def refuses(word: str) -> Callable[[Sequence[str]], Completed | None]:
    return lambda argv: answer(code=1, error="no, not here\n") if word in argv else None


@pytest.mark.parametrize(
    ("platform", "asked", "reason"),
    [
        (Xen, "info", "no, not here"),
        (VirtualBox, "/dev/vboxdrv", "kernel module"),
        (Firecracker, "/dev/kvm", "/dev/kvm"),
        (CloudHypervisor, "/dev/kvm", "/dev/kvm"),
        (OpenVz, "/proc/vz", "kernel"),
    ],
)
def test_a_program_alone_is_not_enough(platform: type[Platform], asked: str, reason: str, tmp_path: Path) -> None:
    _, testbed = bed(tmp_path, refuses(asked))
    with pytest.raises(Unavailable, match=reason) as caught, platform().prepare(testbed):
        pass
    assert caught.value.hint


@pytest.mark.parametrize("platform", HYPERVISORS)
def test_what_a_hypervisor_cannot_do_it_says(platform: type[Platform], tmp_path: Path) -> None:
    _, testbed = bed(tmp_path)
    made = platform()
    refused = (
        InstanceSpec("one", "subject", security=Security(seccomp={"defaultAction": "SCMP_ACT_ALLOW"})),
        InstanceSpec("one", "subject", Resources(memory_bytes=1 << 20)),
    )
    with made.prepare(testbed):
        for spec in refused:
            with pytest.raises(Unavailable), made.start(testbed, spec):
                pass
        with made.start(testbed, LINKED) as instance, pytest.raises(Unavailable, match="macvtap"):
            instance.plug((), {"in0": Tap("hub-aa", "macvtap")})
        with made.start(testbed, LINKED) as instance, pytest.raises(Unavailable, match="checksums"):
            instance.plug((), {"in0": Tap("hub-aa", offloads=False)})


@pytest.mark.parametrize("platform", [*HYPERVISORS, OpenVz])
def test_nothing_stays_owned(platform: type[Platform], tmp_path: Path) -> None:
    _, testbed = bed(tmp_path)
    made = platform()
    with made.prepare(testbed), made.start(testbed, InstanceSpec("one", "subject")):
        assert testbed.session.owned_objects()
    assert testbed.session.owned_objects() == []


@pytest.mark.parametrize(("kind", "name"), [("xen", "Domain-0"), ("xen", "lastro-x"), ("openvz", "101")])
def test_only_what_is_named_as_ours_is_ever_removed(kind: str, name: str) -> None:
    host = RecordingHost(programs=PROGRAMS)
    with pytest.raises(HostError, match="was not created by Lastro"):
        undo(Owner(host, "0a1b2c", Path("/var/lib/lastro")), kind, name)
    assert host.commands == []


def test_they_are_all_found() -> None:
    assert {"xen", "virtualbox", "firecracker", "cloud-hypervisor", "openvz"} <= registry.names("platform")


def test_the_ports_of_an_attachment_reach_the_hypervisor(tmp_path: Path) -> None:
    host, testbed = bed(tmp_path)
    platform = CloudHypervisor()
    with platform.prepare(testbed), platform.start(testbed, LINKED) as instance:
        ports = (Port(instance, "in0", "198.18.1.2/24"), Port(instance, "out0", "198.18.2.1/24"))
        with VethBridge().connect(testbed, [Segment("a", ports)]):
            nets = host.command("--initramfs")[-2:]
    assert nets == [f"tap=hub-a{side},mac={instance.mac(port.name)}" for side, port in zip("ab", ports, strict=True)]  # type: ignore[attr-defined]
