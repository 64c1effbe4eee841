"""Xen for real: a host that was booted with Xen, inside QEMU, on which Lastro starts guests by its platform `xen`.

    python tests/system/xen_in_qemu.py    # as root; `make test-all` runs it, too

The host's domain is made from Debian's packages in a tree of its own (nothing is installed here), with Lastro's sources
and the root filesystem that every platform runs. QEMU boots Xen in software, with the kernel and the control channel of
any guest of Lastro. Inside, this same file runs again: it prepares the platform, starts guests of a bridge and of a
pair, runs commands in them, sends pings between the host and the guests, and looks that nothing is left, of a Lastro
that was killed neither.
About three minutes, 2.5 GiB of memory; the first time some more, to download 100 MB."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"
sys.path.insert(0, str(SOURCES))

from lastro.attachments.base import Segment  # noqa: E402
from lastro.attachments.veth_bridge import VethBridge  # noqa: E402
from lastro.attachments.veth_direct import VethDirect  # noqa: E402
from lastro.host.base import Host  # noqa: E402
from lastro.host.cgroups import Resources  # noqa: E402
from lastro.host.ledger import STATE_DIR, Session, session  # noqa: E402
from lastro.host.lock import silently  # noqa: E402
from lastro.image import guest, rootfs  # noqa: E402
from lastro.platforms._machine import CLIENT  # noqa: E402
from lastro.platforms.base import Instance, InstanceSpec, Port  # noqa: E402
from lastro.platforms.xen import Xen  # noqa: E402
from lastro.testbed import Testbed, local_testbed  # noqa: E402

PACKAGES = ("xen-hypervisor-4.17-amd64", "xen-utils-4.17", "qemu-system-xen", "iproute2", "iputils-ping", "python3")
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
# Emulated processors have none of the flaws that Xen would work around, at great cost here.
XEN_WORDS = "dom0_mem=1024M,max:1024M dom0_max_vcpus=1 spec-ctrl=no xpti=no smap=0 smep=0 noreboot console=com1"
MODULES = ("xen-evtchn", "xen-gntdev", "xen-privcmd", "xenfs", "xen-netback")
PORTS = 2
BOOT_S, INSIDE_S = 180.0, 900.0
DAEMONS = """
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t xenfs xenfs /proc/xen
mkdir -p /run/xenstored /run/lock /var/log/xen /var/lib/xen
export PATH=$PATH:/usr/lib/xen-4.17/bin XENSTORED_ROOTDIR=/run/xenstored
oxenstored --pid-file /run/xenstore.pid
n=0; until xenstore-read -s / >/dev/null 2>&1; do [ $((n += 1)) -lt 100 ]; sleep 0.1; done
xen-init-dom0
xenconsoled --pid-file /run/xenconsoled.pid
"""


# Outside: make the host's domain and boot it


def outside() -> int:
    with session("tests/system/xen_in_qemu.py", wait=silently) as held:
        host = held.host
        image = rootfs.ensure(rootfs.ImageRecipe.of_this_host(host), held.ledger.state / "rootfs", host)
        boots = guest.ensure(image, held.ledger.state / "guest", host)
        disk, hypervisor = dom0(held, image, boots)
        ports = held.run_dir / "ports"
        host.run(["mkdir", "-p", str(ports)])
        log = held.run_dir / "console.log"
        qemu = host.spawn(qemu_argv(boots, hypervisor, disk, ports, log))
        try:
            client = ["python3", "-I", "-S", str(CLIENT), str(ports)]
            wait_for(ports / "0.sock")
            started_s = time.monotonic()
            host.run([*client, "--wait-ready", str(BOOT_S)], timeout_s=BOOT_S + 10)
            host.run([*client, "--", "sh", "-e"], stdin=DAEMONS, timeout_s=120)
            print(f"Xen and its host are up after {time.monotonic() - started_s:.0f} s", flush=True)
            inner = ["python3", f"/lastro/tests/system/{Path(__file__).name}", "--inside", image.digest]
            # What it prints is shown as it comes, so not by host.run.
            argv = [*client, "--", *inner]
            return subprocess.run(argv, check=False, timeout=INSIDE_S, stdin=subprocess.DEVNULL).returncode
        finally:
            qemu.stop()
            print("\n".join(log.read_text(errors="replace").splitlines()[-5:]) if log.exists() else "no console")


def dom0(held: Session, image: rootfs.Image, boots: guest.Guest) -> tuple[Path, Path]:
    """The disk of the host's domain, fresh, and Xen itself; packages come from the cache when they are there."""
    cache = held.ledger.state / "xen-in-qemu"
    cache.mkdir(exist_ok=True)
    tar = cache / "dom0.tar"
    if not tar.exists():
        leave_out = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
        part = tar.with_suffix(".part.tar")
        proxies = [f"{name}={value}" for name in ("http_proxy", "https_proxy") if (value := os.environ.get(name))]
        argv = ["env", *proxies, "mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", *leave_out]
        mirror = os.environ.get("LASTRO_MIRROR")
        held.host.run([*argv, rootfs.RELEASE, str(part), *([mirror] if mirror else [])], timeout_s=1800)
        part.rename(tar)
    tree, disk, hypervisor = (held.scratch_dir / name for name in ("dom0", "dom0.img", "xen"))
    tree.mkdir()
    held.host.run(["tar", "--extract", "--numeric-owner", f"--file={tar}", f"--directory={tree}"], timeout_s=300)
    shutil.copytree(SOURCES, tree / "lastro/src", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "lastro/tests/system").mkdir(parents=True)
    shutil.copy(__file__, tree / "lastro/tests/system")
    store = tree / "var/lib/lastro/guest"
    store.mkdir(parents=True)
    (store.parent / "lock").touch()  # by which Lastro knows that the directory is its own
    (store.parent / "rootfs" / image.digest[:12] / "rootfs").mkdir(parents=True)  # mounted, but no guest reads it
    needed = map(str, (boots.image.parent, boots.initramfs, boots.disk))
    held.host.run(["cp", "-a", "--sparse=always", *needed, str(store)], timeout_s=300)
    held.host.run(["mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", str(tree), str(disk), "4G"], timeout_s=300)
    held.host.run(["sh", "-c", f"gunzip -c {tree}/boot/xen-*-amd64.gz > {hypervisor}"])
    return disk, hypervisor


