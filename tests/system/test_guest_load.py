"""The kernel's packet generator in a guest, whose kernel is Debian's: this machine's may lack the module.

One guest, which boots in about a minute, serves all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from typing import Any

import pytest

from lastro import registry
from lastro.app.hosts import image_of
from lastro.attachments.veth_direct import VethDirect
from lastro.errors import CommandFailed
from lastro.functions.base import Function
from lastro.host.ledger import session
from lastro.host.lock import silently
from lastro.host.testbed_file import parse
from lastro.instruments.load_generator import Direction, Traffic
from lastro.instruments.pktgen import Pktgen
from lastro.platforms.native import Native
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.probing import Prober
from lastro.scenarios.load.steering import APART, steer
from lastro.scenarios.shared.chain import Chain, deployed
from lastro.testbed import Testbed, guest_testbeds
from lastro.testing import InstrumentContract

from ..support.images import IN_A_GUEST
from ..support.loading import config
from ..support.scenarios import SHORT, attempted, frames_needs

pytestmark = [pytest.mark.root, pytest.mark.slow]

GUEST = f'kind = "guest"\ncpus = 2\nmemory = "1G"\naccelerator = "tcg"\nplatforms = {list(IN_A_GUEST)}\n'
THREADS = "grep -lsE '^kpktgend_' /proc/[0-9]*/comm || :"


@pytest.fixture(scope="module")
def guest() -> Iterator[Testbed]:
    plan = parse(GUEST, "guest.toml").guest
    assert plan is not None
    with (
        session("tests", wait=silently) as held,
        guest_testbeds(held, image_of(held, frames_needs(held.host)), [plan], "tests") as bed,
    ):
        yield bed


@pytest.fixture(scope="module")
def running(guest: Testbed) -> Iterator[LoadScenario]:
    with closing(LoadScenario(guest)) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_is_left(guest: Testbed) -> Iterator[None]:
    yield
    assert not guest.host.view.exists("/proc/net/pktgen")
    assert guest.host.run(["sh", "-c", THREADS]).text == ""
    assert not [owned for owned in guest.session.owned_objects() if owned.kind == "module"]


def standing(guest: Testbed, function: str) -> Any:
    kind: type[Function] = registry.get("function", function)
    return deployed(guest, Native(), VethDirect(), kind(), offloads=False)


def prober(chain: Chain, **traffic: Any) -> Prober:
    steer(chain, APART)
    return Prober(chain.source.testbed, chain, Pktgen(), Traffic.of(**traffic))


def test_it_passes_the_contract_of_an_instrument(running: LoadScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer damaged reports than on a host: for each, the guest is asked several times over SSH."""
    monkeypatch.setattr("lastro.testing.instruments._VERSIONS", 10)
    contract = InstrumentContract()
    settings = {"offered_fps": 1000, "probe_s": 0.5, "frame_size": "imix", "flows": 100}
    vars(contract).update(instrument="pktgen", settings=settings)
    contract.test_it_measures_what_it_declares_and_refuses_what_cannot_be_right(running.testbed, running.pool)


def test_a_search_by_pktgen_is_a_valid_trial(running: LoadScenario) -> None:
    wanted = config(**{**SHORT["load"], "instrument": "pktgen", "function": "firewall", "flows": 10, "at": "none"})
    found = running.availability(wanted)
    assert found, found.reason
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["frame_mean"] == pytest.approx(60, abs=0.5)
    assert outcome.measurements["pdr"] > 1_000 and outcome.measurements["frames_per_cpu_s"] > 0
    cost: Any = outcome.notes["cost"]
    assert 0 < cost["kernel_s"] <= 1.1 * cost["lasted_s"] and 0 < cost["waited_s"] < cost["kernel_s"]
    assert outcome.measurements["source_cpus"] >= cost["kernel_s"] / cost["lasted_s"]


@pytest.mark.parametrize("traffic", [{"size": "imix", "flows": 100}, {"size": "82", "ip": "6"}], ids=["mix", "IPv6"])
def test_frames_of_every_kind_arrive_at_their_rate(guest: Testbed, traffic: dict[str, Any]) -> None:
    kind: type[Function] = registry.get("function", "none")
    ip = traffic.get("ip", "4")
    with deployed(guest, Native(), VethDirect(), kind(), offloads=False, ip=ip) as chain:
        sender = prober(chain, **traffic)
        with sender.ready():
            probe = sender.probe(2_000, 0.5)
    assert probe.sent == pytest.approx(1_000, abs=3) and probe.received == pytest.approx(probe.sent, abs=2)
    assert probe.part_sent > 0.9 and sender.size_reasons() == [], probe


def test_a_function_that_is_too_slow_loses_frames_and_does_not_block_it(guest: Testbed) -> None:
    kind: type[Function] = registry.get("function", "dpi")
    with deployed(guest, Native(), VethDirect(), kind(signatures=1000), offloads=False) as chain:
        sender = prober(chain, size="64")
        with sender.ready():
            probe = sender.probe(10_000, 0.5)
    assert probe.sent > 2_500 and probe.received < probe.sent / 2, probe


def test_a_generator_that_is_killed_stops(guest: Testbed) -> None:
    """What writes to pktgen is killed in the middle of a load, as all of a session is by `lastro clean`."""
    guest.host.be_ready(2)
    with standing(guest, "none") as chain:
        direction, generator, errors = Direction(chain.source, chain.sink, chain.path.sink), Pktgen(), list[str]()

        def offer() -> None:
            try:
                generator.offer(direction, Traffic.of("64"), 1_000, 60)
            except CommandFailed as error:
                errors.append(error.message)

        with generator.receiving(direction):
            idle = chain.source.pids()
            thread = Thread(target=offer)
            thread.start()
            sent = [sent_frames(chain)]
            while sent[-1] < 100:
                assert thread.is_alive() and len(sent) < 600
                time.sleep(0.1)
                sent.append(sent_frames(chain))
            guest.host.run(["kill", "-KILL", *map(str, sorted(chain.source.pids() - idle))])
            thread.join(60)
            assert errors and "137" in errors[0]
            time.sleep(0.3)
            stopped = sent_frames(chain)
            time.sleep(1.0)
            assert sent_frames(chain) <= stopped + 5, "its thread has nothing more to send"


def sent_frames(chain: Chain) -> int:
    (link,) = [each for each in chain.source.links() if each["ifname"] == "out0"]
    return int(link["stats64"]["tx"]["packets"])
