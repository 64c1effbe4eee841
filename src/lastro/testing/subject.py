"""A platform under test, and functions that find leftovers on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastro.host.capabilities import status_fields
from lastro.host.files import start_time
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance, InstanceSpec, Platform, start_all
from lastro.testbed import Testbed


@dataclass(frozen=True)
class Subject:
    """A prepared platform on a testbed, with methods to start instances on it."""

    testbed: Testbed
    platform: Platform

    def spec(self, name: str = "subject", **more: Any) -> InstanceSpec:
        return InstanceSpec(name=name, role="subject", **more)

    def start(self, name: str = "subject", **more: Any) -> AbstractContextManager[Instance]:
        return self.platform.start(self.testbed, self.spec(name, **more))

    @contextmanager
    def start_all(self, *specs: InstanceSpec) -> Iterator[list[Instance]]:
        """Start instances in parallel, and yield them in the order of `specs`; stop them after the block.

        They start in parallel because virtual machines take seconds to boot."""
        with ExitStack() as stack:
            yield start_all(stack, self.platform, self.testbed, specs)

    def leftovers(self) -> list[str]:
        """Return the session's objects on the host, sorted; the test compares those before and after an instance.

        They are cgroups, files, network namespaces, and entries in the ledger."""
        session, view = self.testbed.session, self.testbed.host.view
        groups = [
            f"{directory}/{group}"
            for directory in map(str, self.testbed.cgroups.directories(session.cgroup))
            for group in view.directories(directory)
        ]
        directories = map(str, (session.run_dir, session.scratch_dir))
        files = [f"{directory}/{name}" for directory in directories for name in view.names(directory)]
        names = set(view.names(str(NETNS_DIR))) - {self.testbed.dut}
        namespaces = [f"{NETNS_DIR}/{name}" for name in names if session.token in name]
        owned = [f"{item.kind} {item.name}" for item in session.owned_objects()]
        return sorted([*groups, *files, *namespaces, *owned])

    def live(self, pids: set[int]) -> set[int]:
        """Return those of `pids` that are running processes of the testbed's host; zombies do not count."""
        states = self.testbed.host.view.read([f"/proc/{pid}/stat" for pid in pids])
        return {int(path.split("/")[2]) for path, text in states.items() if text.rpartition(")")[2].split()[0] != "Z"}


def inside(instance: Instance, file: str) -> str:
    return instance.run(["cat", file]).text.strip()


def status(instance: Instance) -> Mapping[str, str]:
    """Return the fields of /proc/self/status of a process inside the instance, as {field: value}."""
    return status_fields(inside(instance, "/proc/self/status"))


def live(pids: set[int]) -> set[int]:
    """Return those of `pids` that are running processes of this machine; zombies do not count."""
    return {pid for pid in pids if start_time(pid) is not None}


def trial_leftovers(testbed: Testbed, switch: Path | None = None) -> dict[str, Any]:
    """Return {kind: the objects on the host that a trial may leave}, to compare before and after it. Needs root.

    `switch` is the directory of an Open vSwitch. Its two daemons do not count: the next trial may restart them."""
    daemons = {int(file.read_text(errors="replace")) for file in switch.glob("*.pid")} if switch else set()
    links = testbed.host.run_json(["ip", "-n", testbed.dut, "-j", "link"])
    return {
        "ledger": testbed.session.mark(),
        "namespaces": sorted(path.name for path in NETNS_DIR.glob(f"*{testbed.session.token}*")),
        "links": {link["ifname"] for link in links},
        "processes": testbed.host.view.owned_pids(testbed.session.token) - daemons,
        "run directory": sorted(path.name for path in testbed.run_dir.iterdir()),
    }
