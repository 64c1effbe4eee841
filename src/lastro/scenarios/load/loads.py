"""The loads at which latency is measured, as a study writes them, with their names in metrics and histograms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lastro.errors import InputError

OFF = "none"
_MOST = 8  # loads of a trial
_FRACTION = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)%")
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([kM]?)pps")
_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6}


@dataclass(frozen=True, slots=True)
class LatencyLoad:
    """A load at which latency is measured; `text` is as a study writes it: '50%' (of the PDR) or '100kpps'.

    For a percentage of the PDR, `fraction` is that percentage as a fraction, and `fps` is 0. Otherwise, `fraction` is
    None, and `fps` is the rate."""

    text: str
    fraction: float | None
    fps: float

    @property
    def key(self) -> str:
        """The load as it is written in the names of metrics: '50pct', '100kpps'."""
        return self.text.replace("%", "pct").replace(".", "_")

    @property
    def place(self) -> str:
        """The load as it is written in a sentence: '50% of the PDR', '100kpps'."""
        return f"{self.text} of the PDR" if self.fraction is not None else self.text

    @property
    def histogram(self) -> str:
        return f"round trip at {self.text}"

    @property
    def one_way_histogram(self) -> str:
        return f"one way at {self.text}"

    @property
    def own_histogram(self) -> str:
        """The name of the histogram of the generator's own delay at this load."""
        return f"own delay at {self.text}"

    def metric(self, statistic: str) -> str:
        return f"latency_{statistic}_at_{self.key}"

    def one_way_metric(self, statistic: str) -> str:
        return f"one_way_{statistic}_at_{self.key}"

    def own_metric(self, statistic: str) -> str:
        return f"own_delay_{statistic}_at_{self.key}"

    @property
    def load_metric(self) -> str:
        return f"load_at_{self.key}"

    def rate_fps(self, pdr_fps: float) -> float:
        return self.fps if self.fraction is None else self.fraction * pdr_fps


def loads_of(text: str) -> tuple[LatencyLoad, ...]:
    """Parse a value of the setting `at`, such as '10%, 50%, 100kpps'; () for 'none'. Raises: InputError."""
    if text.strip() == OFF:
        return ()
    by_key = {load.key: load for load in map(_load, text.split(","))}
    if len(by_key) > _MOST or len(by_key) < len(text.split(",")):
        raise InputError(f"'{text}' has a load twice, or more than {_MOST}", "name each load once")
    return tuple(by_key.values())


def all_loads(at: object) -> tuple[LatencyLoad, ...]:
    """Return the distinct loads in `at`: a value of the setting or, if it is a factor, a mapping of its levels."""
    texts = [at] if isinstance(at, str) else list(at) if isinstance(at, Mapping) else []
    loads = {load.key: load for text in texts for load in loads_of(str(text))}
    return tuple(loads.values())


def _load(text: str) -> LatencyLoad:
    word = text.strip()
    if (match := _FRACTION.fullmatch(word)) and 0 < float(match[1]) <= 200:
        return LatencyLoad(word, float(match[1]) / 100, 0.0)
    if (match := _RATE.fullmatch(word)) and float(match[1]) > 0:
        return LatencyLoad(word, None, float(match[1]) * _PREFIX[match[2]])
    why = f"'{word}' is not a load"
    raise InputError(why, "write a percentage of the PDR, such as 50%, or a rate, such as 100kpps")
