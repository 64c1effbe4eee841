"""What `lastro history` sees beside Apache Otava 0.8.0, in series that `benches/history_oracle.py --store` wrote."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import pytest
from benches.history_oracle import agree

from lastro.analysis.history import ALPHA, CONFIDENCE
from lastro.stats.change_points import change_points

pytestmark = pytest.mark.computes
STORED = json.loads((Path(__file__).parents[1] / "data" / "otava.json").read_text(encoding="utf-8"))
TRUE = [list(accumulate(n for n, _ in each["levels"]))[:-1] for each in STORED]
OURS = [[change.at for change in change_points(each["values"], ALPHA, CONFIDENCE)] for each in STORED]
OTAVAS = [each["otava"] for each in STORED]


def test_every_change_is_seen_and_no_other() -> None:
    assert len(STORED) == 30 and all(map(agree, OURS, TRUE))


def test_otava_sees_the_same_except_where_it_sees_nothing_of_two_changes() -> None:
    others = [(theirs, true) for ours, theirs, true in zip(OURS, OTAVAS, TRUE, strict=True) if not agree(ours, theirs)]
    assert others == [([], [12, 22])] * 4
