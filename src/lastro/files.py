"""Open files safely: inputs are regular files, and root writes only where other users cannot interfere.

A user who can change a directory can make root write elsewhere, by a link or by replacing a directory on the path. So
root opens the path one component at a time. Each directory on the path must belong to the caller (root, or the user who
invoked sudo), and no other user may write to it, unless it is sticky, as /tmp is. Links on the path must belong to the
caller, too.
Sources: open(2), path_resolution(7), and the safe paths of systemd and OpenSSH (`StrictModes`)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from lastro.errors import InputError

_MOST_LINKS = 40  # the kernel's own limit, beyond which it returns ELOOP
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a regular file",
}
_trusting = ContextVar("trusting", default=False)


@contextmanager
def trust_directories() -> Iterator[None]:
    """Let root write to directories that other users can change, inside the block: the user has passed --trust."""
    token = _trusting.set(True)
    try:
        yield
    finally:
        _trusting.reset(token)


def caller_ids() -> frozenset[int]:
    """Return the user IDs of the caller: the effective ID and, for root, also that of the user who invoked sudo."""
    user, invoked = os.geteuid(), os.environ.get("SUDO_UID", "")
    return frozenset({0, int(invoked)} if user == 0 and invoked.isdecimal() else {user})


def read_regular(path: Path, most: int, *, own: bool = False, base: Path | None = None) -> bytes:
    """Read at most `most` + 1 bytes of a regular file; the extra byte shows that the file is longer than `most`.

    With `own`, refuse a file that does not belong to the caller. No link below `base` is followed. FIFOs and devices
    are refused, since opening one may block or have side effects. Raises: OSError, ValueError."""
    with open(_open_regular(path, base), "rb") as file:
        status = os.fstat(file.fileno())
        require_regular(status)
        if own and status.st_uid not in caller_ids():
            raise PermissionError(errno.EPERM, f"it belongs to {_user(status.st_uid)}")
        return file.read(most + 1)


def _open_regular(path: Path, base: Path | None) -> int:
    """Open a regular file for reading, without following links below `base`, and return its descriptor."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if base is None or not path.is_relative_to(base):
        require_regular(path.stat())
        return os.open(path, flags)
    *folders, name = path.relative_to(base).parts
    at = os.open(base, _STEP & ~os.O_NOFOLLOW)
    try:
        for folder in folders:
            require_kind(os.stat(folder, dir_fd=at, follow_symlinks=False), stat.S_IFDIR)
            above, at = at, os.open(folder, _STEP, dir_fd=at)
            os.close(above)
        require_regular(os.stat(name, dir_fd=at, follow_symlinks=False))
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def require_regular(status: os.stat_result) -> None:
    """Raise OSError unless `status` is that of a regular file."""
    require_kind(status, stat.S_IFREG)


def require_kind(status: os.stat_result, wanted: int) -> None:
    """Raise OSError unless `status` is that of a file of the type `wanted`, such as `stat.S_IFDIR`."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == wanted:
        return
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not {_KINDS[wanted]}")


def has_plain(path: Path) -> bool:
    """Return True if a regular file is at `path`, False if nothing is there.

    Raises: OSError if something else is there, such as a link, a directory or a FIFO."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    require_regular(status)
    return True


def require_own_directory(directory: Path) -> None:
    """Raise InputError when this process is root and other users can change the directory, or one above it.

    A directory that does not exist yet is checked from its nearest existing parent on."""
    for place in (directory, *(Path.cwd() / directory).parents):
        try:
            os.close(open_directory(place))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"{directory} cannot be used: {error.strerror}", "choose another directory") from error
        return


def open_directory(directory: Path, *, base: Path | None = None, make: bool = False) -> int:
    """Open a directory, and return an O_PATH descriptor. With `make`, create the missing directories of the path.

    No link below `base` is followed. Raises: OSError; InputError when this process is root, and other users can change
    the directory or one above it."""
    place = Path.cwd()
    strict_from = len((place / base).parts) if base and directory.is_relative_to(base) else None
    parts = (place / directory).parts
    pending = [(part, strict_from is not None and at >= strict_from) for at, part in enumerate(parts)][:0:-1]
    at, n_links = _step_into(None, "/"), 0
    try:
        while pending:
            part, strict = pending.pop()
            status = _entry_status(at, part, make=make)
            if not stat.S_ISLNK(status.st_mode):
                at = _step_into(at, part)
                continue
            n_links += 1
            if strict:
                raise OSError(errno.ELOOP, f"'{part}' is a symbolic link, which Lastro does not follow there")
            if n_links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            _require_ours(status, at, part)
            target = Path(os.readlink(part, dir_fd=at))
            pending += [(component, False) for component in reversed(target.parts) if component != target.root]
            at = _step_into(at, "/") if target.is_absolute() else at
    except BaseException:
        os.close(at)
        raise
    return at


def _entry_status(at: int, part: str, *, make: bool) -> os.stat_result:
    """Return the status of the entry `part` of the directory `at`; with `make`, create it as a directory if missing."""
    try:
        return os.stat(part, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process has just made it; its owner is checked next
        os.mkdir(part, 0o777 if os.geteuid() else 0o755, dir_fd=at)
    return os.stat(part, dir_fd=at, follow_symlinks=False)


def _step_into(at: int | None, part: str) -> int:
    """Open the directory `part` inside the directory `at`, close `at`, and return the new descriptor.

    Raises: as `_require_ours`."""
    opened = os.open(part, _STEP, dir_fd=at)
    try:
        _require_ours(os.fstat(opened), opened)
    except BaseException:
        os.close(opened)
        raise
    if at is not None:
        os.close(at)
    return opened


def _require_ours(status: os.stat_result, at: int, part: str = "") -> None:
    """Raise InputError when this process is root, and other users can change the directory `at`, or its link `part`.

    `status` is that of the directory or of the link."""
    if os.geteuid() or _trusting.get() or (danger := _danger(status, f"/proc/self/fd/{at}")) is None:
        return
    place = Path(f"/proc/self/fd/{at}").readlink() / part
    hint = "choose a directory of your own, or pass --trust if you trust all users who can change this one"
    raise InputError(f"{place} {danger}: root could be made to write elsewhere", hint)


def _danger(status: os.stat_result, directory: str) -> str | None:
    """Return which other users can change a directory, or a link in it; None if no other user can.

    `status` is that of the directory or of the link."""
    if status.st_uid not in caller_ids():
        return f"belongs to {_user(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return "is writable by everyone"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"is writable by group {status.st_gid}"
    with suppress(OSError):  # of a file system without access control lists
        # If there is a list, the group bits are its mask: acl(5).
        if status.st_mode & stat.S_IWGRP and "system.posix_acl_access" in os.listxattr(directory):
            return "is writable by others through its access control list"
    return None


def _is_private(group: int) -> bool:
    """Return whether only the caller is a member of a group, such as root's group or a private group of Debian."""
    import grp
    import pwd

    if group == 0:
        return True
    try:
        names = {pwd.getpwuid(user).pw_name for user in caller_ids()}
        members = grp.getgrgid(group)
    except KeyError:
        return False
    return members.gr_name in names and set(members.gr_mem) <= names


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
