"""A part is one file in a package of Lastro, in a folder named by LASTRO_PARTS, or in a package with an entry point."""

from __future__ import annotations

import argparse
import json

from lastro import registry


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", nargs="?", choices=sorted(registry.KINDS), metavar="KIND", help="only this kind of part"
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    kinds = [args.kind] if args.kind else list(registry.KINDS)
    found = {kind: registry.parts(kind) for kind in kinds}
    if args.json:
        rows = [
            {"kind": kind, "name": info.name, "summary": info.summary, "origin": info.origin, "broken": info.broken}
            for kind, infos in found.items()
            for info in infos.values()
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for kind, infos in found.items():
        print(f"{kind}:")
        for info in infos.values():
            print(f"  {info.name:<16} {info.broken or info.summary}")
    return 0
