"""Verify a bundle: check every hash, make reports, tables and figures again from its database, and compare them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from lastro.app.bundle import versions
from lastro.app.documents import RECORD, REPORT, documents
from lastro.builders.crate import METADATA, software_id
from lastro.errors import InputError, OutputError
from lastro.results.bundle_archive import MANIFEST, BundleArchive, DamagedFile, chunks, content, digest, open_bundle
from lastro.results.database import DB_NAME, IN_BUNDLE
from lastro.shapes import MOST_VALUES, n_values, parse_json
from lastro.words.language import LANGUAGES, Language, language

_MOST_TEXT_BYTES = 32 << 20  # of the description, of the list of hashes, and of what a file has too much
_MOST_MISSING = 10_000  # lines of the list of hashes beyond one for each file
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_SHOWN = 60  # characters of a line that differs
_HINT = "give a bundle, as `lastro bundle` wrote it"


@dataclass(frozen=True, slots=True)
class BundleFault:
    """A file of a bundle that is damaged or differs, and why."""

    file: str
    reason: str


@dataclass
class Verification:
    """The result of a verification.

    Nothing was made again if the campaign itself is damaged, or if the list of hashes cannot be read."""

    made_with: Mapping[str, str]  # versions that made the bundle
    here: Mapping[str, str]  # versions that checked it
    files: int = 0
    rebuilt: int = 0
    was_rebuilt: bool = False
    damaged: list[BundleFault] = field(default_factory=list)  # files without the hash that the bundle lists
    # Files with this hash, for which the database in the bundle yields other contents here.
    different: list[BundleFault] = field(default_factory=list)

    @property
    def other_versions(self) -> dict[str, tuple[str, str]]:
        """The software whose versions differ: {name: (in the bundle, here)}."""
        names = dict.fromkeys([*self.made_with, *self.here])
        pairs = {name: (self.made_with.get(name, "none"), self.here.get(name, "none")) for name in names}
        return {name: (there, here) for name, (there, here) in pairs.items() if there != here}


def verify(place: Path) -> Verification:
    """Check the hashes of a bundle, make its documents again from its database, and compare.

    Raises: InputError when it is not a bundle, or is not safe to read; OutputError when there is no room to unpack its
    campaign; StoreError when a newer Lastro wrote it."""
    with open_bundle(place) as bundle:
        description, here = _description(place, bundle), versions()
        recorded = {name: description.get(software_id(name), {}).get("version") for name in here}
        made_with = {name: version for name, version in recorded.items() if isinstance(version, str)}
        verification = Verification(made_with, here)
        expected = _check_hashes(bundle, description, verification)
        if expected and not any(_is_in(fault.file, IN_BUNDLE) for fault in verification.damaged):
            with _campaign_of(place, bundle) as folder:
                code = description.get("./", {}).get("inLanguage")
                _rebuild(bundle, folder, language(code if code in LANGUAGES else "en"), expected, verification)
    return verification


def _is_in(name: str, folder: str) -> bool:
    return name.startswith(f"{folder}/")


def _description(place: Path, bundle: BundleArchive) -> dict[str, dict[str, Any]]:
    """Return the entities of the RO-Crate by their names."""
    for name in (METADATA, MANIFEST):
        if name not in bundle.sizes:
            raise InputError(f"{place} is not a Lastro bundle: it has no {name}", _HINT)
    if not any(PurePosixPath(name).name == DB_NAME for name in bundle.sizes if _is_in(name, IN_BUNDLE)):
        raise InputError(f"{place} is not a Lastro bundle: it has no campaign", _HINT)
    if bundle.sizes[METADATA] > _MOST_TEXT_BYTES:
        raise InputError(f"{place}: {METADATA} has {bundle.sizes[METADATA]} bytes", "do not use this bundle")
    try:
        data = content(bundle, METADATA, _MOST_TEXT_BYTES)
        if n_values(data) > MOST_VALUES:
            raise InputError(f"{place}: {METADATA} has more than {MOST_VALUES} values", "do not use this bundle")
        graph = parse_json(data.decode().strip())["@graph"]
        return {entity["@id"]: entity for entity in graph if isinstance(entity["@id"], str)}
    except (ValueError, TypeError, KeyError):
        return {}  # damaged: its hash, which is checked next, is the error to report


def _check_hashes(
    bundle: BundleArchive, description: Mapping[str, Mapping[str, Any]], verification: Verification
) -> dict[str, str]:
    """Compare every file with its hash, and return the hashes by name; none if the list of hashes cannot be read."""
    expected: dict[str, str] = {}
    lines = _hash_lines(bundle, verification)
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None or not line.isprintable():
            reason = f"line {number} is not a SHA-256 and a name: {line[:_SHOWN]!r}"
            verification.damaged.append(BundleFault(MANIFEST, reason))
        else:
            expected[match[2]] = match[1]
    for name in sorted({*expected, *bundle.sizes} - {MANIFEST}) if lines else ():
        verification.files += 1
        if name not in bundle.sizes:
            verification.damaged.append(BundleFault(name, f"is missing, but {MANIFEST} lists it"))
        elif name not in expected:
            verification.damaged.append(BundleFault(name, f"is not listed in {MANIFEST}"))
        else:
            verification.damaged += _hash_faults(bundle, name, expected[name], description)
    if reason := bundle.damage():
        verification.damaged.append(BundleFault("the zip itself", reason))
    return expected


def _hash_lines(bundle: BundleArchive, verification: Verification) -> list[str]:
    """Return the lines of the list of hashes; if it cannot be read, add a fault and return an empty list."""
    try:
        data = content(bundle, MANIFEST, _MOST_TEXT_BYTES)
        if (n := data.count(b"\n")) > len(bundle.sizes) + _MOST_MISSING:
            raise DamagedFile(f"has {n} lines, but the bundle has only {len(bundle.sizes)} files")
        *lines, rest = data.decode().split("\n")
    except UnicodeDecodeError:
        verification.damaged.append(BundleFault(MANIFEST, "is not UTF-8"))
    except DamagedFile as error:
        verification.damaged.append(BundleFault(MANIFEST, str(error)))
    else:
        if rest or not lines:
            verification.damaged.append(BundleFault(MANIFEST, "does not end with a newline"))
        return [*lines, rest] if rest else lines
    return []


def _hash_faults(
    bundle: BundleArchive, name: str, expected: str, description: Mapping[str, Mapping[str, Any]]
) -> Iterator[BundleFault]:
    """Yield a fault if a file does not have the expected hash, or cannot be read."""
    try:
        actual = digest(bundle, name)
    except DamagedFile as error:
        yield BundleFault(name, f"{error}; expected SHA-256 {expected}")
        return
    if actual == expected:
        return
    if description.get(name, {}).get("sha256") == actual:
        yield BundleFault(MANIFEST, f"lists SHA-256 {expected} for {name}, but the file and {METADATA} have {actual}")
    else:
        yield _mismatch(name, actual, expected)


def _mismatch(name: str, actual: str, expected: str) -> BundleFault:
    return BundleFault(name, f"SHA-256 is {actual}, expected {expected}")


@contextmanager
def _campaign_of(place: Path, bundle: BundleArchive) -> Iterator[Path]:
    """Unpack the campaign of a bundle into a temporary directory, and remove it after the block.

    Raises: OutputError when there is no room for it."""
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lastro-verify-")))
            for name in bundle.sizes:
                if _is_in(name, IN_BUNDLE):
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    with (folder / name).open("wb") as target:
                        target.writelines(chunks(bundle, name))
        except OSError as error:
            raise OutputError(
                f"the campaign in {place} cannot be unpacked below {tempfile.gettempdir()}: {error.strerror or error}",
                "name a directory on a larger disk in the environment variable TMPDIR",
            ) from error
        yield folder


def _rebuild(
    bundle: BundleArchive, folder: Path, say: Language, expected: Mapping[str, str], verification: Verification
) -> None:
    """Make all documents again from the campaign, compare them with the bundle, and add faults to `verification`."""
    made = set()
    with_wrong_hash = {fault.file for fault in verification.damaged}
    corrections: dict[BundleFault, BundleFault] = {}  # where the file is right, and the list of hashes is wrong
    verification.was_rebuilt = True
    for name, wanted in documents(folder, say):
        made.add(name)
        verification.rebuilt += 1
        if name not in bundle.sizes:
            if name not in expected:  # otherwise, it is already reported as missing
                verification.different.append(BundleFault(name, "is not in the bundle, but follows from its database"))
        elif reason := _difference(bundle, name, wanted, verification):
            verification.different.append(BundleFault(name, reason))
        elif name in with_wrong_hash and name in expected:
            actual, listed = sha256(wanted).hexdigest(), expected[name]
            text = f"lists SHA-256 {listed} for {name}, but the file has {actual}, and the database yields it"
            corrections[_mismatch(name, actual, listed)] = BundleFault(MANIFEST, text)
    verification.damaged = [corrections.get(fault, fault) for fault in verification.damaged]
    for name in bundle.sizes:
        if (_is_in(name, REPORT) or _is_in(name, RECORD)) and name in expected and name not in made:
            verification.different.append(BundleFault(name, "does not follow from the database"))


def _difference(bundle: BundleArchive, name: str, wanted: bytes, verification: Verification) -> str:
    """Describe how a file differs from what the database yields; empty if at most the version of Lastro differs."""
    try:
        if bundle.sizes[name] > len(wanted) + _MOST_TEXT_BYTES:
            return f"has {bundle.sizes[name]} bytes, but the database yields {len(wanted)}"
        actual = content(bundle, name, len(wanted) + _MOST_TEXT_BYTES)
    except DamagedFile:
        return ""  # already reported with its hash
    if "Lastro" in verification.made_with:
        there, here = (f"Lastro {v['Lastro']}".encode() for v in (verification.made_with, verification.here))
        actual = actual.replace(there, here)
    if actual == wanted:
        return ""
    at = _first_difference(actual, wanted)
    line = wanted.rfind(b"\n", 0, at) + 1  # before it, both are the same
    is_now, yielded = _excerpt(actual, line, at), _excerpt(wanted, line, at)
    number = wanted.count(b"\n", 0, line) + 1
    return f"line {number} is {is_now or 'missing'}, but the database yields {yielded or 'no such line'}"


def _first_difference(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix, by bisection, which creates no object for each byte."""
    n_equal, most = 0, min(len(a), len(b))
    while n_equal < most:
        half = (n_equal + most + 1) // 2
        if memoryview(a)[n_equal:half] == memoryview(b)[n_equal:half]:
            n_equal = half
        else:
            most = half - 1
    return n_equal


def _excerpt(text: bytes, line: int, at: int) -> str:
    """Return an excerpt, around the index `at`, of the line that begins at index `line`; empty if there is none."""
    if line >= len(text):
        return ""
    end_of_line = text.find(b"\n", at)
    end = len(text) if end_of_line < 0 else end_of_line + 1
    start = max(line, at - _SHOWN // 3)
    part = text[start : min(end, start + _SHOWN)].decode("utf-8", "ignore").rstrip("\n")
    return f"{'…' * (start > line)}{part!r}{'…' * (start + _SHOWN < end)}"
