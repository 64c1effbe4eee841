"""Testbeds that are the hosts of the workers of a Dask scheduler, such as those of a Slurm allocation.

A Dask worker starts a testbed worker (`campaign.testbed_worker`), which holds its host. Each call is a task that is
pinned to one Dask worker and has no retries, since the campaign decides what is repeated, and where. If the Dask worker
of a task is lost, the answer is WorkerFailure.

Source: https://distributed.dask.org. The optional dependency dask.distributed is imported only when it is used."""

from __future__ import annotations

import asyncio
import itertools
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from lastro.campaign.executor import Call
from lastro.campaign.testbed_worker import END_S, OpenedTestbed, TestbedOrder, TestbedWorker, WorkerEvent, WorkerFailure
from lastro.campaign.worker_pool import Answers
from lastro.errors import HostError

T = TypeVar("T")
_CONNECT_S = 15.0
_LOOK_S = 2.0  # between two looks at the workers
_ANSWER_S = 1.0  # for new workers to name their hosts, before the campaign continues without them
_KEEP_S = 10.0  # between two signs of life to an idle testbed worker
LEASE_S = 40.0  # after which a Dask worker releases a testbed worker that got no sign of life


class DaskWorkerPool:
    """The workers of a Dask scheduler as testbeds: one worker on each host, under the name of the host."""

    grows = True

    def __init__(self, address: str, order: TestbedOrder) -> None:
        """Connect to the scheduler at `address`; `order` describes the testbed that every worker must hold.

        Raises: HostError when dask.distributed is not installed, or the scheduler does not answer."""
        try:
            from distributed import Client
        except ImportError as error:
            raise HostError(
                "a fleet with a Dask scheduler needs the package dask.distributed, which is not installed",
                "pip install 'lastro[fleet]'",
            ) from error
        self.answers: Answers = queue.SimpleQueue()
        self._order = order
        self._token = secrets.token_hex(4)
        self._topic = f"lastro-{self._token}"
        self._numbers = itertools.count(1)
        self._workers: dict[str, str] = {}  # {testbed: address of its worker}
        self._hosts: dict[str, str] = {}  # {address: testbed}
        self._asked = set[str]()  # addresses of workers that have not answered yet
        self._futures: dict[str, Any] = {}  # the running task of each testbed
        self._spoken_s: dict[str, float] = {}  # time of the last message to each open testbed
        self._looked_s = 0.0
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError) as error:
            hint = "does it run, and is the address right?"
            raise HostError(f"the Dask scheduler {address} does not answer: {error}", hint) from error
        self._client.subscribe_topic(self._topic, self._take_event)

    @property
    def dashboard(self) -> str:
        """The address of the scheduler's web page."""
        return str(self._client.dashboard_link)

    def names(self) -> Sequence[str]:
        if time.monotonic() - self._looked_s >= _LOOK_S:
            self._look()
            self._looked_s = time.monotonic()
            self._keep()
        return list(self._workers)

    def _look(self) -> None:
        """Add workers that are new, and answer the tasks of workers that are gone with a WorkerFailure.

        Raises: HostError."""
        if self._client.status != "running":
            raise HostError("the Dask scheduler is gone", "start it again; `lastro resume` continues the campaign")
        present = self._client.scheduler_info(n_workers=-1)["workers"]
        new = [address for address in present if address not in self._hosts and address not in self._asked]
        self._asked.update(new)
        _join([_in_thread(self._ask_host, address) for address in new], _ANSWER_S)
        for testbed, address in list(self._workers.items()):
            if address not in present:
                del self._workers[testbed]
                self._spoken_s.pop(testbed, None)
                if (future := self._futures.pop(testbed, None)) is not None:
                    self._client.cancel([future], force=True)  # or the scheduler would run it on the next worker
                    self.answers.put((testbed, WorkerFailure("WorkerEnded", "its Dask worker is gone")))
        for address in present:
            if address in self._hosts:
                self._workers.setdefault(self._hosts[address], address)

    def _ask_host(self, address: str) -> None:
        """Ask a worker for its host name, and wait for the answer. Until then, the worker is not asked again."""
        try:
            self._hosts.update(self._client.run(socket.gethostname, workers=[address], on_error="ignore"))
        finally:
            self._asked.discard(address)

    def _keep(self) -> None:
        now_s = time.monotonic()
        for testbed, spoken_s in self._spoken_s.items():
            if testbed not in self._futures and now_s - spoken_s > _KEEP_S:
                self._spoken_s[testbed] = now_s
                future = self._submit(testbed, _keep, self._token)
                future.add_done_callback(lambda done: None)

    def open(self, testbed: str) -> None:
        self._task(testbed, _open, self._token, self._order)

    def ask(self, testbed: str, call: Call) -> None:
        self._task(testbed, _ask, self._token, call)

    def release(self, testbed: str) -> None:
        self._spoken_s.pop(testbed, None)
        if (address := self._workers.get(testbed)) is not None:
            _in_thread(self._release, [address])

    def close(self) -> None:
        if self._client.status == "running":
            _join([_in_thread(self._release, list(self._workers.values()))], END_S)
        with suppress(Exception):
            self._client.close(timeout=END_S)

    def _release(self, addresses: Sequence[str]) -> None:
        """Release the testbed workers of Dask workers. A testbed worker that cannot be reached ends with its lease."""
        self._client.run(_release_apart, self._token, workers=list(addresses), on_error="ignore")

    def _task(self, testbed: str, function: Callable[..., object], *values: object) -> None:
        if testbed not in self._workers:
            self.answers.put((testbed, WorkerFailure("WorkerEnded", "its Dask worker is gone")))
            return
        self._spoken_s[testbed] = time.monotonic()
        future = self._futures[testbed] = self._submit(testbed, function, *values)

        def done(ended: Any) -> None:
            if self._futures.get(testbed) is future:
                del self._futures[testbed]
                self._spoken_s[testbed] = time.monotonic()
                try:
                    answer = ended.result()
                except BaseException as error:  # of Dask itself: the errors of a call are answers
                    answer = WorkerFailure("WorkerEnded", f"Dask: {type(error).__name__}: {error}")
                self.answers.put((testbed, answer))

        future.add_done_callback(done)

    def _submit(self, testbed: str, function: Callable[..., object], *values: object) -> Any:
        key = f"lastro{function.__name__}-{self._token}-{next(self._numbers)}"
        return self._client.submit(
            function, *values, self._topic, testbed, key=key, workers=[self._workers[testbed]],
            allow_other_workers=False, retries=0, pure=False,
        )  # fmt: skip

    def _take_event(self, event: tuple[float, dict[str, Any]]) -> None:
        _, told = event
        self.answers.put((told["testbed"], WorkerEvent(told["method"], tuple(told["values"]))))


