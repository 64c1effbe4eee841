"""The jinja2 environments of the documents made from `templates`; whatever a template inserts is escaped."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def environment(**options: Any) -> Environment:
    """Return an environment of the templates with autoescape; `options` are those of jinja2."""
    folder = resources.files("lastro.report") / "templates"
    return Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )
