"""The check for root."""

from __future__ import annotations

import os

from lastro.errors import NeedsRoot


def require_root(command: str) -> None:
    """Raise NeedsRoot unless this process runs as root."""
    if os.geteuid() != 0:
        hint = f"run `sudo lastro {command} …`; plan, status, show, results, report, parts, new and schema need no root"
        raise NeedsRoot(f"`lastro {command}` creates namespaces, links and containers, and needs root", hint)
