"""Save it next to your studies, and begin each study with a line that names the file. Editors with a TOML
language server (Taplo, Even Better TOML) then complete and check the study:

  lastro schema > study.schema.json
  sed -i '1i #:schema ./study.schema.json' study.toml
"""

from __future__ import annotations

import argparse
import json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO", help="only studies of this scenario")


def run(args: argparse.Namespace) -> None:
    from lastro.errors import InputError, did_you_mean
    from lastro.scenarios.base import schemas
    from lastro.study.json_schema import json_schema

    known = schemas()
    if args.scenario is not None:
        if args.scenario not in known:
            raise InputError(f"no scenario is named '{args.scenario}'", did_you_mean(args.scenario, known))
        known = {args.scenario: known[args.scenario]}
    print(json.dumps(json_schema(known), indent=2, ensure_ascii=False))
