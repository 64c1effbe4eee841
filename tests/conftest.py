"""Fixtures for tests on real kernel objects. They hold the host one module at a time, and leave it as they found it."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from lastro.platforms._machine import GuestInstance
from lastro.testbed import Testbed
from lastro.testing import fixtures as shipped
from lastro.testing.fixtures import pool
from lastro.validity import ClockSample

from .support import scheduling
from .support.fleethosts import four_hosts
from .support.hostlisting import clean_host, listing, settled_differences

__all__ = ["four_hosts", "pool", "testbed", "untouched_host"]

# Beside others, an example may take any time.
hypothesis.settings.register_profile("beside others", deadline=None)
hypothesis.settings.load_profile("beside others")

os.environ.pop("CI", None)  # it would give commands another default, and tests would not be the same everywhere

# Where it could not be built (`lastro setup` said why), what is gVisor's cannot run; everywhere else it must.
needs_runsc = pytest.mark.skipif(shutil.which("runsc") is None, reason="no runsc here, and no Go toolchain to build it")
# crictl is in no package of Debian; a node of Kubernetes has it.
needs_crictl = pytest.mark.skipif(shutil.which("crictl") is None, reason="no crictl here")


DISTURBED = 10  # exit code: a few tests failed that other tests may have disturbed; the Makefile tries them again
_MOST_DISTURBED = 5
_WAITING = {"root", "processes"}
_COMMANDS = {"cli", "crash", "system"}  # directories whose tests all start processes
_MODULES = {"known", "unit"}
_failed: list[pytest.TestReport] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.append(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say by the exit code that others may have disturbed the tests that failed."""
    beside_others = session.config.getoption("dist", "no") != "no"
    if session.exitstatus == pytest.ExitCode.TESTS_FAILED and beside_others and may_be_disturbed(_failed):
        session.exitstatus = DISTURBED


def may_be_disturbed(failed: Sequence[pytest.TestReport]) -> bool:
    """Beside others, a test that waits for processes may lose its processor at the wrong moment.

    That is not so for a test that computes, nor for what a module left behind, which is an error of teardown. What a
    module shares fails once, although each of its tests reports it."""
    waited = all(_WAITING & report.keywords.keys() and report.when != "teardown" for report in failed)
    apart = {report.nodeid.partition("::")[0] if report.when == "setup" else report.nodeid for report in failed}
    return waited and len(apart) <= _MOST_DISTURBED


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays to the end, so the garbage collector need not look at it again after each test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # figures make cycles by the thousand, which are small beside what a test needs


def pytest_unconfigure() -> None:
    """Modules in C complain about what is still alive when Python ends."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=scheduling.by_cost)
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in _COMMANDS:
            item.add_marker("processes")
        elif folder in _MODULES and not any(map(item.get_closest_marker, _WAITING | {"measures"})):
            item.add_marker("computes")
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root: it makes real kernel objects"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers share tests by `scheduling.scope`."""
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scheduling.scope(nodeid)

    return ByScope(config, log)


@pytest.fixture(autouse=True)
def untouched_signals() -> Iterator[None]:
    """What a test ignores, all commands of later tests would ignore too: children inherit it."""
    before = _ignored_signals()
    yield
    assert _ignored_signals() == before


def _ignored_signals() -> int:
    """As a mask, without signals from 32 on, which belong to the C library."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1], 16) & 0x7FFFFFFF for line in lines if line.startswith("SigIgn:"))


@pytest.fixture(scope="module", autouse=True)
def untouched_host(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a module marked `root`, the whole host is what it was before."""
    if request.node.get_closest_marker("root") is None or os.geteuid() != 0:
        yield
        return
    with clean_host():
        before = listing()
    yield
    with clean_host():
        assert settled_differences(before) == []


@pytest.fixture(scope="module")
def testbed(untouched_host: None, request: pytest.FixtureRequest) -> Iterator[Testbed]:
    """As shipped, and inside the comparison of the whole host."""
    unwrapped: Any = shipped.testbed
    yield from unwrapped.__wrapped__(request)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without its figures, which take most of the time, for tests of its words."""
    monkeypatch.setattr("lastro.builders.page_figures.svgs_of", lambda plan: ("<svg></svg>",))


@pytest.fixture
def slow_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The readings of machines' clocks are shifted, as if guests had lost a tenth of their time."""
    real = GuestInstance.clock

    def slow(self: GuestInstance) -> ClockSample:
        found = real(self)
        return replace(found, guest_s=0.9 * found.host_s)

    monkeypatch.setattr(GuestInstance, "clock", slow)
