"""The ping by which a new chain proves itself, and whom its failure blames."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import PlatformError
from lastro.functions.base import PATHS
from lastro.host.base import Completed
from lastro.scenarios.shared.chain import Chain, _verify_path

UNANSWERED = "PING 198.18.1.10\n\n--- 198.18.1.10 ping statistics ---\n1 packets transmitted, 0 received\n"


def prove(code: int, out: str, err: str) -> None:
    done = Completed(("ping",), code, out.encode(), err.encode(), 0, 0)
    source: Any = SimpleNamespace(run=lambda argv, **options: done)
    _verify_path(cast(Chain, SimpleNamespace(source=source, path=PATHS["4"])))


def test_an_answer_proves_it() -> None:
    prove(0, "1 packets transmitted, 1 received", "")


@pytest.mark.parametrize(("out", "err"), [(UNANSWERED, ""), ("", "ping: connect: Network is unreachable")])
def test_a_ping_without_an_answer_is_the_chains_failure(out: str, err: str) -> None:
    with pytest.raises(PlatformError, match=r"(?s)does not carry a ping .*: .*(0 received|unreachable)") as caught:
        prove(1, out, err)
    assert "its command" not in caught.value.message


@pytest.mark.parametrize(
    ("code", "err", "words"), [(137, "", "exited with 137$"), (1, "cannot connect to the daemon", "with 1: cannot")]
)
def test_a_ping_whose_container_died_is_not(code: int, err: str, words: str) -> None:
    with pytest.raises(PlatformError, match=f"has no result: its command .*{words}"):
        prove(code, "", err)
