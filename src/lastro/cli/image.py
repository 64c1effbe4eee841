"""One root filesystem serves every platform: built by mmdebstrap from Debian, named by the SHA-256 of its tar.

LASTRO_MIRROR names another Debian mirror. LASTRO_STATE moves the cache (default /var/lib/lastro)."""

from __future__ import annotations

import argparse
import json

from lastro.cli._common import require_root


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    from lastro.cli._host import image_of
    from lastro.host.ledger import session
    from lastro.units import human_bytes

    require_root("image")
    with session("building the root filesystem") as held:
        image = image_of(held)
    size = image.tar.stat().st_size
    facts = {
        "name": image.name,
        "sha256": image.digest,
        "directory": str(image.tree),
        "tar": str(image.tar),
        "tar_bytes": size,
        "docker_tag": image.docker_tag,
    }
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        print(f"{image.name}  {human_bytes(size)}\n{image.tree}\n{image.tar}")
    return 0
