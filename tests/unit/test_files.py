"""What others prepared is neither waited for nor followed: inputs, temporary names, directories others can change."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from lastro import files
from lastro.app import studies
from lastro.campaign import suite
from lastro.errors import InputError, LastroError, OutputError, StudyError
from lastro.files import open_directory, read_regular, require_own_directory, trust_directories
from lastro.host import testbed_file
from lastro.results.files import write_atomically
from lastro.results.store import Store
from lastro.scenarios.routing.topology_file import read_topology
from lastro.study.document import read_text

from ..support.campaigns import PROVENANCE, make_campaign


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root who was invoked by this user through sudo."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str(os.getuid()))


# Reading


@pytest.mark.parametrize(
    "read",
    [
        lambda file: read_text(file, "study", "hint"),
        testbed_file.load,
        lambda file: read_topology(str(file)),
        lambda file: suite.read(file.parent),
    ],
    ids=["study or claims", "testbed", "topology", "index of a suite"],
)
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, read: Callable[[Path], object]) -> None:
    fifo = tmp_path / suite.INDEX
    os.mkfifo(fifo)
    with pytest.raises(LastroError, match="it is a FIFO, not a regular file"):
        read(fifo)


def test_a_device_is_refused_before_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("opened"))
    with pytest.raises(OSError, match="it is a device"):
        read_regular(Path("/dev/zero"), 10)


def test_a_file_that_becomes_a_fifo_before_it_is_opened_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "fifo")
    real = (tmp_path / "fifo").stat()
    monkeypatch.setattr(Path, "stat", lambda _: os.stat_result((stat.S_IFREG | 0o644, *tuple(real)[1:])))
    with pytest.raises(OSError, match="it is a FIFO"):
        read_regular(tmp_path / "fifo", 10)


def test_the_testbed_that_a_campaign_names_is_read_only_when_it_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "testbed.toml"
    file.write_text("[dut]\ncpus = '0'\n")
    named = {**PROVENANCE, "testbed": {"file": str(file)}}
    with Store.open(make_campaign(tmp_path / "campaign", stop_after=1, provenance=named), readonly=True) as store:
        found = studies.testbed_of(store)
        assert found is not None and found.roles["dut"].cpus == "0"
        monkeypatch.setattr(files, "caller_ids", lambda: frozenset({os.getuid() + 1}))
        with pytest.raises(StudyError, match=r"testbed\.toml: cannot be read: it belongs to user") as caught:
            studies.testbed_of(store)
    assert "--testbed" in str(caught.value.hint)
    assert testbed_file.load(file).roles["dut"].cpus == "0", "given by the caller, whoever owns it"


def test_the_caller_of_sudo_is_a_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "4242")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert files.caller_ids() == {0, 4242}
    monkeypatch.setenv("SUDO_UID", "-1")
    assert files.caller_ids() == {0}
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    monkeypatch.setenv("SUDO_UID", "4242")
    assert files.caller_ids() == {7}, "anyone can set a variable"


# Writing


def test_a_planted_link_has_nothing_overwritten(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("secret")
    for name in (f".report.html.{os.getpid()}.new", "report.html"):
        (tmp_path / name).symlink_to(victim)
    write_atomically(tmp_path / "report.html", "page")
    assert victim.read_text() == "secret"
    assert not (tmp_path / "report.html").is_symlink() and (tmp_path / "report.html").read_text() == "page"


def test_a_new_campaign_follows_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    directory = tmp_path / "campaign"
    directory.mkdir()
    for name in ("campaign.db.new", "study.toml"):
        (directory / name).symlink_to(victim)
    make_campaign(directory, stop_after=1)
    assert not victim.exists()
    with Store.open(directory, readonly=True) as store:
        assert store.counts()["valid"] == 1


def test_below_a_campaign_no_link_to_a_directory_is_followed(tmp_path: Path) -> None:
    campaign, elsewhere = tmp_path / "campaign", tmp_path / "elsewhere"
    campaign.mkdir()
    elsewhere.mkdir()
    (campaign / "figures").symlink_to(elsewhere)
    (tmp_path / "link").symlink_to(campaign)
    with pytest.raises(OutputError, match="'figures' is a symbolic link"):
        write_atomically(campaign / "figures" / "a.svg", "<svg/>", base=campaign)
    assert list(elsewhere.iterdir()) == []
    write_atomically(tmp_path / "link" / "deep" / "a.svg", "<svg/>", base=tmp_path / "link")
    assert (campaign / "deep" / "a.svg").read_text() == "<svg/>", "the name that the user gave may be a link"


@pytest.mark.parametrize("target", ["/dev/null", "fifo", "folder"])
def test_only_a_regular_file_is_replaced(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "out").symlink_to(target)
    with pytest.raises(OutputError, match=r"not a regular file|Is a directory"):
        write_atomically(tmp_path / "out", "text")
    assert (tmp_path / "out").is_symlink() and not list(tmp_path.glob("*.new"))


# Where root writes


def mode(directory: Path, bits: int) -> Path:
    directory.mkdir(exist_ok=True)
    directory.chmod(bits)
    return directory


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("below", ["", "mine/deeper"])
def test_root_refuses_a_directory_that_everybody_can_change(tmp_path: Path, below: str) -> None:
    shared = mode(tmp_path / "shared", 0o777)
    for refused in (write_atomically, lambda file, _: require_own_directory(file.parent)):
        with pytest.raises(InputError, match=rf"{shared} is writable by everyone") as caught:
            refused(shared / below / "report.html", "page")
        assert "--trust" in str(caught.value.hint)
    assert list(shared.iterdir()) == []
    with trust_directories():
        require_own_directory(shared / below)
        write_atomically(shared / below / "report.html", "page")
    assert (shared / below / "report.html").read_text() == "page"


@pytest.mark.usefixtures("as_root")
def test_root_writes_below_a_sticky_directory(tmp_path: Path) -> None:
    sticky = mode(tmp_path / "sticky", 0o1777)
    write_atomically(sticky / "campaign" / "report.html", "page")
    assert (sticky / "campaign").stat().st_mode & 0o777 == 0o755
    mode(sticky / "campaign", 0o1777 & ~0o1000)
    with pytest.raises(InputError, match="writable by everyone"):
        write_atomically(sticky / "campaign" / "report.html", "page")


@pytest.mark.usefixtures("as_root")
def test_a_group_of_others_may_change_what_root_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = mode(tmp_path / "shared", 0o770)
    for private in (True, False):
        monkeypatch.setattr(files, "_is_private", lambda group, private=private: private)
        if private:
            require_own_directory(shared)
        else:
            with pytest.raises(InputError, match="is writable by group"):
                require_own_directory(shared)


@pytest.mark.usefixtures("as_root")
def test_an_access_control_list_lets_others_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = mode(tmp_path / "shared", 0o775)
    monkeypatch.setattr(files, "_is_private", lambda group: True)
    require_own_directory(shared)
    # acl(5) in the kernel's form: version 2; owner rwx, user 4242 rwx, group r-x, mask rwx, others r-x.
    nobody = 0xFFFFFFFF
    entries = [(1, 7, nobody), (2, 7, 4242), (4, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(shared, "system.posix_acl_access", value)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    with pytest.raises(InputError, match="through its access control list"):
        require_own_directory(shared)


@pytest.mark.usefixtures("as_root")
def test_root_refuses_what_belongs_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "caller_ids", lambda: frozenset({os.getuid() + 1}))
    with pytest.raises(InputError, match="belongs to user"):
        require_own_directory(tmp_path)


@pytest.mark.usefixtures("as_root")
def test_a_campaign_that_others_can_change_is_read_and_not_written(tmp_path: Path) -> None:
    directory = make_campaign(tmp_path / "campaign", stop_after=1)
    directory.chmod(0o777)
    Store.open(directory, readonly=True).close()
    with pytest.raises(InputError, match="writable by everyone"):
        Store.open(directory)


def test_links_in_circles_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        open_directory(tmp_path / "a")
    with pytest.raises(OutputError, match="Too many levels"):
        write_atomically(tmp_path / "a" / "report.html", "page")


def test_relative_links_and_parents_lead_where_the_kernel_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "link").symlink_to("one/two")
    monkeypatch.chdir(tmp_path / "one")
    for name in ("../link/../two", ".", "two/..", str(tmp_path / "link")):
        descriptor = open_directory(Path(name))
        try:
            assert Path(f"/proc/self/fd/{descriptor}").readlink() == Path(name).resolve()
        finally:
            os.close(descriptor)
