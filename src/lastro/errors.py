"""The errors that Lastro raises on purpose, with their exit codes.

    LastroError                      1   an error that is not known to be the user's fault
    ├── InputError                   2   the user's input cannot be used
    │   └── StudyError               2   … in a study or claims file: names file, key path, nearest valid name
    ├── HostError                    3   this host cannot do what was asked
    │   ├── HostUnfit                3   … until its user changes something: a tool, a key, a version
    │   │   └── NeedsRoot            3   … without root
    │   ├── GuestLost                3   … the guest in which it measures has ended, or hangs
    │   ├── Unavailable              3   … a part is not available here: reason and remedy
    │   ├── OutputError              3   … a file that the user named could not be written
    │   └── ImageError               3   … the root filesystem could not be built or used
    ├── StoreError                   5   the campaign's database: damaged, full disk, newer version
    ├── HostBusy                     6   another campaign holds this host
    └── TrialError                   -   ends the trial as invalid, never the campaign
        ├── CommandFailed            -   a command exited with an unexpected code
        ├── CommandTimeout           -   a command did not end in time
        ├── ConnectionLost           -   a remote host became unreachable
        ├── WriteFailed              -   a file on the host, such as a limit, could not be written
        ├── PlatformError            -   an instance could not be started, reached or stopped
        └── InstrumentError          -   the output of a tool cannot be a measurement

Exit code 4 is a regression found by a gate; 7 is a campaign with too many invalid trials; 8 is a gate or a
verification that could not decide; 9 is a bundle that is not verified; 129, 130 and 143 are an interruption by SIGHUP,
SIGINT and SIGTERM, after a clean end.
A `TrialError` that reaches the command line (a probe, say) exits with 3.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

_LONG_WORD = 120


class LastroError(Exception):
    """The base class of the errors that Lastro raises on purpose: a message, and optionally a hint on what to do."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(LastroError):
    exit_code = 2


class StudyError(InputError):
    """A study file, or a claims file, that cannot be used.

    `where` is the dotted key path in the file, or empty for the whole file."""

    def __init__(self, message: str, *, file: str = "", where: str = "", hint: str | None = None) -> None:
        place = ": ".join(part for part in (file, where) if part)
        super().__init__(f"{place}: {message}" if place else message, hint)
        self.file, self.where = file, where


class HostError(LastroError):
    exit_code = 3


class OutputError(HostError):
    """A report, table or figure could not be written. The campaign itself is intact."""


class HostUnfit(HostError):
    """A host that cannot be used until its user changes something; retrying does not help."""


class NeedsRoot(HostUnfit):
    pass


class GuestLost(HostError):
    """The guest in which a campaign measures has ended, or its kernel hangs. Another one can take its place."""


class Unavailable(HostError):
    pass


class ImageError(HostError):
    pass


class StoreError(LastroError):
    exit_code = 5


class HostBusy(LastroError):
    """A host is held by another process. `machine` is the host's `host.facts.fingerprint`; empty if unknown."""

    exit_code = 6

    def __init__(self, message: str, hint: str | None = None, machine: str = "") -> None:
        super().__init__(message, hint)
        self.machine = machine


class TrialError(LastroError):
    exit_code = 3


_NO_OVERLAY = (
    "the state directory lies on a file system that cannot hold an overlay, such as the overlay of a container: choose"
    " a directory on ext4, xfs or btrfs with LASTRO_STATE, such as a volume of the container"
)


def _shown(argv: Sequence[str]) -> str:
    """Return a command as text for a message, cut to 300 characters; a long or multi-line word is cut to 30."""
    words = [word if len(word) <= _LONG_WORD and "\n" not in word else word.split("\n")[0][:30] + "…" for word in argv]
    return " ".join(words)[:300]


class CommandFailed(TrialError):
    """A command exited with an unexpected `returncode`; the error's message ends with the last lines of `stderr`."""

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str) -> None:
        last_words = " / ".join(line.strip() for line in stderr.strip().splitlines()[-3:]) or "it printed no reason"
        hint = _NO_OVERLAY if "bad superblock on overlay" in stderr else None  # as mount(8) says it
        super().__init__(f"`{_shown(argv)}` exited with {returncode}: {last_words[:600]}", hint)
        self.argv, self.returncode, self.stderr = tuple(argv), returncode, stderr


@contextmanager
def with_hint(remedy: str | None) -> Iterator[None]:
    """Add the hint `remedy` to a CommandFailed that the block raises, unless the error already has a hint."""
    try:
        yield
    except CommandFailed as error:
        error.hint = error.hint or remedy
        raise


class CommandTimeout(TrialError):
    def __init__(self, argv: Sequence[str], timeout_s: float) -> None:
        super().__init__(f"`{_shown(argv)}` did not end within {timeout_s:g} s")
        self.argv, self.timeout_s = tuple(argv), timeout_s


class ConnectionLost(TrialError):
    """The connection to a host was lost. The commands that ran there are ended, and their outcome is unknown."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"the connection to {name} was lost: {reason}",
            "the ledger lists what was created there; the next run or `lastro clean` removes it",
        )
        self.name = name


class WriteFailed(TrialError):
    """A file could not be written: the disk is full, or the kernel refuses the value."""

    def __init__(self, path: str, text: str, reason: str) -> None:
        shown = f" {text.strip()!r} to" if text.strip() and len(text) < 80 else ""
        super().__init__(f"could not write{shown} {path}: {reason}")
        self.path = path


class PlatformError(TrialError):
    pass


class InstrumentError(TrialError):
    pass


_SYNONYMS = {
    "anomaly": ("neighbour", "neighbor", "noise", "stress", "interference"),
    "attachment": ("link", "network", "nic", "interface", "connection"),
    "function": ("vnf", "cnf", "nf", "service", "middlebox"),
    "instrument": ("workload", "benchmark", "tool", "generator"),
    "isolation": ("limits", "limit", "security", "confinement"),
    "platform": ("container", "runtime", "hypervisor", "virtualization", "technology"),
    "replicates": ("repetitions", "repeats", "repeat", "runs", "rounds", "iterations", "reps"),
}
_MOST_NAMES = 30


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for a word that is not in `known`: "did you mean 'docker'?", or else a list of the valid names.

    It suggests names of which the word is a synonym or a prefix, or else the most similar name. If there are more than
    30 valid names, only the most similar ones are listed."""
    names = sorted(set(known))
    lowered = word.lower()
    begin = [name for name in names if len(lowered) > 2 and name.startswith(lowered)]
    meant = [name for name in names if lowered.removesuffix("s") in _SYNONYMS.get(name, ())]
    near = (meant or begin)[:3] or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if len(names) > _MOST_NAMES:
        nearest = sorted(difflib.get_close_matches(word, names, n=_MOST_NAMES, cutoff=0))
        return f"valid names are {', '.join(nearest)} and {len(names) - len(nearest)} more"
    return f"valid names: {', '.join(names) or 'none'}"
