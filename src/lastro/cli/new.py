"""The file's comments say what each line means. What to do next:

  lastro plan study.toml
  sudo lastro run study.toml --profile quick

`lastro plan` needs no root."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from lastro.errors import InputError
from lastro.study.model import NAME_PATTERN

_TEMPLATE_NAME = "my-study"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="study.toml", metavar="FILE", help="where to write it; - is standard output"
    )
    parser.add_argument("--name", help="the study's name; default: the file's name without its ending")
    parser.add_argument("--force", action="store_true", help="overwrite the file when it exists")


def run(args: argparse.Namespace) -> int:
    text = study_text(args.name or _name_from(args.file))
    if args.file == "-":
        sys.stdout.write(text)
        return 0
    _write(Path(args.file), text, overwrite=args.force)
    print(f"wrote {args.file}; see what it would run with `lastro plan {args.file}`")
    return 0


def study_text(name: str) -> str:
    """The commented study file to start from, under a name.

    Raises: InputError when no study can have this name."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise InputError(
            f"'{name}' cannot name a study", "use a-z, 0-9, '.', '_' and '-', and begin with a letter or digit"
        )
    template = Path(__file__).parents[1] / "study" / "template.toml"
    return template.read_text(encoding="utf-8").replace(f'"{_TEMPLATE_NAME}"', f'"{name}"')


def _name_from(file: str) -> str:
    stem = Path(file).stem
    return stem if stem != "study" and re.fullmatch(NAME_PATTERN, stem) else _TEMPLATE_NAME


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path} exists already", "write elsewhere, or overwrite it with --force") from None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", "choose another place") from error
