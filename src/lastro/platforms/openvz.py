"""OpenVZ 7: containers on a ploop disk of their own, on OpenVZ's kernel, by vzctl.

A container is registered from a private area that Lastro makes, so no template of the host is used. Its network
namespace is at /run/netns/CTID, so links are connected as on other platforms. It has the capabilities that OpenVZ
gives, including CAP_NET_ADMIN.

Sources: vzctl.8, ctid.conf.5, ploop.8; libvzctl, lib/env_nsops.c (namespace) and lib/cgroup.c (machine.slice).
Not yet tested with the real program: tests assert the commands."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.host.cgroups import Resources
from lastro.host.shell import quoted
from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.platforms.container import set_own_sysctls
from lastro.requirements import Requirements
from lastro.testbed import Testbed

_DISK = "4G"
_PAGE_BYTES = 4096
# The root filesystem has no init, and OpenVZ starts nothing else.
_INIT = "#!/bin/sh\\nexec sleep infinity\\n"
_INSTALL = "install OpenVZ 7 (openvz.org), and boot its kernel"


class OpenVzInstance(Instance):
    def __init__(self, testbed: Testbed, spec: InstanceSpec, ctid: str) -> None:
        super().__init__(testbed, spec, netns=ctid, cgroup=f"/machine.slice/{ctid}")

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return ["vzctl", "exec2", self.netns, shlex.join(argv)]  # vzctl passes its arguments to a shell


class OpenVz(Platform):
    name = "openvz"
    summary = "OpenVZ containers by vzctl, on OpenVZ's kernel"
    version_argv = ("vzctl", "--version")
    requirements = Requirements(program="vzctl", remedy=_INSTALL)
    start_s = 2.7

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        for program in ("vzctl", "ploop"):
            testbed.host.require(program, _INSTALL)
        if testbed.host.run(["test", "-d", "/proc/vz"], check=False).returncode != 0:
            raise Unavailable("this host's kernel is not OpenVZ's: it has no /proc/vz", _INSTALL)
        yield

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        scratch, ctid = testbed.scratch_dir / spec.name, container_id(testbed, spec)
        config = "".join(f'{key}="{value}"\n' for key, value in configuration(spec, scratch).items())
        with ExitStack() as stack:
            for kind, name in (("directory", str(scratch)), ("openvz", ctid)):
                stack.enter_context(testbed.session.owned(kind, name))
            testbed.host.write_text(str(scratch / "private/ve.conf"), config)
            try:
                testbed.host.run(["sh", "-e"], stdin=_creation_script(scratch, testbed.image.tar), timeout_s=600)
                testbed.host.run(["vzctl", "register", str(scratch / "private"), ctid])
                testbed.host.run(["vzctl", "start", ctid], timeout_s=120)
            except CommandFailed as error:
                raise PlatformError(f"OpenVZ did not start instance {spec.name}: {error.message}") from error
            instance = OpenVzInstance(testbed, spec, ctid)
            testbed.host.run(["ip", "-n", ctid, "link", "set", "lo", "up"])
            set_own_sysctls(testbed, ctid, spec.sysctls)
            yield instance

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {
            "root filesystem": "ext4 on a ploop disk of its own, with an init added",
            "instance's disk": str(testbed.scratch_dir.parent),
        }


def container_id(testbed: Testbed, spec: InstanceSpec) -> str:
    """Return a container's UUID, which contains the session's token, so that `lastro clean` recognizes it."""
    token, digest = testbed.session.token, hashlib.sha256(spec.name.encode()).hexdigest()
    return f"1a57{token[:4]}-{token[4:]}00-4000-8000-{digest[:12]}"


def configuration(spec: InstanceSpec, scratch: Path) -> Mapping[str, str]:
    """Return a container's settings, by their names in ctid.conf.5. Raises: Unavailable for unsupported limits."""
    r = spec.resources
    pages = r.memory_bytes // _PAGE_BYTES if r.memory_bytes is not None else None
    settings = {
        "VE_ROOT": f"{scratch}/root",
        "VE_PRIVATE": f"{scratch}/private",
        "HOSTNAME": spec.role,
        "ONBOOT": "no",
        "CPULIMIT": round(100 * r.cpus) if r.cpus is not None else None,  # percent of one CPU
        "CPUUNITS": r.cpu_weight * 10 if r.cpu_weight is not None else None,  # 1000 is usual
        "CPUMASK": r.cpuset,
        "PHYSPAGES": f"{pages}:{pages}" if pages is not None else None,
        "NUMPROC": f"{r.pids}:{r.pids}" if r.pids is not None else None,
        "SWAPPAGES": "0:0" if pages is not None else None,
        "IOLIMIT": _one_rate(r, "bps", "bytes"),
        "IOPSLIMIT": _one_rate(r, "iops", "operations"),
    }
    if r.memory_reserved_bytes is not None:
        raise Unavailable("OpenVZ cannot reserve memory for a container", "compare this isolation on another platform")
    return {key: str(value) for key, value in settings.items() if value is not None}


def _one_rate(resources: Resources, suffix: str, what: str) -> int | None:
    """Return the limit for both reading and writing; None if there is none. Raises: Unavailable if the two differ.

    OpenVZ has a single limit for both. `suffix` is "bps" or "iops"; `what` is the unit in errors."""
    read: int | None = getattr(resources, f"read_{suffix}")
    write: int | None = getattr(resources, f"write_{suffix}")
    if read != write:
        raise Unavailable(f"OpenVZ has a single limit for {what} read and written", "give both the same limit")
    return read


def _creation_script(scratch: Path, tar: Path) -> str:
    """Return a script that makes a container's private area: a ploop disk with the root filesystem (layout 5)."""
    private, mounted, root, archive = quoted(scratch / "private", scratch / "mounted", scratch / "root", tar)
    (unmount,) = quoted(f"ploop umount {private}/root.hdd/DiskDescriptor.xml")
    return "\n".join(
        [
            f"mkdir -p {root} {mounted} {private}/root.hdd",
            f"ln -s 5 {private}/.ve.layout",
            f"ploop init -s {_DISK} -t ext4 {private}/root.hdd/root.hds",
            f"ploop mount -m {mounted} {private}/root.hdd/DiskDescriptor.xml",
            f"trap {unmount} EXIT",
            f"tar --extract --numeric-owner --file={archive} --directory={mounted}",
            f"printf '{_INIT}' > {mounted}/usr/sbin/init",
            f"chmod 755 {mounted}/usr/sbin/init\n",
        ]
    )
