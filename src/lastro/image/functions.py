"""Network functions of the user's own, as a part of the root filesystem: /functions/NAME and /functions/NAME.json.

So the functions are the same on each platform, each remote host and in each virtual machine, and the digest of the root
filesystem covers them. Here, their files are copied and read, but never executed: they run in instances only.

The directories in `MOUNT_POINTS` are empty, since an instance mounts its own there. Times are not preserved. Owners are
preserved only if root owns the directory. So a copy of the same files is the same function."""

from __future__ import annotations

import hashlib
import json
import platform
import posixpath
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from lastro.errors import CommandFailed, CommandTimeout, ImageError, InputError
from lastro.host.base import RUN_DIR, Host
from lastro.host.files import SEARCHED, file_sha256
from lastro.image import rootfs
from lastro.image.manifest import Image
from lastro.image.workshop import building, proxies, workshop
from lastro.results.files import write_atomically
from lastro.shapes import from_plain
from lastro.study.own_function import OwnFunction

FUNCTIONS = "functions"  # in the root filesystem
MOUNT_POINTS = ("dev", "proc", "run", "sys", "tmp")
_PULL_S, COPY_S = 1800.0, 1800.0
_ELF_BYTES = 20
_MOST_LINKS = 40  # as in Linux
_MTIME = "--mtime=@1700000000"
# $1 is a new directory, seen at $2, since Podman refuses long paths; $3 is the reference. Podman keeps locks in
# /dev/shm, and a cache of what it has seen.
_PULL = """mount --bind "$1" "$2"; cd "$2"; export CONTAINERS_CONF="$2/conf"
printf '[network]\\nnetwork_config_dir = "%s"\\n' "$2/cni" >conf
mount -t tmpfs tmpfs /dev/shm
[ ! -d /var/lib/containers/cache ] || mount -t tmpfs tmpfs /var/lib/containers/cache
home=$2; private() { podman --root "$home/store" --runroot "$home/run" --tmpdir "$home/tmp" --storage-driver vfs \\
    --events-backend none "$@"; }
pulled=$(private pull --quiet "$3"); private image mount "$pulled"; private image inspect "$pulled"
"""


@dataclass(frozen=True, slots=True)
class InstalledFunction:
    """A function in a root filesystem, as its JSON file describes it."""

    command: tuple[str, ...]
    sha256: str  # of a tar of its files
    ready: tuple[str, ...] = ()
    ready_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    forwarding: str = "kernel"
    directory: str = "/"
    commit: str = ""  # the Git commit from which the files were built; empty if they were copied


