"""What a damaged ledger, or one that somebody wrote, can make Lastro remove: nothing but what its sessions make."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lastro.errors import HostError
from lastro.host import files
from lastro.host.files import LocalFiles
from lastro.host.ledger import Ledger
from lastro.host.lock import lock
from lastro.host.undo import UNDO, Owner, undo

from ...support.recording import RecordingHost

pytestmark = pytest.mark.processes

TOKEN, STATE = "0a1b2c", Path("/var/lib/lastro")
TREE = f"{STATE}/rootfs/0123456789ab/rootfs"
BOOT = "0b6f5a2e-7c1d-4d5b-9a3e-1f2d3c4b5a69"

OWN = {
    "netns": [f"lastro-{TOKEN}-dut", f"lastro-{TOKEN}-a.b_c-1"],
    "netns-dir": ["/run/netns"],
    "cgroup": [f"/lastro/{TOKEN}", f"/lastro/{TOKEN}/one/payload"],
    "directory": [f"/run/lastro/{TOKEN}", f"/run/lastro/{TOKEN}/one", f"{STATE}/scratch/{TOKEN}/a b"],
    "mount": [TREE],
    "interface": [
        f"eth1@lastro-{TOKEN}-client",
        f"enp3s0f1@lastro-{TOKEN}-dut:up",
        f"eth1=out0@lastro-{TOKEN}-source-1",
        f"eth1=out0@lastro-{TOKEN}-source-1:rx,tx,tso,gso,gro,segs65535,up",
    ],
    "module": [f"pktgen@{BOOT}", f"br_netfilter@{BOOT}"],
    "zpool": [f"lastro-{TOKEN}-lxd"],
    "xen": [f"lastro-{TOKEN}-one"],
    "openvz": ["1a570a1b-2c00-4000-8000-0123456789ab"],
}
PATHS = [
    "",
    ".",
    "/",
    "/etc",
    "//",
    "/run",
    "../etc",
    "~",
    "--help",
    "lastro",
    "*",
    "/lastro",
    "/run/lastro",
    str(STATE),
]
HOSTILE = {
    "netns": ["dut", "lastro-ffffff-dut", f"lastro-{TOKEN}-", f"lastro-{TOKEN}-../../etc", f"lastro-{TOKEN}-x\n"],
    "netns-dir": ["/run/netns/", "/run/netns/x", "/run/user"],
    "cgroup": [
        "/system.slice", "/lastro/ffffff", f"/lastro/{TOKEN}/../../user.slice", f"lastro/{TOKEN}", f"/lastro/{TOKEN}x",
        f"//lastro/{TOKEN}", f"/lastro/{TOKEN}/./x", f"/x/lastro/{TOKEN}",
    ],
    "directory": [
        "/run/lastro/ffffff", f"/run/lastro/{TOKEN}/..", f"/run/lastro/{TOKEN}/../../x", f"/srv/scratch/{TOKEN}",
        f"{STATE}/scratch", f"{STATE}/rootfs", f"/run/lastro/{TOKEN}/", f"/run/{TOKEN}", f"x/run/lastro/{TOKEN}",
    ],
    "mount": ["/proc", "/home", f"{STATE}/rootfs", TREE + "/..", TREE + "/etc", f"{STATE}/rootfs/../../x/rootfs"],
    "interface": [
        "eth0", "eth0@", f"eth0@lastro-{TOKEN}-x:down", "eth0@default", "eth0@lastro-ffffff-x:up",
        f"-x@lastro-{TOKEN}-x", f"$(reboot)@lastro-{TOKEN}-x", f"eth0=@lastro-{TOKEN}-x", f"eth0=a/b@lastro-{TOKEN}-x",
        f"eth0=in0@lastro-{TOKEN}-x:up;reboot", f"eth0@lastro-{TOKEN}-x:up\n", f"eth0@lastro-{TOKEN}-x:lro",
    ],
    "module": ["pktgen", "pktgen@", f"kvm@{BOOT}", f"pktgen@{BOOT}\n", f"--all@{BOOT}", "pktgen@../../etc"],
    "zpool": ["rpool", "lastro-ffffff-lxd", f"lastro-{TOKEN}-lxd/x", f"lastro-{TOKEN}-"],
    "xen": ["Domain-0", "lastro-ffffff-x", f"lastro-{TOKEN}-"],
    "openvz": ["101", "1a57ffff-ff00-4000-8000-0123456789ab"],
}  # fmt: skip


def owner(host: RecordingHost, token: str = TOKEN) -> Owner:
    host.run_root = Path("/run/lastro")
    return Owner(host, token, STATE)


def test_every_kind_is_tried() -> None:
    assert OWN.keys() == HOSTILE.keys() == UNDO.keys()


@pytest.mark.parametrize("kind", OWN)
def test_what_a_session_makes_passes(kind: str) -> None:
    for name in OWN[kind]:
        assert UNDO[kind].is_own(owner(RecordingHost()), name), name


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_no_session_makes_is_refused_before_anything_is_run(kind: str) -> None:
    host = RecordingHost(programs=("zpool", "xl", "vzctl"))
    others = [name for each, names in OWN.items() if each != kind for name in names]
    for name in [*HOSTILE[kind], *PATHS, *(set(others) - set(OWN[kind]))]:
        if (kind == "xen" and name in OWN["zpool"] + OWN["netns"]) or (
            kind == "netns" and name in OWN["zpool"] + OWN["xen"]
        ):
            continue  # one shape of names
        if kind == "zpool" and name in OWN["netns"] + OWN["xen"]:
            continue
        with pytest.raises(HostError, match="was not created by Lastro"):
            undo(owner(host), kind, name)
    assert host.commands == []


class _Kernel:
    """The files of a kernel in the boot `boot`, with a module that `users` other modules use; None: not loaded."""

    def __init__(self, boot: str, users: int | None) -> None:
        self._files = {"/proc/sys/kernel/random/boot_id": f"{boot}\n"}
        if users is not None:
            self._files["/sys/module/br_netfilter/refcnt"] = f"{users}\n"

    def read(self, paths: list[str]) -> dict[str, str]:
        return {path: self._files[path] for path in paths if path in self._files}


@pytest.mark.parametrize(
    ("boot", "users", "removed"),
    [(BOOT, 0, True), (BOOT, 1, False), (BOOT, None, False), (BOOT.replace("0b", "1c"), 0, False)],
    ids=["unused", "used by another", "gone", "of another boot"],
)
def test_a_module_is_removed_that_was_loaded_in_this_boot_and_that_no_other_uses(
    boot: str, users: int | None, removed: bool
) -> None:
    host = RecordingHost()
    vars(host)["view"] = _Kernel(boot, users)
    undo(owner(host), "module", f"br_netfilter@{BOOT}")
    assert host.commands == ([["rmmod", "br_netfilter"]] if removed else [])


@pytest.mark.parametrize("token", ["", "..", "0A1B2C", "0a1b2", "0a1b2c\n", "../../e", ".*"])
def test_a_session_is_named_by_six_hexadecimal_digits(token: str) -> None:
    host = RecordingHost()
    with pytest.raises(HostError, match="was not created by Lastro"):
        undo(owner(host, token), "directory", f"/run/lastro/{token}")
    assert host.commands == []


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(tmp_path / "state")) as made:
        yield made


@pytest.mark.parametrize("token", ["", "lastro", "..", 7, None, b"0a1b2c"])
@pytest.mark.parametrize("pid", [1, "1", "../1", None, 2**70 // 2**10, -1])
def test_a_session_of_no_name_of_ours_ends_no_process(
    ledger: Ledger, token: object, pid: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: LocalFiles, token: str) -> set[int]:
        pytest.fail(f"processes of {token!r} are ended")

    monkeypatch.setattr(LocalFiles, "end_owned", refuse)
    ledger._db.execute("INSERT INTO session VALUES (?, ?, ?, ?)", (token, pid, 1, "hostile"))
    ledger._db.execute("INSERT INTO object(session, kind, name) VALUES (?, ?, ?)", (str(token), "directory", "/etc"))
    with pytest.raises(HostError, match="not a valid session name"):
        ledger.clean()


def test_hostile_objects_of_a_dead_session_are_refused_and_told(ledger: Ledger, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    ledger._db.execute("INSERT INTO session VALUES (?, ?, ?, ?)", (TOKEN, 2**22 + 1, 1, "hostile"))
    for kind, name in (("directory", str(precious)), ("cgroup", "/"), ("mount", "/proc"), ("netns", "../../etc")):
        ledger.add(TOKEN, kind, name)
    with pytest.raises(HostError) as caught:
        ledger.clean()
    assert caught.value.message.count("was not created by Lastro") == 4
    assert precious.is_dir() and Path("/proc/self").exists()


# How processes end


def test_a_number_that_went_to_another_process_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look finds a process; by the second, its number is not among ours any more."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        looks = iter([{stranger.pid}, set[int]()])
        files._kill(lambda: next(looks))
        assert stranger.poll() is None
        files._kill(lambda: {stranger.pid})
        assert stranger.wait(10) == -9


def test_processes_end_by_their_mark() -> None:
    environment = {**os.environ, files.OWNER_VARIABLE: "5eed01"}
    with subprocess.Popen(["sleep", "60"], env=environment) as owned, subprocess.Popen(["sleep", "60"]) as other:
        while owned.pid not in LocalFiles().owned_pids("5eed01"):
            pass  # between fork and exec
        assert LocalFiles().end_owned("5eed01") == {owned.pid}
        assert owned.wait(10) == -9 and other.poll() is None
        other.kill()


def test_a_group_of_version_2_is_ended_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "cgroup.kill").touch()
    LocalFiles().end_below([str(tmp_path)])
    assert (tmp_path / "cgroup.kill").read_text() == "1"


# Who may open its files


def test_others_can_open_neither_the_ledger_nor_the_lock(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with closing(Ledger(state)), lock(state, "tests"):
        for file in ("ledger.db", "lock"):
            assert stat.S_IMODE((state / file).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    for file in ("ledger.db", "lock"):  # as an older Lastro made them
        (state / file).chmod(0o644)
    with closing(Ledger(state)), lock(state, "tests"):
        for file in ("ledger.db", "lock"):
            assert stat.S_IMODE((state / file).stat().st_mode) == 0o600
