"""A registry of parts: classes with a `name`, each in a module of its kind's package.

To add a part, add its module; no other file changes. Three places are scanned: the package of the kind
(`lastro.platforms`), the folders in the environment variable LASTRO_PARTS (`FOLDER/platforms/*.py`), and the entry
points of the group with the package's name. A module that cannot be imported is listed with the reason, which is raised
when its part is requested."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar, overload

from lastro.errors import InputError, Unavailable, did_you_mean

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


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A part, or the reason why its module could not be imported."""

    kind: str
    name: str
    summary: str
    origin: str
    cls: type[Any] | None = None
    broken: str | None = None


def _modules(package: str) -> list[tuple[str, str, ModuleType | ImportError]]:
    """List (default part name, origin, module or import error) for every module that may hold a part."""
    found: list[tuple[str, str, ModuleType | ImportError]] = []
    home = importlib.import_module(f"lastro.{package}")
    for info in pkgutil.iter_modules(home.__path__):
        if info.name != "base" and not info.name.startswith("_"):
            module_name = f"lastro.{package}.{info.name}"
            found.append((info.name, module_name, _try(partial(importlib.import_module, module_name))))
    for folder in filter(None, os.environ.get("LASTRO_PARTS", "").split(os.pathsep)):
        if not Path(folder).is_dir():
            raise InputError(
                f"LASTRO_PARTS names {folder}, which is not a directory",
                "name folders that hold parts, such as FOLDER/anomalies/mine.py, or unset it",
            )
        for file in sorted((Path(folder) / package).glob("*.py")):
            found.append((file.stem, str(file), _try(partial(_load_file, package, file))))
    for entry in metadata.entry_points(group=f"lastro.{package}"):
        found.append((entry.name, entry.value, _try(partial(importlib.import_module, entry.module))))
    return found


def _try(load: Any) -> ModuleType | ImportError:
    try:
        module: ModuleType = load()
    except ImportError as error:
        return error
    return module


def _load_file(package: str, file: Path) -> ModuleType:
    name = f"lastro_parts_{package}_{file.stem}"
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


@cache
def parts(kind: str) -> dict[str, PartInfo]:
    """Return all parts of a kind, sorted by name."""
    found: dict[str, PartInfo] = {}
    for default_name, origin, module in _modules(KINDS[kind]):
        if isinstance(module, ImportError):
            infos = [PartInfo(kind, default_name.replace("_", "-"), "cannot be imported", origin, broken=str(module))]
        else:
            infos = [PartInfo(kind, cls.name, cls.summary, origin, cls) for cls in _part_classes(kind, module)]
        for info in infos:
            if info.name in found and found[info.name].cls is not info.cls:
                raise InputError(
                    f"two parts of kind {kind} are named '{info.name}': {found[info.name].origin} and {origin}",
                    "rename one of them, or take it out of LASTRO_PARTS",
                )
            found[info.name] = info
    return dict(sorted(found.items()))


def _part_classes(kind: str, module: ModuleType) -> list[type[Any]]:
    return [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and getattr(cls, "kind", None) == kind and "name" in vars(cls)
    ]


class OfKind(Protocol):
    """The base class of a kind of part, which names the kind; or a class below it."""

    kind: str


P = TypeVar("P", bound=OfKind)


@overload
def get(kind: type[P], name: str) -> type[P]: ...
@overload
def get(kind: str, name: str) -> Any: ...


def get(kind: Any, name: str) -> Any:
    """Return the class of a part. `kind` is its base class, such as `Platform`, or only the name of the kind.

    Raises: InputError when no such part is known; Unavailable when its module could not be imported."""
    kind = kind if isinstance(kind, str) else kind.kind
    known = parts(kind)
    if name not in known:
        raise InputError(f"no {kind} is named '{name}'", did_you_mean(name, known))
    info = known[name]
    if info.cls is None:
        raise Unavailable(f"{kind} '{name}' cannot be used: {info.broken}", f"install what {info.origin} imports")
    return info.cls


def names(kind: str) -> frozenset[str]:
    return frozenset(parts(kind))
