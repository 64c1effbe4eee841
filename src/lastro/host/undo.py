"""Remove the objects in a ledger: for each kind of object, which names are valid, and how it is removed.

A ledger is a file and may be damaged, so an object is removed only if its session can have made an object of this name.
It is not an error if an object is already gone, or was never made."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lastro.errors import HostError
from lastro.host import cgroups
from lastro.host.base import Host

NETNS_DIR = Path("/run/netns")
_MOUNTS = "/proc/self/mountinfo"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# The modules of the kernel that a session may load, each with a file that exists while the kernel has it.
MODULES = {"pktgen": "/proc/net/pktgen", "br_netfilter": "/proc/sys/net/bridge"}
_LINK = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}"  # name of a network interface, as in a testbed file

# Names of offloads in `ethtool --show-offload`, with those for `ethtool --offload`; each may depend on those before it.
CARD_FEATURES = {
    "rx-checksumming": "rx",
    "tx-checksumming": "tx",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}
_CARD_STATE = re.compile(rf"(?:(?:{'|'.join(CARD_FEATURES.values())}|segs[0-9]{{1,5}}|up)(?:,|\Z))+")
# Arguments: a card, its name in a namespace, the namespace, and the words of its state.
CARD_BACK = """for inside in "$2" "$1"; do
    if ip -n "$3" link show dev "$inside" >/dev/null 2>&1; then
        ip -n "$3" address flush dev "$inside" || :
        ip -n "$3" link set dev "$inside" netns $$ name "$1"
        break
    fi
done
ip link show dev "$1" >/dev/null 2>&1 || exit 0
for was in $(echo "$4" | tr , " "); do
    case "$was" in
    up) ip link set dev "$1" up ;;
    segs*) ip link set dev "$1" gso_max_segs "${was#segs}" || : ;;
    *) ethtool --offload "$1" "$was" on || : ;;
    esac
