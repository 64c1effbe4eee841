"""Open vSwitch: a bridge of a private ovsdb-server and ovs-vswitchd inside the DUT's namespace.

All their files are below the session's run directory; a switch of the user is neither read nor changed. The kernel's
datapath is used if there is one, otherwise the datapath in user space; the choice is recorded. The datapath in user
space cannot complete a checksum or split a large segment, so senders must do both themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from lastro.attachments._offloads import SENDING_OFF, switch_off
from lastro.attachments._ovs_daemons import START_S, SWITCH, OvsDaemons
from lastro.attachments.base import MEMBER_END, Segment, dut_end
from lastro.attachments.separable import SwitchedLinks
from lastro.grouping import by_key
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Port
from lastro.requirements import Requirements
from lastro.study.model import Level
from lastro.testbed import Testbed


class Ovs(OvsDaemons, SwitchedLinks):
    name = "ovs"
    summary = "an Open vSwitch bridge with the kernel's datapath, or the one in user space where the kernel has none"
    requirements = Requirements(packages=("openvswitch-switch",))
    datapaths: tuple[str, ...] = ("system", "netdev")  # in order of preference

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._datapath = ""

    def _start(self, testbed: Testbed) -> None:
        super()._start(testbed)
        usable = (kind for kind in self.datapaths if kind == "netdev" or self._kernel_has(testbed, kind))
        self._datapath = next(usable)
        self.tap_offloads = self._datapath != "netdev"

    def _kernel_has(self, testbed: Testbed, datapath: str) -> bool:
        """Return whether the kernel can make a datapath of this type."""
        probe = f"{datapath}@lastro"
        made = self._appctl(testbed, "dpctl/add-dp", probe).returncode == 0
        if made:
            self._appctl(testbed, "dpctl/del-dp", probe)
        return made

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        ends = [end_and_port for segment in segments for end_and_port in segment.ends()]
        return [line for end, port in ends for line in (dut_end(end, port), f"link set {end} up")]

    def compile_vsctl(self, segments: Sequence[Segment], datapath: str) -> list[str]:
        """Return the arguments of one `ovs-vsctl` transaction that makes every bridge with all its ports."""
        words = []
        for bridge, joined in self.switches(segments).items():
            words += ["--", "add-br", bridge, "--", "set", "bridge", bridge, f"datapath_type={datapath}"]
            words += ["fail_mode=standalone"]
            for segment in joined:
                for end, _ in segment.ends():
                    words += self._add_port(bridge, end)
        return words

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        return [dut_end(MEMBER_END, port), f"link set {MEMBER_END} up"]

    @contextmanager
    def member(self, testbed: Testbed, segments: Sequence[Segment], port: Port) -> Iterator[None]:
        with super().member(testbed, segments, port):
            if self._datapath == "netdev":
                switch_off(testbed, {port.netns: [port.name]}, SENDING_OFF)
            self.replug(testbed, [(MEMBER_END, next(iter(self.switches(segments))))])
            try:
                yield
            finally:
                self._vsctl(testbed, "--", "--if-exists", "del-port", MEMBER_END, check=False)

    def _add_port(self, bridge: str, end: str) -> list[str]:
        """Return the `ovs-vsctl` arguments that add the device `end` to a bridge, in the chosen VLAN, if any."""
        return ["--", "add-port", bridge, end, *([f"tag={self.vlan}"] if self.vlan else [])]

    def unplug(self, testbed: Testbed, ends: Sequence[str]) -> None:
        self._vsctl(testbed, *(word for end in ends for word in ("--", "del-port", end)))

    def replug(self, testbed: Testbed, ends: Sequence[tuple[str, str]]) -> None:
        self._vsctl(testbed, *(word for end, bridge in ends for word in self._add_port(bridge, end)))

    def swapping(
        self, testbed: Testbed, segments: Sequence[Segment], end: str
    ) -> Callable[[], AbstractContextManager[None]]:
        """Return a callable that makes a context in which `end` is not a port of its switch.

        Another device can take the name of `end` there. The switch opens that device when it becomes a port."""
        return partial(self._unplugged, testbed, end, self.switch_of_ends(segments)[end])

    @contextmanager
    def _unplugged(self, testbed: Testbed, end: str, switch: str) -> Iterator[None]:
        self.unplug(testbed, [end])
        yield
        self.replug(testbed, [(end, switch)])

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        if self._dead() or SWITCH not in self._daemons:
            self._stop()
            self._start(testbed)  # a daemon was killed, or did not start, in an earlier trial
        with super().laid(testbed, segments):
            if self._datapath == "netdev":  # packets must be complete when sent; for taps, see `Tap.offloads`
                ports = (port for segment in segments for port in segment.ports if not port.instance.takes_taps)
                switch_off(testbed, by_key((port.netns, port.name) for port in ports), SENDING_OFF)
            try:
                with self._alive_throughout():
                    self._vsctl(testbed, *self.compile_vsctl(segments, self._datapath))
                    yield
            finally:
                self._remove(testbed, segments)

    def _remove(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        """Remove the bridges; if a daemon has died, stop the other one, and delete the objects in the kernel directly.

        The kernel's datapath and the interfaces of bridges in user space remain when the daemons have ended."""
        bridges = list(self.switches(segments))
        if not self._dead():
            removal = [word for bridge in bridges for word in ("--", "--if-exists", "del-br", bridge)]
            self._vsctl(testbed, *removal, check=False)
            return
        self._stop()
        if self._datapath == "system":
            inside = ["nsenter", f"--net={NETNS_DIR / testbed.dut}"]
            testbed.host.run([*inside, "ovs-dpctl", "del-dp", "system@ovs-system"], timeout_s=START_S, check=False)
            return
        script = "".join(f"ip -n {testbed.dut} link del {name}\n" for name in [*bridges, "ovs-netdev"])
        testbed.host.run(["sh"], stdin=script, check=False)

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        if self._datapath == "netdev":
            return {"datapath": "in user space (netdev)", "offloads": "off at the ports: checksums, segmentation"}
        return {"datapath": "in the kernel (system)"}

    def counters(self, testbed: Testbed) -> dict[str, int]:
        """Return how many packets the datapath has switched: lookups in its flow table that found a flow."""
        shown = self._appctl(testbed, "dpctl/show", "--statistics", f"{self._datapath}@ovs-{self._datapath}").text
        hits = re.search(r"lookups: hit:(\d+)", shown)
        return {"switched": int(hits[1]) if hits else 0}
