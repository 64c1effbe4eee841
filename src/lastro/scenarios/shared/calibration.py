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
    """Return the key of a calibration run: equal for all configurations that need the same run.

    The key is 'KIND/VALUE/…/DIGEST': the values of the settings `named`, and a digest of all settings whose names do
    not begin with one of the prefixes `without`."""
    affecting = {key: value for key, value in config.items() if not key.startswith(without)}
    digest = hashlib.sha256(json.dumps(affecting, sort_keys=True).encode()).hexdigest()[:6]
    return "/".join((kind, *(str(config[name]) for name in named), digest))


def calibrated(calibrations: Mapping[str, Any], kind: str) -> Any:
    """Return the first of a trial's calibration values whose key has this kind; None if there is none."""
    return next((value for key, value in calibrations.items() if key.startswith(f"{kind}/")), None)


def on_bare_host(config: Config) -> dict[str, Any]:
    """Return the treatment's configuration on the bare host instead of its platform, without the platform's options."""
    return {key: value for key, value in config.items() if not key.startswith("platform.")} | {"platform": Native.name}


def judge_ceiling(
    outcome: Outcome,
    ceiling: Mapping[str, float] | None,
    rates: Sequence[str] = (),
    times: Sequence[str] = (),
    *,
    wanted: float | None = None,
) -> None:
    """Flag a trial whose result is within a tenth of its ceiling: its bottleneck is not the treatment.

    The trial stays valid. The first of `rates` and `times` that both the trial and `ceiling` have decides. `rates`
    are metrics for which higher is better, `times` metrics for which lower is better. If the trial or the ceiling
    reaches the rate `wanted`, the trial is not flagged. Without a ceiling, nothing is noted."""
    if not ceiling:
        return
    limited = None
    if name := next((name for name in (*rates, *times) if name in outcome.measurements and name in ceiling), None):
        value, limit = outcome.measurements[name], ceiling[name]
        is_at_ceiling = value >= _AT_CEILING * limit if name in rates else _AT_CEILING * value <= limit
        limited = is_at_ceiling and (wanted is None or max(value, limit) < wanted)
    outcome.notes |= Ceiling(ceiling, limited).as_notes()
