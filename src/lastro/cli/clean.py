"""Removes exactly what the ledger lists for Lastro processes that are gone: namespaces, containers, cgroups, mounts,
directories, and the processes that carry their token. Never anything by a name pattern. `lastro run` does it too."""

from __future__ import annotations

import argparse

from lastro.cli._common import require_root


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end")


def run(args: argparse.Namespace) -> int:
    from lastro.host.ledger import Ledger, lock

    require_root("clean")
    ledger = Ledger()
    if args.dry_run:
        objects = [owned for token in ledger.dead_sessions() for owned in ledger.objects(token)]
    else:
        with lock(ledger.state, "lastro clean", wait=args.wait):
            objects = ledger.clean()
    for owned in objects:
        print(f"{'would remove' if args.dry_run else 'removed'} {owned.kind} {owned.name}")
    if not objects:
        print("nothing was left behind")
    return 0
