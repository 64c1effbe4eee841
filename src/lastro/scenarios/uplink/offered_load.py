"""The offered load of a flow: an absolute rate, or a percentage of the bare host's capacity over the same links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lastro.errors import InputError
from lastro.instruments.udp_load import ACHIEVED, OFFERED, RATE
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config
from lastro.scenarios.shared.calibration import judge_ceiling
from lastro.units import parse_rate_bps

MOST = "100G"  # more than one flow carries anywhere, so the achieved rate is the capacity
_PERCENTAGE = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) ?%", re.ASCII)
_LARGEST = 10.0  # times the capacity
_KEPT = 0.95  # fraction of the nominal rate below which that rate was not offered
_THROUGHPUT = "throughput"  # of TCP


def check_offered(text: str) -> None:
    """Check an offered load. Raises: InputError when it is neither a rate nor a percentage."""
    if capacity_fraction(text) is None:
        parse_rate_bps(text)


def capacity_fraction(text: str) -> float | None:
    """Parse a percentage: '120%' -> 1.2; return None for text without '%'. Raises: InputError if it is out of range."""
    if "%" not in text:
        return None
    match = _PERCENTAGE.fullmatch(text.strip())
    if not match or not 0 < float(match[1]) <= 100 * _LARGEST:
        raise InputError(f"'{text}' is not a percentage of the capacity", f"write it as 50%, at most {_LARGEST:.0%}")
    return float(match[1]) / 100


OFFERED_RATE = replace(
    RATE, summary="rate of a UDP flow in bit/s, or in % of the bare host's capacity", check=check_offered
)


def with_rate(config: Config, capacity: Mapping[str, float] | None, outcome: Outcome) -> dict[str, Any]:
    """Return the configuration with a rate in bit/s in place of its percentage of the capacity, and note both.

    An absolute rate stays as it is, and so does a percentage of an unknown capacity."""
    fraction = capacity_fraction(OFFERED_RATE.of(config))
    if fraction is None or capacity is None or ACHIEVED.name not in capacity:
        return dict(config)
    rate_mbit_s = fraction * capacity[ACHIEVED.name]
    offered = {"share": fraction, "capacity_mbit_s": capacity[ACHIEVED.name], "rate_mbit_s": round(rate_mbit_s, 3)}
    outcome.notes["offered"] = offered
    return {**config, OFFERED_RATE.name: f"{rate_mbit_s * 1e6:.0f}"}


def rates(outcome: Outcome) -> dict[str, float]:
    """Return by metric the offered, achieved and TCP rates that a trial measured, in Mbit/s."""
    names = (OFFERED.name, ACHIEVED.name, _THROUGHPUT)
    return {name: outcome.measurements[name] for name in names if name in outcome.measurements}


def judge_generator(config: Config, ceiling: Mapping[str, float] | None, outcome: Outcome) -> None:
    """Flag a generator-limited trial, which stays valid: the bare host is not faster over the same links.

    `ceiling` has the bare host's rates, or is None if they are unknown. Trials on the bare host are their own ceiling:
    they are flagged with TCP, and at UDP rates that the bare host cannot reach."""
    if ceiling is None:  # it could not be measured
        return
    is_udp = OFFERED.name in outcome.measurements and OFFERED.name in ceiling
    # With TCP, the setting may be a percentage.
    wanted = _KEPT * parse_rate_bps(OFFERED_RATE.of(config)) / 1e6 if is_udp else None
    judge_ceiling(outcome, ceiling, rates=(OFFERED.name, _THROUGHPUT), wanted=wanted)
