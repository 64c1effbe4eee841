"""Tests of resources: limits are effective in their instance and nowhere else, and usage is counted."""

from __future__ import annotations

import signal
import time
from itertools import pairwise

from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance
from lastro.testing.subject import Subject, inside
from lastro.units import MIB

SPIN = ["timeout", "3", "sh", "-c", "while :; do :; done"]


class Limits:
    small_memory_bytes: int
    shares_kernel: bool

    def test_a_memory_hog_dies_alone(self, subject: Subject, instance: Instance) -> None:
        limit = self.small_memory_bytes
        with subject.start("hog", resources=Resources(memory_bytes=limit)) as hog:
            bystander = instance.spawn(["sleep", "86397"])
            done = hog.run(["tail", "/dev/zero"], check=False, timeout_s=60)
            assert done.returncode == 128 + signal.SIGKILL
            if self.shares_kernel:
                assert 0.5 * limit < hog.usage().memory_peak_bytes <= limit
            assert bystander.alive()
            assert hog.run(["echo", "alive"]).text == instance.run(["echo", "alive"]).text == "alive\n"

    def test_limits_are_in_force_and_bind_no_other(self, subject: Subject, instance: Instance) -> None:
        """Check limits in the kernel's files or a guest's hardware, and that a quota of a fifth of a CPU is obeyed."""
        size = 2 * self.small_memory_bytes
        resources = Resources(cpus=0.2, cpuset="0", memory_bytes=size, cpu_weight=50, pids=512)
        groups = subject.testbed.cgroups
        everywhere = subject.testbed.host.read_text("/sys/devices/system/cpu/online")
        with subject.start("limited", resources=resources) as limited:
            for each in (limited, instance):
                each.spawn(["sleep", "86393"])
            time.sleep(0.2)
            assert {_allowed(subject, pid) for pid in limited.pids()} == {"0"}
            assert everywhere.strip() in {_allowed(subject, pid) for pid in instance.pids()}
            if self.shares_kernel:
                for file, wanted in groups.settings(resources):
                    path = groups.root / file.format(name=limited.cgroup.strip("/"))
                    assert subject.testbed.host.read_text(str(path)).strip() == wanted, file
            else:
                lines = dict(line.split(":", 1) for line in inside(limited, "/proc/meminfo").splitlines())
                assert 0.6 * size < int(lines["MemTotal"].split()[0]) * 1024 <= size
                assert limited.run(["nproc"]).text == "1\n"
            before = limited.usage()
            done = limited.run(SPIN, check=False)
            used = limited.usage().since(before)
        assert done.returncode == 124
        assert 0.1 < used.cpu_s / done.duration_s < 0.28

    def test_a_known_load_is_counted(self, instance: Instance) -> None:
        """A busy loop must use about one CPU: more if a virtual machine adds overhead, less on a busy host."""
        before = instance.usage()
        done = instance.run(SPIN, check=False)
        used = instance.usage().since(before)
        assert 0.1 < used.cpu_s / done.duration_s < 1.6
        assert used.user_s <= used.cpu_s + 0.05

    def test_use_is_counted_and_never_falls(self, instance: Instance) -> None:
        readings = [instance.usage()]
        for _ in range(5):
            instance.run(["sh", "-c", "head -c 4000000 /dev/zero | md5sum"])
            readings.append(instance.usage())
        for earlier, later in pairwise(readings):
            assert later.cpu_s > earlier.cpu_s
            assert later.user_s >= earlier.user_s
            assert later.memory_peak_bytes >= earlier.memory_peak_bytes
        assert readings[-1].user_s <= readings[-1].cpu_s + 0.05
        assert readings[-1].memory_peak_bytes >= readings[-1].memory_bytes > 0

    def test_written_bytes_are_counted(self, instance: Instance) -> None:
        before = instance.usage()
        instance.run(["dd", "if=/dev/zero", "of=/var/tmp/file", "bs=1M", "count=8", "oflag=direct"])
        used = instance.usage().since(before)
        assert 8 * MIB <= used.write_bytes < 24 * MIB
        assert used.write_ops > 0


def _allowed(subject: Subject, pid: int) -> str:
    lines = subject.testbed.host.read_text(f"/proc/{pid}/status").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))