def qemu_argv(boots: guest.Guest, hypervisor: Path, disk: Path, ports: Path, log: Path) -> list[str]:
    words = guest.command_line("dom0", PORTS, "console=hvc0", "mitigations=off", f"lastro.modules={','.join(MODULES)}")
    modules = f"{boots.image} {words.replace(',', ',,')},{boots.initramfs}"
    # Xen's host sees physical addresses that are not the machine's: devices must go through an IOMMU's API.
    virtio = "disable-legacy=on,iommu_platform=on"
    argv = [
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2304M",
        "-kernel", str(hypervisor), "-append", XEN_WORDS, "-initrd", modules, "-serial", f"file:{log}",
        "-drive", f"if=none,id=root,format=raw,file={disk},cache=unsafe",
        "-device", f"virtio-blk-pci,drive=root,{virtio}", "-device", f"virtio-serial-pci,{virtio}",
    ]  # fmt: skip
    for number in range(PORTS):
        argv += ["-chardev", f"socket,id=c{number},path={ports}/{number}.sock,server=on,wait=off"]
        argv += ["-device", f"virtserialport,chardev=c{number},name=lastro.{number}"]
    return argv


def wait_for(path: Path) -> None:
    deadline_s = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline_s, f"QEMU did not make {path}"
        time.sleep(0.05)


# Inside: what any user's host would do


def inside(digest: str) -> int:
    leave_a_guest_behind(digest)
    with session("Xen inside QEMU") as held:
        assert domains(held.host) == ["Domain-0"], domains(held.host)
        with prepared(held, digest) as (xen, testbed):
            check_alone(xen, testbed)
            check_bridge(xen, testbed)
            check_direct(xen, testbed)
            assert domains(held.host) == ["Domain-0"], domains(held.host)
            devices = [link["ifname"] for link in held.host.run_json(["ip", "-n", testbed.dut, "-j", "link"])]
            assert devices == ["lo"], devices
    print("platform xen does what it says, and leaves nothing")
    return 0


@contextmanager
def prepared(held: Session, digest: str) -> Iterator[tuple[Xen, Testbed]]:
    Xen.boot_timeout_s = 180.0  # an emulated processor
    image = rootfs.Image(digest, STATE_DIR / "rootfs" / digest[:12])
    xen = Xen(memory="128M")  # as correa2011 has it
    with local_testbed(held, image) as testbed, xen.prepare(testbed):
        yield xen, testbed


def leave_a_guest_behind(digest: str) -> None:
    """A Lastro that is killed while its guest runs: the next session removes it."""
    with step("a Lastro that is killed"):
        done = subprocess.run([sys.executable, __file__, "--killed", digest], check=False, timeout=300)
        assert done.returncode == -signal.SIGKILL
        left = subprocess.run(["xl", "list"], capture_output=True, text=True, check=True).stdout
        assert "-killed" in left, left


