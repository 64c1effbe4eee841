"""Goals of loss, which a load must meet. The scenario has two; a user may state one more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lastro.errors import InputError

NO_GOAL = "none"


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of loss: a load meets it if a probe's loss exceeds `loss_ratio` in at most `exceed_ratio` of the time.

    Both are fractions. The time is the total time of all probes at the load."""

    name: str
    loss_ratio: float
    exceed_ratio: float = 0.5

    def missed_at(self, rate_fps: float) -> str:
        """Describe a load that misses the goal: 'more than 0.5 % lost at 81,000 frames a second'."""
        loss = f"more than {100 * self.loss_ratio:g} % lost" if self.loss_ratio else "frames were lost"
        return f"{loss} at {rate_fps:,.0f} frames a second"


@dataclass(frozen=True, slots=True)
class UnmetGoal:
    """A goal that no load meets: even at `rate_fps`, the smallest load, more frames were lost than the goal allows."""

    goal: Goal
    rate_fps: float

    @property
    def reason(self) -> str:
        missed = self.goal.missed_at(self.rate_fps)
        return f"no rate meets the goal {self.goal.name}: {missed}, the smallest load of the search"


def own_goal(text: str) -> Goal | None:
    """Parse the user's own goal: '1%' or '1% exceed 20%'; return None for 'none'. Raises: InputError."""
    if text == NO_GOAL:
        return None
    words = text.replace("%", " ").split()
    try:
        ratios = [float(word) / 100 for word in words if word != "exceed"]
        has_one_percent_sign_each = text.count("%") == len(ratios)
        has_shape = words[1:2] in ([], ["exceed"]) and len(words) == 2 * len(ratios) - 1
        if has_one_percent_sign_each and has_shape and all(math.isfinite(ratio) and 0 <= ratio < 1 for ratio in ratios):
            return Goal("own", *ratios)
    except ValueError:
        pass
    raise InputError(f"'{text}' is not a goal of loss", "write a percentage of frames, such as '1%' or '1% exceed 20%'")
