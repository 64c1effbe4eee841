"""Removes exactly what the ledger lists for Lastro processes that are gone: namespaces, containers, cgroups, mounts,
directories, and the processes that carry their token. It never removes anything by a name pattern. `lastro run` does
the same. It also removes unfinished images of such processes, which are in a directory with the process ID."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from lastro.app.rights import require_root


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end")


def run(args: argparse.Namespace) -> None:
    from lastro.app.waiting import wait_reporter
    from lastro.host import remote
    from lastro.host.ledger import Ledger
    from lastro.host.lock import lock
    from lastro.image import workshop

    require_root("clean")
    ledger = Ledger()
    done = "would remove" if args.dry_run else "removed"
    with nullcontext() if args.dry_run else lock(ledger.state, "lastro clean", wait_reporter(args.wait)):
        dead = [owned for token in ledger.dead_sessions() for owned in ledger.objects(token)]
        objects = dead if args.dry_run else ledger.clean()
        unfinished = workshop.clean(ledger.state, dry_run=args.dry_run)
        for owned in objects:
            print(f"{done} {owned.kind} {owned.name}")
        for path in unfinished:
            print(f"{done} unfinished {path}")
        remote_objects = remote.clean(ledger.state, dry_run=args.dry_run)
        for host, owned in remote_objects:
            print(f"{done} {owned.kind} {owned.name} on {host}")
    if not (objects or unfinished or remote_objects):
        print("nothing was left behind")
