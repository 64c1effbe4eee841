"""Convert a transcript into a shell script that repeats a trial with the raw tools. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import PurePosixPath

from lastro.errors import InputError
from lastro.results.columns import Record

_CGROUPS = "/sys/fs/cgroup/"
_CONTROLLER_DEPTH = 4  # of CONTROLLER among the parts of the path /sys/fs/cgroup/CONTROLLER/…
_FIRST_PIPE, _LAST_PIPE = 3, 9  # of the descriptors that every shell leaves to scripts; bash has more
_MEASURED = "go\ngive\n"  # the end of the input of a command that measures
_PAUSE_S = 0.1  # shorter pauses between two commands are work of Lastro, not part of the procedure
_PREAMBLE = """#!{shell}
# {title}
# Every command that Lastro ran for this trial, in order. Run it as root on the host of the trial, or on a similar one.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
"""


def shell_script(records: Sequence[Record], title: str, *, undo: Iterable[Record] = (), origin: str = "") -> str:
    """Return a shell script that runs the steps of a transcript, `records`, in order, and then the steps `undo`.

    `undo` are steps that revert preparations. `origin` is the reason why another user may have written the commands,
    and the script begins with a warning about it; empty for no warning. Raises: InputError if a command or its input
    has a NUL byte."""
    writer = _Writer()
    for record, beside in _side_by_side(records):
        writer.add(record, beside=beside)
    for record in undo:
        writer.add(record)
    lines = writer.lines
    if origin:
        warning = f"# NOT RECORDED BY YOU ON THIS HOST: {_comment(origin)}. Read every line before you run it."
        lines = [warning, *lines]
    script = _PREAMBLE.format(title=_comment(title), shell=writer.shell) + "\n".join(lines) + "\n"
    if "\0" in script:
        raise InputError("a command or its input has a NUL byte, which a script cannot contain", "`--json` shows it")
    return script


def _side_by_side(records: Sequence[Record]) -> list[tuple[Record, bool]]:
    """Return (record, flag) for each record: true for a measurement that runs at the same time as the next record.

    Records of measurements that overlap in time are moved next to each other. A transcript has each record at the time
    when its command ended, so other records, such as the end of a server, may be between them."""
    ordered: list[tuple[Record, bool]] = []
    last = -1  # the index of the last measurement
    group_ends_s = float("-inf")  # the end of the measurements that overlap
    for record in records:
        if record["kind"] != "run" or not (record["stdin"] or "").endswith(_MEASURED):
            ordered.append((record, False))
            continue
        ends_s = record.get("started_s", 0.0) + record.get("duration_s", 0.0)
        if "started_s" in record and record["started_s"] < group_ends_s:
            ordered[last] = (ordered[last][0], True)
            last, group_ends_s = last + 1, max(group_ends_s, ends_s)
        else:
            last, group_ends_s = len(ordered), ends_s
        ordered.insert(last, (record, False))
    return ordered


def _comment(text: str) -> str:
    """Return the text on one line, since a comment ends with its line."""
    return "".join(char if char.isprintable() else " " for char in text)


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._background: dict[tuple[str, ...], str] = {}
        self._pipes: dict[str, int] = {}  # open descriptors, by the name of the process that reads them
        self._beside: list[str] = []  # commands that measure meanwhile
        self.shell = "/bin/sh"
        self._last_end_s: float | None = None
        self._prepares = True

    def add(self, record: Record, *, beside: bool = False) -> None:
        if self._prepares and not record.get("prepares"):
            self.lines += ["", "# The trial itself"]
            self._prepares, self._last_end_s = False, None
        if self._last_end_s is not None and "started_s" in record and not record.get("prepares"):
            pause_s = record["started_s"] - self._last_end_s
            if pause_s > _PAUSE_S:
                self.lines.append(f"sleep {pause_s:.1f}")
        if beside:
            self._beside.append(f"beside_{len(self._beside) + 1}")
            command = _on_its_host(record, shlex.join(record["argv"]))
            first, _, text = _here_document(record["stdin"] or "").partition("\n")
            self.lines.append(f"{command}{first} & {self._beside[-1]}=$!\n{text}")
        else:
            getattr(self, f"_{record['kind']}")(record)
        if "started_s" in record:
            self._last_end_s = record["started_s"] + record.get("duration_s", 0.0)

    def _run(self, record: Record) -> None:
        command = _on_its_host(record, shlex.join(record["argv"]))
        if record["stdin"] is not None:
            command += _here_document(record["stdin"])
        comment = f"  # exited with {record['returncode']}" if record["returncode"] and record["stdin"] is None else ""
        self.lines.append(command + comment)
        if self._beside:
            self.lines.append(f"wait {' '.join(f'${name}' for name in self._beside)}")
            self._beside.clear()
        if record["argv"][:2] == ["mkdir", "-p"]:
            self.lines += [_on_its_host(record, line) for line in _with_cpus(record["argv"][2:])]

    def _spawn(self, record: Record) -> None:
        name = f"background_{len(self._background) + 1}"
        self._background[tuple(record["argv"])] = name
        if record.get("fed"):  # through a pipe, since it ends when it is told to
            pipe = next(number for number in count(_FIRST_PIPE) if number not in self._pipes.values())
            self._pipes[name] = pipe
            self.shell = "/bin/bash" if pipe > _LAST_PIPE else self.shell
            command = _on_its_host(record, shlex.join(record["argv"]))
            start = f"{command} <$fifo & {name}=$! && exec {pipe}>$fifo && rm $fifo"
            self.lines += ["fifo=$(mktemp -u) && mkfifo $fifo", start, "sleep 0.5"]
        else:  # on a remote host, a terminal makes it end with its ssh, as under Lastro
            command = _on_its_host(record, shlex.join(record["argv"]), "-tt")
            self.lines += [f"{command} & {name}=$!", "sleep 0.5"]

    def _stop(self, record: Record) -> None:
        name = self._background.get(tuple(record["argv"]))
        if name in self._pipes:
            pipe, words = self._pipes.pop(name), shlex.quote(record.get("stdin") or "")
            self.lines.append(f"printf %s {words} >&{pipe}; exec {pipe}>&-; wait ${name}")
        elif name:
            self.lines.append(f"kill ${name} 2>/dev/null; wait ${name}")

    def _write(self, record: Record) -> None:
        path = shlex.quote(record["path"])
        if record["path"].endswith("/cgroup.clone_children"):  # children inherit CPUs, which the group itself must have
            self.lines += [_on_its_host(record, line) for line in _with_cpus([record["path"]])]
        command = _on_its_host(record, f'mkdir -p "$(dirname {path})"; cat > {path}')
        self.lines.append(command + _here_document(record["text"]))

    def _rmdir(self, record: Record) -> None:
        self.lines.append(_on_its_host(record, f"rmdir {shlex.join(record['paths'])} 2>/dev/null"))


def _on_its_host(record: Record, command: str, *options: str) -> str:
    """Return a shell command that runs `command` on the host of `record`: directly, or by ssh with `options`."""
    return shlex.join(["ssh", *options, *record["ssh"], command]) if "ssh" in record else command


def _here_document(text: str) -> str:
    mark = "END"
    while mark in text.splitlines():
        mark += "_"
    end = "" if text.endswith("\n") else "\n"
    return f" <<'{mark}'\n{text}{end}{mark}"


def _with_cpus(directories: Iterable[str]) -> list[str]:
    """Return shell commands that assign CPUs to the parents of cgroup directories of the controller cpuset.

    The result is empty if none of `directories` has such a parent.

    A new cpuset group of cgroup v1 has no CPUs (cpuset(7)). The transcript does not have this step, since these parents
    existed before the trial."""
    parents = []
    for directory in directories:
        for parent in reversed(PurePosixPath(directory).parents):
            is_below_controller = len(parent.parts) > _CONTROLLER_DEPTH + 1
            if is_below_controller and "cpuset" in parent.parts[_CONTROLLER_DEPTH].split(","):
                parents.append(str(parent))
    if not parents:
        return []
    inherit = '[ -n "$(cat $d/$f)" ] || cat $d/../$f > $d/$f'
    return [f"for d in {shlex.join(parents)}; do for f in cpuset.cpus cpuset.mems; do {inherit}; done; done"]


def reverting_steps(records: Iterable[Record]) -> list[Record]:
    """Return the steps that revert `records`, last step first: end processes, remove namespaces and directories."""
    undo: list[Record] = []
    for record in records:
        n_before = len(undo)
        if record["kind"] == "spawn":
            undo.append({"kind": "stop", "argv": record["argv"]})
        elif record["kind"] == "run" and record["argv"][:3] == ["ip", "netns", "add"]:
            undo.append(_run_record(["ip", "netns", "del", *record["argv"][3:]]))
        elif record["kind"] == "run" and record["argv"][:2] == ["mkdir", "-p"]:
            undo += _removals(record["argv"][2:])
        if "ssh" in record:
            undo[n_before:] = [{**each, "ssh": record["ssh"]} for each in undo[n_before:]]
    return undo[::-1]


def _removals(paths: list[str]) -> list[Record]:
    groups = [path for path in paths if path.startswith(_CGROUPS)]
    found: list[Record] = [{"kind": "rmdir", "paths": groups}] if groups else []
    if others := [path for path in paths if not path.startswith(_CGROUPS)]:
        found.append(_run_record(["rm", "-rf", "--one-file-system", *others]))
        for session in {match[1] for path in others if (match := re.fullmatch(r".*/lastro/([0-9a-f]{6})", path))}:
            # Runtimes make the groups above those of their containers, and leave them behind.
            above = " ".join(f"{_CGROUPS}{x}lastro{y}" for y in (f"/{session}", "") for x in ("", "*/"))
            found.insert(0, _run_record(["sh", "-c", f"rmdir {above} 2>/dev/null || true"]))
    return found


def _run_record(argv: list[str]) -> Record:
    return {"kind": "run", "argv": argv, "stdin": None, "returncode": 0}
