"""A part is one file in a package of Lastro, in a folder named by LASTRO_PARTS, or in a package with an entry point.
A study chooses an option of a part in its level, such as docker:storage=vfs, or as a factor named platform.storage."""

from __future__ import annotations

import argparse
import json
from typing import Any

from lastro import registry
from lastro.builders.data.encoder import pick
from lastro.registry import PartInfo
from lastro.study.model import Setting


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", nargs="?", type=_singular, choices=sorted(registry.KINDS), metavar="KIND",
        help="only this kind of part, such as function or functions",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _singular(word: str) -> str:
    """Convert the plural of a kind, or the name of its package, to the kind; return any other word unchanged."""
    plurals = {f"{kind}s": kind for kind in registry.KINDS}
    return (plurals | {package: kind for kind, package in registry.KINDS.items()}).get(word, word)


def run(args: argparse.Namespace) -> None:
    kinds = [args.kind] if args.kind else list(registry.KINDS)
    parts = {kind: registry.parts(kind).values() for kind in kinds}
    if args.json:
        print(json.dumps([_document(info) for infos in parts.values() for info in infos], indent=2))
        return
    for kind, infos in parts.items():
        print(f"{kind}:")
        for info in infos:
            print(f"  {info.name:<16} {info.broken or info.summary}")
            for option in _options(info):
                bounds = [f"{bound:g}" for bound in (option.minimum, option.maximum) if bound is not None]
                values = ", ".join(option.choices) or " to ".join(bounds)
                more = f" ({values})" if values else ""
                print(f"  {'':<16}   :{option.name}={option.default}  {option.summary}{more}")


def _options(info: PartInfo) -> tuple[Setting[Any], ...]:
    return getattr(info.cls, "options", ())


def _document(info: PartInfo) -> dict[str, Any]:
    options = [
        pick(option, "name default summary") | {"choices": option.choices or None} | pick(option, "minimum maximum")
        for option in _options(info)
    ]
    return pick(info, "kind name summary origin broken") | {"options": options}
