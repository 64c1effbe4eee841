"""Guests that share the treatments of one campaign, such as two kernels; without booting one."""

from __future__ import annotations

import hashlib
import lzma
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.app.hosts import announce_builds, guests_to_boot
from lastro.app.plans import StudyPlan
from lastro.campaign.duration import forecast
from lastro.cli.plan import _lines
from lastro.errors import InputError, StudyError
from lastro.guest import _facts, several_guests_chapter
from lastro.host.activity import ActiveProcess, ActivityReading, HostTotals
from lastro.host.testbed_file import TestbedFile, load, parse
from lastro.image import guest_host
from lastro.image.guest import _as_before_debian_13
from lastro.meters.host import _MachineUnderGuest
from lastro.platforms.base import AVAILABLE
from lastro.scenarios.base import GUEST, Scenario, guest_of, schema, schemas
from lastro.scenarios.chain import ChainScenario
from lastro.study import design
from lastro.study.json_schema import json_schema
from lastro.study.load import parse as parse_study
from lastro.study.root_change import RootChange

TWO = """kind = "guest"
memory = "1G"
[guests.old]
[guests.new]
kernel = "linux-image-amd64/trixie"
memory = "2G"
"""
STUDY = """[study]
name = "kernels"
title = "Two kernels"
scenario = "chain"
[factors]
platform = ["native", "runc"]
guest = ["old", "new"]
[settings]
attachment = "veth-direct"
[design]
replicates = 2
baseline = { guest = "old" }
"""


def two() -> TestbedFile:
    return parse(TWO, "two.toml")


def study_of(text: str = STUDY) -> Any:
    return parse_study(text, "study.toml", schemas())


def test_a_table_overrides_what_all_guests_have() -> None:
    old, new = two().guests.values()
    assert (old.name, old.kernel, old.memory) == ("old", "linux-image-amd64", "1G")
    assert (new.name, new.kernel, new.memory) == ("new", "linux-image-amd64/trixie", "2G")
    assert two().guest is None and {role["reached"] for role in two().provenance().values()} == {"the guest"}
    with pytest.raises(StudyError, match="is not a name"):
        parse('kind = "guest"\n[guests."a b"]\n', "two.toml")


def test_the_guest_is_a_factor_and_each_block_has_all() -> None:
    study = study_of()
    rows, levels = list(design.trials(study, 4)), [treatment.levels for treatment in design.treatments(study)]
    for block in (1, 2):
        chosen = [levels[trial.treatment] for trial in rows if trial.block == block]
        assert sorted(guest_of(each) for each in chosen) == ["new", "new", "old", "old"]
    assert GUEST.name not in study_of(STUDY.replace('guest = ["old", "new"]\n', "").replace("baseline", "# ")).settings
    with pytest.raises(StudyError, match="not the name of a guest"):
        study_of(STUDY.replace('"new"]', '"a new"]'))
    assert (
        GUEST.name
        in json_schema({"chain": schema(ChainScenario)})["$defs"]["chain"]["properties"]["factors"]["properties"]
    )


def test_the_study_and_the_file_must_fit() -> None:
    assert [plan.name for plan in guests_to_boot(two(), ["new", "lost", "old"])] == ["new", "old"], (
        "one that lacks is told later"
    )
    assert [plan.name for plan in guests_to_boot(load(Path("guest")), [])] == [""] and guests_to_boot(None, []) == []
    for file, names, said in (
        (two(), [], "has several guests"),
        (two(), ["nwe"], "did you mean 'new'"),
        (None, ["new"], "--testbed FILE"),
        (load(Path("guest")), ["new"], "--testbed FILE"),
    ):
        with pytest.raises(InputError) as caught:
            guests_to_boot(file, names)
        assert said in f"{caught.value.message} {caught.value.hint}"


class Named(Scenario):
    """A scenario that can do what its name says."""

    name = "named"

    def __init__(self, which: str) -> None:
        super().__init__(None)
        self.which = which

    @classmethod
    def duration_s(cls, config: Any) -> float:
        return 1.0

    def availability(self, config: Any) -> Any:
        return AVAILABLE

    def run(self, config: Any, calibrations: Any) -> Any:
        return self.which


def test_a_treatment_runs_in_the_guest_that_it_names() -> None:
    guests = {name: Named(name) for name in ("old", "new")}
    first = guests["old"]
    first.guests = guests
    assert cast(Any, first.at({"guest": "new"})).which == "new" and first.at({"guest": "old"}) is first
    assert first.availability_at({"guest": "new"})
    for name, guest in guests.items():
        guest.roots = {RootChange(release="trixie"): Named(f"{name} with Debian 13")}
    assert cast(Any, first.at({"guest": "new", "release": "trixie"})).which == "new with Debian 13"
    assert cast(Any, first.at({"guest": "new", "release": "sid"})).which == "new", "which no variant changes"
    lost = first.availability_at({"guest": "lost"})
    assert "no guest named 'lost'" in str(lost.reason) and "[guests.lost]" in str(lost.remedy)
    alone = Named("alone")
    assert alone.at({}) is alone and alone.availability_at({})