def function_in(image: Image, name: str) -> InstalledFunction | None:
    """Return the function `name` in a root filesystem; None if there is no function of that name."""
    file = image.tree / FUNCTIONS / f"{name}.json"
    return from_plain(InstalledFunction, json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


def function_descriptions(image: Image) -> dict[str, Any]:
    """Return {name: contents of its JSON file} of the functions in a root filesystem, for provenance."""
    files = sorted((image.tree / FUNCTIONS).glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def with_functions(image: Image, functions: Sequence[OwnFunction], store: Path, host: Host) -> Image:
    """Return `image` with these functions added; make that image if necessary.

    Raises: InputError when a function has no files or no command; ImageError when its files cannot be used."""
    if not functions:
        return image
    what = f"the root filesystem with {', '.join(function.name for function in functions)}"
    with workshop(store) as work, building(what, store, ""):
        stage = work / "stage"
        trees = {function.name: _prepare(function, work, stage / FUNCTIONS, store, host) for function in functions}
        texts = [(stage / FUNCTIONS / f"{name}.json").read_text(encoding="utf-8") for name in trees]
        key = hashlib.sha256("\0".join([image.digest, *trees, *texts]).encode()).hexdigest()[:16]
        if stored := rootfs.stored_image(key, store):
            return rootfs.checked_image(stored, host)
        home = work / "image"
        home.mkdir()
        tar = home / "rootfs.tar"
        host.run(["cp", "--reflink=auto", str(image.tar), str(tar)], timeout_s=COPY_S)
        skeleton = [*append_argv(tar), "--owner=0", "--group=0", "--no-recursion", f"--directory={stage}"]
        host.run([*skeleton, f"./{FUNCTIONS}", *(f"./{FUNCTIONS}/{name}.json" for name in trees)])
        for name, tree in trees.items():
            host.run([*append_argv(tar), *_files_of(name, tree)], timeout_s=COPY_S)
            host.run([*skeleton, *(f"./{FUNCTIONS}/{name}/{mount_point}" for mount_point in MOUNT_POINTS)])
        return rootfs.store_image(home, key, store, host)


def append_argv(tar: Path) -> list[str]:
    return ["tar", "--append", "--sort=name", _MTIME, "--numeric-owner", f"--file={tar}"]


def _files_of(name: str, tree: Path) -> list[str]:
    """Return arguments for tar that add the files in `tree` as the function `name` of the root filesystem."""
    owner = [] if tree.stat().st_uid == 0 else ["--owner=0", "--group=0"]
    left_out = [f"--exclude=./{mount_point}" for mount_point in MOUNT_POINTS]
    place = f"--transform=s,^\\.,./{FUNCTIONS}/{name},S"  # but not in targets of symbolic links
    return [*owner, "--one-file-system", "--anchored", *left_out, place, f"--directory={tree}", "."]


def _prepare(own: OwnFunction, work: Path, descriptions: Path, store: Path, host: Host) -> Path:
    """Check a function, describe it in `descriptions`, and return its directory. Raises: as `with_functions`."""
    tree = Path(own.directory)
    config: Mapping[str, Any] = {}
    if own.image:
        tree, config = pull_image(own.image, f"function '{own.name}'", work / f"pulled-{own.name}", host)
    if not tree.is_dir():
        raise InputError(f"function '{own.name}': {tree} is not a directory", "name a directory with its files")
    if store.resolve().is_relative_to(tree.resolve()):
        raise InputError(f"function '{own.name}': {tree} contains Lastro's own files", "name one with its files only")
    for mount_point in MOUNT_POINTS:
        (descriptions / own.name / mount_point).mkdir(parents=True)
        (descriptions / own.name / mount_point).chmod(0o1777 if mount_point == "tmp" else 0o755)
    part = work / f"{own.name}.tar"
    host.run([*append_argv(part), *_files_of(own.name, tree)], timeout_s=COPY_S)
    variables = dict(line.split("=", 1) for line in config.get("Env") or () if "=" in line)
    installed = InstalledFunction(
        command=own.command or (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())),
        sha256=file_sha256(part),
        ready=own.ready,
        ready_s=own.ready_s,
        environment={"PATH": SEARCHED, **variables, **own.environment},
        forwarding=own.forwarding,
        directory=config.get("WorkingDir") or "/",
        commit=own.revision if own.repository else "",
    )
    _require_usable(own.name, installed, part)
    part.unlink()
    described = {name: value for name, value in asdict(installed).items() if name != "commit" or value}
    text = json.dumps(described, indent=1, sort_keys=True) + "\n"
    write_atomically(descriptions / f"{own.name}.json", text)
    return tree


def pull_image(reference: str, user: str, work: Path, host: Host) -> tuple[Path, Mapping[str, Any]]:
    """Pull an OCI image into `work`; return the directory of its files, and its configuration.

    `user` says in messages what requires the image. Raises: ImageError."""
    if host.which("podman") is None:
        raise ImageError(f"podman, which unpacks the image of {user}, is not installed", "apt-get install podman")
    work.mkdir()
    argv = ["unshare", "--mount", "env", *proxies(), "sh", "-ec", _PULL, "pull", str(work), str(RUN_DIR), reference]
    try:
        path, _, text = host.run(argv, timeout_s=_PULL_S).text.partition("\n")
    except (CommandFailed, CommandTimeout) as error:
        words = error.stderr.strip().splitlines() if isinstance(error, CommandFailed) else []
        reason = words[-1].removeprefix("Error: ") if words else error.message
        raise ImageError(
            f"{user}: the image {reference} cannot be pulled: {reason}",
            f"try it: podman pull {shlex.quote(reference)}",
        ) from error
    return work / Path(path).relative_to(RUN_DIR), json.loads(text)[0].get("Config") or {}


def _require_usable(name: str, installed: InstalledFunction, part: Path) -> None:
    """Check that no file is a device, and that this machine can run the command. Raises: as `with_functions`."""
    with tarfile.open(part) as archive:
        members = {posixpath.relpath(member.name, f"./{FUNCTIONS}/{name}"): member for member in archive}
        if device := next((path for path, member in members.items() if member.ischr() or member.isblk()), None):
            raise ImageError(
                f"function '{name}': {'/' + device!a} is a device", "remove it: an instance has its own /dev"
            )
        for what, argv in (("command", installed.command), ("ready", installed.ready)):
            if not argv and what == "ready":
                continue
            if not argv:
                raise InputError(f"function '{name}': its image has no command", 'add command = ["PROGRAM"]')
            directories = [""] if "/" in argv[0] else installed.environment["PATH"].split(":")
            places = (posixpath.join("/", installed.directory, each, argv[0]) for each in directories)
            paths = (follow_links(members, place) for place in places)
            named = (members[path] for path in paths if path in members)
            program = next((member for member in named if member.isfile() or member.islnk()), None)
            if program is None or not program.mode & 0o111:
                raise InputError(
                    f"function '{name}': its files have no executable program {argv[0]!r}, which is its {what}",
                    "name it by its path in them",
                )
            if (file := archive.extractfile(program)) and _is_foreign_elf(file.read(_ELF_BYTES)):
                raise ImageError(
                    f"function '{name}': {argv[0]} is not for this machine, which is {platform.machine()}",
                    "build it for this machine",
                )


def follow_links(members: Mapping[str, tarfile.TarInfo], path: str) -> str:
    """Return the path to which `path` leads when the symbolic links among `members` are followed.

    `members` are the files by path, relative to the root of absolute links. So is the result, which may not exist."""
    path = posixpath.normpath(path).lstrip("/")
    for _ in range(_MOST_LINKS):
        parents = [*reversed(PurePosixPath(path).parents), PurePosixPath(path)]
        link = next((path for path in map(str, parents) if path in members and members[path].issym()), None)
        if link is None:
            break
        target = posixpath.join("/", posixpath.dirname(link), members[link].linkname, posixpath.relpath(path, link))
        path = posixpath.normpath(target).lstrip("/")
    return path


def _is_foreign_elf(head: bytes) -> bool:
    """Return whether `head`, the first bytes of a program, begins an ELF file for another processor."""
    with open("/proc/self/exe", "rb") as own_program:
        kind, machine = slice(4, 6), slice(18, 20)  # elf(5): word size and byte order; e_machine
        here = own_program.read(_ELF_BYTES)
    return head.startswith(b"\x7fELF") and (head[kind], head[machine]) != (here[kind], here[machine])
