"""A registry of parts: classes with a `name`, each in a module of its kind's package.

To add a part, add its module; no other file changes. Three places are scanned: the package of the kind
(`lastro.platforms`), the folders in the environment variable LASTRO_PARTS (`FOLDER/platforms/*.py`), and the entry
points of the group with the package's name. A module of Lastro that cannot be imported is listed as a broken part; the
reason is raised when the part is requested. So is a module from the other two places that fails in any way.

A file of a folder is imported as a module whose name depends on its whole path, so files of the same name in several
folders are several modules. So a variant may use its own versions of these parts (`using_versions`)."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar, overload

from lastro.errors import InputError, Unavailable, did_you_mean
from lastro.plain import plain

KINDS = {
    "platform": "platforms",
    "attachment": "attachments",
    "isolation": "isolation",
    "function": "functions",
    "anomaly": "anomalies",
    "instrument": "instruments",
    "meter": "meters",
    "scenario": "scenarios",
}


_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_LONGEST = 300  # characters of a reason
_CHOOSE = "choose a revision that has it"
_CHOOSE_OTHER = "choose another revision, or commit a correction"
_outside_origins: dict[str, str] = {}  # {name of a module from outside Lastro: its file or entry point}
_versions: PartsByKind = {}  # what `parts` returns inside `using_versions`


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A part."""

    kind: str
    name: str
    summary: str
    origin: str  # name of its module, its file, or its entry point
    cls: type[Any] | None = None  # None if its module cannot be used
    broken: str | None = None  # why the module cannot be used
    remedy: str | None = None  # what to do about it


PartsByKind = Mapping[str, Mapping[str, PartInfo]]


def folders() -> list[Path]:
    """Return the folders that LASTRO_PARTS names, each once. Raises: InputError when one is not a directory."""
    named = list(filter(None, os.environ.get("LASTRO_PARTS", "").split(os.pathsep)))
    for folder in named:
        if not Path(folder).is_dir():
            raise InputError(
                f"LASTRO_PARTS names {folder}, which is not a directory",
                "name folders that hold parts, such as FOLDER/anomalies/mine.py, or unset it",
            )
    return list({Path(folder).resolve(): Path(folder) for folder in named}.values())


def _scan_places(kind: str) -> Iterator[PartInfo]:
    """Yield all parts of a kind, from the three places in the module's docstring; a broken module yields one entry."""
    package = KINDS[kind]
    home = importlib.import_module(f"lastro.{package}")
    for module in pkgutil.iter_modules(home.__path__):
        if module.name != "base" and not module.name.startswith("_"):
            origin = f"lastro.{package}.{module.name}"
            try:
                yield from _parts_in(kind, importlib.import_module(origin), origin)
            except ImportError as error:
                yield _broken(kind, module.name, origin, error)
    for folder in folders():
        yield from _parts_of_folder(kind, folder)
    for entry in metadata.entry_points(group=f"lastro.{package}"):
        load = partial(importlib.import_module, entry.module)
        yield from _outside_parts(kind, entry.name, entry.value, load)


def _parts_of_folder(kind: str, folder: Path) -> Iterator[PartInfo]:
    for file in sorted((folder / KINDS[kind]).glob("*.py")):
        yield from _outside_parts(kind, file.stem, str(file), partial(_load_file, file))


def _outside_parts(kind: str, name: str, origin: str, load: Callable[[], ModuleType]) -> list[PartInfo]:
    """Return the parts of a module from outside Lastro or, if it is broken, one entry with the reason.

    `load` imports the module. All its exceptions are caught except KeyboardInterrupt and MemoryError. What the module
    prints goes to standard error, because standard output may be a document."""
    try:
        with redirect_stdout(sys.stderr):
            module = load()
            vars(module).setdefault("print", _print)
            _outside_origins[module.__name__] = origin
            infos = _parts_in(kind, module, origin)
            if unnamed := next((info for info in infos if not _is_named(info)), None):
                shown = f"{reprlib.repr(unnamed.name)} and {reprlib.repr(unnamed.summary)}"
                raise TypeError(f"name and summary must be a short name and a line, and are {shown}")
            return infos
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # sys.exit, too
        return [_broken(kind, name, origin, error)]


def _print(*values: object, file: Any = None, **options: Any) -> None:
    """Print to `file`, by default to standard error: this is `print` in modules from outside Lastro."""
    print(*values, file=file or sys.stderr, **options)


def _is_named(info: PartInfo) -> bool:
    texts = all(isinstance(text, str) and text.isprintable() for text in (info.name, info.summary))
    return texts and _NAME.fullmatch(info.name) is not None and len(info.name + info.summary) <= _LONGEST


def _broken(kind: str, name: str, origin: str, error: BaseException) -> PartInfo:
    if isinstance(error, ImportError):
        reason, remedy = str(error), f"install what {origin} imports"
    else:
        reason, line = _error_and_line(error, origin)
        remedy = f"correct {origin}{line}"
    name = "-".join(re.findall(r"[a-z0-9.]+", name.lower()))
    return PartInfo(kind, name, "cannot be imported", origin, broken=plain(reason)[:_LONGEST], remedy=remedy)


