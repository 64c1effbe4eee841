"""The exact commands and configuration of LXC, and what it says when it fails, on a host that only records."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro.campaign.script import shell_script
from lastro.errors import PlatformError, Unavailable
from lastro.host.cgroups import Resources
from lastro.isolation.seccomp import filter_profile
from lastro.platforms.base import InstanceSpec, Security
from lastro.platforms.lxc import Lxc, first_error, seccomp_policy
from lastro.testbed import Testbed

from ...support.recording import RecordingHost, answer, recording_testbed

SPEC = InstanceSpec("one", "probe")
LOG = """\
lxc-start one 20261121150208.870 ERROR    conf - ../src/lxc/conf.c:setup:3355 - Read-only file system - Failed to set up
lxc-start one 20261121150208.871 ERROR    start - ../src/lxc/start.c:do_start:1272 - Failed to setup container "one"
"""


def host_with_lxc(**more: object) -> RecordingHost:
    return RecordingHost(programs=("lxc-start",), **more)  # type: ignore[arg-type]


def configuration(spec: InstanceSpec, host: RecordingHost, testbed: Testbed) -> list[str]:
    with Lxc().start(testbed, spec):
        return host.files[f"{testbed.run_dir}/{spec.name}/config"].splitlines()


def test_an_instance_is_started_entered_and_stopped_where_lxc_has_locks_of_its_own(tmp_path: Path) -> None:
    host = host_with_lxc()
    testbed = recording_testbed(host, tmp_path)
    home = testbed.run_dir / "one"
    with Lxc().start(testbed, SPEC) as instance:
        assert instance.wrap(["ip", "link"]) == [
            "nsenter", f"--mount={home}/mnt", "lxc-attach", "-P", str(testbed.run_dir), "-n", "one", "--clear-env",
            "--set-var=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--set-var=LC_ALL=C.UTF-8",
            "--", "ip", "link",
        ]  # fmt: skip
        assert instance.cgroup == "/lastro/0a1b2c/one"
        script = host.stdins[host.commands.index(["sh", "-e"])]
    layers = f"upperdir={testbed.scratch_dir}/one/upper,workdir={testbed.scratch_dir}/one/work"
    assert script is not None
    words = [
        f"kept {home} private sh -e <<'INSIDE'",
        f"mount -t overlay overlay -o lowerdir={testbed.image.tree},{layers} {home}/rootfs",
        f"mount -t tmpfs tmpfs {home}/own",
        f"mount --rbind /run/netns {home}/own/run/netns",
        f"mount --rbind {home}/own/run /run",
    ]
    assert [line for line in str(script).splitlines() if line in words] == words
    start = f"lxc-start -P {testbed.run_dir} -n one --daemon --logfile {home}/log --logpriority ERROR"
    assert str(script).splitlines()[-1] == f"exec nsenter --mount={home}/mnt {start}"
    assert host.command("lxc-stop") == [
        "nsenter", f"--mount={home}/mnt", "lxc-stop", "-P", str(testbed.run_dir), "-n", "one", "--kill",
    ]  # fmt: skip


def test_a_directory_holds_a_copy_without_layers(tmp_path: Path) -> None:
    host = host_with_lxc()
    testbed = recording_testbed(host, tmp_path)
    platform = Lxc(storage="dir")
    with platform.start(testbed, SPEC):
        script = str(host.stdins[host.commands.index(["sh", "-e"])])
    scratch = testbed.scratch_dir / "one"
    copied = [
        f"cp -a --reflink=auto {testbed.image.tree} {scratch}/rootfs",
        f"sync -f {scratch}",
        f"mount --bind {scratch}/rootfs {testbed.run_dir}/one/rootfs",
    ]
    assert [line for line in script.splitlines() if line in copied] == copied
    assert "overlay" not in script
    assert platform.residuals(testbed)["root filesystem"] == "dir"


def test_the_configuration_says_all_and_includes_nothing_of_the_hosts(tmp_path: Path) -> None:
    host = host_with_lxc()
    testbed = recording_testbed(host, tmp_path)
    lines = configuration(SPEC, host, testbed)
    assert {
        f"lxc.rootfs.path = dir:{testbed.run_dir}/one/rootfs",
        "lxc.uts.name = probe",
        "lxc.namespace.share.net = /run/netns/lastro-0a1b2c-one",
        "lxc.init.cmd = sleep infinity",
        "lxc.cgroup.dir.container = lastro/0a1b2c/one",
        "lxc.cgroup.dir.monitor = lastro/0a1b2c/one.monitor",
        "lxc.cgroup.devices.deny = a",
        "lxc.cgroup.devices.allow = c 1:3 rwm",
        "lxc.mount.entry = /proc/sys proc/sys none bind,ro,nosuid,noexec,nodev,optional 0 0",
        "lxc.mount.entry = /dev/null proc/kcore none bind,optional 0 0",
        "lxc.mount.entry = tmpfs sys/firmware tmpfs ro,optional 0 0",
        "lxc.apparmor.profile = unconfined",
        "lxc.cap.keep = audit_write chown dac_override fowner fsetid kill mknod net_bind_service net_raw setfcap"
        " setgid setpcap setuid sys_chroot",
    } <= set(lines)
    assert not [line for line in lines if line.startswith(("lxc.include", "lxc.seccomp", "lxc.net"))]


def test_limits_and_confinement_are_written_in_lxcs_words(tmp_path: Path) -> None:
    host = host_with_lxc()
    testbed = recording_testbed(host, tmp_path)
    security = Security(
        apparmor="docker-default",
        seccomp=filter_profile(),
        capabilities=("CAP_NET_ADMIN",),
        drop_capabilities=True,
    )
    resources = Resources(cpus=0.5, cpuset="0", memory_bytes=1 << 26, write_bps=4096, block_device="254:0", pids=256)
    lines = configuration(InstanceSpec("one", "probe", resources, security), host, testbed)
    assert {
        "lxc.cgroup.cpuset.cpus = 0",
        "lxc.cgroup.cpu.cfs_quota_us = 50000",
        "lxc.cgroup.memory.limit_in_bytes = 67108864",
        "lxc.cgroup.pids.max = 256",
        "lxc.cgroup.blkio.throttle.write_bps_device = 254:0 4096",
        "lxc.apparmor.profile = docker-default",
        f"lxc.seccomp.profile = {testbed.run_dir}/one/seccomp",
        "lxc.cap.keep = net_admin",
    } <= set(lines)
    assert "\nunshare errno 1\n" in host.files[f"{testbed.run_dir}/one/seccomp"]


def test_no_capability_at_all_has_a_word_of_its_own(tmp_path: Path) -> None:
    host = host_with_lxc()
    spec = InstanceSpec("one", "probe", security=Security(drop_capabilities=True))
    assert "lxc.cap.keep = none" in configuration(spec, host, recording_testbed(host, tmp_path))


def test_a_read_only_root_keeps_its_places_in_memory_and_on_disk(tmp_path: Path) -> None:
    host = host_with_lxc()
    testbed = recording_testbed(host, tmp_path)
    security = Security(read_only_root=True, selinux="container_t")
    assert {
        "lxc.rootfs.options = ro",
        "lxc.mount.entry = tmpfs tmp tmpfs nosuid,nodev,exec,mode=1777,size=65536k 0 0",
        "lxc.mount.entry = tmpfs run tmpfs nosuid,nodev,exec,mode=755,size=16384k 0 0",
        f"lxc.mount.entry = {testbed.run_dir}/one/rootfs/var/tmp var/tmp none bind,rw,nosuid,nodev 0 0",
        "lxc.selinux.context = system_u:system_r:container_t:s0",
    } <= set(configuration(InstanceSpec("one", "probe", security=security), host, testbed))


def test_a_filter_that_allows_a_list_and_looks_at_arguments() -> None:
    masked = {"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    equal = {"index": 1, "value": 8, "op": "SCMP_CMP_EQ"}
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "syscalls": [
            {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"},
            {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [masked, equal]},
            {"names": ["reboot"], "action": "SCMP_ACT_KILL"},
        ],
    }
    assert seccomp_policy(profile).splitlines() == [
        "2",
        "allowlist errno 38",
        "[all]",
        "read allow",
        "write allow",
        "clone allow [0,0,SCMP_CMP_MASKED_EQ,2114060288][1,8,SCMP_CMP_EQ]",
        "reboot kill",
    ]


def test_a_filter_that_lxc_cannot_express_is_refused() -> None:
    with pytest.raises(Unavailable, match="SCMP_ACT_LOG"):
        seccomp_policy({"defaultAction": "SCMP_ACT_LOG"})


def test_what_lxc_wrote_into_its_log_is_the_reason(tmp_path: Path) -> None:
    failed = answer(code=1, error="lxc-start: one: Received container state ABORTING instead of RUNNING")
    host = host_with_lxc(answers=lambda argv: failed if list(argv) == ["sh", "-e"] else None)
    testbed = recording_testbed(host, tmp_path)
    with pytest.raises(PlatformError, match=r"start instance one: .*ABORTING"), Lxc().start(testbed, SPEC):
        pass
    host.files[f"{testbed.run_dir}/one/log"] = LOG
    with (
        pytest.raises(PlatformError, match=r"instance one: Read-only file system - Failed to set up$"),
        Lxc().start(testbed, SPEC),
    ):
        pass
    assert first_error("nothing of that kind") is None


def test_settings_of_an_instance_are_made_in_its_own_network_and_never_the_hosts(tmp_path: Path) -> None:
    host = host_with_lxc()
    testbed = recording_testbed(host, tmp_path)
    with Lxc().start(testbed, InstanceSpec("one", "probe", sysctls={"net.ipv4.ip_forward": "1"})):
        made = host.commands.index(["nsenter", "--net=/run/netns/lastro-0a1b2c-one", "sh", "-e"])
        assert host.stdins[made] == "echo 1 > /proc/sys/net/ipv4/ip_forward\n"
    with (
        pytest.raises(Unavailable, match=r"kernel\.panic cannot be set for one instance"),
        Lxc().start(testbed, InstanceSpec("one", "probe", sysctls={"kernel.panic": "1"})),
    ):
        pass


def test_without_lxc_the_remedy_is_its_package(tmp_path: Path) -> None:
    found = Lxc().probe(recording_testbed(RecordingHost(), tmp_path))
    assert found.reason == "this host has no program 'lxc-start'"
    assert found.remedy == "apt-get install lxc"


def test_on_version_1_the_groups_that_lxc_makes_inherit_cpus(tmp_path: Path) -> None:
    """Even where the group of the session was made by another platform before."""
    host = RecordingHost(programs=["lxc-start"])
    testbed = recording_testbed(host, tmp_path)
    group = testbed.cgroups.root / "cpuset" / "lastro" / testbed.session.token
    group.mkdir(parents=True)
    for place in (group, group.parent, group.parent.parent):
        (place / "cpuset.cpus").write_text("0-1")
        (place / "cpuset.mems").write_text("0")
    (group / "cgroup.clone_children").write_text("0")
    with Lxc().start(testbed, InstanceSpec("one", "probe")):
        assert host.files[str(group / "cgroup.clone_children")] == "1"


def test_a_script_of_a_trial_makes_them_inherit_too() -> None:
    path = "/sys/fs/cgroup/cpuset/lastro/0a1b2c/cgroup.clone_children"
    script = shell_script([{"kind": "write", "path": path, "text": "1"}], "a trial")
    told = script.index("for d in /sys/fs/cgroup/cpuset/lastro /sys/fs/cgroup/cpuset/lastro/0a1b2c;")
    assert told < script.index(f"cat > {path}")
