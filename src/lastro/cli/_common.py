"""What several commands share: arguments, opening a campaign, loading a study."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lastro.errors import NeedsRoot
from lastro.results.store import Store


def campaign_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", type=Path, metavar="DIR", help="the campaign's directory, as `lastro run` named it")


def open_campaign(directory: Path, *, readonly: bool = True) -> Store:
    return Store.open(directory, readonly=readonly)


def require_root(command: str) -> None:
    if os.geteuid() != 0:
        raise NeedsRoot(
            f"`lastro {command}` makes namespaces, links and containers, and needs root",
            f"run `sudo lastro {command} …`; plan, status, show, results, report, parts, new and schema need no root",
        )
