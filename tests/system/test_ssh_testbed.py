"""Roles on hosts that are reached by real sshds: a line of network cards, a whole campaign, and what a loss leaves."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.app.hosts import image_of
from lastro.errors import ConnectionLost, HostBusy, PlatformError, Unavailable
from lastro.host.files import LocalFiles
from lastro.host.ledger import RUN_DIR, STATE_DIR, Session, session
from lastro.host.local import LocalHost
from lastro.host.lock import silently
from lastro.host.remote import remote_session
from lastro.host.testbed_file import parse
from lastro.image.rootfs import Image
from lastro.platforms.base import InstanceSpec
from lastro.platforms.native import Native
from lastro.results.store import Store
from lastro.scenarios.proxy import ProxyScenario
from lastro.scenarios.proxy.three_node import three_node_testbed
from lastro.scenarios.routing import RoutingScenario
from lastro.scenarios.shared.pools import PlatformPool
from lastro.study.root_change import RootChange
from lastro.testbed import Testbed, spread_testbed, with_roots

from ..cli.conftest import Process, lastro, no_stragglers, start, study_text
from ..support.products import one_of
from ..support.scenarios import SHORT, TOLERANT, configured, xdp_needs
from ..support.sshmachine import Machine, cable, machines, run

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]  # a fixture for every test here

STUDY = """
[study]
name = "far"
scenario = "uplink"
[factors]
platform = ["native", "runc"]
[settings]
attachment = "veth-bridge"
instrument = "iperf3-tcp"
load_s = 1
settle_s = 0
max_foreign_cpus = 99
max_wait_s = 0
max_steal_percent = 99
[design]
replicates = 1
seed = 1
baseline = { platform = "native" }
"""

PROXIES = """
[study]
name = "far-proxies"
scenario = "proxy"
[factors]
platform = ["runc"]
[settings]
attachment = "routed"
instrument = "curl"
memory = "512M"
clients = 4
requests = 400
settle_s = 0
max_foreign_cpus = 99
max_wait_s = 0
max_steal_percent = 99
[design]
replicates = 1
seed = 1
"""


@pytest.fixture(scope="module")
def two(untouched_host: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    """`ends` is for client and server, `middle` for the DUT; two cables join them."""
    with machines(tmp_path_factory.mktemp("ssh"), "ends", "middle") as made:
        ends, middle = made
        cable(ends, "nodes-c", middle, "nodes-1")
        cable(ends, "nodes-s", middle, "nodes-2")
        yield made


def text_of(ends: Machine, middle: Machine) -> str:
    return (
        f'[client]\n{ends.table()}cpus = "0"\nlinks = {{ dut = "nodes-c" }}\n'
        f'[dut]\n{middle.table()}links = {{ client = "nodes-1", server = "nodes-2" }}\n'
        f'[server]\n{ends.table()}links = {{ dut = "nodes-s" }}\n'
    )


@pytest.fixture(scope="module")
def file(two: list[Machine], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("testbed") / "testbed.toml"
    place.write_text(text_of(*two))
    return place


def ledgers(machine: Machine) -> list[Path]:
    return [*(STATE_DIR / "hosts").glob(f"*{machine.address}*/ledger.db")]


def rows(ledger: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(ledger)) as database:
        return database.execute(query).fetchall()


def nothing_is_left(machine: Machine) -> bool:
    """Neither directories nor anything in the ledger of what was made there."""
    left: list[object] = [*Path(machine.target.run).glob("*"), *(Path(machine.target.state) / "scratch").glob("*")]
    for ledger in ledgers(machine):
        left += rows(ledger, "SELECT kind, name FROM object")
    return not left


def links(machine: Machine) -> dict[str, list[str]]:
    shown = json.loads(run("ip", "-n", machine.netns, "-j", "address", "show"))
    return {link["ifname"]: [each["local"] for each in link["addr_info"] if each["family"] == "inet"] for link in shown}


def test_a_line_of_cards_between_hosts_carries_a_flow_and_gives_the_cards_back(two: list[Machine]) -> None:
    ends, middle = two
    with session("tests", wait=silently) as near, ExitStack() as stack:
        plan = parse(text_of(ends, middle), "testbed.toml")
        bed = stack.enter_context(spread_testbed(near, image_of(near), plan, "tests", wait=None))
        assert bed.host.name == f"root@{middle.address}:2222" and bed.at("client").host is bed.at("server").host
        with three_node_testbed(bed) as nodes:
            assert "nodes-1" not in links(middle)
            native = Native()
            server = stack.enter_context(native.start(nodes.server.testbed, nodes.server.spec("sink")))
            client = stack.enter_context(native.start(nodes.client.testbed, nodes.client.spec("source")))
            assert client.spec.resources.cpuset == "0"
            listening = server.spawn(["iperf3", "--server", "--one-off", "--forceflush"])
            listening.wait_line("listening", 10)
            client.run(["iperf3", "-c", nodes.server.address, "-n", "1M"], timeout_s=20)
            assert int(middle_bytes(bed)) > 1_000_000
            listening.stop()
        assert links(middle)["nodes-1"] == [] and links(ends)["nodes-c"] == []
        assert bed.shared_cpus == ["client and server on root@198.18.220.2:2222: CPUs 0"]
        run("ip", "-n", middle.netns, "address", "add", "198.18.99.1/24", "dev", "nodes-1")
        with (
            pytest.raises(Unavailable, match=r"nodes-1 .* has the address 198.18.99.1, and is in use"),
            three_node_testbed(bed),
        ):
            pass
        run("ip", "-n", middle.netns, "address", "flush", "dev", "nodes-1")
        run("ip", "-n", middle.netns, "link", "set", "dev", "nodes-1", "up")
        with pytest.raises(PlatformError, match="in the middle"), three_node_testbed(bed):
            raise PlatformError("in the middle")
        cards = json.loads(run("ip", "-n", middle.netns, "-j", "link", "show"))
        assert {card["ifname"]: "UP" in card["flags"] for card in cards if card["ifname"].startswith("nodes")} == {
            "nodes-1": True, "nodes-2": False
        }  # fmt: skip
        run("ip", "-n", middle.netns, "link", "set", "dev", "nodes-1", "down")
        with pytest.raises(HostBusy, match="in use by tests"):
            stack.enter_context(spread_testbed(near, image_of(near), plan, "second", wait=None))
    assert nothing_is_left(ends) and nothing_is_left(middle)


def middle_bytes(bed: Testbed) -> str:
    (link,) = bed.host.run_json(["ip", "-n", bed.dut, "-j", "-s", "link", "show", "dev", "nodes-1"])
    return str(link["stats64"]["rx"]["bytes"])


def test_a_virtual_machine_boots_on_a_remote_dut(two: list[Machine]) -> None:
    """Its kernel is copied there, its disk is made there, and the client of its agent runs there."""
    with session("tests", wait=silently) as near, ExitStack() as stack:
        plan = parse(text_of(*two), "testbed.toml")
        bed = stack.enter_context(spread_testbed(near, image_of(near), plan, "tests", wait=None))
        machine = stack.enter_context(PlatformPool(bed, stack).get("qemu-tcg").start(bed, InstanceSpec("one", "probe")))
        assert machine.run(["cat", "/proc/sys/kernel/hostname"]).text == "probe\n"
        assert machine.usage().cpu_s > 0 and bed.host.view.exists(str(bed.run_dir / "one"))
    assert all(nothing_is_left(each) for each in two)


def has(machine: Machine, image: Image) -> None:
    """As if it had been sent, as by another test or for the line of cards: that takes seconds."""
    images = Path(machine.target.state) / "rootfs"
    images.mkdir(parents=True, exist_ok=True)
    (images.parent / "lock").touch()  # by which a state directory is known
    if not (images / image.name).exists():
        (images / image.name).symlink_to(image.directory)


def test_a_variant_has_its_root_filesystem_and_its_sessions_on_the_same_hosts(two: list[Machine]) -> None:
    """Both run at the same time. When the connection of the second one is lost, the first one holds the host again."""
    change = RootChange(packages=("xdp-tools",))
    with session("tests", wait=silently) as near, ExitStack() as stack:
        images = [image_of(near), image_of(near, xdp_needs(near.host))]
        for machine in two:
            for image in images:
                has(machine, image)
        plan = parse(text_of(*two), "testbed.toml")
        bed = stack.enter_context(spread_testbed(near, images[0], plan, "tests", wait=None))
        complete = stack.enter_context(with_roots(bed, {change: images[1]}, "tests"))
        other = complete.roots[change]
        assert [each.image.name for each in (complete, other, other.at("client"))] == [
            images[0].name, images[1].name, images[0].name
        ]  # fmt: skip
        assert other.base == bed.image and other.at("client").session is other.at("server").session
        tokens = {each.token for one in (complete, other) for each in one.sessions}
        assert len(tokens) == 4 and other.dut != bed.dut
        found = []
        with ExitStack() as running:
            for one in (complete, other):
                runc = PlatformPool(one, running).get("runc")
                instance = running.enter_context(runc.start(one, InstanceSpec("one", "probe")))
                found.append(instance.run(["sh", "-c", "command -v xdp-filter"], check=False).returncode)
        assert found == [127, 0], "the same name of an instance in two sessions"
        first = holder(bed.session)
        two[1].cut()
        with pytest.raises(ConnectionLost):
            other.host.run(["true"])
        other.host.recover()
        assert holder(bed.session) != first
    assert all(nothing_is_left(machine) for machine in two)


@pytest.mark.slow
def test_variants_of_the_root_filesystem_run_on_a_remote_dut(two: list[Machine], file: Path, tmp_path: Path) -> None:
    packages = xdp_needs(LocalHost()).packages
    settings = {**SHORT["chain"], **TOLERANT, "udp_s": 0}
    text = study_text({"platform": ["runc"]}, scenario="chain", **settings)
    (tmp_path / "study.toml").write_text(text.replace("[factors]", 'metrics = ["latency_mean"]\n[factors]'))
    words = ["--b", f"packages={','.join(packages)}", "--blocks", "2", "--margin", "90%", "--wait"]
    done = lastro("ab", tmp_path / "study.toml", "--testbed", file, "-o", tmp_path / "campaign", *words)
    assert done.code in (0, 8), done
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert not any(row.unavailable for row in store.treatments())
        files = store.provenance.chapters["root_filesystem"]
        (variant,) = files["variants"].values()
        trees = [each["sha256"][:12] for each in (files, variant)]
    scripts = [lastro("show", tmp_path / "campaign", number, "--commands").out for number in (1, 2)]
    assert sorted([tree in script for tree in trees] for script in scripts) == [[False, True], [True, False]]
    assert all(nothing_is_left(machine) for machine in two)


def test_routers_converge_on_a_remote_dut_by_its_own_clock(two: list[Machine]) -> None:
    """The links are seen to fail and to come back within moments, whatever the way there takes."""
    wanted = configured(RoutingScenario, **SHORT["routing"], platform="native")
    with session("tests", wait=silently) as near, ExitStack() as stack:
        image = image_of(near, RoutingScenario.image_needs(near.host, []))
        for machine in two:
            has(machine, image)
        plan = parse(text_of(*two), "testbed.toml")
        bed = stack.enter_context(spread_testbed(near, image, plan, "tests", wait=None))
        scenario = RoutingScenario(bed)
        stack.callback(scenario.close)
        assert scenario.availability(wanted)
        with scenario.attempt() as transcript:
            outcome = scenario.run(wanted, {})
        assert outcome.valid, outcome.invalid_because
        assert {record["ssh"][-1] for record in transcript.records if "ssh" in record} == {two[1].address}
        values = outcome.measurements
        assert 0 < values["created"] < values["boot"] < values["initial_routes"]
        assert values["first_ospf_packet"] < values["initial_last_update"] < 60
        assert max(values[f"{event}_routes"] for event in ("failure", "recovery")) < 5
        assert all(values[f"cpu_{phase}"] >= 0 for phase in ("boot", "regular", "failure", "recovery"))
        assert outcome.notes["clocks"][bed.host.name]["uncertainty"] < 0.01  # type: ignore[call-overload,index]
    assert all(nothing_is_left(machine) for machine in two)


def test_requests_go_through_a_proxy_on_a_remote_dut_and_every_log_accounts_for_them(two: list[Machine]) -> None:
    parts = {"platform": "runc", "attachment": "routed", "isolation": "none", "anomaly": "none", "instrument": "curl"}
    wanted = configured(ProxyScenario, **parts, settle_s=0.0, memory="512M", clients=4, requests=5)
    with session("tests", wait=silently) as near, ExitStack() as stack:
        image = image_of(near, ProxyScenario.image_needs(near.host, [wanted]))
        for machine in two:
            has(machine, image)
        plan = parse(text_of(*two), "testbed.toml")
        bed = stack.enter_context(spread_testbed(near, image, plan, "tests", wait=None))
        scenario = ProxyScenario(bed)
        stack.callback(scenario.close)
        with scenario.attempt() as transcript:
            outcome = scenario.run(wanted, {})
        assert outcome.valid, outcome.invalid_because
        addresses = {record["ssh"][-1] for record in transcript.records if "ssh" in record}
        assert addresses == {machine.address for machine in two}
    assert all(nothing_is_left(machine) for machine in two)


def test_a_whole_campaign_runs_on_a_remote_dut(two: list[Machine], file: Path, tmp_path: Path) -> None:
    study, campaign = tmp_path / "far.toml", tmp_path / "campaign"
    study.write_text(STUDY)
    done = lastro("run", study, "--testbed", file, "-o", campaign, "--wait", "--no-report")
    assert done.code == 0, done.err + done.out
    with Store.open(campaign, readonly=True) as store:
        assert store.counts()["valid"] == 2
        places = store.provenance.chapters["testbed"]
        assert places["file"] == str(file) and places["shared_cpus"] == []  # of a scenario with one role
        assert places["roles"]["dut"]["reached"] == two[1].target.name
        assert places["roles"]["client"]["machine"]["cpus"] == os.cpu_count()
    commands = lastro("show", campaign, "1", "--commands").out
    assert f"-- {two[1].address} 'ip netns add" in commands or f"-- {two[1].address} " in commands
    assert all(nothing_is_left(machine) for machine in two)


def started(file: Path, machine: Machine, place: Path, *, load_s: int) -> tuple[Process, Path]:
    """A campaign in the middle of a flow."""
    text = STUDY.replace('["native", "runc"]', '["native"]').replace("load_s = 1", f"load_s = {load_s}")
    return until(lambda: flows(machine), text, file, place)


def until(found: Callable[[], list[int]], text: str, file: Path, place: Path) -> tuple[Process, Path]:
    """A campaign of a study, as soon as certain processes are found."""
    study, campaign = place / "far.toml", place / "campaign"
    study.write_text(text)
    process = start("run", study, "--testbed", file, "-o", campaign, "--wait", "--no-report")
    deadline = time.monotonic() + 60
    while not found():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)
    return process, campaign


def flows(machine: Machine) -> list[int]:
    """Clients of iperf3 that a session on a machine has started."""
    tokens = [row[0] for ledger in ledgers(machine) for row in rows(ledger, "SELECT token FROM session")]
    pids = {pid for token in tokens for pid in LocalFiles().owned_pids(str(token))}
    return [pid for pid in pids if cmdline(pid).startswith(b"iperf3\0--client\0")]  # not the shell that runs them


def squids() -> list[int]:
    """Proxies anywhere: in their instances, no mark of a session is passed on to them."""
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    return [pid for pid in pids if b"squid" in cmdline(pid).partition(b"\0")[0]]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_connection_lost_in_mid_trial_makes_it_invalid_and_leaves_nothing(
    two: list[Machine], file: Path, tmp_path: Path
) -> None:
    process, campaign = started(file, two[1], tmp_path, load_s=4)
    two[1].cut()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err + out
    with Store.open(campaign, readonly=True) as store:
        first, *_, last = store.attempts(1)
        assert not first.valid and "was lost" in " ".join(first.reasons)
        assert last.valid
    assert all(nothing_is_left(machine) for machine in two)


@pytest.mark.slow
def test_a_connection_lost_while_proxies_are_asked_leaves_neither_them_nor_their_links(
    two: list[Machine], file: Path, tmp_path: Path
) -> None:
    def in_a_trial() -> list[int]:  # and not where it is found out whether there can be one
        store = tmp_path / "campaign" / "campaign.db"
        return squids() if store.exists() and rows(store, "SELECT 1 FROM trial WHERE state = 'running'") else []

    process, campaign = until(in_a_trial, PROXIES, file, tmp_path)
    two[1].cut()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err + out
    with Store.open(campaign, readonly=True) as store:
        first, *_, last = store.attempts(1)
        assert not first.valid and "was lost" in " ".join(first.reasons)
        assert last.valid, last.reasons
    assert all(nothing_is_left(machine) for machine in two)
    assert not squids() and {"nodes-1", "nodes-2"} <= set(links(two[1])), "the cards are given back"


def holder(held: Session) -> int:
    """The process that holds a host for a session."""
    deadline = time.monotonic() + 5
    while len(pids := LocalFiles().owned_pids(f"holder-{held.token}")) != 1:  # it has told, and is about to be a sleep
        assert time.monotonic() < deadline, pids
    return pids.pop()


def test_a_loss_that_the_remote_side_has_not_seen_is_recovered_from(two: list[Machine]) -> None:
    target = replace(two[1].target, connect_s=2)
    with session("tests", wait=silently) as near, remote_session(near, target, "tests") as held:
        first = holder(held)
        with two[1].unaware():
            with pytest.raises(ConnectionLost, match="was lost"):
                held.host.run(["sleep", "30"])
            held.host.recover()
            assert holder(held) != first
            assert (Path(two[1].target.state) / "lock").read_text() == "tests"
            with pytest.raises(HostBusy, match="in use by tests"), remote_session(near, target, "second"):
                pass
    assert nothing_is_left(two[1])


SEEN, UNSEEN = "a-loss-that-sshd-sees", "a-loss-that-it-does-not"


@pytest.mark.parametrize("loss", one_of([SEEN, UNSEEN], UNSEEN))
def test_what_a_killed_campaign_left_on_remote_hosts_is_cleaned_without_the_testbeds_file(
    two: list[Machine], file: Path, tmp_path: Path, loss: str
) -> None:
    process, _ = started(file, two[1], tmp_path, load_s=7)
    with ExitStack() as stack:
        if loss == UNSEEN:
            stack.enter_context(two[1].unaware())
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        assert not nothing_is_left(two[1])
        done = lastro("clean", "--wait")
    assert done.code == 0, done.err
    assert f"on root@{two[1].address}:2222" in done.out
    assert all(nothing_is_left(machine) for machine in two)
    assert not flows(two[1])
    assert not [*RUN_DIR.glob("*/ssh-*")]


def test_a_host_that_is_gone_stops_the_campaign_and_is_cleaned_when_it_is_back(
    two: list[Machine], file: Path, tmp_path: Path
) -> None:
    process, campaign = started(file, two[1], tmp_path, load_s=5)
    two[1].stop()
    try:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 3 and "cannot be reached" in err, err + out
        done = lastro("clean")
        assert done.code == 3 and "cannot be reached" in done.err and "clean" in done.err
        done = lastro("plan", tmp_path / "far.toml", "--testbed", file)
        assert done.code == 3 and "cannot be reached" in done.err
    finally:
        two[1].start()
    done = lastro("resume", campaign, "--wait", "--no-report")
    assert done.code == 0, done.err
    with Store.open(campaign, readonly=True) as store:
        assert store.counts()["valid"] == 1
    assert all(nothing_is_left(machine) for machine in two)
