"""A pool of Dask workers, without Dask: one of them hangs."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.app.studies import load_study
from lastro.campaign import dask_pool
from lastro.campaign.dask_pool import DaskWorkerPool
from lastro.campaign.testbed_worker import TestbedOrder


class Client:
    """A client whose workers answer that their host is that of their address. `hung` ones wait until `goes_on`."""

    def __init__(self, *words: Any, **options: Any) -> None:
        self.status, self.dashboard_link = "running", ""
        self.hosts = {"tcp://ada:1": "ada", "tcp://bea:1": "bea"}
        self.hung, self.goes_on = {"tcp://bea:1"}, threading.Event()
        self.asked: list[list[str]] = []

    def subscribe_topic(self, topic: str, handler: object) -> None:
        pass

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": dict.fromkeys(self.hosts)}

    def run(self, function: object, *words: Any, workers: list[str], on_error: str) -> dict[str, str]:
        self.asked.append(workers)
        if self.hung & set(workers):
            self.goes_on.wait()
        return {address: self.hosts[address] for address in workers}

    def close(self, timeout: float) -> None:
        self.status = "closed"


def client_of(pool: DaskWorkerPool) -> Client:
    assert isinstance(pool._client, Client)
    return pool._client


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskWorkerPool]:
    for name, value in (("_ANSWER_S", 0.2), ("_LOOK_S", 0.0), ("END_S", 0.2)):
        monkeypatch.setattr(dask_pool, name, value, raising=False)
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
    made = DaskWorkerPool("tcp://scheduler:1", TestbedOrder(load_study("kagami2017"), "tests"))
    yield made
    client_of(made).goes_on.set()


def soon(action: Callable[[], object]) -> object:
    """The result of something that must not wait for a worker."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(action()), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it waits"
    return found[0]


def test_a_new_worker_that_hangs_does_not_hold_up_the_others(pool: DaskWorkerPool) -> None:
    assert soon(pool.names) == ["ada"]
    assert soon(pool.names) == ["ada"] and client_of(pool).asked.count(["tcp://bea:1"]) == 1, "it is asked once"
    client_of(pool).goes_on.set()
    for _ in range(100):
        if soon(pool.names) == ["ada", "bea"]:
            return
        threading.Event().wait(0.05)
    raise AssertionError("it is taken when it answers")


def test_a_worker_that_hangs_does_not_keep_a_campaign_from_its_end(pool: DaskWorkerPool) -> None:
    client_of(pool).hung = set()
    assert soon(pool.names) == ["ada", "bea"]
    client_of(pool).hung = {"tcp://bea:1"}

    def end() -> str:
        pool.close()
        return str(client_of(pool).status)

    assert soon(end) == "closed"


def test_a_worker_of_dask_answers_while_it_releases_a_testbed(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, ended = threading.Event(), []

    class Held:
        def close(self) -> None:
            ended.append(may_end.wait(10))

    monkeypatch.setitem(dask_pool._held, "token", (Held(), 0.0))  # type: ignore[arg-type]

    async def worker() -> None:
        releasing = asyncio.ensure_future(dask_pool._release_apart("token"))
        await asyncio.sleep(0)
        may_end.set()
        await releasing

    asyncio.run(worker())
    assert ended == [True] and "token" not in dask_pool._held


def test_a_worker_whose_testbed_is_left_out_releases_its_host_at_once(pool: DaskWorkerPool) -> None:
    client_of(pool).hung = set()
    assert soon(pool.names) == ["ada", "bea"]
    pool._spoken_s["bea"] = 0.0
    client_of(pool).asked.clear()
    pool.release("bea")
    pool.release("cid")  # which is gone
    for _ in range(200):
        if client_of(pool).asked:
            break
        threading.Event().wait(0.05)
    assert client_of(pool).asked == [["tcp://bea:1"]] and "bea" not in pool._spoken_s, "and it is not kept alive"
