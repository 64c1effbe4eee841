"""Quoting of values in scripts for sh."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

# Print a reason and fail unless $0 is a program that only root can change: a study of any author may name a program.
ONLY_ROOT_CAN_CHANGE = """\
not() { echo "$1" >&2; exit 1; }
[ -f "$0" ] && [ -x "$0" ] || not "$0 is not a program"
at=$(readlink -e "$0") && [ "$at" = "$0" ] || not "$0 leads over a link to ${at:-nothing}"
while :; do
    [ "$(stat -c %u "$at")" = 0 ] || not "$at does not belong to root"
    [ -d "$at" ] && [ -k "$at" ] || [ -z "$(find "$at" -maxdepth 0 -perm /022)" ] || not "others can change $at"
    [ "$at" != / ] || break
    at=$(dirname "$at")
done
"""


def quoted(*values: object) -> tuple[str, ...]:
    """Return each value, quoted as a word of sh. Further text may follow it without a space, as in `{word}/rootfs`."""
    return tuple(shlex.quote(str(value)) for value in values)


def sysctl_lines(sysctls: Mapping[str, str]) -> list[str]:
    """Return lines of a shell script that set `sysctls`, {name: value}, except names that the kernel does not have."""
    pairs = [quoted(f"/proc/sys/{key.replace('.', '/')}", value) for key, value in sysctls.items()]
    return [f"[ ! -e {file} ] || echo {value} > {file}" for file, value in pairs]
