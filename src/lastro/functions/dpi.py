"""Deep packet inspection: every payload is searched for a signature, and packets that have it take another path.

The other path is a veth pair inside the function's instance: marked packets are routed into one end, leave the other,
and only then continue to the sink. Its counters prove which packets were redirected. The kernel searches with the
string match of iptables, since nftables itself cannot search at any offset. The algorithm is Knuth-Morris-Pratt, which
unlike Boyer-Moore also finds a signature that spans two fragments of a large packet. A packet keeps its mark on a veth
pair inside one namespace, so the mark redirects only packets from the interface where the flow arrives.

On Click, the other path is a queue of its own, and an element counts the packets on it. Click searches each frame by
itself. The kernel searches a segment as it arrives: if that is larger than a frame, it also finds a signature that two
frames would share.

With more than one signature, the kernel searches every payload for each of them. Click's elements search for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lastro.errors import Unavailable
from lastro.functions.base import ForwardingPath, Function, Readings, Step
from lastro.study.model import Setting
from lastro.testbed import IN_A_GUEST

SIGNATURE = "X-Lastro-Suspect"
DETOUR = ("detour0", "detour1")
_DETOURED = "detoured"  # Click's counter
_MARK, _TABLE = 1, 100
_DETOUR_MAC = "02:00:c6:12:02:02"
_WINDOW, _MOST_BYTES = 64, 1500  # of Click's search: offsets in one Classifier, and the longest packet
_DETOUR_ADDRESSES = {"4": ("198.18.2.1", "198.18.2.2"), "6": ("2001:2:0:2::1", "2001:2:0:2::2")}
_SIGNATURES = Setting("signatures", 1, "signatures for which every payload is searched", 1, 1_000)


class Dpi(Function):
    name = "dpi"
    summary = "searches every payload for a signature, and redirects packets that have it"
    remedy = f"use a kernel with nftables and the string match of iptables (xt_string), {IN_A_GUEST}"
    per_packet = True
    passes = 2
    options = (_SIGNATURES,)

    @staticmethod
    def detoured(moved: Mapping[str, Mapping[str, int]], seen: Readings, role: str = "function") -> int:
        """Return how many packets took the other path, as Click's counter in `seen` or else the link in `moved` shows.

        `moved` has the increases of interface counters by '{role}.{interface}'. `role` is that of the function's
        instance."""
        if _DETOURED in seen:
            return seen[_DETOURED].packets
        return moved.get(f"{role}.{DETOUR[0]}", {}).get("tx_packets", 0)

    @property
    def _signatures(self) -> list[str]:
        return [SIGNATURE, *(f"X-Lastro-{number:03d}" for number in range(1, _SIGNATURES.of(self.chosen)))]

    def more_steps(self, path: ForwardingPath) -> Sequence[Step]:
        entry, exit_ = DETOUR
        own_address, gateway = _DETOUR_ADDRESSES[path.version]
        is_ipv6 = path.version == "6"
        links = f"""link add name {entry} type veth peer name {exit_} address {_DETOUR_MAC}
address add {own_address}/{path.prefix} dev {entry}{" nodad" if is_ipv6 else ""}
link set {entry} up
link set {exit_} up
neigh add {gateway} lladdr {_DETOUR_MAC} dev {entry} nud permanent
route add default via {gateway} dev {entry} table {_TABLE}
rule add iif {path.inside} fwmark {_MARK} lookup {_TABLE}
"""
        search = f"-A PREROUTING -i {path.inside} -m string --algo kmp --string"
        lines = [f"{search} {signature} -j MARK --set-mark {_MARK}" for signature in self._signatures]
        inspection = "\n".join(["*mangle", *lines, "COMMIT", ""])
        batch, restore = (("ip", "-6"), "ip6tables-nft-restore") if is_ipv6 else (("ip",), "iptables-nft-restore")
        return (Step((*batch, "-batch", "-"), links), Step((restore,), inspection))

    def click(self, path: ForwardingPath) -> str:
        if len(self._signatures) > 1:
            raise Unavailable("dpi searches for one signature in Click", 'use implementation = "kernel"')
        # Click 2.1 has no element that searches (FastClick has). A Classifier compares at fixed offsets: here at each
        # offset of a window, which then moves on, until too little of the packet is left.
        pattern, length = SIGNATURE.encode().hex(), len(SIGNATURE)
        offsets = ", ".join(f"{offset}/{pattern}" for offset in range(_WINDOW))
        matches = " ".join(f"here[{offset}] -> [0]output;" for offset in range(_WINDOW))
        windows = [f"window{start}" for start in range(0, _MOST_BYTES - length + 1, _WINDOW)]
        moves = "".join(f"{window}[1] -> {following}; " for window, following in pairwise(windows))
        ends = "".join(f"{window}[0] -> suspect; {window}[2] -> clean; " for window in windows)
        return (
            f"elementclass Window {{ input -> here :: Classifier({offsets}, -); {matches} "
            f"here[{_WINDOW}] -> rest :: CheckLength({_WINDOW + length - 1}); rest[0] -> [2]output; "
            f"rest[1] -> Strip({_WINDOW}) -> [1]output }} "
            f"{', '.join(windows)} :: Window; suspect, clean :: StripToNetworkHeader; "
            f"input[0] -> {windows[0]}; {moves}{windows[-1]}[1] -> clean; {ends}clean -> [0]output; "
            f"suspect -> {_DETOURED} :: Counter -> Queue -> Unqueue -> [0]output; input[1] -> [1]output;"
        )
