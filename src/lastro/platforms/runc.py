"""OCI containers by runc alone: no daemon, no image store. The default platform for containers."""

from __future__ import annotations

from lastro.platforms._programs import program_option
from lastro.platforms.oci import OciPlatform
from lastro.requirements import Requirements


class Runc(OciPlatform):
    name = "runc"
    summary = "OCI containers by runc, without a daemon"
    version_argv = ("runc", "--version")
    binary = "runc"
    options = (program_option("runc", "runc version "),)
    requirements = Requirements(packages=("runc",), instead={"runc": "runc"})
