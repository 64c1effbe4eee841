"""The jinja2 environments of the documents made from `templates`; all that a template inserts is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from lastro.document import plain_text


def environment(**options: Any) -> Environment:
    """Return an environment of the templates with autoescape; `options` are those of jinja2."""
    folder = resources.files("lastro.render") / "templates"
    jinja = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )
    jinja.filters |= {"kind": lambda block: type(block).__name__, "plain": plain_text}
    jinja.tests |= {"facts": lambda value: isinstance(value, Mapping)}
    return jinja
