"""Files and processes of a remote host, each query in one command."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Sequence

from lastro.host._remote_shell import Query
from lastro.host.files import LISTING_FORMAT, OWNER_VARIABLE, Files

Ask = Callable[[str | Query, Sequence[str]], str]  # (script, arguments) -> what it prints

READ = Query(r'map { my $found = content($_); defined $found ? "x" . unpack("H*", $found) . "\n" : "-\n" } @_')
_EXISTS = Query('-e $_[0] ? "yes" : ""')
_NAMES = '[ ! -d "$1" ] || ls -A -- "$1" 2>/dev/null || :'
_DIRECTORIES = '[ ! -d "$1" ] || find "$1" -mindepth 1 -maxdepth 1 -type d -printf "%f\\n"'
_PIDS = Query('map { content("$_/cgroup.procs") } map { below($_) } @_')
_OWNED = "grep -lzxF -- {mark} /proc/[0-9]*/environ 2>/dev/null"
# The parents of the shell that answers are the servers of its connection. The arguments after the mark are the number
# of the cgroups that belong to the session, these cgroups, and the cgroups to be left out.
_THREADS = """mark=$1; n=$2; shift 2; own=""; p=$$
below() { [ $# = 0 ] || find "$@" -name cgroup.procs -exec cat {} +; }
while [ "${p:-0}" -gt 1 ] && read -r name </proc/$p/comm; do
    case $name in sshd*) own="$own $p";; esac
    p=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status)
done
for f in $(grep -lzxF -- "$mark" /proc/[0-9]*/environ); do f=${f#/proc/}; own="$own ${f%/environ}"; done
while [ $n -gt 0 ]; do own="$own $(below "$1")"; shift; n=$((n - 1)); done
apart=" $(below "$@" | tr '\\n' ' ')"
for p in $(printf '%s\\n' $own | sort -u); do
    case $apart in *" $p "*) continue; esac
    for t in /proc/$p/task/*; do
        read -r ran rest <$t/schedstat && echo ${t##*/} $ran $(sed -n 's/^voluntary_ctxt_switches://p' $t/status)
    done
done"""
# A shell has no pidfds: each process is checked on the remote host itself, right before it is killed.
_END_OWNED = """for f in $({look}); do
    p=${{f#/proc/}}; p=${{p%/environ}}
    grep -qzxF -- {mark} $f && kill -KILL $p; echo $p
done 2>/dev/null; :"""
# A process outside the reader's PID namespace is listed as 0, which kill(2) takes for the caller's process group.
_END_BELOW = Query(
    r"""for (grep { -e } map { "$_/cgroup.kill" } @_) { my $file; open $file, ">", $_ and syswrite $file, "1\n" }
    for my $procs (map { "$_/cgroup.procs" } map { below($_) } @_) {
        for my $pid (grep { $_ > 0 } split " ", content($procs)) { kill "KILL", $pid if content($procs) =~ /^$pid$/m }
    } ()"""
)
_LISTING = 'find "$1" -printf "$2" | base64 -w0'
_REMOVE = Query(
    r"""my ($deep, @tops) = @_;
    for my $top (@tops) { rmdir for $deep ? below($top) : $top }
    map { -d $_ ? "$_\n" : () } @tops"""
)


class RemoteFiles(Files):
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def read(self, paths: Sequence[str]) -> dict[str, str]:
        return texts_of(paths, self._ask(READ, paths)) if paths else {}

    def names(self, directory: str) -> list[str]:
        return sorted(self._ask(_NAMES, [directory]).splitlines())

    def directories(self, directory: str) -> list[str]:
        return sorted(self._ask(_DIRECTORIES, [directory]).splitlines())

    def exists(self, path: str) -> bool:
        return self._ask(_EXISTS, [path]).strip() == "yes"

    def pids_below(self, groups: Sequence[str]) -> set[int]:
        return {int(pid) for pid in self._ask(_PIDS, groups).split()} if groups else set()

    def owned_pids(self, token: str) -> set[int]:
        output = self._ask(f"{_OWNED.format(mark=_owner_entry(token))}; :", [])
        return {int(path.split("/")[2]) for path in output.split()}

    def threads(self, token: str, groups: Sequence[str], excluded: Sequence[str]) -> dict[int, tuple[int, int]]:
        words = [f"{OWNER_VARIABLE}={token}", str(len(groups)), *groups, *excluded]
        rows = map(str.split, self._ask(f"{{ {_THREADS}\n}} 2>/dev/null; :", words).splitlines())
        return {int(thread): (int(ran_ns), int(waits)) for thread, ran_ns, waits in rows}

    def end_owned(self, token: str) -> set[int]:
        mark = _owner_entry(token)
        output = self._ask(_END_OWNED.format(look=_OWNED.format(mark=mark), mark=mark), [])
        return {int(pid) for pid in output.split()}

    def end_below(self, groups: Sequence[str]) -> None:
        if groups:
            self._ask(_END_BELOW, groups)

    def listing(self, tree: str) -> str:
        return base64.b64decode(self._ask(_LISTING, [tree, LISTING_FORMAT])).decode(errors="surrogateescape")

    def remove_empty(self, directories: Sequence[str], *, below: bool = True) -> dict[str, str]:
        if not directories:
            return {}
        remaining = self._ask(_REMOVE, ["1" if below else "0", *directories]).splitlines()
        return dict.fromkeys(remaining, "it is not empty, or busy")


def texts_of(paths: Sequence[str], answer: str) -> dict[str, str]:
    """Return {path: text of the file} from the answer to `READ`; files that could not be read are left out."""
    return {
        path: bytes.fromhex(line[1:]).decode(errors="replace")
        for path, line in zip(paths, answer.splitlines(), strict=True)
        if line != "-"
    }


def _owner_entry(token: str) -> str:
    return shlex.quote(f"{OWNER_VARIABLE}={token}")
