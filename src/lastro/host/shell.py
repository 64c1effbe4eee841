"""Quoting of values in scripts for sh."""

from __future__ import annotations

import shlex
from collections.abc import Mapping


def quoted(*values: object) -> tuple[str, ...]:
    """Return the values as words of sh. What follows such a word belongs to it: `{word}/rootfs`."""
    return tuple(shlex.quote(str(value)) for value in values)


def setting(sysctls: Mapping[str, str]) -> list[str]:
    """Return lines that apply settings, except those that the kernel does not have."""
    pairs = [quoted(f"/proc/sys/{key.replace('.', '/')}", value) for key, value in sysctls.items()]
    return [f"[ ! -e {file} ] || echo {value} > {file}" for file, value in pairs]
