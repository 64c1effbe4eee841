"""Client, DUT and server in a line on one machine: real namespaces, real links, a real exchange from end to end."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.native import Native
from lastro.scenarios.proxy.three_node import ROLES, three_node_testbed
from lastro.testbed import Testbed

pytestmark = pytest.mark.root


def test_each_role_has_a_namespace_and_the_client_reaches_the_server_through_the_dut(testbed: Testbed) -> None:
    with three_node_testbed(testbed) as nodes:
        assert [place.role for place in nodes.all] == list(ROLES)
        assert len({place.testbed.dut for place in nodes.all}) == 3
        client = nodes.client.testbed
        argv = ["ip", "netns", "exec", client.dut, "ping", "-c", "1", "-w", "5", "-t"]
        for hops, reached in (("1", False), ("2", True)):  # one hop ends at the DUT
            done = client.host.run([*argv, hops, nodes.server.address], check=False, timeout_s=20)
            assert (done.returncode == 0) is reached


def test_instances_live_in_a_roles_namespace_and_leave_it_behind(testbed: Testbed) -> None:
    with three_node_testbed(testbed) as nodes, ExitStack() as stack:
        native = Native()
        server = stack.enter_context(native.start(nodes.server.testbed, nodes.server.spec("httpd")))
        client = native.start(nodes.client.testbed, nodes.client.spec("jmeter", Resources(memory_bytes=64 << 20)))
        listening = server.spawn(["iperf3", "--server", "--one-off", "--forceflush"])
        listening.wait_line("listening", 10)
        with client as running:
            running.run(["iperf3", "-c", nodes.server.address, "-n", "1M", "-J"], timeout_s=20)
        assert (NETNS_DIR / nodes.client.testbed.dut).exists()
        listening.stop()


def test_nothing_of_a_line_is_left_and_the_next_one_finds_its_names_free(testbed: Testbed) -> None:
    for _ in range(2):
        with three_node_testbed(testbed) as nodes:
            names = [place.testbed.dut for place in nodes.all]
        assert [(NETNS_DIR / name).exists() for name in names] == [False, True, False]
    links = testbed.host.run_json(["ip", "-n", testbed.dut, "-j", "link", "show"])
    assert [link["ifname"] for link in links] == ["lo"]
