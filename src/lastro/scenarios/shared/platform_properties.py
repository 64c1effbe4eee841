"""Properties of a platform, measured on an instance with many interfaces, all linked to a peer on the bare host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from lastro.attachments.base import Attachment, Segment
from lastro.errors import LastroError
from lastro.platforms.base import Instance, Platform, Port
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.scenarios.shared.property import Property, answering, unknown, unless_failed
from lastro.study.requirement import OF_PLATFORM
from lastro.testbed import Testbed

KERNEL, DAEMON, INTERFACES, ADDED, REMOVED, UNPRIVILEGED, PACKAGES, IMAGE = OF_PLATFORM
MOST_INTERFACES = 16
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MARK = "86391"  # an unusual number of seconds to sleep, by which a process is recognised on the host
_PING_S, _TRIES = 5, 2
_SEEN_S = 2.0  # until a started process or an added interface appears on the other side
_ON_EVERY_SYSTEM = "required"  # the priority of packages that every Debian system has
_DEPENDS = (
    "apt-cache", "--installed", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
    "--no-breaks", "--no-replaces", "--no-enhances",
)  # fmt: skip


def platform_properties(testbed: Testbed, platform: Platform, native: Platform, links: Attachment) -> list[Property]:
    """Return the properties of a prepared platform.

    `native` is the platform of the peer; `links` is the attachment that joins each interface of the instance to the
    peer. If the instance does not start with many interfaces, fewer are tried."""
    refused, n = "", MOST_INTERFACES
    while n:
        try:
            properties = _properties_with(testbed, platform, native, links, n, refused)
            break
        except LastroError as error:
            refused = refused or f"with {n}: {error.message}"
            n //= 2
    else:
        properties = unknown((KERNEL, DAEMON, INTERFACES, ADDED, REMOVED), refused)
    further = (_root_is_unprivileged, _packages, _image)
    return [*properties, *(find(testbed, platform) for find in further)]


def _properties_with(
    testbed: Testbed, platform: Platform, native: Platform, links: Attachment, n: int, refused: str
) -> list[Property]:
    """Return the properties found on one instance with `n` interfaces.

    `refused` is the error with more interfaces, or empty. Raises: LastroError when the instance does not start."""
    with ExitStack() as stack:
        peer = stack.enter_context(native.start(testbed, instance_spec(testbed, "peer")))
        names = tuple(f"eth{number}" for number in range(n))
        spec = instance_spec(testbed, "probe", ports=names)
        instance = stack.enter_context(platform.start(testbed, spec))
        segments = [_segment(number, peer, instance, name) for number, name in enumerate(names)]
        stack.enter_context(links.connect(testbed, segments))
        answered = max(_answered(peer, segments) for _ in range(_TRIES))
        how = f"a ping over each of {n} was answered" if answered == n else f"{answered} of {n} answered a ping"
        whole = answered == n == MOST_INTERFACES
        count = Property(INTERFACES, answered, "; ".join(filter(None, (how, refused))), at_least=whole)
        changed = _add_and_remove(testbed, links, peer, instance, n)
        return [_own_kernel(testbed, instance), _daemon(testbed, platform), count, *changed]


def _daemon(testbed: Testbed, platform: Platform) -> Property:
    groups = sorted(testbed.apparatus.daemons.intersection(platform.own_cgroups))
    if not groups:
        return Property(DAEMON, False, "the host runs nothing for it but its own processes")
    return Property(DAEMON, True, f"a daemon serves all instances, in the control group {groups[0]}")


def _segment(number: int, peer: Instance, instance: Instance, name: str) -> Segment:
    """Return the link of interface `name` to the peer; `number` makes its addresses unique.

    The peer's port comes first, so that it exists when the instance takes its own."""
    near, far = (f"198.18.{64 + number}.{side}/24" for side in (1, 2))
    return Segment(f"p{number}", (Port(peer, f"to{number}", near), Port(instance, name, far)))


def _answered(peer: Instance, segments: Sequence[Segment]) -> int:
    """Return the number of these links over which the peer gets an answer to a ping."""
    return len(answering(peer, [segment.ports[1] for segment in segments], _PING_S))


# Isolation: the kernel of the instance


@unless_failed(KERNEL)
def _own_kernel(testbed: Testbed, instance: Instance) -> Property:
    """Return whether the instance has its own kernel, by its boot id.

    Some containers see a made-up boot id. So Lastro also looks for a process of the instance among those of the
    host."""
    inside = instance.run(["cat", _BOOT_ID], check=False).text.strip()
    release = instance.run(["uname", "-r"]).text.strip()
    if inside == testbed.host.read_text(_BOOT_ID).strip():
        return Property(KERNEL, False, f"the boot id inside is the host's; release {release}")
    if _is_on_host(testbed, instance):
        how = f"the boot id inside is not the host's, but a process inside is one of the host's; release {release}"
        return Property(KERNEL, False, how)
    boot = "the boot id inside is not the host's" if inside else "there is no boot id inside"
    return Property(KERNEL, True, f"{boot}, and no process inside is one of the host's; release {release}")


