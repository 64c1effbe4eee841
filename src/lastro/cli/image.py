"""One root filesystem serves every platform: built by mmdebstrap from Debian, named by the SHA-256 of its tar.

Each command that uses it first compares the names, modes, owners, sizes and times of all files with the tar.

LASTRO_MIRROR names another Debian mirror. LASTRO_STATE moves the cache (default /var/lib/lastro).

--snapshot takes the packages of one date and time from snapshot.debian.org, so that the same image can be built years
later. With LASTRO_SNAPSHOT set to that time, all commands use that image, and campaigns record the time."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.app.rights import require_root

if TYPE_CHECKING:
    from lastro.host.ledger import Session
    from lastro.image.rootfs import Image


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verify", action="store_true", help="also compare the contents of all files, and the hash of the tar"
    )
    parser.add_argument(
        "--snapshot", metavar="MOMENT", help="use Debian's archive as of this time (UTC), such as 20261101T000000Z"
    )
    parser.add_argument(
        "--guest",
        action="store_true",
        help="also build what `--testbed guest` boots; otherwise its first use builds it",
    )
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    from lastro.app.hosts import image_of
    from lastro.app.waiting import wait_reporter
    from lastro.host.ledger import session
    from lastro.image import manifest
    from lastro.units import human_bytes

    require_root("image")
    with session("building the root filesystem", wait=wait_reporter(args.wait)) as held:
        image = image_of(held, snapshot=args.snapshot)
        if args.guest:
            _build_guest(held, image)
        if args.verify:
            manifest.verify(image, held.host)
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
    return 0


def _build_guest(session: Session, image: Image) -> None:
    from lastro.app.hosts import announce_builds
    from lastro.host.testbed_file import GUEST, load
    from lastro.image import guest_host

    plan = load(Path(GUEST)).guest
    assert plan is not None, "the word stands for a guest"
    announce_builds(session, image, [plan])
    guest_host.ensure(
        image, session.ledger.state, session.host, plan.release, plan.kernel, plan.platforms, plan.hypervisor
    )
