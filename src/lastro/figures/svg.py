"""Compact SVG: one path per group of points, coordinates no finer than visible, no markup without an effect."""

from __future__ import annotations

import re
from itertools import pairwise

FAMILY = "'DejaVu Sans', Verdana, sans-serif"  # the second is as wide, in case the first is missing

_POINTS = re.compile(r'<g id="points-([\d.]+)">(.*?)</g>\s*</g>', re.DOTALL)
_USE = re.compile(r'<use [^>]*?x="([-\d.]+)" y="([-\d.]+)" style="([^"]*)"/>')
_GEOMETRY = re.compile(r'(?<= )(?:d|x|y|transform|width|height|points)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}")
_UNTURNED = re.compile(r' transform="rotate\(-?0 [^)]*\)"')
_FAMILY = re.compile(r"font-family: 'DejaVu Sans'(?:; )?")
_TAG = re.compile(r"<[^>]+>")
_EMPTY = re.compile(r"<g>\s*</g>|<g/>")
_BETWEEN = re.compile(r">\s+<")
_PATH = re.compile(r' d="([^"]*)"')
_ID = re.compile(r'(?<=\bid=")[^"]+(?=")|(?<=url\(#)[^)]+(?=\))|(?<=xlink:href="#)[^"]+(?=")')


def compact(svg: str) -> str:
    """Return a smaller SVG of the same picture, about a sixth of the bytes; text remains text, in a common font.

    Identifiers are numbered: matplotlib's are hashes of coordinates, whose last digits depend on the processor."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", _POINTS.sub(_dots_path, svg), flags=re.DOTALL)
    svg = _BETWEEN.sub("><", _TAG.sub(_short_tag, svg))
    while (less := _EMPTY.sub("", svg)) != svg:
        svg = less
    return with_unique_ids(svg.replace("<svg ", f'<svg font-family="{FAMILY}" ', 1), "i")


def with_unique_ids(svg: str, prefix: str) -> str:
    """Rename the ids of an SVG to `prefix` and a number, so that figures on a page do not share clip paths."""
    numbers: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"{prefix}{len(numbers)}")

    return _TAG.sub(lambda tag: _ID.sub(renamed, tag[0]), svg)


def _short_tag(tag: re.Match[str]) -> str:
    text = re.sub(r'<g id="[^"]*"', "<g", _FAMILY.sub("", _UNTURNED.sub("", tag[0]))).replace('; "', '"')
    text = _GEOMETRY.sub(lambda match: _LONG.sub(lambda number: _rounded(number[0]), match[0]), text)
    return _PATH.sub(lambda match: f' d="{" ".join(match[1].split())}"', text)


def _dots_path(group: re.Match[str]) -> str:
    """Return a group of dots as one path of strokes of zero length with round ends.

    The path is 'M x y h0', then 'm dx dy h0' for each further dot, in tenths of a point."""
    uses = _USE.findall(group[2])
    if not uses:
        return group[0]
    clip = re.search(r'clip-path="[^"]*"', group[2])
    colour, opacity = (re.search(rf"{name}: *([#\w.]+)", uses[0][2]) for name in ("fill", "fill-opacity"))
    at = [(round(10 * float(x)), round(10 * float(y))) for x, y, _ in uses]
    steps = [(x - x0, y - y0) for (x0, y0), (x, y) in pairwise(at)]
    dots = f"M{at[0][0]} {at[0][1]}h0" + "".join(f"m{x} {y}h0" for x, y in steps).replace(" -", "-")
    look = f"fill: none; stroke: {colour[1] if colour else '#000000'}; stroke-opacity: {opacity[1] if opacity else 1}"
    shape = f"stroke-width: {_rounded(str(10 * float(group[1])))}; stroke-linecap: round; stroke-linejoin: round"
    return f'<g {clip[0] if clip else ""}><path transform="scale(.1)" d="{dots}" style="{look}; {shape}"/></g>'


def _rounded(number: str) -> str:
    text = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