def _in_thread(function: Callable[..., object], *values: object) -> threading.Thread:
    """Call `function`, which waits for workers, in a thread: a worker that hangs then does not block the campaign."""

    def call() -> None:
        with suppress(Exception):  # of a worker that is gone
            function(*values)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def _join(threads: Sequence[threading.Thread], patience_s: float) -> None:
    deadline_s = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))


# On the worker

_held: dict[str, tuple[TestbedWorker, float]] = {}  # by the pool's token, with the time until which each is held
_turn = threading.Lock()


def _open(token: str, order: TestbedOrder, topic: str, testbed: str) -> OpenedTestbed | WorkerFailure:
    with _turn:
        if (old := _held.pop(token, None)) is not None:
            old[0].close()
        worker = TestbedWorker(order)
        _held[token] = (worker, float("inf"))
        if len(_held) == 1:
            threading.Thread(target=_watch, daemon=True).start()
    return _while_held(token, lambda: worker.open(_teller(topic, testbed)))


def _ask(token: str, call: Call, topic: str, testbed: str) -> Any:
    if token not in _held:
        return WorkerFailure("WorkerEnded", "its Dask worker has started again")
    worker = _held[token][0]
    return _while_held(token, lambda: worker.ask(call, _teller(topic, testbed)))


def _keep(token: str, topic: str, testbed: str) -> None:
    _while_held(token, lambda: None)


def _release(token: str) -> None:
    with _turn:
        held = _held.pop(token, None)
    if held is not None:
        held[0].close()


async def _release_apart(token: str) -> None:
    """Release a testbed worker in a thread, so that the Dask worker can answer its scheduler meanwhile."""
    await asyncio.to_thread(_release, token)


def _while_held(token: str, action: Callable[[], T]) -> T:
    """Call `action` with the lease of a testbed worker suspended, and return the answer of `action`.

    Afterwards, the worker has a new lease of `LEASE_S`, or is released if the answer is a WorkerFailure. `token`
    identifies the worker."""
    _extend(token, float("inf"))
    answer = action()
    if isinstance(answer, WorkerFailure):
        _release(token)
    else:
        _extend(token, time.monotonic() + LEASE_S)
    return answer


def _extend(token: str, until_s: float) -> None:
    with _turn:
        if token in _held:
            _held[token] = (_held[token][0], until_s)


def _watch() -> None:
    """Release testbed workers whose lease is over, because their campaign has ended or cannot be reached."""
    while True:
        time.sleep(LEASE_S / 10)
        with _turn:
            expired = [token for token, (_, until_s) in _held.items() if time.monotonic() > until_s]
            if not _held:
                return
        for token in expired:
            _release(token)


def _teller(topic: str, testbed: str) -> Callable[[WorkerEvent], None]:
    from distributed import get_worker

    worker = get_worker()

    def tell(seen: WorkerEvent) -> None:
        worker.log_event(topic, {"testbed": testbed, "method": seen.method, "values": list(seen.values)})

    return tell
