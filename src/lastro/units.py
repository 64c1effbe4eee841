"""Parse rates and sizes from users; format sizes, durations and numbers for users."""

from __future__ import annotations

import math
import re

from lastro.errors import InputError
from lastro.shapes import MOST_MEASURED

MIB = 1 << 20
_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_LEAST_LIMIT_BPS, _MOST_LIMIT_BPS = 100_000, 100_000_000_000


def parse_rate_bps(text: str) -> float:
    """Parse a rate, '10M' -> 1e7 bit/s, with decimal prefixes as in iperf3, ethtool and tc.

    Raises: InputError when the text is not a rate."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(?:bit/s|bit|bps)?", text.strip(), re.ASCII)
    if not match or float(match[1]) > MOST_MEASURED:
        raise InputError(f"'{text}' is not a rate", "write bits per second with a prefix, such as 10M or 1.5G")
    return float(match[1]) * _DECIMAL[match[2].lower()]


def link_rate_bps(text: str) -> float:
    """Parse the rate limit of a link in bit/s; 'none' is 0. Raises: InputError when it is not from 100k to 100G."""
    if text == "none":
        return 0.0
    if not _LEAST_LIMIT_BPS <= (bps := parse_rate_bps(text)) <= _MOST_LIMIT_BPS:
        raise InputError(f"'{text}' is not from 100k to 100G", "write bits per second, such as 100M, or 'none'")
    return bps


def parse_size_bytes(text: str) -> int:
    """Parse a size, '128M' -> 134217728 bytes, with binary prefixes as in cgroups and stress-ng.

    Raises: InputError when the text is not a size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)i?[bB]?", text.strip(), re.ASCII)
    if not match or float(match[1]) > MOST_MEASURED:
        raise InputError(f"'{text}' is not a size", "write bytes with a prefix, such as 128M or 2G")
    return int(float(match[1]) * _BINARY[match[2].lower()])


_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def parse_duration_s(text: str) -> float:
    """Parse a duration, '30min' -> 1800 s; '90 s', '1.5h'. Raises: InputError when the text is not a duration."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", text.strip(), re.ASCII)
    if not match or not 0 < float(match[1]) <= MOST_MEASURED:
        raise InputError(f"'{text}' is not a duration", "write it as in 30min, 90s or 1.5h")
    return float(match[1]) * _SECONDS[match[2]]


def parse_age_s(text: str) -> float:
    """Parse an age, '30d' -> 2592000 s, '12h' -> 43200 s; '0d' is 0. Raises: InputError when the text is not an age."""
    if match := re.fullmatch(r"(\d{1,5})\s*d", text.strip(), re.ASCII):
        return float(match[1]) * 86_400
    try:
        return parse_duration_s(text)
    except InputError:
        raise InputError(f"'{text}' is not an age", "write it as in 30d, 12h or 90min") from None


def parse_fraction(text: str, *, above_zero: bool = False) -> float:
    """Parse '5%' or '0.05' as 0.05.

    Raises: InputError unless the value is at least 0 (with `above_zero`: above 0) and below 1."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text, re.ASCII)
    value = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if not 0 <= value < 1 or (above_zero and not value):
        raise InputError(
            f"'{text}' is not a fraction {'above 0 and ' if above_zero else ''}below 1", "such as 5% or 0.05"
        )
    return value


_BASES = ("bit/s", "B/s", "B", "s", "CPU", "1/s", "%", "1", "ms/s")
_PREFIXES = {
    "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
_ALIASES = {"bps": "bit/s", "CPUs": "CPU", "fps": "1/s", "pps": "1/s", "/s": "1/s", "bytes": "B"}


def in_unit(text: str, unit: str) -> float:
    """Convert a quantity to `unit`: '2 Gbit/s' in Mbit/s is 2000. A number without a unit is returned unchanged.

    Raises: InputError when the text is not a number with a unit, or the units are not convertible."""
    if (number := _number_and_unit(text)) is None:
        raise InputError(f"'{text}' is not a number with a unit", f"write it as in '2 {unit}'")
    value, written = number
    if not written or written == unit:
        return value
    of_text, of_unit = _scale(written), _scale(unit)
    if of_text is None or of_unit is None or of_text[1] != of_unit[1]:
        raise InputError(f"'{text}' is not in {unit or 'a plain number'}", f"write it as in '2 {unit}'")
    return value * of_text[0] / of_unit[0]


def quantity(text: str, unit: str = "") -> tuple[float, str] | None:
    """Parse a number with a prefix, a unit or both as (value, base unit): '200 kpps' is (2e5, '1/s'), '1M' (1e6, '').

    A number without both is in `unit`. None for any other text."""
    if (number := _number_and_unit(text)) is None:
        return None
    value, written = number
    if written in _PREFIXES and (written or not unit):
        return value * _PREFIXES[written], ""
    scale = _scale(written or unit)
    return scale and (value * scale[0], scale[1])


def _number_and_unit(text: str) -> tuple[float, str] | None:
    match = re.fullmatch(r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*(.*)", text.strip(), re.ASCII)
    if not match or abs(float(match[1])) > MOST_MEASURED:
        return None
    return float(match[1]), match[2].strip()


def _scale(unit: str) -> tuple[float, str] | None:
    """Split a unit into (factor of its prefix, base unit): 'Mbit/s' is (1e6, 'bit/s'); None for an unknown unit."""
    for name, base in (*_ALIASES.items(), *zip(_BASES, _BASES, strict=True)):
        if unit.endswith(name) and (prefix := unit.removesuffix(name)) in _PREFIXES:
            return _PREFIXES[prefix], base
    return None


def human_bytes(n_bytes: float) -> str:
    """Format a number of bytes: 1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n_bytes) < 1024:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TiB"


def human_duration(seconds: float) -> str:
    """Format a duration: 75 -> '1 min 15 s'; 0.25 -> '250 ms'."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def significant(value: float, digits: int = 4) -> str:
    """Format a number with `digits` significant digits: 3012, 0.04593; very large or small: 1.234e+12."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    magnitude = math.floor(math.log10(abs(value)))
    if not -6 < magnitude < 9:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"
