"""The parts of a host's kernel that an instance can reach, counted by a process inside that tries but changes nothing.

The metrics count the system calls, settings and devices of a kernel that a process in the instance can use: the attack
surface. They do not show whether there is a flaw, or how severe it would be: one system call may matter more than a
hundred. Compare them between levels of isolation on one host and kernel; between kernels, architectures or
distributions, compare only the lists in the notes.

Read `exposure_host_kernel` first. If it is 0 (a virtual machine, a kernel in user space), all others are about the
guest's kernel. The attack surface of the host is then the hypervisor, which cannot be counted from inside. If it is 1,
they are about the kernel of the host.

- `exposure_syscalls`: of the calls that can be tried without harm (see `_syscalls`), those that were answered by
  anything but EPERM, ENOSYS or a death by SIGSYS. Many kernel functions check their arguments before they check
  capabilities: such a call counts, since it ran the kernel's code.
- `exposure_capabilities`: capabilities in the bounding set, which root gets when it executes its next program. It is 0
  if the instance has its own user namespace, since its capabilities then apply only to objects of that namespace.
- `exposure_writable_proc_sys`: files of /proc and /sys that the process could open for writing, without the files of
  processes.
- `exposure_devices`: distinct device nodes below /dev that the kernel would let the process open (checked with
  access(2), since opening some devices has an effect). Nodes that it may make with CAP_MKNOD are not counted.
- `exposure_shared_namespaces`: kinds of namespaces, of the kernel's eight, that the instance shares with the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lastro.errors import InstrumentError, PlatformError
from lastro.host import capabilities
from lastro.host.base import Host
from lastro.meters import _syscalls
from lastro.meters.base import Meter
from lastro.platforms.base import Instance
from lastro.results.samples import Metric
from lastro.testbed import Testbed

_SCRIPT = Path(__file__).with_name("exposure.pl")
_TIMEOUT_S = 120.0
_DENIED = {"1": "EPERM", "38": "ENOSYS", "signal 31": "SIGSYS"}  # how a denied call may end
_WHOLE_MAP = "0 0 4294967295"  # of the initial user namespace
_SECCOMP = {"0": "off", "1": "strict", "2": "filter"}
_MOST_PATHS = 100  # in the notes
_NAMESPACES = "cd /proc/self/ns; for kind in *; do echo $kind $(readlink $kind); done"


class ExposureMeter(Meter):
    name = "exposure"
    summary = "system calls, capabilities, files, devices and namespaces that an instance can reach"
    metrics = (
        Metric("exposure_host_kernel", "1", "lower", "1: it runs on the host's kernel; 0: on its own kernel"),
        Metric("exposure_syscalls", "1", "lower", "system calls that its kernel does not refuse outright"),
        Metric("exposure_capabilities", "1", "lower", "capabilities that are valid outside its own user namespace"),
        Metric("exposure_writable_proc_sys", "1", "lower", "files of /proc and /sys that it may open for writing"),
        Metric("exposure_devices", "1", "lower", "device nodes that it may open"),
        Metric("exposure_shared_namespaces", "1", "lower", "kinds of namespaces that it shares with the host"),
    )

    def __init__(self, testbed: Testbed, instances: Mapping[str, Instance]) -> None:
        super().__init__(testbed, instances)
        ((_, self._instance),) = instances.items()

    def start(self) -> None:
        """Do nothing: the meter examines the instance only once, at `stop`."""

    def stop(self) -> None:
        """Examine the instance by a Perl script that runs inside it.

        Raises: PlatformError when the instance has no perl; InstrumentError when the script fails."""
        checked = self._instance.run(["sh", "-c", "uname -m; command -v perl"], check=False)
        if checked.returncode != 0:
            error = checked.error_text.strip()[-200:]
            words = f": {error}" if error else ""
            raise PlatformError(
                f"the exposure meter found no perl in instance {self._instance.spec.name}{words}",
                "use a root filesystem with perl-base, such as Debian's",
            )
        self._machine = checked.text.split()[0]
        done = self._instance.run(["perl", "-"], stdin=_script(self._machine), timeout_s=_TIMEOUT_S, check=False)
        self._lines: dict[str, list[list[str]]] = defaultdict(list)  # the other fields of each line, by its first field
        for kind, *fields in (line.split("\t") for line in done.text.splitlines()):
            self._lines[kind].append(fields)
        if "done" not in self._lines:
            words = done.error_text.strip()[-200:] or f"exit code {done.returncode}"
            raise InstrumentError(f"the exposure meter did not finish: {words}")
        host = dict(line.split() for line in self.testbed.host.run(["sh", "-c", _NAMESPACES]).text.splitlines())
        one_kernel = self._instance.shares_kernel  # numbers of namespaces on different kernels are not comparable
        links = dict(self._lines["namespace"])
        self._shared = {kind: one_kernel and host.get(kind) == link for kind, link in links.items()}

    @property
    def _status(self) -> dict[str, str]:
        return dict(self._lines["status"])

    def _single(self, kind: str) -> str:
        return self._lines[kind][0][0] if self._lines[kind] else ""

    def _calls(self) -> dict[str, list[str]]:
        """Return {outcome: names of the system calls that ended so}; outcomes are 'allowed' and values of `_DENIED`."""
        calls: dict[str, list[str]] = defaultdict(list)
        for name, outcome in self._lines["call"]:
            calls[_DENIED.get(outcome, "allowed")].append(name)
        return calls

    def read(self) -> dict[str, float]:
        in_initial_namespace = self._single("uid_map") == _WHOLE_MAP
        bounding_set = capabilities.names(int(self._status["CapBnd"], 16)) if in_initial_namespace else []
        values = {
            "exposure_host_kernel": int(self._instance.shares_kernel),
            "exposure_syscalls": len(self._calls()["allowed"]),
            "exposure_capabilities": len(bounding_set),
            "exposure_writable_proc_sys": len(self._lines["writable"]),
            "exposure_devices": len(self._lines["device"]),
            "exposure_shared_namespaces": sum(self._shared.values()),
        }
        return {name: float(value) for name, value in values.items()}

    def notes(self) -> dict[str, Any]:
        host, status, calls = self.testbed.host, self._status, self._calls()
        kernel, hostname = self._single("kernel"), self._single("hostname")
        known = set(_syscalls.table(self._machine).values())
        paths = [path for (path,) in self._lines["writable"]]
        return {
            "exposure": {
                "kernel": {"release": kernel, "host's": kernel == _kernel_setting(host, "osrelease")},
                "host name": {"name": hostname, "host's": hostname == _kernel_setting(host, "hostname")},
                "processes seen": int(self._single("processes") or 0),
                "user ids": self._single("uid_map"),
                "label": self._single("label"),
                "seccomp": _SECCOMP.get(status["Seccomp"], status["Seccomp"]),
                "no_new_privs": status["NoNewPrivs"] == "1",
                "capabilities": {
                    "effective": capabilities.names(int(status["CapEff"], 16)),
                    "bounding": capabilities.names(int(status["CapBnd"], 16)),
                },
                "namespaces shared": [kind for kind, shared in self._shared.items() if shared],
                "devices": [path for _, path, _ in self._lines["device"]],
                "writable": paths[:_MOST_PATHS] + ["…"] * (len(paths) > _MOST_PATHS),
                "search cut short at": self._single("cut_short") or None,
                "system calls": {
                    "tried": len(self._lines["call"]),
                    **{word: calls[word] for word in _DENIED.values()},
                    "not tried": {name: why for name, why in _syscalls.NOT_TRIED.items() if name in known},
                },
            }
        }


def _script(machine: str) -> str:
    """Return the Perl script, followed by its data: the numbers of two calls that it uses, and the calls to try.

    Raises: InstrumentError for a machine whose system calls are not known."""
    numbers = {name: number for number, name in _syscalls.table(machine).items()}
    if not numbers:
        raise InstrumentError(
            f"there is no table of the system calls of {machine}", "the exposure meter supports x86_64 and aarch64"
        )
    data = [f"{numbers['faccessat']} {numbers['prctl']}", *_syscalls.harmless_calls(machine)]
    return _SCRIPT.read_text(encoding="utf-8") + "__END__\n" + "\n".join(data) + "\n"


def _kernel_setting(host: Host, file: str) -> str:
    return host.read_text(f"/proc/sys/kernel/{file}").strip()
