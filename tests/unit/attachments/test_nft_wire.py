"""The example of an attachment with a program of its own: the teardown does not hide why a trial ended."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.attachments.base import Segment
from lastro.errors import CommandFailed
from lastro.host.base import Completed
from lastro.platforms.base import Port
from lastro.testing.attachments import unstarted

from ...support.recording import RecordingHost, answer

FILE = Path(__file__).parents[3] / "examples" / "plug-ins" / "attachments" / "nft_wire.py"


def laid(*outcomes: str) -> Any:
    """The attachment's block, where each call of `nft` fails with one of `outcomes`; an empty text is a success."""
    left = list(outcomes)

    def answers(argv: Sequence[str]) -> Completed | None:
        if "nft" not in argv:
            return None
        error = left.pop(0)
        return answer(code=1, error=error) if error else None

    ports = (Port(unstarted("N1"), "out0", "198.18.0.10/24"), Port(unstarted("N2"), "in0", "198.18.0.1/24"))
    bed = SimpleNamespace(host=RecordingHost(answers), dut="dut")
    return runpy.run_path(str(FILE))["NftWire"]().laid(bed, [Segment("a", ports)])


def test_rules_that_the_kernel_refuses_are_the_reason() -> None:
    with pytest.raises(CommandFailed, match="no nft_fwd_netdev"):
        laid("no nft_fwd_netdev", "no such table").__enter__()


def test_a_table_that_is_gone_does_not_hide_what_ended_the_trial() -> None:
    with pytest.raises(RuntimeError, match="in the middle"), laid("", "no such table"):
        raise RuntimeError("in the middle")
