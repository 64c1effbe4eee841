"""What a platform needs on a host: packages to install, and the image from which its instances start."""

from __future__ import annotations

from lastro.errors import LastroError
from lastro.platforms.base import Platform
from lastro.scenarios.shared.property import Property
from lastro.testbed import Testbed

PACKAGES, IMAGE = "packages", "image_mib"
_ON_EVERY_SYSTEM = "required"  # the priority of packages that every Debian system has
_DEPENDS = (
    "apt-cache", "--installed", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
    "--no-breaks", "--no-replaces", "--no-enhances",
)  # fmt: skip


def footprint(testbed: Testbed, platform: Platform) -> list[Property]:
    """Return two properties of a platform: the number of packages that it requires, and the size of its image.

    A value is None if it cannot be found here, such as for packages that are not installed."""
    properties = []
    for name, read in ((PACKAGES, _packages), (IMAGE, _image)):
        try:
            properties.append(read(testbed, platform))
        except LastroError as error:
            properties.append(Property(name, None, error.message))
    return properties


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


def _image(testbed: Testbed, platform: Platform) -> Property:
    files = platform.image_files(testbed)
    lines = testbed.host.run(["du", "--summarize", "--total", "--block-size=1K", *map(str, files)]).text.splitlines()
    total_kib = int(lines[-1].split()[0])
    contents = "kernel, initramfs and disk" if len(files) > 1 else "the root filesystem"
    return Property(IMAGE, round(total_kib / 1024), f"{contents}, in blocks on the host's disk")
