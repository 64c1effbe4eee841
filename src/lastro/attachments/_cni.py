"""The Container Network Interface (CNI): read a conflist, and run its plug-ins one after the other on a port.

A plug-in is a program. It reads its configuration from standard input, and prints either the interfaces and addresses
that it has made, or one error. Source: the CNI specification 1.0.0."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from lastro.errors import PlatformError, Unavailable
from lastro.files import read_regular
from lastro.host.base import Completed, Host
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Port
from lastro.shapes import from_plain, parse_json
from lastro.testbed import Testbed

VERSION = "1.0.0"  # of the specification that the plug-ins of Debian 12 implement
PLUGIN_DIRS = ("/usr/lib/cni", "/opt/cni/bin")  # of Debian, and of Kubernetes
_INSTALL = "apt-get install containernetworking-plugins, or put it there"
_MOST_BYTES = 1 << 20
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"  # the name of a network, or of a plug-in
_LINK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")
_REMEDY = "a conflist is a JSON object with `name`, `cniVersion` and a list `plugins`, each with its `type`"

Plugin = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Conflist:
    """A network configuration list."""

    name: str
    version: str
    plugins: tuple[Plugin, ...]  # in the order in which they add a port
    sha256: str = ""  # of the file that the list was read from; empty if Lastro made the list

    @property
    def types(self) -> list[str]:
        return [*dict.fromkeys(plugin["type"] for plugin in self.plugins)]


def read_conflist(path: str) -> Conflist:
    """Read the user's conflist `path` on this machine. Raises: Unavailable without a readable conflist."""
    try:
        return parse_conflist(read_regular(Path(path), _MOST_BYTES, own=True), path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        remedy = "give the path of a conflist that belongs to you, on the machine where Lastro runs"
        raise Unavailable(f"{path} cannot be read: {reason or error}", remedy) from error


def parse_conflist(data: bytes, path: str) -> Conflist:
    """Parse `data`, which is a conflist or the configuration of a single plug-in; `path` is for messages only.

    Raises: Unavailable when it is neither, or exceeds 1 MiB."""
    if len(data) > _MOST_BYTES:
        raise Unavailable(f"{path} exceeds the limit of 1 MiB for a conflist", _REMEDY)
    try:
        whole = from_plain(dict[str, Any], parse_json(data.decode()))
        plugins = from_plain(tuple[dict[str, Any], ...], whole.get("plugins", [whole]))
        name, version = from_plain(str, whole.get("name", "")), from_plain(str, whole.get("cniVersion", VERSION))
        types = [from_plain(str, plugin.get("type", "")) for plugin in plugins]
    except ValueError as error:
        raise Unavailable(f"{path} is not a conflist: {error}"[:300], _REMEDY) from error
    for what, text in (("name", name), *(("type of a plug-in", kind) for kind in types)):
        if not re.fullmatch(_NAME, text):
            raise Unavailable(f"{path} is not a conflist: {text[:40]!r} cannot be the {what}", _REMEDY)
    if not plugins:
        raise Unavailable(f"{path} is not a conflist: it has no plug-ins", _REMEDY)
    return Conflist(name, version, plugins, hashlib.sha256(data).hexdigest())


def plugin_program(host: Host, kind: str) -> str:
    """Return the path of the plug-in `kind` on the host. Raises: Unavailable when the host does not have it."""
    for directory in PLUGIN_DIRS:
        if host.which(path := f"{directory}/{kind}"):
            return path
    raise host.lacks(f"CNI plug-in '{kind}' in {' or '.join(PLUGIN_DIRS)}", _INSTALL)


@dataclass(frozen=True, slots=True)
class CniNetwork:
    """A conflist whose plug-ins run in the namespace `node.dut`. Their leases of addresses are below `directory`."""

    node: Testbed
    conflist: Conflist
    directory: Path

    def add(self, port: Port) -> Mapping[str, Any]:
        """Add a port by each plug-in in turn; return the result of the last one. Raises: PlatformError if one fails."""
        result: Mapping[str, Any] = {}
        for plugin in self.conflist.plugins:
            done = self._run("ADD", plugin, port, result)
            if done.returncode != 0:
                raise PlatformError(f"the CNI plug-in {plugin['type']} did not add {port.name}: {_reason(done.text)}")
            try:
                result = from_plain(dict[str, Any], parse_json(done.text))
            except ValueError as error:
                raise PlatformError(
                    f"the CNI plug-in {plugin['type']} printed no result: {done.text[:80]!r}"
                ) from error
        return result

    def delete(self, port: Port, result: Mapping[str, Any]) -> None:
        """Delete a port by each plug-in, the last one first. `result` is what `add` returned.

        Errors are recorded in the transcript only, because the namespace in which the plug-ins run is removed next."""
        for plugin in reversed(self.conflist.plugins):
            self._run("DEL", plugin, port, result)

    def _run(self, command: str, plugin: Plugin, port: Port, result: Mapping[str, Any]) -> Completed:
        variables = {
            "CNI_COMMAND": command,
            # Different for each port: the plug-in bandwidth names a device after it.
            "CNI_CONTAINERID": f"{port.netns}-{port.name}",
            "CNI_NETNS": str(NETNS_DIR / port.netns),
            "CNI_IFNAME": port.name,
            "CNI_PATH": ":".join(PLUGIN_DIRS),
        }
        words = [f"{name}={value}" for name, value in variables.items()]
        program = plugin_program(self.node.host, plugin["type"])
        argv = ["nsenter", f"--net={NETNS_DIR / self.node.dut}", "env", *words, program]
        stdin = json.dumps(self._configuration(plugin, port) | ({"prevResult": result} if result else {}))
        return self.node.host.run(argv, stdin=stdin, check=False)

    def _configuration(self, plugin: Plugin, port: Port) -> dict[str, Any]:
        """Return the configuration of a plug-in for a port, with the port's address if the plug-in accepts one."""
        configuration = {**plugin, "name": self.conflist.name, "cniVersion": self.conflist.version}
        capabilities = plugin.get("capabilities")
        if isinstance(capabilities, Mapping) and capabilities.get("ips"):
            configuration["runtimeConfig"] = {"ips": [port.address]}
        ipam = plugin.get("ipam")
        kind = ipam.get("type") if isinstance(ipam, Mapping) else None
        if kind == "host-local":
            configuration["ipam"] = {**plugin["ipam"], "dataDir": str(self.directory)}
        elif kind == "static":
            address = {"address": port.address, "gateway": gateway(port.address)}
            configuration["ipam"] = {"addresses": [address], **plugin["ipam"]}
        return configuration


def gateway(address: str) -> str:
    """Return the node's address in the network of `address`, a port's address in CIDR form: the last usable one."""
    return str(ip_interface(address).network[-2])


def has_address(result: Mapping[str, Any], address: str) -> bool:
    """Return whether a plug-in's result contains `address`, a port's address in CIDR form."""
    try:
        return ip_interface(address) in [ip_interface(entry["address"]) for entry in result.get("ips", ())]
    except (KeyError, TypeError, ValueError):
        return False


def devices(result: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the interfaces in a plug-in's result: (names in the node, names in the instance)."""
    try:
        named = [(str(entry["name"]), bool(entry.get("sandbox"))) for entry in result.get("interfaces", ())]
    except (AttributeError, KeyError, TypeError):
        return [], []
    usable = [(name, is_inside) for name, is_inside in named if _LINK.fullmatch(name)]
    in_node = [name for name, is_inside in usable if not is_inside]
    return in_node, [name for name, is_inside in usable if is_inside]


def masters(plugins: Sequence[Plugin]) -> list[str]:
    """Return the parent interfaces (`master`) that plug-ins expect. Raises: Unavailable for an invalid name."""
    names = [str(plugin["master"]) for plugin in plugins if plugin.get("master")]
    for name in names:
        if not _LINK.fullmatch(name):
            raise Unavailable(f"{name[:40]!r}, the `master` of a plug-in, cannot be the name of an interface", _REMEDY)
    return [*dict.fromkeys(names)]


def _reason(text: str) -> str:
    """Return the error that a plug-in printed, as one line of at most 300 characters."""
    try:
        error = from_plain(dict[str, Any], parse_json(text))
        message = f"{error.get('msg', '')} {error.get('details', '')}"
    except ValueError:
        message = text
    return " ".join(message.split())[:300] or "it printed no reason"
