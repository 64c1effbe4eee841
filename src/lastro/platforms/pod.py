"""Pods of one container, by the calls that Kubernetes makes: a sandbox, and a container in it, by containerd's CRI.

A private containerd runs them, without a kubelet. As under Kubernetes, an idle container holds the namespaces of the
pod, both containers are in the cgroup of the pod, limits are those of the pod and of its container, and /etc/hosts and
/dev/shm come from the sandbox. What an instance uses is what its container uses.

The container's runtime executes commands directly, as on the platform `containerd`: `crictl exec` passes all input and
output through the daemon. Tested with containerd 1.6 and crictl 1.34."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastro.errors import Unavailable
from lastro.host.shell import quoted
from lastro.platforms._cri import REMEDY, Cri
from lastro.platforms.base import Instance, InstanceSpec, instance_netns
from lastro.platforms.container import ENVIRONMENT, IN_MEMORY, INIT, MASKED, ON_DISK, READ_ONLY, seccomp_profile
from lastro.platforms.containerd import ContainerdPlatform
from lastro.testbed import Testbed

_OF_POD, _OF_CONTAINER, _OF_NODE = 0, 1, 2  # NamespaceMode in api.proto
_UNCONFINED, _LOCALHOST = 1, 2  # SecurityProfile.ProfileType
_LABEL, _VOLUMES = "instance", "volumes"
_STOP = f"""crictl rmp --force $(crictl pods --quiet --label "{_LABEL}=$1") >/dev/null 2>&1 || :
for place in "$2"/{_VOLUMES}/*; do umount "$place" 2>/dev/null || :; done"""


class Pod(ContainerdPlatform):
    name = "pod"
    summary = "pods of one container, by containerd's CRI, as Kubernetes runs them; without a kubelet"
    version_argv = ("crictl", "--version")
    requirements = replace(ContainerdPlatform.requirements, program="crictl", remedy=REMEDY)
    start_s = 0.6
    confines = frozenset({"apparmor", "drop_capabilities", "read_only_root", "seccomp"})
    daemon_type = Cri

    @contextmanager
    def start(self, testbed: Testbed, spec: InstanceSpec) -> Iterator[Instance]:
        self.require_confinement(spec)
        daemon = self._running_daemon()
        assert isinstance(daemon, Cri)
        home, pod_cgroup = daemon.instances / spec.name, f"{testbed.session.cgroup}/{spec.name}"
        disk = testbed.scratch_dir / spec.name  # for what a pod with a read-only root may write there
        with daemon.must_keep_running(), ExitStack() as stack:
            netns = stack.enter_context(_netns(testbed, spec))
            for kind, name in (("directory", home), ("directory", disk), ("cgroup", pod_cgroup)):
                stack.enter_context(testbed.session.owned(kind, str(name)))
            testbed.cgroups.make(testbed.host, pod_cgroup, spec.resources)
            pod_file, container_file = _write_files(testbed, daemon, spec, home, pod_cgroup)
            stack.callback(daemon.run, _STOP, spec.name, str(home), check=False)
            if spec.security.read_only_root:
                daemon.run(_make_volumes(home, disk))
            pod = daemon.call("runp", pod_file)
            container = daemon.call("create", pod, container_file, pod_file)
            daemon.call("start", container)
            if spec.netns is None:
                pid = daemon.call("inspectp", "--output", "go-template", "--template", "{{.info.pid}}", pod)
                testbed.host.run(["ip", "netns", "attach", netns, pid])
            cgroup = f"{pod_cgroup}/{container}"
            testbed.cgroups.make(testbed.host, cgroup, spec.resources)
            yield Instance(testbed, spec, netns=netns, cgroup=cgroup, enter=daemon.enter(container))


def _netns(testbed: Testbed, spec: InstanceSpec) -> AbstractContextManager[str]:
    """Return a context manager that yields the name of a pod's network namespace, which is valid after the start.

    Raises: Unavailable for a namespace that a pod can neither make nor share with the daemon."""
    if spec.netns is None:
        return instance_netns(testbed.host, testbed, spec, made_by_runtime=True)
    if spec.netns != testbed.dut:
        raise Unavailable(
            "a pod has a network of its own or that of its host, not that of another instance",
            "use the platform containerd, which starts containers in any network",
        )
    return nullcontext(spec.netns)


def _write_files(testbed: Testbed, daemon: Cri, spec: InstanceSpec, home: Path, cgroup: str) -> tuple[str, str]:
    """Write the configurations of a pod's sandbox and of its container, and return their paths."""
    sandbox = _sandbox(spec, cgroup)
    container = _container(spec, daemon.image, seccomp_profile(testbed, spec, daemon.home))
    if spec.security.read_only_root:
        places = {path: str(home / _VOLUMES / path.strip("/")) for path in IN_MEMORY}
        places[ON_DISK] = str(testbed.scratch_dir / spec.name)
        container["mounts"] = [{"container_path": path, "host_path": place} for path, place in places.items()]
    files = str(home / "pod.json"), str(home / "container.json")
    for file, config in zip(files, (sandbox, container), strict=True):
        testbed.host.write_text(file, json.dumps(config, indent=1))
    return files


def _make_volumes(home: Path, disk: Path) -> str:
    """Return a script that makes what remains writable under a read-only root, as the kubelet does for an emptyDir."""
    lines = [f"mkdir -p -m 1777 {shlex.quote(str(disk))}"]
    for path, options in IN_MEMORY.items():
        (place,) = quoted(home / _VOLUMES / path.strip("/"))
        lines += [f"mkdir -p {place}", f"mount -t tmpfs -o {options} tmpfs {place}"]
    return "\n".join(lines)


def _sandbox(spec: InstanceSpec, cgroup: str) -> dict[str, Any]:
    """Return a PodSandboxConfig of the CRI."""
    return {
        "metadata": {"name": spec.name, "namespace": "lastro", "uid": spec.name, "attempt": 0},
        "hostname": spec.role if spec.netns is None else "",  # on the host's network, a pod has the host's name
        "labels": {_LABEL: spec.name},
        "linux": {
            "cgroup_parent": cgroup,
            "sysctls": dict(spec.sysctls),
            "security_context": {"namespace_options": _namespaces(spec), "seccomp": _profile(None)},
        },
    }


def _container(spec: InstanceSpec, image: str, seccomp: str) -> dict[str, Any]:
    """Return a ContainerConfig of the CRI; `seccomp` is "unconfined", or the path of a filter."""
    security = spec.security
    return {
        "metadata": {"name": spec.role, "attempt": 0},
        "image": {"image": image},
        "command": list(INIT),
        "envs": [{"key": key, "value": value} for key, value in ENVIRONMENT.items()],
        "linux": {
            "security_context": {
                "namespace_options": _namespaces(spec),
                "masked_paths": list(MASKED),
                "readonly_paths": list(READ_ONLY),
                "readonly_rootfs": security.read_only_root,
                "capabilities": {
                    "add_capabilities": [name.removeprefix("CAP_") for name in security.capabilities],
                    "drop_capabilities": ["ALL"] if security.drop_capabilities else [],
                },
                "seccomp": _profile(None if seccomp == "unconfined" else seccomp),
                "apparmor": _profile(security.apparmor),
            }
        },
    }


def _namespaces(spec: InstanceSpec) -> dict[str, int]:
    return {"network": _OF_POD if spec.netns is None else _OF_NODE, "ipc": _OF_POD, "pid": _OF_CONTAINER}


def _profile(name: str | None) -> dict[str, Any]:
    """Return a SecurityProfile of the CRI; without a name, an unconfined one."""
    return {"profile_type": _LOCALHOST, "localhost_ref": name} if name else {"profile_type": _UNCONFINED}
