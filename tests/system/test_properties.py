"""Properties of platforms and links, found on real ones. What is known of each is written here by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lastro.attachments.base import BatchLinks
from lastro.platforms.base import Security
from lastro.scenarios.shared.platform_properties import platform_properties
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.scenarios.shared.properties import probe_properties
from lastro.testbed import Testbed
from lastro.testing.attachments import contents
from lastro.testing.subject import Subject

from ..conftest import needs_runsc

pytestmark = pytest.mark.root

Values = dict[str, bool | int | float | None]


def of_platform(testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, level: str) -> Values:
    """The values of a platform; nothing is left of the probe."""
    subject = Subject(testbed, pool.get(level))
    links = attachments.get("veth-direct")
    pool.get("native")
    if "user_namespace" in subject.platform.confines:  # Docker keeps a daemon for such instances
        with subject.start(security=Security(user_namespace=True)):
            pass
    before = subject.leftovers(), contents(testbed)
    found = platform_properties(testbed, subject.platform, pool.native, links)
    assert (subject.leftovers(), contents(testbed)) == before
    return {each.name: each.value for each in found}


@pytest.mark.parametrize(
    ("level", "unprivileged"),
    [
        ("native", None), ("runc", True),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("crun", True), ("docker", True), ("podman", None))),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("lxc", None), ("nspawn", None))),
    ],
)  # fmt: skip
def test_a_container_has_the_kernel_of_its_host_and_interfaces_that_come_and_go(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, level: str, unprivileged: bool | None
) -> None:
    """Some, such as lxc and nspawn, show a boot id that is made up."""
    found = of_platform(testbed, pool, attachments, level)
    assert (found["own_kernel"], found["interfaces"], found["unprivileged"]) == (False, 16, unprivileged)
    assert type(found["packages"]) is int and (found["packages"] > 0) is (level != "native")
    assert type(found["image_mib"]) is int and found["image_mib"] > 100
    for name in ("interface_added_ms", "interface_removed_ms"):
        took_ms = found[name]
        assert type(took_ms) is float and 0 < took_ms < 5000


@needs_runsc
@pytest.mark.slow
def test_gvisor_has_a_kernel_of_its_own_and_sees_no_interface_that_comes_later(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    found = of_platform(testbed, pool, attachments, "gvisor")
    assert found.pop("image_mib") == of_platform(testbed, pool, attachments, "runc")["image_mib"]
    assert found == {
        "own_kernel": True, "daemon": False, "interfaces": 16, "interface_added_ms": False,
        "interface_removed_ms": None, "unprivileged": None, "packages": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_a_machine_has_a_kernel_of_its_own(testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool) -> None:
    found = of_platform(testbed, pool, attachments, "qemu-tcg")
    assert (found["own_kernel"], found["interfaces"], found["interface_added_ms"]) == (True, 16, None)
    assert type(found["packages"]) is int and found["packages"] > 20
    assert type(found["image_mib"]) is int and found["image_mib"] > 100


LINKS: dict[str, tuple[Any, ...]] = {  # members, a tagged frame, a tunnel, seen by a third
    "host": (None, None, None, None),
    "veth-bridge": (32, True, True, False),
    "veth-direct": (2, True, True, None),
    "macvlan-bridge": (32, True, True, False),
    "ovs": (32, True, True, False),
    "routed": (2, False, True, None),
    "vxlan": (2, True, True, None),
}


@pytest.mark.parametrize(
    "names", [("host", "veth-bridge", "veth-direct"), pytest.param(tuple(LINKS), marks=pytest.mark.slow)]
)
def test_links_carry_what_they_carry(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, names: tuple[str, ...]
) -> None:
    for name in names:
        attachments.get(name)
    subject = Subject(testbed, pool.native)
    before = subject.leftovers(), contents(testbed)
    said: list[str] = []
    found = probe_properties(testbed, pool, attachments, [], names, said.append)
    assert (subject.leftovers(), contents(testbed)) == before
    assert {part.level: tuple(each.value for each in part.properties) for part in found} == {
        name: LINKS[name] for name in names
    }
    assert said == [f"attachment {name}" for name in names]
    nothing, bridge, *_ = found
    assert all("do not join two instances" in each.how for each in nothing.properties)
    assert bridge.properties[0].text == "at least 32"


def test_a_medium_that_all_share_is_recognised(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bridge that forgets addresses at once sends every frame to every port."""
    links = attachments.get("veth-bridge")
    assert isinstance(links, BatchLinks)
    real = links.compile
    hub = "mcast_snooping 0 ageing_time 0"
    monkeypatch.setattr(
        links, "compile", lambda segments: [line.replace("mcast_snooping 0", hub) for line in real(segments)]
    )
    (part,) = probe_properties(testbed, pool, attachments, [], ["veth-bridge"], lambda part: None)
    assert {each.name: each.value for each in part.properties}["seen_by_third"] is True