def _error_and_line(error: BaseException, origin: str) -> tuple[str, str]:
    """Return an error as text, and ', line N' for the last line of the file `origin` in its traceback.

    The second text is empty if the traceback does not contain this file."""
    import traceback  # which no other part needs

    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    lines += [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == origin][::-1]
    return traceback.format_exception_only(error)[-1].strip(), f", line {lines[0]}" if lines else ""


def culprit(error: BaseException) -> str:
    """Return "FILE, line N" of the part from outside Lastro in which an error was raised; empty if there is none."""
    trace, modules = error.__traceback__, list[str]()
    while trace is not None:
        modules.append(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    origin = next((_outside_origins[name] for name in reversed(modules) if name in _outside_origins), "")
    return origin and origin + _error_and_line(error, origin)[1]


def imported_from_outside() -> list[str]:
    """Return the files or entry points of the modules from outside Lastro that have been imported, sorted."""
    return sorted(_outside_origins.values())


def _load_file(file: Path) -> ModuleType:
    """Import a module from a file, or return it if it was imported before. Raises: any exception of the module."""
    place = importlib.util.source_hash(os.fsencode(file.resolve())).hex()
    name = f"lastro_parts_{file.parent.name}_{file.stem}_{place}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def parts(kind: str) -> Mapping[str, PartInfo]:
    """Return all parts of a kind as {name: part}, sorted by name. Raises: InputError when two have the same name."""
    return _versions.get(kind) or scan(kind)


@cache
def scan(kind: str) -> dict[str, PartInfo]:
    """Find the parts of a kind, once in a process, and return them as `parts` does outside of `using_versions`."""
    return _by_name(kind, _scan_places(kind))


def user_parts(kind: str) -> dict[str, PartInfo]:
    """Return the parts of a kind that are in the folders of LASTRO_PARTS, as {name: part}."""
    files = {str(file) for folder in folders() for file in (folder / KINDS[kind]).glob("*.py")}
    return {name: info for name, info in scan(kind).items() if info.origin in files}


def versions_in(copies: Mapping[Path, str]) -> PartsByKind:
    """Return {kind: its parts} with the parts in `copies` in place of those in the folders of LASTRO_PARTS.

    `copies` is {copy of such a folder: its version, for messages}. A part that only the present folders have is broken.
    A broken module gives way to a part of its name. Raises: InputError when two parts have the same name."""
    found, versions = {}, ", ".join(copies.values())
    for kind in KINDS:
        present = user_parts(kind)
        missing = {
            name: replace(info, cls=None, broken=f"no part of this name in version {versions}", remedy=_CHOOSE)
            for name, info in present.items()
        }
        others = [info for name, info in scan(kind).items() if name not in present]
        new = [info for folder in copies for info in _parts_of_folder(kind, folder)]
        broken = {info.name: replace(info, remedy=_CHOOSE_OTHER) for info in new if info.cls is None}
        usable = _by_name(kind, [*others, *(info for info in new if info.cls)])
        found[kind] = dict(sorted((missing | broken | usable).items()))
    return found


@contextmanager
def using_versions(versions: PartsByKind) -> Iterator[None]:
    """Have `parts` return these versions inside the block, in all threads; {} changes nothing."""
    global _versions
    before, _versions = _versions, versions or _versions
    try:
        yield
    finally:
        _versions = before


def _by_name(kind: str, infos: Iterable[PartInfo]) -> dict[str, PartInfo]:
    by_name: dict[str, PartInfo] = {}
    for info in infos:
        other = by_name.get(info.name, info)
        if other.cls is not info.cls or (info.cls is None and other.origin != info.origin):
            raise InputError(
                f"two parts of kind {kind} are named '{info.name}': {other.origin} and {info.origin}",
                "rename one of them, or take it out of LASTRO_PARTS",
            )
        by_name[info.name] = info
    return dict(sorted(by_name.items()))


def _parts_in(kind: str, module: ModuleType, origin: str) -> list[PartInfo]:
    members: list[tuple[str, type[Any]]] = inspect.getmembers(module, inspect.isclass)
    return [
        PartInfo(kind, cls.name, cls.summary, origin, cls)
        for _, cls in members
        if cls.__module__ == module.__name__ and getattr(cls, "kind", None) == kind and "name" in vars(cls)
    ]


class HasKind(Protocol):
    """A type for the base class of a kind of part, such as `Platform`, and for its subclasses."""

    kind: str  # its name, such as "platform"


P = TypeVar("P", bound=HasKind)


@overload
def get(kind: type[P], name: str) -> type[P]: ...
@overload
def get(kind: str, name: str) -> Any: ...


def get(kind: Any, name: str) -> Any:
    """Return the class of the part `name`. `kind` is the base class, such as `Platform`, or the name of the kind.

    Raises: InputError when no such part is known; Unavailable when its module could not be imported."""
    kind = kind if isinstance(kind, str) else kind.kind
    known = parts(kind)
    if name not in known:
        raise InputError(f"no {kind} is named '{name}'", did_you_mean(name, known))
    info = known[name]
    if info.cls is None:
        raise Unavailable(f"{kind} '{name}' cannot be used: {info.broken}", info.remedy)
    return info.cls


def names(kind: str) -> frozenset[str]:
    """Return the names of all parts of a kind, including broken ones."""
    return frozenset(parts(kind))