def killed(digest: str) -> int:
    spec = InstanceSpec("killed", "subject")
    with session("to be killed") as held, prepared(held, digest) as (xen, testbed), xen.start(testbed, spec) as made:
        assert made.run(["echo", "alive"]).text == "alive\n"
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def check_alone(xen: Xen, testbed: Testbed) -> None:
    """Without links: exit codes, streams, limits, use, clocks."""
    spec = InstanceSpec("alone", "subject", Resources(cpus=0.5, memory_bytes=160 << 20))
    with step("a guest without links"), xen.start(testbed, spec) as alone:
        assert domains(testbed.host) == ["Domain-0", f"lastro-{testbed.session.token}-alone"]
        done = alone.run(["sh", "-c", "cat; echo words >&2; exit 7"], stdin="given\n", check=False)
        assert (done.returncode, done.text, done.error_text) == (7, "given\n", "words\n")
        assert alone.run(["hostname"]).text == "subject\n"
        assert [link["ifname"] for link in alone.links()] == ["lo"]
        total_kib = int(alone.run(["sed", "-n", r"s/^MemTotal: *\([0-9]*\) kB/\1/p", "/proc/meminfo"]).text)
        assert 90 << 10 < total_kib < 160 << 10, total_kib
        before, started_s = alone.usage(), time.monotonic()
        done = alone.run(["timeout", "6", "sh", "-c", "while :; do :; done"], check=False)
        used, elapsed_s = alone.usage().since(before), time.monotonic() - started_s
        assert done.returncode == 124
        print(f"  CPU limit of 0.5: {used.cpu_s:.1f} s of {elapsed_s:.1f} s, the toolstack's included")
        assert 0.3 < used.cpu_s / elapsed_s < 0.8
        assert used.memory_bytes >= 160 << 20
        hidden = xen.hidden_usage(testbed)
        assert hidden.cpu_s >= used.cpu_s / 2 and hidden.memory_bytes >= 160 << 20, hidden
        assert xen.host_cpus(testbed) >= 1


def check_bridge(xen: Xen, testbed: Testbed) -> None:
    """Pings between the host and a guest, over Lastro's bridge."""
    spec = InstanceSpec("bridged", "guest", ports=("in0", "in1"), sysctls={"net.ipv4.ip_forward": "1"})
    with step("a guest on a bridge"), xen.start(testbed, spec) as bridged:
        ports = (Port(bridged, "in0", "198.18.1.2/24"), Port(bridged, "in1", "198.18.2.2/24"))
        with VethBridge().connect(testbed, [Segment("a", ports)]):
            testbed.host.run(["ip", "-n", testbed.dut, "address", "add", "198.18.1.1/24", "dev", "hub-br"])
            assert [link["ifname"] for link in bridged.links()] == ["lo", "in0", "in1"]
            assert bridged.run(["cat", "/proc/sys/net/ipv4/ip_forward"]).text == "1\n"
            ping(bridged, "198.18.1.1")
            ping_from_host(testbed, "198.18.1.2")


def check_direct(xen: Xen, testbed: Testbed) -> None:
    """Two guests whose cards hand on to each other."""
    specs = [InstanceSpec(name, "guest", ports=("eth0",)) for name in ("left", "right")]
    with step("two guests, joined directly"), xen.start(testbed, specs[0]) as a, xen.start(testbed, specs[1]) as b:
        ends = (Port(a, "eth0", "198.18.3.1/24"), Port(b, "eth0", "198.18.3.2/24"))
        with VethDirect().connect(testbed, [Segment("p", ends)]):
            ping(a, "198.18.3.2")
            ping(b, "198.18.3.1")


class step:  # noqa: N801 - used like open()
    """Says what was done, and how long that took."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._started_s = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outcome = "failed" if kind else "done"
        print(f"{self._what}: {outcome} after {time.monotonic() - self._started_s:.0f} s", flush=True)


def ping(instance: Instance, address: str) -> None:
    assert_replies(instance.run(["ping", "-c", "3", "-W", "5", address]).text)


def ping_from_host(testbed: Testbed, address: str) -> None:
    argv: Sequence[str] = ["ip", "netns", "exec", testbed.dut, "ping", "-c", "3", "-W", "5", address]
    assert_replies(testbed.host.run(argv).text)


def assert_replies(text: str) -> None:
    assert "3 received" in text, text
    print("  " + text.strip().splitlines()[-1])


def domains(host: Host) -> list[str]:
    return [line.split()[0] for line in host.run(["xl", "list"]).text.splitlines()[1:]]


if __name__ == "__main__":
    ways = {"--inside": inside, "--killed": killed}
    sys.exit(ways[sys.argv[1]](sys.argv[2]) if sys.argv[1:] else outside())
