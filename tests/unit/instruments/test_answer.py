"""Waiting for a server that has just been started: it answers, it ends, or it does neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lastro.errors import InstrumentError
from lastro.host.base import Completed
from lastro.instruments.answer import wait_for_answer

from ...support.recording import RecordingHost, answer


class Answering:
    """An instance whose server answers when it has been asked `asked` times."""

    def __init__(self, asked: int) -> None:
        self.left = asked

    def run(self, argv: Sequence[str], *, check: bool) -> Completed:
        assert argv == ["ask"] and not check
        self.left -= 1
        return answer(code=1 if self.left else 0)


def waited(asked: int, ended: Completed | None = None, limit_s: float = 20.0) -> Answering:
    instance: Any = Answering(asked)
    wait_for_answer(instance, RecordingHost(lambda argv: ended).spawn(["server"]), ["ask"], "the server", limit_s)
    return instance  # type: ignore[no-any-return]


def test_it_is_asked_until_it_answers() -> None:
    assert waited(3).left == 0


def test_one_that_ends_before_is_told_with_its_last_words() -> None:
    with pytest.raises(InstrumentError, match=r"^the server exited with code 1 before it answered: no space left$"):
        waited(9, answer("starting", code=1, error="no space left\n"))


def test_one_that_does_neither_is_given_up() -> None:
    with pytest.raises(InstrumentError, match=r"^the server did not answer within 0\.1 s$"):
        waited(99, limit_s=0.1)
