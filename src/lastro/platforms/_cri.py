"""A private containerd that answers the Container Runtime Interface (CRI), by which Kubernetes runs pods.

crictl, the client that Kubernetes' developers keep, makes the calls, which are those of the kubelet; `ctr` cannot.
Source: api.proto of k8s.io/cri-api, and docs/cri/config.md in github.com/containerd/containerd."""

from __future__ import annotations

import io
import json
import platform
import re
import tarfile
from hashlib import sha256
from typing import Any

from lastro.errors import CommandFailed, CommandTimeout, PlatformError
from lastro.host.ledger import NETNS_DIR
from lastro.host.shell import quoted
from lastro.platforms._containerd import UNUSED, Containerd
from lastro.platforms.container import ENVIRONMENT, INIT, covering_overlays

REMEDY = (
    "install crictl in /usr/local/bin, from the releases of github.com/kubernetes-sigs/cri-tools; a node of Kubernetes"
    " has it"
)
_CRI = 'plugins."io.containerd.grpc.v1.cri"'
_CALL_S = 30
_FATAL = re.compile(r"^.*level=fatal msg=(.*)$", re.MULTILINE)
# The CRI starts no pod without a network of the CNI that gives eth0 an address. This plug-in makes no link: the links
# are those of the study. It brings up the loopback, and reports the address that the pod has there.
_PLUG_IN = """#!/bin/sh -e
[ "$CNI_COMMAND" = ADD ] || exit 0
nsenter --net="$CNI_NETNS" ip link set lo up
echo '{"cniVersion": "0.3.1", "interfaces": [{"name": "'"$CNI_IFNAME"'", "sandbox": "'"$CNI_NETNS"'"}],
    "ips": [{"version": "4", "interface": 0, "address": "127.0.0.1/8"}]}'
"""
_PLUG_IN_NAME = "loopback"  # containerd's own name for what brings up the loopback; it calls it for each pod, too
_NETWORK = {"cniVersion": "0.3.1", "name": "lastro", "plugins": [{"type": _PLUG_IN_NAME}]}
_NOTHING = bytes(1024)  # a tar without files
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}  # of architectures


class Cri(Containerd):
    """A private containerd with its CRI. It runs in the DUT's network namespace, which a pod of the host's network has.

    `image` is the name of the root filesystem as an image. It is that of the sandboxes, too: no registry is needed."""

    name = "pod"
    namespace = "k8s.io"  # of everything that containerd runs by the CRI
    programs = {**Containerd.programs, "crictl": REMEDY}
    without = UNUSED
    answers = "crictl pods --quiet"
    purge = "crictl rmp --all --force >/dev/null 2>&1 || :"

    @property
    def base(self) -> str:
        """The name of the snapshot into which containerd unpacks a layer whose archive has this digest."""
        return f"sha256:{self._testbed.image.digest}"

    @property
    def image(self) -> str:
        return f"localhost/{self._testbed.image.docker_tag}"

    @property
    def client(self) -> str:
        (socket,) = quoted(f"unix://{self.home / 'socket'}")
        options = f"--config /dev/null --runtime-endpoint {socket} --image-endpoint {socket} --timeout {_CALL_S}s"
        return f'{super().client}\ncrictl() {{ command crictl {options} "$@"; }}'

    def call(self, *words: str) -> str:
        """Make a call of the CRI by crictl, and return what it prints. Raises: PlatformError, which names the call."""
        try:
            return self.run('crictl "$@"', *words).strip()
        except (CommandFailed, CommandTimeout) as error:
            logged = _FATAL.findall(error.stderr) if isinstance(error, CommandFailed) else []
            reason = logged[-1].strip('"') if logged else error.message
            raise PlatformError(f"`crictl {words[0]}` failed: {reason}") from error

    def _prepare(self) -> None:
        host, plug_in = self._testbed.host, str(self.home / "cni" / _PLUG_IN_NAME)
        host.write_text(str(self.home / "cni" / "lastro.conflist"), json.dumps(_NETWORK))
        host.write_text(plug_in, _PLUG_IN)
        host.run(["chmod", "700", plug_in])
        super()._prepare()

    def _mounts(self) -> list[str]:
        # Programs of the CNI keep what they did below /var/lib/cni.
        return covering_overlays(self.home / "covers", self._testbed.session.state, "/var")

    def _argv(self) -> list[str]:
        return ["nsenter", f"--net={NETNS_DIR / self._testbed.dut}", *super()._argv()]

    def _settings(self) -> str:
        cni, runtime = self.home / "cni", f"{_CRI}.containerd.runtimes.runc"
        return super()._settings() + (
            f'[{_CRI}]\nsandbox_image = "{self.image}"\nrestrict_oom_score_adj = true\n'
            "netns_mounts_under_state_dir = true\ndisable_hugetlb_controller = true\n"
            f'[{_CRI}.cni]\nbin_dir = "{cni}"\nconf_dir = "{cni}"\n'
            f'[{_CRI}.containerd]\ndefault_runtime_name = "runc"\n'
            f'[{runtime}]\nruntime_type = "io.containerd.runc.v2"\n'
            f'[{runtime}.options]\nRoot = "{self.runtime_root}"\n'
        )

    def _import_image(self) -> None:
        """Copy the image into a snapshot, and name it as an image, unless an earlier campaign has; wait for CRI."""
        super()._import_image()
        if self.image not in self.run("ctr images list --quiet").split():
            self.run("ctr images import -", stdin=image_archive(self._testbed.image.digest, self.image))
        # `run` ends at a command that fails: here, the hundredth test.
        listed = 'n=0; until crictl inspecti --quiet "$1" >/dev/null 2>&1; do [ $((n += 1)) -lt 100 ]; sleep 0.05; done'
        self.run(listed, self.image)


def image_archive(layer: str, name: str) -> bytes:
    """Return an OCI image layout, as a tar, of an image whose one layer has been unpacked.

    `layer` is the SHA-256 of the layer's archive. containerd has a snapshot of it, so an empty archive will do."""
    environment = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    machine = platform.machine()
    config = {
        "architecture": _GO_NAMES.get(machine, machine),
        "os": "linux",
        "config": {"Env": environment, "Cmd": list(INIT)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    of_config = _blob(files, "application/vnd.oci.image.config.v1+json", _json(config))
    of_layer = _blob(files, "application/vnd.oci.image.layer.v1.tar", _NOTHING)
    manifest = {"schemaVersion": 2, "config": of_config, "layers": [of_layer]}
    of_manifest = _blob(files, "application/vnd.oci.image.manifest.v1+json", _json(manifest))
    of_manifest["annotations"] = {"io.containerd.image.name": name}
    files["index.json"] = _json({"schemaVersion": 2, "manifests": [of_manifest]})
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _blob(files: dict[str, bytes], media_type: str, data: bytes) -> dict[str, Any]:
    """Add a blob to the files of a layout, and return its descriptor."""
    digest = sha256(data).hexdigest()
    files[f"blobs/sha256/{digest}"] = data
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}
