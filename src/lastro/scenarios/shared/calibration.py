"""Calibration runs: their keys, their configuration on the bare host, and ceilings, which some of them measure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lastro.platforms.native import Native
from lastro.results.samples import Outcome
from lastro.results.trial_notes import Ceiling
from lastro.scenarios.base import Config

_AT_CEILING = 0.9  # of the ceiling: from this fraction on, the treatment is not the limit


def calibration_key(kind: str, config: Config, named: Sequence[str], without: tuple[str, ...]) -> str:
    """Return a readable key of the settings that affect a calibration run.

    The key shows the values of the settings `named`, and a digest of all settings whose names do not begin with one of
    the prefixes `without`."""
    affecting = {key: value for key, value in config.items() if not key.startswith(without)}
    digest = hashlib.sha256(json.dumps(affecting, sort_keys=True).encode()).hexdigest()[:6]
    return "/".join((kind, *(str(config[name]) for name in named), digest))


def calibrated(calibrations: Mapping[str, Any], kind: str) -> Any:
    """Return a trial's calibration of a kind; None if it has none."""
    return next((value for key, value in calibrations.items() if key.startswith(f"{kind}/")), None)


def on_bare_host(config: Config) -> dict[str, Any]:
    """Return the configuration of a treatment on the bare host, without the options of its platform."""
    return {key: value for key, value in config.items() if not key.startswith("platform.")} | {"platform": Native.name}


def judge_ceiling(
    outcome: Outcome,
    ceiling: Mapping[str, float] | None,
    rates: Sequence[str] = (),
    times: Sequence[str] = (),
    *,
    wanted: float | None = None,
) -> None:
    """Flag a trial within a tenth of its ceiling: the treatment is not its bottleneck. The trial stays valid.

    The first metric that the trial and the ceiling share decides. `rates` are metrics for which higher is better,
    `times` those for which lower is better. A rate that reaches `wanted`, in the trial or at the ceiling, is not
    limited. Without a ceiling there is no flag."""
    if not ceiling:
        return
    limited = None
    for name in (*rates, *times):
        if limited is None and name in outcome.measurements and name in ceiling:
            value, limit = outcome.measurements[name], ceiling[name]
            is_at_ceiling = value >= _AT_CEILING * limit if name in rates else _AT_CEILING * value <= limit
            limited = is_at_ceiling and (wanted is None or max(value, limit) < wanted)
    outcome.notes |= Ceiling(ceiling, limited).as_notes()
