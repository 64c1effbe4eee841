"""One root filesystem serves every platform: built by mmdebstrap from Debian, named by the SHA-256 of its tar.

Each command that uses it first compares the names, modes, owners, sizes and times of all files with the tar.

LASTRO_MIRROR names another Debian mirror. LASTRO_STATE moves the cache (default /var/lib/lastro).

--snapshot takes the packages of one date and time from snapshot.debian.org, so that the same image can be built years
later. With LASTRO_SNAPSHOT set to that time, all commands use that image, and campaigns record the time.

Studies make further root filesystems: by their packages, functions and variants. --list shows all that are kept, with
their size and last use. --prune removes those that were not used for so long; what is needed again is built again."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from lastro.app.rights import require_root
from lastro.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--verify", action="store_true", help="also compare the contents of all files, and the hash of the tar")
    add("--snapshot", metavar="MOMENT", help="use Debian's archive as of this time (UTC), such as 20261101T000000Z")
    add(
        "--guest", action="store_true",
        help="also build what `--testbed guest` boots; otherwise its first use builds it",
    )  # fmt: skip
    stored = parser.add_mutually_exclusive_group()
    stored.add_argument("--list", action="store_true", help="list the root filesystems that are kept, and build none")
    stored.add_argument(
        "--prune", metavar="AGE", help="remove the root filesystems that were not used for so long, such as 30d"
    )
    add("--wait", action="store_true", help="wait for a campaign on this host to end")
    add("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> None:
    from lastro.app.hosts import announce_builds, image_of
    from lastro.app.waiting import wait_reporter
    from lastro.host.ledger import session
    from lastro.image import manifest
    from lastro.units import human_bytes

    require_root("image")
    if args.list or args.prune is not None:
        if wrong := next((name for name in ("verify", "guest", "snapshot") if getattr(args, name)), None):
            raise InputError(f"--{wrong} is for one root filesystem", "give it without --list and --prune")
        _list_or_prune(args)
        return
    with session("building the root filesystem", wait=wait_reporter(args.wait)) as host_session:
        image = image_of(host_session, snapshot=args.snapshot)
        if args.guest:
            from lastro.host.testbed_file import GUEST, load
            from lastro.image import guest_host

            plan = load(Path(GUEST)).guest
            assert plan is not None, "the word stands for a guest"
            announce_builds(host_session, image, [plan])
            what_it_boots = plan.release, plan.kernel, plan.platforms, plan.hypervisor
            guest_host.ensure([image], host_session.ledger.state, host_session.host, *what_it_boots)
        if args.verify:
            manifest.verify(image, host_session.host)
    size = image.tar.stat().st_size
    facts = {
        "name": image.name,
        "sha256": image.digest,
        "directory": str(image.tree),
        "tar": str(image.tar),
        "tar_bytes": size,
        "docker_tag": image.docker_tag,
        "snapshot": image.snapshot or None,
    }
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        moment = f"\nDebian as of {image.snapshot}" if image.snapshot else ""
        print(f"{image.name}  {human_bytes(size)}\n{image.tree}\n{image.tar}{moment}")


def _list_or_prune(args: argparse.Namespace) -> None:
    """List the stored root filesystems or, with --prune, remove those not used for that time."""
    from lastro.app.waiting import wait_reporter
    from lastro.cli._terminal import table
    from lastro.host.ledger import STATE_DIR, session
    from lastro.image import stock
    from lastro.units import human_bytes, parse_age_s

    age_s = None if args.prune is None else parse_age_s(args.prune)
    with nullcontext() if age_s is None else session("removing root filesystems", wait=wait_reporter(args.wait)):
        images = stock.stored_trees(STATE_DIR) if age_s is None else stock.unused_trees(STATE_DIR, age_s)
        sizes = {image.name: image.n_bytes for image in images}
        for image in () if age_s is None else images:
            stock.remove(image, STATE_DIR)
    used = {image.name: datetime.fromtimestamp(image.used_s, UTC).isoformat(timespec="minutes") for image in images}
    if args.json:
        rows = [
            {"name": image.name, "what": image.what, "bytes": sizes[image.name], "used_utc": used[image.name]}
            for image in images
        ]
        print(json.dumps(rows, indent=2))
        return
    for line in table([(image.name, human_bytes(sizes[image.name]), used[image.name], image.what) for image in images]):
        print(line)
    total = human_bytes(sum(sizes.values()))
    print(f"{len(images)} kept, {total}" if args.prune is None else f"{len(images)} removed, {total}")
