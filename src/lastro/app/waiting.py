"""Messages of `--wait` while another Lastro holds the host."""

from __future__ import annotations

import time
from pathlib import Path

from lastro.app.messages import say
from lastro.errors import LastroError
from lastro.host.lock import LockHolder, OnWait

_AGAIN_S = 60.0  # then the same holder is named again, with its remaining time


def wait_reporter(wait: bool) -> OnWait | None:
    """Return a function that prints, while this command waits, which process holds the host; None without `wait`.

    It is called several times a second, and prints when the holder or the number of processes ahead in the queue has
    changed, or when a minute has passed."""
    shown: tuple[LockHolder | None, int] | None = None
    shown_s = 0.0

    def report(holder: LockHolder | None, ahead: int) -> None:
        nonlocal shown, shown_s
        now_s = time.monotonic()
        if shown == (holder, ahead) and now_s - shown_s < _AGAIN_S:
            return
        shown, shown_s = (holder, ahead), now_s
        who = f"{holder.text}: {holder.command}{_time_left(holder)}" if holder else "another Lastro"
        queue = f"; ahead in the queue: {ahead}" if ahead else ""
        say(f"waiting for {who}{queue}")

    return report if wait else None


def _time_left(holder: LockHolder) -> str:
    """Return a text with the remaining time of the holder's campaign, estimated from its trials; empty if unknown."""
    from lastro.campaign.duration import eta_estimator
    from lastro.results.store import Store
    from lastro.scenarios.base import installed_scenario
    from lastro.units import human_duration

    word, _, directory = holder.purpose.partition(" ")
    try:
        if word != "campaign":
            return ""
        with Store.open(Path(directory), readonly=True) as store:
            pace = eta_estimator(store, installed_scenario(store.study))
    except LastroError:  # it has not begun, or this user may not read it
        return ""
    return f", about {human_duration(pace.remaining_s)} left" if pace.is_known and pace.remaining_s else ""