def _is_on_host(testbed: Testbed, instance: Instance) -> bool:
    """Start a process inside the instance; return whether the host's kernel has it in the instance's cgroup."""
    wanted, view = f"sleep\0{_MARK}\0", testbed.host.view
    process, deadline_s = instance.spawn(["sleep", _MARK]), time.monotonic() + _SEEN_S
    try:
        while time.monotonic() < deadline_s:
            if wanted in view.read([f"/proc/{pid}/cmdline" for pid in instance.pids()]).values():
                return True
            time.sleep(0.05)
        return False
    finally:
        process.stop()


# Flexibility: interfaces that come and go


def _add_and_remove(
    testbed: Testbed, links: Attachment, peer: Instance, instance: Instance, number: int
) -> list[Property]:
    """Add an interface to the running instance, and remove it; return how long the commands on the host took."""
    if instance.takes_taps:
        why = "a running virtual machine gets a card only from its monitor, which Lastro does not ask"
        return unknown((ADDED, REMOVED), why)
    name = "late0"
    segment = _segment(number, peer, instance, name)
    add = links.laid if instance.starts_on_links else links.connect  # `connect` would start the instance once more
    try:
        with ExitStack() as stack:
            with testbed.host.timed() as adding:
                stack.enter_context(add(testbed, [segment]))
            if not _wait_for_interface(instance, name):
                how = f"{name} was in its network namespace, and did not appear inside within {_SEEN_S:g} s"
                return [Property(ADDED, False, how), *unknown((REMOVED,), "none could be added")]
            if not instance.starts_on_links and not _answered(peer, [segment]):
                return unknown((ADDED, REMOVED), f"{name} appeared inside, and answered no ping")
            with testbed.host.timed() as removing:
                stack.close()
            gone = not _has_interface(instance, name)
    except LastroError as error:
        return unknown((ADDED, REMOVED), error.message)
    added = Property(ADDED, 1000 * adding.took_s, "it appeared inside and answered a ping; time of the host's commands")
    if not gone:
        return [added, Property(REMOVED, False, f"{name} was deleted outside, and is still there inside")]
    return [added, Property(REMOVED, 1000 * removing.took_s, "it is gone inside; time of the host's commands")]


def _has_interface(instance: Instance, name: str) -> bool:
    return instance.run(["ip", "link", "show", "dev", name], check=False).returncode == 0


def _wait_for_interface(instance: Instance, name: str) -> bool:
    deadline_s = time.monotonic() + _SEEN_S
    while not (is_there := _has_interface(instance, name)) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return is_there


# Privileges


@unless_failed(UNPRIVILEGED)
def _root_is_unprivileged(testbed: Testbed, platform: Platform) -> Property:
    """Return whether root inside an instance can be an unprivileged user of the host, by a user namespace."""
    if "user_namespace" not in platform.confines:
        why = "Lastro starts its instances as root, and cannot put them into a user namespace"
        return Property(UNPRIVILEGED, None, why)
    spec = instance_spec(testbed, "probe").with_security(user_namespace=True)
    with platform.start(testbed, spec) as instance:
        texts = testbed.host.view.read([f"/proc/{pid}/status" for pid in instance.pids()]).values()
    users = sorted({int(line.split()[2]) for text in texts for line in text.splitlines() if line.startswith("Uid:")})
    if not users:
        return Property(UNPRIVILEGED, None, "the host does not show its processes")
    names = ", ".join(map(str, users))
    how = f"in a user namespace, its processes are of user {names} of the host; root started them"
    return Property(UNPRIVILEGED, 0 not in users, how)


# What it needs on a host: packages, and the image from which its instances start


@unless_failed(PACKAGES)
def _packages(testbed: Testbed, platform: Platform) -> Property:
    """Count the packages that the platform requires, with dependencies, and its program if that has no package."""
    required, host = platform.requirements, testbed.host
    program = f"{required.program}, which Debian does not package" if required.program else ""
    if not required.packages:
        return Property(PACKAGES, int(bool(program)), program or "it requires none")
    listed = host.run([*_DEPENDS, *required.packages]).text.splitlines()
    needed = {line.partition(":")[0] for line in listed if line and line[0] not in " <"}
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${Priority} ${Installed-Size}\n"]
    lines = (line.split() for line in host.run(query).text.splitlines())
    installed = {name: (priority, int(size_kib)) for name, priority, size_kib in lines}
    if absent := [name for name in required.packages if name not in installed]:
        return Property(PACKAGES, None, f"{', '.join(absent)}: not installed as a package of Debian")
    sizes = [installed[name][1] for name in needed & installed.keys() if installed[name][0] != _ON_EVERY_SYSTEM]
    how = f"{', '.join(required.packages)}, with dependencies: {sum(sizes) / 1024:.0f} MiB as installed here"
    return Property(PACKAGES, len(sizes) + bool(program), "; ".join(filter(None, (how, program))))


@unless_failed(IMAGE)
def _image(testbed: Testbed, platform: Platform) -> Property:
    """Return the size of the image from which the platform's instances start."""
    files = platform.image_files(testbed)
    lines = testbed.host.run(["du", "--summarize", "--total", "--block-size=1K", *map(str, files)]).text.splitlines()
    total_kib = int(lines[-1].split()[0])
    contents = "kernel, initramfs and disk" if len(files) > 1 else "the root filesystem"
    return Property(IMAGE, round(total_kib / 1024), f"{contents}, in blocks on the host's disk")
