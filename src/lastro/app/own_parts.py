"""Parts of the user's own at a revision of their Git repository, for variants that compare two of them.

A revision is checked out below the state directory, and its modules are imported from there, so that several
revisions take turns in one process. They share the modules that they import, so these must not be code of the
repository."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lastro import registry
from lastro.app.messages import say
from lastro.errors import InputError
from lastro.host.ledger import STATE_DIR
from lastro.host.local import LocalHost
from lastro.image import checkouts
from lastro.scenarios.base import platform_levels
from lastro.study import design
from lastro.study.levels import PLATFORM
from lastro.study.model import Study

_VERSION_CHARS = 12  # of a commit, in messages


@dataclass(frozen=True, slots=True)
class OwnParts:
    """All parts, with those of a revision in place of those in LASTRO_PARTS; empty for the parts as they are.

    `commits` is {folder of LASTRO_PARTS: commit of the revision}. A folder is its path in its repository, or its full
    path if another folder has the same path in another repository."""

    parts: registry.PartsByKind = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)


@cache
def parts_at(revision: str) -> OwnParts:
    """Return the parts at a revision; an empty text stands for the parts as they are.

    Raises: InputError when LASTRO_PARTS names no folder, a folder is not in a Git repository or not in the revision, or
    a part imports other code of its repository."""
    if not revision:
        return OwnParts()
    if not (folders := registry.folders()):
        hint = "name their folders in the variable LASTRO_PARTS"
        raise InputError(f"parts = {revision}: there are no parts of your own", hint)
    host, copies, commits = LocalHost(), dict[Path, str](), dict[Path, str]()
    tops, names = list[Path](), dict[Path, str]()
    for folder in folders:
        source = checkouts.GitSource("the parts", str(folder))
        checkout = checkouts.checkout_of(source, revision, STATE_DIR / "checkouts", host)
        if not checkout.exists:
            say(f"checking out the parts in {folder} at commit {checkout.commit[:_VERSION_CHARS]}, once …")
        top, below = checkouts.working_copy(source, host)
        copy = checkouts.ensure(checkout, host) / below
        if not copy.is_dir():
            hint = "name a revision that has this folder"
            raise InputError(f"the parts in {folder} are not in revision '{revision}'", hint)
        copies[copy] = checkout.commit[:_VERSION_CHARS]
        commits[top / below] = checkout.commit
        names[top / below] = below or top.name
        tops.append(top)
    parts = registry.versions_in(copies)
    for info in (info for of_kind in parts.values() for info in of_kind.values()):
        if info.cls and any(Path(info.origin).is_relative_to(copy) for copy in copies):
            _require_self_contained(info, tops)
    times = Counter(names.values())
    keys = {folder: name if times[name] == 1 else str(folder) for folder, name in names.items()}
    return OwnParts(parts, {keys[folder]: commit for folder, commit in commits.items()})


def _require_self_contained(info: registry.PartInfo, tops: list[Path]) -> None:
    """Raise InputError if a part imports code of the working copies `tops`, except Lastro and installed packages."""
    for name in _imports(Path(info.origin)):
        for module, file in _module_files(name):
            if any(file.is_relative_to(top) and not _is_installed(file, top) for top in tops):
                message = f"{info.origin} imports {module} from {file}, which is the same for all variants"
                raise InputError(message, "keep the code that differs in the file of the part")


def _imports(file: Path) -> Iterator[str]:
    """Yield the full names that a module imports, at any depth: "helper.LOUD" for `from helper import LOUD`.

    Imports from Lastro are left out. So are relative imports: they fail, since a part is not in a package."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        names = list[str]()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.partition(".")[0] != "lastro")


def _module_files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield (module, its file) for the modules that a full name names, without importing any.

    A namespace package has no file; if it is the whole name, its directories are yielded."""
    words = name.split(".")
    for module in (".".join(words[:end]) for end in range(1, len(words) + 1)):
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):  # not in a package; a module without a spec
            return
        if spec is None:
            return
        if spec.has_location and spec.origin:
            yield module, Path(spec.origin).resolve()
            if module not in sys.modules:
                return  # the search for a module in it would import it
        elif module == name:
            yield from ((module, Path(place).resolve()) for place in spec.submodule_search_locations or ())


def _is_installed(file: Path, top: Path) -> bool:
    """Return whether a file is in a virtual environment or a directory of installed packages below `top`."""
    prefix = Path(sys.prefix).resolve()
    below = prefix != top and prefix.is_relative_to(top) and file.is_relative_to(prefix)
    return below or not {"site-packages", "dist-packages"}.isdisjoint(file.relative_to(top).parts)


def require_used(study: Study) -> None:
    """Raise InputError if no treatment of a study uses a part from LASTRO_PARTS, since no variant could change it."""
    own = {kind: registry.user_parts(kind).keys() for kind in registry.KINDS}
    configs = design.configurations(study)
    words = {kind: {word for config in configs for word in _names(config.get(kind, ""))} for kind in registry.KINDS}
    platforms = {level for config in configs if PLATFORM in config for level in platform_levels(config)}
    words |= {"scenario": {study.scenario}, PLATFORM: {word for level in platforms for word in _names(level)}}
    if not any(own[kind] & words[kind] for kind in registry.KINDS):
        listed = ", ".join(sorted(name for names in own.values() for name in names))
        raise InputError(
            "variants change the revision of parts, and the study uses no part from the folders of LASTRO_PARTS",
            f"the folders contain: {listed}" if listed else "the folders contain no parts",
        )


def _names(level: object) -> list[str]:
    """Return the words of a level that may be names of parts: of all hops of a chain, and in options."""
    return re.findall(r"[a-z0-9][a-z0-9._-]*", str(level))
