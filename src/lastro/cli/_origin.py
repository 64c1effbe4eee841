"""The origin of a campaign: the commands in it may have been written by another user."""

from __future__ import annotations

import os

from lastro.host import facts
from lastro.results.database import DB_NAME
from lastro.results.store import Store


def foreign(store: Store) -> str:
    """Return why a campaign was not recorded by this user on this machine; empty when it was.

    A campaign from before Lastro recorded the controller is identified by the host that it measured."""
    for place in (store.directory, store.directory / DB_NAME):
        if (owner := place.stat().st_uid) not in {0, os.geteuid()}:
            return f"{place} belongs to user {owner}"
    here, recorded = facts.controller(), store.provenance
    there = recorded.get("controller") or recorded.get("host", {})
    if there.get("machine") and here["machine"]:
        same = there["machine"] == here["machine"]
    else:
        same = bool(here["hostname"]) and there.get("hostname") == here["hostname"]
    return "" if same else f"it was recorded on {there.get('hostname', 'a machine without a name')!r}, not here"
