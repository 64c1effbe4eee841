"""Xen: para-virtual guests next to the host's own domain, by the xl toolstack.

A guest's card ends in a device `vifN.M` of the host's domain, which cannot open an existing tap. So the device replaces
the tap: it takes the tap's name, and its place on a bridge, in an Open vSwitch, or in a redirection. The /proc of the
host's domain counts neither the CPU time nor the memory of guests, so they are read from the hypervisor. Commands use
channels (xen-pv-channel.7), which a QEMU back-end offers as sockets; the same QEMU serves the disk.

The disk goes through the cache of the host's domain: Debian's QEMU for Xen lacks what direct-io-safe needs (libaio).

Sources: xl.1, xl.cfg.5, xl-disk-configuration.5, xen-pv-channel.7. Tested with Xen 4.17 inside QEMU, with para-virtual
guests (tests/contract/test_in_xen.py). Not yet tested: bare-metal hosts, type=pvh."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.host.cgroups import Resources, Usage
from lastro.image import guest
from lastro.platforms._machine import PORTS, SOCKET_PATTERN
from lastro.platforms.base import InstanceSpec, Tap
from lastro.platforms.hypervisor import MEMORY, VCPUS, Hypervisor, HypervisorInstance, disk_of
from lastro.requirements import Requirements
from lastro.study.model import Setting
from lastro.testbed import Testbed

# xl runs this script when a card appears, and waits for the status `connected`. Lastro attaches the card itself.
_VIF_SCRIPT = '#!/bin/sh\n[ "$1" != online ] || exec xenstore-write "$XENBUS_PATH/hotplug-status" connected\n'
_TYPE = Setting("type", "pv", "para-virtual, or hardware-assisted", choices=("pv", "pvh"))


class XenInstance(HypervisorInstance):
    """A domain. It is created paused, gets its links, and then boots."""

    _platform: Xen

    @property
    def domain(self) -> str:
        return f"lastro-{self.testbed.session.token}-{self.spec.name}"

    def boot(self, cards: Sequence[tuple[str, str]]) -> None:
        host, config = self.testbed.host, self.home / "domain.cfg"
        patience_s = self._platform.patience_s(self.testbed)
        host.write_text(str(config), self._platform.config(self, cards))
        enter = self.testbed.cgroups.entering(self.cgroup)
        try:
            host.run([*enter, "xl", "create", "-p", str(config)], timeout_s=4 * patience_s)
            number = host.run(["xl", "domid", self.domain]).text.strip()
        except CommandFailed as error:
            # The first lines have the reason; later ones are about the end of the domain.
            reason = " / ".join(line.strip() for line in error.stderr.strip().splitlines()[:3])
            raise PlatformError(f"Xen did not create domain {self.domain}: {reason or error.message}") from error
        taps = {tap.link: tap for tap in self.taps.values()}
        for index, (link, _) in enumerate(cards):
            replace_tap(self.testbed, f"vif{number}.{index}", taps[link])
        host.run(["xl", "unpause", self.domain])

    def usage(self) -> Usage:
        """Return the usage of the domain plus that of the instance's cgroup: the toolstack and the disk's back-end."""
        back_end = super().usage()
        try:
            domain = domains(self.testbed.host.run(["xl", "list", self.domain]).text)[self.domain]
        except (CommandFailed, KeyError) as error:
            raise PlatformError(f"domain {self.domain} is gone: {error}") from error
        return replace(
            back_end,
            cpu_s=back_end.cpu_s + domain.cpu_s,
            memory_bytes=back_end.memory_bytes + domain.memory_bytes,
            memory_peak_bytes=back_end.memory_peak_bytes + domain.memory_bytes,
            hidden_s=domain.cpu_s,
        )


def domains(text: str) -> dict[str, Usage]:
    """Return {name: usage} of the domains in `text`, the output of `xl list`, including the host's domain.

    Raises: PlatformError if a line does not have six fields: name, id, memory in MiB, virtual CPUs, state, seconds."""
    usages = {}
    for line in text.splitlines()[1:]:
        try:
            name, _, mib, _, _, seconds = line.split()
            usages[name] = Usage(cpu_s=float(seconds), memory_bytes=int(mib) << 20, memory_peak_bytes=int(mib) << 20)
        except ValueError as error:
            raise PlatformError(f"xl list printed no domain: {line[:100]!r}") from error
    return usages


def replace_tap(testbed: Testbed, device: str, tap: Tap) -> None:
    """Replace a tap in the DUT's namespace by a device of the host, which gets the name of the tap.

    The device also takes the place of the tap on a bridge, in an Open vSwitch, or in a redirection.

    Raises: Unavailable if the tap is in none of these."""
    host, dut, name = testbed.host, testbed.dut, tap.link
    if tap.swapping is not None:
        with tap.swapping():
            _move_name(testbed, device, name)
        return
    master = host.run_json(["ip", "-n", dut, "-j", "link", "show", "dev", name])[0].get("master")
    ingress = host.run(["tc", "-n", dut, "filter", "show", "dev", name, "ingress"], check=False).text
    partner = re.search(r"Redirect to device (\S+?)\)", ingress)
    if not master and not partner:
        raise Unavailable(
            f"{name} is neither on a bridge nor redirected to another tap: a Xen guest's card cannot replace it",
            "choose an attachment with a Linux bridge, or veth-direct",
        )
    _move_name(testbed, device, name, f" master {master}" if master else "")
    if partner:
        redirect = "ingress protocol all u32 match u32 0 0 action mirred egress redirect dev"
        lines = [
            f"qdisc add dev {name} clsact",
            f"filter add dev {name} {redirect} {partner[1]}",
            f"filter del dev {partner[1]} ingress",  # it redirected to the tap that is gone
            f"filter add dev {partner[1]} {redirect} {name}",
        ]
        host.run(["tc", "-n", dut, "-batch", "-"], stdin="\n".join(lines) + "\n")


def _move_name(testbed: Testbed, device: str, tap: str, master: str = "") -> None:
    """Replace the tap by the device, under its name; `master`, such as " master br0", puts it on a bridge."""
    testbed.host.run(["ip", "link", "set", device, "netns", testbed.dut])
    batch = [f"link del dev {tap}", f"link set dev {device} name {tap}", f"link set dev {tap}{master} up"]
    testbed.host.run(["ip", "-n", testbed.dut, "-batch", "-"], stdin="\n".join(batch) + "\n")


class Xen(Hypervisor):
    name = "xen"
    summary = "Xen guests by xl, on a host that was booted with Xen"
    version_argv = ("sh", "-c", "xl info 2>/dev/null | sed -n 's/^xen_version *: */Xen /p'", "xl")
    options = (_TYPE, VCPUS, MEMORY)
    program = "xl"
    remedy = "apt-get install xen-system-amd64 qemu-system-xen, and boot the host with Xen"
    requirements = Requirements(program=program, remedy=remedy)
    hypervisor = "xen"

    def require_host(self, testbed: Testbed) -> None:
        try:
            testbed.host.run(["xl", "info"])
        except CommandFailed as error:
            raise Unavailable(f"Xen does not answer: {error.message}", self.remedy) from error

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        with super().prepare(testbed):
            script = str(_vif_script(testbed))
            testbed.host.write_text(script, _VIF_SCRIPT)
            testbed.host.run(["chmod", "755", script])
            yield

    def hidden_usage(self, testbed: Testbed) -> Usage:
        """Return the usage of all domains of this session together, as the hypervisor counts it."""
        prefix = f"lastro-{testbed.session.token}-"
        usages = domains(testbed.host.run(["xl", "list"]).text)
        ours = [usage for name, usage in usages.items() if name.startswith(prefix)]
        cpu_s, memory_bytes = sum(usage.cpu_s for usage in ours), sum(usage.memory_bytes for usage in ours)
        return Usage(cpu_s=cpu_s, memory_bytes=memory_bytes, memory_peak_bytes=memory_bytes)

    def host_cpus(self, testbed: Testbed) -> int:
        """Return the number of CPUs of the machine; the host's domain may have fewer."""
        match = re.search(r"^nr_cpus\s*:\s*(\d{1,6})$", testbed.host.run(["xl", "info"]).text, re.M | re.A)
        if not match:
            raise PlatformError("xl info printed no number of CPUs (nr_cpus)")
        return int(match[1])

    def instance(self, testbed: Testbed, spec: InstanceSpec, cgroup: str) -> XenInstance:
        return XenInstance(testbed, spec, self, cgroup)

    def owned(self, instance: HypervisorInstance) -> list[tuple[str, str]]:
        assert isinstance(instance, XenInstance)
        return [*super().owned(instance), ("xen", instance.domain)]

    def cgroup_limits(self, resources: Resources) -> Resources:
        """Return only the disk's limits, since its back-end is a process. Xen applies the other limits."""
        rates = ("read_bps", "write_bps", "read_iops", "write_iops", "block_device")
        return Resources(**{name: getattr(resources, name) for name in rates})

    def config(self, instance: XenInstance, cards: Sequence[tuple[str, str]]) -> str:
        """Return the domain's configuration, in the format of xl.cfg.5.

        xl 4.17 refuses the first channel, which has the console's number 0; other versions do not. So the first channel
        is unused, and the guest's agent serves the channels that exist."""
        testbed, spec = instance.testbed, instance.spec
        devices = [f"hvc{number}" for number in range(1, PORTS + 2)]
        sockets = ["unused", *(SOCKET_PATTERN.format(number=number) for number in range(PORTS))]
        lines = {
            "name": instance.domain, "type": _TYPE.of(self.chosen),
            "kernel": str(self.guest.image), "ramdisk": str(self.guest.initramfs),
            "cmdline": guest.command_line(spec.role, devices, "console=hvc0", *self.mitigation_words, "quiet"),
            "memory": self.memory_mib(spec), "vcpus": self.vcpus(spec), **_scheduling(spec.resources),
            "disk": [f"format=raw,vdev=xvda,access=rw,backendtype=qdisk,target={disk_of(instance)}"],
            "channel": [f"connection=socket,name=lastro.{name},path={instance.sockets / name}" for name in sockets],
            "vif": [f"mac={mac},script={_vif_script(testbed)}" for _, mac in cards],
            "on_poweroff": "destroy", "on_reboot": "destroy", "on_crash": "destroy",
        }  # fmt: skip
        return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items())


def _scheduling(resources: Resources) -> dict[str, Any]:
    """Return limits for the credit2 scheduler: a cap in percent of one CPU, a weight (default: 256), and the CPUs."""
    r = resources
    settings = {
        "cap": round(100 * r.cpus) if r.cpus is not None else None,
        "cpu_weight": max(1, min(65535, round(r.cpu_weight * 256 / 100))) if r.cpu_weight is not None else None,
        "cpus": r.cpuset,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _vif_script(testbed: Testbed) -> Path:
    return testbed.run_dir / "xen" / "vif"
