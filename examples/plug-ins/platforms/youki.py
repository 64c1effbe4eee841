"""OCI containers by youki, a runtime written in Rust: whatever takes the command line of runc is a platform.

An example of docs/howto-platforms.md."""

from __future__ import annotations

from lastro.platforms.oci import OciPlatform
from lastro.requirements import Requirements


class Youki(OciPlatform):
    name = "youki"
    summary = "OCI containers by youki, a runtime written in Rust, without a daemon"
    version_argv = ("youki", "--version")
    binary = "youki"
    requirements = Requirements(program="youki", remedy="put the program `youki` into the PATH of root")