def test_results_name_each_guest_and_whether_one_is_emulated() -> None:
    plans = two().guests
    found = several_guests_chapter({"old": _facts(plans["old"], "kvm", ""), "new": _facts(plans["new"], "tcg", "")})
    assert found == {
        "title": "2 guests in turn (old: a guest on KVM (1G, cgroup v2, AppArmor);"
        " new: a guest emulated in software (2G, cgroup v2, AppArmor))",
        "full_title": "2 guests in turn (old: a guest on KVM (1G, cgroup v2, AppArmor) with linux-image-amd64;"
        " new: a guest emulated in software (2G, cgroup v2, AppArmor) with linux-image-amd64/trixie)",
        "release": "bookworm",
        "address_randomization": "off in new",
        "emulated": True,
        "partly": True,
    }
    same = several_guests_chapter({name: _facts(plans["old"], "kvm", "") for name in ("a", "b")})
    assert same.keys() == {"title", "release", "emulated"}
    assert same["title"].endswith("b: a guest on KVM (1G, cgroup v2, AppArmor))")


def test_results_name_what_each_guest_boots() -> None:
    plans, userland = two().guests, {"userland_sha256": "c" * 64}
    old, new = (
        _facts(plans[name], "kvm", "") | userland | {"kernel_sha256": digit * 64}
        for name, digit in (("old", "a"), ("new", "b"))
    )
    found = several_guests_chapter({"old": old, "new": new | {"release": "trixie"}})
    assert found["release"] == "bookworm (old), trixie (new)"
    assert found["kernel_sha256"] == f"{'a' * 12} (old), {'b' * 12} (new)"
    assert found["userland_sha256"] == "c" * 64, "the same for all"


def test_a_kernel_of_debian_13_is_laid_out_as_one_of_debian_12(tmp_path: Path) -> None:
    module = tmp_path / "usr/lib/modules/6.12/kernel/fs/ext4/ext4.ko.xz"
    module.parent.mkdir(parents=True)
    module.write_bytes(lzma.compress(b"module"))
    for name in ("bin", "lib64", "sbin"):
        (tmp_path / "usr" / name).mkdir()
    _as_before_debian_13(tmp_path)
    assert (tmp_path / "lib/modules/6.12/kernel/fs/ext4/ext4.ko").read_bytes() == b"module" and not module.exists()
    assert (tmp_path / "sbin").is_dir() and (tmp_path / "lib64").readlink() == Path("usr/lib64")


