"""Select the parts that `lastro setup` installs, with the requirements of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lastro import registry
from lastro.errors import InputError, did_you_mean
from lastro.requirements import NOTHING, Requirements
from lastro.setup.scripts import CLICK

DEMO = ("platform/native", "platform/runc", "platform/docker")  # what the built-in demo study runs on

# Tools that build the root filesystem, and those that set up links and rules.
_EVERY_STUDY = Requirements(
    packages=(
        "ca-certificates", "debian-archive-keyring", "ethtool", "gpg", "iproute2", "iputils-ping", "mmdebstrap",
        "nftables",
    )
)  # fmt: skip
# The benchmarks compare with the raw tools; tests start an sshd, and watch pages in a browser.
_TESTS = Requirements(
    packages=(
        "busybox-static", "chromium", "cpio", "curl", "fish", "iperf3", "iptables", "make", "man-db", "openssh-server",
        "stress-ng", "zsh",
    )
)  # fmt: skip

_CLICK_PROGRAM = "/usr/local/bin/click"  # the caller's PATH does not count: Lastro searches the system's directories
_CLICK_SOURCE = ("configure", "userlevel/Makefile.in", "include/click/router.hh", "elements/standard/classifier.cc")
_CLICK_REMEDY = "get its source (git clone https://github.com/kohler/click), then `lastro setup click --source click`"


@dataclass(frozen=True, slots=True)
class SelectedPart:
    """A part with its requirements."""

    kind: str  # empty for requirements that do not belong to a part; "program" for Click
    name: str
    requirements: Requirements
    required: bool  # if it cannot be installed, the command fails
    broken: str | None = None  # the error with which the part's module cannot be imported

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".strip()


def click_source(directory: str) -> str:
    """Return the absolute path of a source tree of Click. Raises: InputError if `directory` is not such a tree."""
    tree = Path(directory).absolute()
    missing = next((name for name in _CLICK_SOURCE if not (tree / name).is_file()), None)
    if missing is not None:
        raise InputError(
            f"--source: {directory} is not a source tree of Click: it has no file {missing}",
            "give the directory of a clone of github.com/kohler/click, or of its unpacked archive",
        )
    return str(tree)


def select(words: Sequence[str], *, everything: bool, click_tree: bool = False) -> tuple[SelectedPart, ...]:
    """Return the parts that `words` name, each word as NAME or KIND/NAME; without words, the parts of the demo study.

    With `everything`, return all parts, and what Lastro's own tests require.
    The word `click` selects the Click modular router. It is not a part, but a program on which functions can run.
    `click_tree` is true if there is a source tree of Click, from which it can be built.
    The requirements of every study always come first.

    Raises: InputError for a word that names no part."""
    base = SelectedPart("", "every study", _EVERY_STUDY, required=True)
    if everything:
        parts = [
            _selected_part(info, required=False) for kind in registry.KINDS for info in registry.parts(kind).values()
        ]
        return (base, *parts, SelectedPart("", "tests", _TESTS, required=False))
    named = [_selected_part(info, required=True) for word in words or DEMO if word != CLICK for info in _find(word)]
    if not words:
        named = [replace(part, requirements=replace(part.requirements, optional_packages=())) for part in named]
    if CLICK in words:
        router = Requirements(program=_CLICK_PROGRAM, recipe=CLICK if click_tree else None, remedy=_CLICK_REMEDY)
        named.append(SelectedPart("program", CLICK, router, required=True))
    return (base, *{(part.kind, part.name): part for part in named}.values())


def _selected_part(info: registry.PartInfo, *, required: bool) -> SelectedPart:
    requirements: Requirements = getattr(info.cls, "requirements", NOTHING)
    return SelectedPart(info.kind, info.name, requirements, required, info.broken)


def _find(word: str) -> list[registry.PartInfo]:
    """Return the parts, of one or more kinds, that `word` names as NAME or KIND/NAME. Raises: InputError if none."""
    kind, slash, name = word.rpartition("/")
    if slash and kind not in registry.KINDS:
        raise InputError(f"no kind of part is named '{kind}'", did_you_mean(kind, registry.KINDS))
    kinds = [kind] if slash else list(registry.KINDS)
    parts_named = [parts[name] for parts in map(registry.parts, kinds) if name in parts]
    if not parts_named:
        hint = did_you_mean(name, {known for each in kinds for known in registry.names(each)})
        hint = hint if hint.startswith("did you mean") else "`lastro parts` lists them"
        raise InputError(f"no {kind or 'part'} is named '{name}'", hint)
    return parts_named
