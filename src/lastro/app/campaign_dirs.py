"""Directories of campaigns and suites: name a new one, check that it can be created, open an existing one."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from lastro.campaign import suite as suites
from lastro.errors import InputError
from lastro.files import require_own_directory
from lastro.results.database import holds_campaign
from lastro.results.store import Store


def place_for(name: str) -> Path:
    """Return the default directory of a new campaign or suite."""
    return Path("campaigns") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def check_place(directory: Path) -> None:
    """Raise InputError when a campaign cannot be created in a directory.

    Commands check this before they hold the host, because they may have to wait for the host."""
    try:
        content = ""
        if holds_campaign(directory):
            content = "campaign"
        elif suites.is_suite(directory):
            content = "suite"
        nearest = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    except OSError as error:
        raise InputError(f"{directory} cannot be used: {error.strerror}", "choose another -o DIR") from error
    if content:
        hint = f"continue it with `lastro resume {directory}`, or choose another -o DIR"
        raise InputError(f"{directory} already holds a {content}", hint)
    parent = directory.absolute().parent
    if suites.is_suite(parent) and directory.absolute().name in (member.name for member in suites.read(parent).studies):
        hint = f"`lastro resume {parent}` runs it there; choose another -o DIR"
        raise InputError(f"{directory} is reserved for a study of the suite in {parent}", hint)
    if not nearest.is_dir():
        raise InputError(f"{nearest} is not a directory, and a campaign needs one", "choose another -o DIR")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{nearest} cannot be written to", "choose another -o DIR")
    require_own_directory(directory)


def open_campaign(directory: Path, *, readonly: bool = True) -> Store:
    """Open the database of a campaign. Raises: InputError when the directory holds no campaign, or a suite."""
    refuse_suite(directory)
    return Store.open(directory, readonly=readonly)


def refuse_suite(directory: Path, what: str = "this command") -> None:
    """Raise InputError when a directory is a suite; `what` names the command or option that needs a single campaign."""
    if suites.is_suite(directory):
        members = suites.read(directory).studies
        hint = f"name one: {', '.join(str(directory / member.name) for member in members)}"
        raise InputError(f"{directory} is a suite of {len(members)} studies, but {what} takes one of them", hint)