def test_a_kernel_of_debian_14_is_in_boot_too(tmp_path: Path) -> None:
    modules = tmp_path / "usr/lib/modules/7.2"
    modules.mkdir(parents=True)
    for name in ("vmlinuz", "config"):
        (modules / name).write_text(name)
    _as_before_debian_13(tmp_path)
    assert [(tmp_path / "boot" / f"{name}-7.2").read_text() for name in ("vmlinuz", "config")] == ["vmlinuz", "config"]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What a guest has to build first, in its order; nothing is fetched."""
    found: list[Any] = []
    image = SimpleNamespace(tree=tmp_path, digest="ab" * 32)
    made = SimpleNamespace(elf=None, image=tmp_path / "vmlinuz", modules_disk=None, release="6.1")
    made.image.write_bytes(b"of Debian")
    monkeypatch.setattr(guest_host.rootfs, "ensure", lambda recipe, *_: found.append(recipe.release) or image)
    monkeypatch.setattr(guest_host.guest, "ensure_kernel", lambda *words: found.append((words[2], words[4])) or made)
    for step in ("ensure_initramfs", "ensure_disk"):
        monkeypatch.setattr(guest_host.guest, step, lambda *_: tmp_path)
    return found


def files_of(place: Path, release: str, kernel: str) -> guest_host.GuestHost:
    return guest_host.ensure(cast(Any, [SimpleNamespace(snapshot="")]), place, cast(Any, None), release, kernel, ())


@pytest.mark.parametrize(
    ("release", "kernel", "asked"),
    [
        ("bookworm", "linux-image-amd64/trixie", ("trixie", "linux-image-amd64")),
        ("trixie", "linux-image-cloud-amd64", ("trixie", "linux-image-cloud-amd64")),
    ],
)
def test_a_kernel_may_be_of_another_release_than_the_userland(
    built: list[Any], tmp_path: Path, release: str, kernel: str, asked: tuple[str, str]
) -> None:
    files = files_of(tmp_path, release, kernel)
    assert built == [asked, release] and files.kernel == tmp_path / "vmlinuz"


def test_a_kernel_file_that_is_built_again_has_another_digest(built: list[Any], tmp_path: Path) -> None:
    own, digests = tmp_path / "bzImage", []
    for content in (b"first", b"again"):
        own.write_bytes(content)
        digests.append(files_of(tmp_path, "bookworm", str(own)).digests)
    kernels = [hashlib.sha256(content).hexdigest() for content in (b"first", b"again")]
    assert digests == [{"userland_sha256": "ab" * 32, "kernel_sha256": kernel} for kernel in kernels]
    of_debian = files_of(tmp_path, "bookworm", "linux-image-amd64").digests
    assert of_debian["kernel_sha256"] == hashlib.sha256(b"of Debian").hexdigest()


@pytest.mark.parametrize(
    ("emulated", "words"), [(True, "the guest is emulated: each"), (None, "if the guest is"), (False, "expected    ")]
)
def test_a_plan_says_what_emulation_adds(emulated: bool | None, words: str) -> None:
    study = study_of()
    rows = design.treatments(study)
    expected = forecast(study, ChainScenario, rows, emulated=bool(emulated))
    plan = StudyPlan(study, rows, [AVAILABLE] * len(rows), True, expected, emulated=emulated)
    assert _lines(plan)[-1].startswith(words)


def test_what_the_first_use_builds_is_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, held = SimpleNamespace(snapshot=""), SimpleNamespace(ledger=SimpleNamespace(state=tmp_path))
    words = (cast(Any, held), cast(Any, image), [*two().guests.values()])
    announce_builds(*words)
    listed = "the userland of bookworm, linux-image-amd64 of bookworm, linux-image-amd64 of trixie …"
    assert capsys.readouterr().err.endswith(f": {listed}\n")
    monkeypatch.setattr(guest_host.rootfs, "built_image", lambda *_: image)
    monkeypatch.setattr(guest_host.guest, "kernel_at", lambda *_: SimpleNamespace(directory=tmp_path, release="6.1"))
    announce_builds(*words)
    assert capsys.readouterr().err == ""


@dataclass
class Near:
    """The machine under the guests: each call of `look` is a second later, in which two guests ran."""

    pids_: set[int] = field(default_factory=lambda: {11, 12})
    at_s: int = 0

    def pids(self) -> set[int]:
        return set(self.pids_)


def test_what_another_guest_uses_is_foreign_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(self: _MachineUnderGuest) -> ActivityReading:
        near = cast(Any, self._session)
        near.at_s += 1
        used = {11: 0.6 * near.at_s, 12: 0.25 * near.at_s}
        own = os.times()
        totals = HostTotals({"user": sum(used.values()) + own.user + own.children_user, "nice": 0.0, "steal": 0.0}, {})
        return ActivityReading(
            near.at_s, totals, {pid: ActiveProcess(pid, "qemu", user_s) for pid, user_s in used.items()}
        )

    monkeypatch.setattr(_MachineUnderGuest, "_look", look)
    for rivals, foreign in ((frozenset[int](), 0.0), (frozenset({12}), 0.25)):
        under = _MachineUnderGuest(cast(Any, Near()), rivals)
        under.stop()
        assert under.foreign_cpus == pytest.approx(foreign, abs=0.02)


@pytest.mark.parametrize(
    ("first", "total_s", "of_others_s", "foreign_s"),
    [
        ("kthreadd", 1.6, 0.1, 0.1),  # the host counts a whole tick for what wakes with it: 0.25 s are nobody's
        ("kthreadd", 1.25, 0.9, 0.0),  # a parent has just got what its child used long ago
        ("kthreadd", 2.15, 0.9, 0.9),  # both agree
        ("sh", 1.6, 0.1, 0.35),  # in a container, which does not see the processes of its host
    ],
)
def test_foreign_load_is_the_smaller_of_two_counts(
    first: str, total_s: float, of_others_s: float, foreign_s: float
) -> None:
    def seen(at_s: float, user_s: float, others_s: float) -> ActivityReading:
        processes = (
            ActiveProcess(2, first, 0.0), ActiveProcess(11, "qemu", 1.2 * at_s), ActiveProcess(12, "make", others_s),
        )  # fmt: skip
        totals = HostTotals({"user": user_s, "nice": 0.0, "steal": 0.0}, {})
        return ActivityReading(at_s, totals, {each.pid: each for each in processes})

    before, now = seen(1.0, 7.0, 3.0), seen(2.0, 7.0 + total_s, 3.0 + of_others_s)
    assert now.foreign_user_s(before, {11}, 0.05) == pytest.approx(foreign_s)
