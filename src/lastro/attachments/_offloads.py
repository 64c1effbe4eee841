"""Offloads of links switched off, so that each frame is one that a wire could carry.

With offloads, a link hands over segments of up to 64 kB, whose checksums are not computed. Source: ethtool(8), and
networking/segmentation-offloads.rst of Linux."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lastro.host.ledger import NETNS_DIR
from lastro.testbed import Testbed

SENDING_OFF = "ethtool --offload $link tx off tso off gso off"  # what a sender leaves to the next device
# Some links, such as macvlan, keep segmentation. There, the kernel's segments get the size of one frame. An offload
# that cannot be switched off is not an error here: each trial checks the size of its frames.
ALL_OFF = (
    "ethtool --offload $link tx off rx off tso off gso off gro off || true; "
    'ethtool --show-offload $link | grep -q "^tcp-segmentation-offload: off" || '
    "ip link set dev $link gso_max_segs 1 || true"
)


def switch_off_script(links: Sequence[str]) -> str:
    """Return a shell script that switches off the offloads of `links`, in the namespace where the script runs."""
    return f"for link in {' '.join(links)}; do {ALL_OFF}; done\n"


def switch_off(testbed: Testbed, links: Mapping[str, Sequence[str]], command: str = ALL_OFF) -> None:
    """Run the shell code `command` for each device `$link` of `links`, {network namespace: names of its devices}."""
    lines = [
        f"nsenter --net={NETNS_DIR / netns} sh -ec 'for link; do {command}; done' - {' '.join(names)}\n"
        for netns, names in links.items()
    ]
    if lines:
        testbed.host.run(["sh", "-e"], stdin="".join(lines))


def links_made_by(batches: Iterable[tuple[str, Sequence[str]]]) -> dict[str, list[str]]:
    """Return {network namespace: names} of the links that `batches`, pairs (namespace, `ip` commands), make."""
    by_netns: dict[str, list[str]] = {}
    for netns, lines in batches:
        commands = (line.replace("tuntap add dev ", "link add name ") for line in lines)
        # A veth pair is two devices.
        devices = (half for line in commands if line.startswith("link add ") for half in line.split(" peer "))
        for words in map(str.split, devices):
            link_netns = words[words.index("netns") + 1] if "netns" in words else netns
            by_netns.setdefault(link_netns, []).append(words[words.index("name") + 1])
    return by_netns