done"""


# If the kernel refuses to keep a mount namespace by a file, a process (the holder) keeps it.
HOLDER_VARIABLE = "LASTRO_HOLDS"  # in the holder's environment: the directory to which the namespace belongs
HOLDER_MARK = "held"  # a file in that directory, which shows that there is a holder

# Kill the holder of the mount namespace HOME/mnt, unless the PID now belongs to another process.
_END_HOLDER = f"""link=$(readlink "$1/mnt") && pid=${{link#/proc/}} && pid=${{pid%/ns/mnt}} &&
grep -qzxF "{HOLDER_VARIABLE}=$1" "/proc/$pid/environ" && kill -KILL "$pid\""""


@dataclass(frozen=True, slots=True)
class Owner:
    """The session that owns an object: its host, its token, and the host's directory for large files (`state`)."""

    host: Host
    token: str
    state: Path


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object: how to recognize names that an owner can have made, and how to remove an object."""

    is_own: Callable[[Owner, str], bool]
    remove: Callable[[Host, str], None]  # only if `is_own` is true for the name


def is_token(text: object) -> bool:
    """Return whether a value can be a session's token: six hexadecimal digits."""
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{6}", text) is not None


def undo(owner: Owner, kind: str, name: str) -> None:
    """Remove an object; it is not an error if it does not exist.

    Raises: HostError when the owner cannot have made the object, or the kind is unknown; TrialError and OSError when
    the removal fails."""
    if kind not in UNDO:
        raise HostError(f"unknown kind of object: '{kind}'", "was the ledger written by a newer Lastro?")
    if not (is_token(owner.token) and UNDO[kind].is_own(owner, name)):
        raise HostError(
            f"{kind} {name!r} was not created by Lastro session {owner.token!r}, so it is not removed",
            "the ledger is damaged or was edited: check what it lists, then move it away",
        )
    UNDO[kind].remove(owner.host, name)


def _matches(pattern: str) -> Callable[[Owner, str], bool]:
    """Return a function for `is_own`: whether a name matches `pattern`, where TOKEN stands for the session's token."""
    return lambda owner, name: re.fullmatch(pattern.replace("TOKEN", owner.token), name) is not None


def _is_below(name: str, *roots: Path | PurePosixPath) -> bool:
    """Return whether a path is one of the roots or below one, and has no `.`, `..` or repeated slashes."""
    path = PurePosixPath(name)
    return str(path) == name and ".." not in path.parts and any(path.is_relative_to(root) for root in roots)


_is_own_netns = _matches(r"lastro-TOKEN-[A-Za-z0-9_.-]+")


def _undo_netns(host: Host, name: str) -> None:
    if host.view.exists(str(NETNS_DIR / name)):
        host.run(["ip", "netns", "del", name])


def _undo_netns_dir(host: Host, name: str) -> None:
    """Unmount the directory that `ip netns` mounted on first use, and remove it, unless it contains namespaces now."""
    if name in mounts_below(host, name) and not host.view.names(name):
        host.run(["umount", name])
        host.view.remove_empty([name], below=False)


def _undo_cgroup(host: Host, name: str) -> None:
    groups = cgroups.detect(files=host.view)
    existing = [directory for directory in map(str, groups.directories(name)) if host.view.exists(directory)]
    for file, text in groups.unlimited_disk(name):
        host.write_text(file, text)
    groups.remove(name)
    if existing:
        host.transcript.records.append({"kind": "rmdir", "paths": existing})
    host.view.remove_empty([*map(str, groups.directories("/lastro"))], below=False)  # other sessions may use it


def _undo_directory(host: Host, name: str) -> None:
    """Remove a directory. File systems below it are unmounted first, so that their contents are not removed."""
    if mounts := mounts_below(host, name):
        for place in mounts:
            if host.view.exists(f"{place}/{HOLDER_MARK}"):
                host.run(["sh", "-c", _END_HOLDER, "let-go", place], check=False)
        host.run(["umount", "--lazy", *mounts])
    if host.view.exists(name):
        host.run(["rm", "-rf", "--one-file-system", name])


def _is_own_mount(owner: Owner, name: str) -> bool:
    """Return whether the path is STATE/rootfs/HASH/rootfs, where Lastro mounts a root filesystem over itself."""
    tree = PurePosixPath(name)
    return _is_below(name, owner.state / "rootfs") and bool(
        re.fullmatch(r"[0-9a-f]{12}/rootfs", str(tree.relative_to(owner.state / "rootfs")))
    )


def _undo_mount(host: Host, name: str) -> None:
    place = mount_point(host, name)
    if place in mounts_below(host, place):
        host.run(["umount", "--lazy", place])


def _is_own_interface(owner: Owner, name: str) -> bool:
    link, inside, netns, state = _moved_card(name)
    are_link_names = all(re.fullmatch(_LINK, part) for part in (link, inside))
    return are_link_names and _is_own_netns(owner, netns) and (not state or _CARD_STATE.fullmatch(state) is not None)


def _undo_interface(host: Host, name: str) -> None:
    """Move a network card back from a role's namespace, without the role's addresses.

    `name` is `LINK@NAMESPACE`, or `LINK=NAME@NAMESPACE` if the card has another name there. Both may end in `:STATE`,
    the state to restore. It is not an error if the card does not exist, or is already back."""
    host.run(["sh", "-e", "-c", CARD_BACK, "back", *_moved_card(name)])


def _moved_card(name: str) -> tuple[str, str, str, str]:
    """Parse the name of a moved card in the ledger as (card, its name in the namespace, namespace, words of state)."""
    link, _, place = name.partition("@")
    card, renamed, inside = link.partition("=")
    netns, _, state = place.partition(":")
    return card, inside if renamed else card, netns, state


def _undo_zpool(host: Host, name: str) -> None:
    """Destroy a ZFS pool, whose storage is a file of the session."""
    if host.which("zpool") and host.run(["zpool", "list", "-H", name], check=False).returncode == 0:
        host.run(["zpool", "destroy", "-f", name])


def _undo_xen(host: Host, name: str) -> None:
    """Destroy a Xen domain: it is not a process, so it is not killed with the session's processes."""
    if host.which("xl") and host.run(["xl", "domid", name], check=False).returncode == 0:
        host.run(["xl", "destroy", name])


def _is_own_openvz(owner: Owner, name: str) -> bool:
    head = re.escape(f"1a57{owner.token[:4]}-{owner.token[4:]}00-4000-8000-")
    return re.fullmatch(head + "[0-9a-f]{12}", name) is not None


def _undo_openvz(host: Host, name: str) -> None:
    """Stop and unregister an OpenVZ container; `name` is its UUID."""
    if host.which("vzctl") and "exist" in host.run(["vzctl", "status", name], check=False).text.split():
        host.run(["vzctl", "stop", name, "--fast"])
        host.run(["vzctl", "unregister", name])


def kernel_module(host: Host, name: str) -> str:
    """Return the ledger's name of a module of the kernel, with the boot in which it was loaded."""
    return f"{name}@{host.view.read([_BOOT_ID])[_BOOT_ID].strip()}"


def _undo_module(host: Host, name: str) -> None:
    """Remove a module that was loaded in this boot. After another boot, a loaded module is not Lastro's.

    What the module needs stays: modprobe would also remove `bridge`, and with it every bridge of the host."""
    module, _, _ = name.partition("@")
    users = f"/sys/module/{module}/refcnt"
    if host.view.read([users]).get(users, "").strip() == "0" and name == kernel_module(host, module):
        host.run(["rmmod", module])


def mount_point(host: Host, path: str) -> str:
    """Return the canonical form of `path`, which is how the kernel lists a mount point."""
    return host.run(["realpath", "--canonicalize-missing", path]).text.rstrip("\n")


def mounts_below(host: Host, directory: str) -> list[str]:
    """Return the mount points at or below a directory, the innermost first."""
    lines = host.view.read([_MOUNTS]).get(_MOUNTS, "").splitlines()
    points = [line.split()[4].replace("\\040", " ") for line in lines]
    return [point for point in reversed(points) if point == directory or point.startswith(directory.rstrip("/") + "/")]


UNDO: dict[str, ObjectKind] = {
    "netns": ObjectKind(_is_own_netns, _undo_netns),
    "netns-dir": ObjectKind(lambda _, name: name == str(NETNS_DIR), _undo_netns_dir),
    "cgroup": ObjectKind(lambda of, name: _is_below(name, PurePosixPath("/lastro", of.token)), _undo_cgroup),
    "directory": ObjectKind(
        lambda of, name: _is_below(name, of.host.run_root / of.token, of.state / "scratch" / of.token), _undo_directory
    ),
    "mount": ObjectKind(_is_own_mount, _undo_mount),
    "interface": ObjectKind(_is_own_interface, _undo_interface),
    "module": ObjectKind(_matches(f"({'|'.join(MODULES)})@[0-9a-f-]{{36}}"), _undo_module),
    "zpool": ObjectKind(_matches("lastro-TOKEN-[a-z]+"), _undo_zpool),
    "xen": ObjectKind(_matches("lastro-TOKEN-.+"), _undo_xen),
    "openvz": ObjectKind(_is_own_openvz, _undo_openvz),
}
