"""A read-only root filesystem, as in an appliance.

/tmp and /run are small and in memory. /var/tmp is on the disk of the instance, for the files of tools and for the disk
anomaly."""

from __future__ import annotations

from lastro.isolation.base import Isolation, Profile
from lastro.platforms.base import Instance, InstanceSpec

_WRITABLE = ("/tmp", "/run", "/var/tmp")
_ATTEMPTS = """LC_ALL=C; export LC_ALL
for place in / /etc /usr/bin /var; do
  words=$(mkdir "$place/lastro-probe" 2>&1) && { rmdir "$place/lastro-probe"; echo "$place can be written"; continue; }
  case $words in
    *'Read-only file system'*) ;;
    *) echo "$place is not read-only: $words";;
  esac
done
for place in WRITABLE; do
  mkdir "$place/lastro-probe" && rmdir "$place/lastro-probe" || echo "$place cannot be written"
done
""".replace("WRITABLE", " ".join(_WRITABLE))


class ReadOnlyRoot(Isolation):
    name = "read-only-root"
    summary = "a read-only root filesystem; /tmp and /run in memory, /var/tmp on the instance's disk"

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        return spec.with_security(read_only_root=True)

    def verify(self, instance: Instance) -> str | None:
        done = instance.run(["sh"], stdin=_ATTEMPTS, check=False)
        lines = (done.text + done.error_text).strip().splitlines()
        return lines[0] if lines else None
