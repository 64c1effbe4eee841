"""CNI plug-ins on real links: conflists of users, plug-ins that refuse, and what a campaign records of them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lastro.attachments.cni import Cni
from lastro.platforms.base import Instance
from lastro.results.topology import Topology
from lastro.scenarios.base import make_part
from lastro.scenarios.shared.pools import PlatformPool
from lastro.scenarios.uplink import UplinkScenario
from lastro.testbed import Testbed
from lastro.testing import Subject
from lastro.testing.attachments import contents, segment
from lastro.testing.network import LEFT, RIGHT, reaches

from ..support.scenarios import SHORT, attempted, configured

pytestmark = pytest.mark.root

# As Podman's own network: addresses from a range, a gateway, and rules of iptables.
PODMANS: dict[str, Any] = {
    "cniVersion": "0.4.0",
    "name": "podman",
    "plugins": [
        {
            "type": "bridge", "bridge": "cni-podman0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}]]},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "firewall"},
        {"type": "tuning"},
    ],
}  # fmt: skip


def written(directory: Path, network: dict[str, Any]) -> str:
    file = directory / "a.conflist"
    file.write_text(json.dumps(network))
    return f"cni:conflist={file}"


def test_a_conflist_of_the_users_leaves_nothing_on_the_host(
    testbed: Testbed, pool: PlatformPool, tmp_path: Path
) -> None:
    before, links = contents(testbed), make_part(Cni, written(tmp_path, PODMANS))
    subject = Subject(testbed, pool.get("runc"))
    with subject.start_all(subject.spec("aa"), subject.spec("bb")) as (a, b), links.prepare(testbed):
        with links.connect(testbed, [segment(a, b)]):
            assert reaches(a, RIGHT) and reaches(b, LEFT)
            given = json.loads(a.run(["ip", "-j", "address", "show", "eth0"]).text)[0]["addr_info"]
            assert {LEFT, "10.88.0.2"} <= {each["local"] for each in given}
            assert reaches(a, "10.88.0.3"), "by the address that the plug-in gave the other"
            assert links.node is not None
            rules = testbed.host.run(["ip", "netns", "exec", links.node.dut, "iptables-save"]).text
            assert "CNI-FORWARD" in rules and (testbed.run_dir / "cni" / "podman" / "10.88.0.2").is_file()
        assert not list((testbed.run_dir / "cni" / "podman").glob("10.*"))
    assert contents(testbed) == before


def test_a_limit_holds_in_both_directions(testbed: Testbed, pool: PlatformPool) -> None:
    links = make_part(Cni, "cni:rate=20M")
    subject = Subject(testbed, pool.get("runc"))
    with (
        subject.start_all(subject.spec("aa"), subject.spec("bb")) as (a, b),
        links.prepare(testbed),
        links.connect(testbed, [segment(a, b)]),
    ):
        for source, sink, address in ((a, b, RIGHT), (b, a, LEFT)):
            assert 5 < sent_mbps(source, sink, address) < 30


def sent_mbps(source: Instance, sink: Instance, address: str) -> float:
    with sink.during(["iperf3", "--server", "--one-off", "--forceflush"], "listening"):
        done = source.run(["iperf3", "--client", address, "--json", "--time", "1"])
    return float(json.loads(done.text)["end"]["sum_received"]["bits_per_second"]) / 1e6


def test_what_a_plug_in_refuses_is_unavailable_with_its_words(
    testbed: Testbed, pool: PlatformPool, tmp_path: Path
) -> None:
    before = contents(testbed)
    narrow = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/31"}]]}
    level = written(tmp_path, {"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge", "ipam": narrow}]})
    links = make_part(Cni, level)
    with links.prepare(testbed):
        found = links.probe(testbed, pool.get("native"))
    assert "the CNI plug-in bridge did not add eth0" in str(found.reason) and "too small" in str(found.reason)
    assert contents(testbed) == before


def test_a_trial_records_plug_ins_and_conflist_and_draws_what_they_made(testbed: Testbed, tmp_path: Path) -> None:
    plugins = [{"type": "bridge", "bridge": "mine0", "ipam": {"type": "static"}}]
    own = written(tmp_path, {"cniVersion": "1.0.0", "name": "mine", "plugins": plugins})
    with closing(UplinkScenario(testbed)) as scenario:
        configs = [configured(UplinkScenario, **SHORT["uplink"], platform="runc") | {"attachment": level}
                   for level in ("cni:plugin=ptp", own)]  # fmt: skip
        (ptp, of_ptp), (mine, of_mine) = scenario.facts(configs)["attachments"].items()
        ways = []
        for config in configs:
            assert scenario.availability(config)
            outcome = attempted(scenario, config)
            assert outcome.valid, outcome.invalid_because
            found = Topology.of(outcome.notes)
            assert found is not None
            ways.append([(device.kind, device.name) for device in found.links[0].way])
    assert (ptp, mine) == ("cni:plugin=ptp", own)
    assert of_ptp["plug-ins"]["ptp"]["path"] == "/usr/lib/cni/ptp" and len(of_mine["conflist"]["sha256"]) == 64
    assert [kind for kind, _ in ways[0]] == ["veth", "veth"]
    assert [kind for kind, _ in ways[1]] == ["veth", "bridge", "veth"] and ways[1][1] == ("bridge", "mine0")
