"""Resources: limits that hold in the instance and nowhere else, and usage that is counted."""

from __future__ import annotations

import signal
import time
from itertools import pairwise

from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance
from lastro.testing.subject import MIB, Subject, inside

SPIN = ["timeout", "3", "sh", "-c", "while :; do :; done"]


class Limits:
    small_memory_bytes: int
    shares_kernel: bool

    def test_a_memory_hog_dies_alone(self, subject: Subject) -> None:
        limit = self.small_memory_bytes
        specs = subject.spec("victim"), subject.spec("hog", resources=Resources(memory_bytes=limit))
        with subject.together(*specs) as (victim, hog):
            bystander = victim.spawn(["sleep", "86397"])
            done = hog.run(["tail", "/dev/zero"], check=False, timeout_s=60)
            assert done.returncode == 128 + signal.SIGKILL
            if self.shares_kernel:
                assert 0.5 * limit < hog.usage().memory_peak_bytes <= limit
            assert bystander.alive()
            assert hog.run(["echo", "alive"]).text == victim.run(["echo", "alive"]).text == "alive\n"

    def test_limits_are_in_force(self, subject: Subject) -> None:
        """Check the kernel's own files, or the hardware that a machine sees."""
        size = 2 * self.small_memory_bytes
        resources = Resources(cpus=0.5, cpuset="0", memory_bytes=size, cpu_weight=50)
        groups = subject.testbed.cgroups
        with subject.start(resources=resources) as instance:
            instance.spawn(["sleep", "86393"])
            time.sleep(0.2)
            if not self.shares_kernel:
                lines = dict(line.split(":", 1) for line in inside(instance, "/proc/meminfo").splitlines())
                assert 0.6 * size < int(lines["MemTotal"].split()[0]) * 1024 <= size
                assert instance.run(["nproc"]).text == "1\n"
                assert {_allowed(subject, pid) for pid in instance.pids()} == {"0"}
                return
            for file, wanted in groups.settings(resources):
                found = (groups.root / file.format(name=instance.cgroup.strip("/"))).read_text().strip()
                assert found == wanted, file
            assert {_allowed(subject, pid) for pid in instance.pids()} == {"0"}

    def test_a_quota_of_a_fifth_is_kept(self, subject: Subject) -> None:
        with subject.start(resources=Resources(cpus=0.2)) as instance:
            before = instance.usage()
            done = instance.run(SPIN, check=False)
            used = instance.usage().since(before)
        assert done.returncode == 124
        assert 0.1 < used.cpu_s / done.duration_s < 0.28

    def test_a_known_load_is_counted(self, instance: Instance) -> None:
        """One busy loop uses at most one CPU plus what a machine adds to it, and less if others leave it less."""
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

    def test_a_limit_on_one_is_none_on_another(self, subject: Subject, instance: Instance) -> None:
        with subject.start("slow", resources=Resources(cpuset="0")) as slow:
            for each in (slow, instance):
                each.spawn(["sleep", "86392"])
            time.sleep(0.2)
            assert {_allowed(subject, pid) for pid in slow.pids()} == {"0"}
            everywhere = subject.testbed.host.run(["cat", "/sys/devices/system/cpu/online"]).text.strip()
            assert everywhere in {_allowed(subject, pid) for pid in instance.pids()}


def _allowed(subject: Subject, pid: int) -> str:
    lines = subject.testbed.host.read_text(f"/proc/{pid}/status").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))
