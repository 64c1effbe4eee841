"""A guest that is the host of a testbed: its file, what it boots, and what results say of it; without booting one."""

from __future__ import annotations

import csv
import gzip
import io
import re
import tarfile
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro import registry
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import judge
from lastro.analysis.claims.claim import Claims, Source
from lastro.analysis.claims.kinds import AnyClaim
from lastro.analysis.compare import compare
from lastro.analysis.host_facts import named_facts
from lastro.analysis.pooled_study import machine
from lastro.app.contents import content_of, load_data
from lastro.app.provenance import changed_facts
from lastro.attachments.ovs import Ovs
from lastro.builders.claims import JudgedClaims
from lastro.builders.data.claims import claims_document
from lastro.builders.data.results import document
from lastro.builders.tables import results_table, table_with_place
from lastro.cli._guest_adds import guest_additions, isolation_additions, supported_links
from lastro.document import Title
from lastro.errors import CommandFailed, HostError, StudyError
from lastro.guest import _facts, _GuestBoot, _make_keys_and_disk, booted_guest
from lastro.host.connections import SshTarget
from lastro.host.local import LocalHost
from lastro.host.ssh import SshHost
from lastro.host.testbed_file import PLATFORMS, GuestPlan, TestbedFile, load, load_named, parse
from lastro.image.guest import Guest
from lastro.image.guest_host import GuestHost, docker_profile, recipe_of
from lastro.image.guest_hypervisor import HYPERVISORS, ensure_xen, start_of
from lastro.image.rootfs import Image
from lastro.isolation.apparmor import AppArmor
from lastro.isolation.selinux import SELinux
from lastro.platforms.base import AVAILABLE, Availability
from lastro.platforms.native import Native
from lastro.render.html import html
from lastro.results.export import to_csv
from lastro.results.provenance import Provenance
from lastro.results.segments import change_texts
from lastro.scenarios.shared.pools import PlatformPool
from lastro.scenarios.shared.probes import PartProbes
from lastro.testbed import Testbed
from lastro.words.campaign import premises
from lastro.words.comparison import comparison_notes, differences
from lastro.words.language import ENGLISH

from ...support.campaigns import PROVENANCE, make_campaign, make_study
from ...support.documents import render_latex, render_markdown
from ...support.recording import RecordingHost, recording_testbed
from ..analysis.test_build import report_of

LSM = {"security_modules": "capability"}
TEMPLATE = b"""junk
profile {{.Name}} flags=(attach_disconnected) {
{{range $value := .InnerImports}}
  {{$value}}
{{end}}
  file,
{{if ge .Version 208096}}
  signal (receive) peer={{.DaemonProfile}},
{{end}}
  deny mount,
}

more junk {{.Other}}
}
"""
LEVEL = {"metric": "throughput", "value": 1.5, "tolerance": 0.5, "unit": "Mbit/s"}


def guest_of(file: TestbedFile) -> GuestPlan:
    assert file.guest is not None
    return file.guest


def test_the_word_is_a_guest_with_the_default_of_each_key() -> None:
    file = load(Path("guest"))
    assert guest_of(file) == guest_of(parse('kind = "guest"\n', "testbed.toml"))
    assert file.place == "guest" and load_named(Path(file.place)) == file
    assert {role["reached"] for role in file.provenance().values()} == {"the guest"}


def test_a_file_chooses_its_kernel_size_and_isolation(tmp_path: Path) -> None:
    text = 'kind = "guest"\nkernel = "/boot/vmlinuz"\ncpus = 3\nmemory = "1G"\ncgroups = "v1"\nlsm = "none"\n'
    found = guest_of(parse(text, "testbed.toml"))
    assert found == GuestPlan("/boot/vmlinuz", "bookworm", 3, "1G", "v1", "none", "auto")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('memory = "1k"', "too little for a guest"),
        ('memory = "much"', "not a size"),
        ('cgroup = "v2"', "did you mean 'cgroups'"),
        ('cgroups = "v3"', "must be 'v2' or 'v1'"),
        ('lsm = "smack"', "must be 'apparmor' or 'none'"),
        ('lsm = "selinux"', "but is 'selinux' (Debian's SELinux policy did not load"),
        ('kernel = "linux image"', "neither a Debian package"),
        ("cpus = 65", "at most 64"),
        ("[dut]", "unknown key"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse(f'kind = "guest"\n{text}\n', "testbed.toml")
    assert said in f"{caught.value.message} ({caught.value.hint})"
    with pytest.raises(StudyError, match="'hosts' or 'guest'"):
        parse('kind = "gest"\n', "testbed.toml")


def test_the_profile_is_the_one_inside_of_dockerd(tmp_path: Path) -> None:
    (tmp_path / "dockerd").write_bytes(TEMPLATE)
    lines = [line.strip() for line in docker_profile(tmp_path / "dockerd").splitlines() if line.strip()]
    assert lines == [
        "#include <tunables/global>",
        "profile docker-default flags=(attach_disconnected) {",
        "#include <abstractions/base>",
        "file,",
        "signal (receive) peer=unconfined,",
        "deny mount,",
        "}",
    ]
    (tmp_path / "dockerd").write_bytes(TEMPLATE.replace(b"deny mount,", b"{{.Unknown}}"))
    assert docker_profile(tmp_path / "dockerd") == docker_profile(tmp_path / "nothing") == ""


def test_a_guest_of_virtual_machines_has_what_they_boot_and_modules_for_them(tmp_path: Path) -> None:
    asked = parse('kind = "guest"\nplatforms = ["native", "kvm"]\n', "g.toml")
    plan = guest_of(asked)
    assert plan.platforms == ("native", "kvm") and plan.facts()["platforms"] == "native, kvm"
    packages = set(recipe_of("bookworm", "", plan.platforms).packages)
    assert {"qemu-system-x86", "qemu-utils", "e2fsprogs", "python3-minimal"} <= packages and "docker.io" not in packages
    boots = Guest("6.1", *map(Path, ("/s/kernel-1/vmlinuz", "/s/kernel-1/vmlinux", "/s/i.cpio", "/s/disk")))
    made = start(tmp_path)
    words = replace(made, files=replace(made.files, boots=boots)).command_line("tcg")
    assert any(word.startswith("lastro.root=") and word.endswith(":/var/lib/lastro/guest/disk-1.img") for word in words)
    assert "lastro.load=kvm_amd,kvm_intel,vhost_net" in words
    assert not [word for word in made.command_line("tcg") if word.startswith("lastro.load") or "guest/disk" in word]


def test_a_guest_with_xen_is_loaded_by_it_and_starts_its_daemons(tmp_path: Path) -> None:
    text = 'kind = "guest"\nhypervisor = "xen"\nplatforms = ["native", "xen"]\n'
    plan = guest_of(parse(text, "g.toml"))
    packages = set(recipe_of("bookworm", "", plan.platforms, plan.hypervisor).packages)
    assert {"xen-system-amd64", "qemu-system-xen", "python3-minimal"} <= packages
    assert "oxenstored" in start_of(plan.hypervisor) and start_of("none") == ""
    assert _facts(plan, "tcg", "")["title"] == "a guest emulated in software (2G, cgroup v2, AppArmor, Xen)"
    made = start(tmp_path, hypervisor="xen", platforms=plan.platforms)
    made = replace(made, files=replace(made.files, xen=Path("/xen"), boots=SimpleNamespace()))
    argv = made.argv("tcg", 4022)
    assert argv[argv.index("-kernel") + 1] == "/xen"
    assert {"dom0_mem=1024M,max:1024M", "console=com1", "spec-ctrl=no"} <= set(argv[argv.index("-append") + 1].split())
    kernel, initramfs = re.split("(?<!,),(?!,)", argv[argv.index("-initrd") + 1])
    assert kernel.startswith("/k console=hvc0 ") and "lastro.load" not in kernel and initramfs == "/i"
    devices = [word for word in argv if word.startswith("virtio-")]
    assert len(devices) == 7 and all(word.endswith("iommu_platform=on") for word in devices)
    plain = made.argv("kvm", 4022)
    assert "spec-ctrl=no" not in plain[plain.index("-append") + 1]


def test_a_guest_with_virtualbox_has_modules_built_for_its_kernel_and_a_processor_on_which_it_works(
    tmp_path: Path,
) -> None:
    text = 'kind = "guest"\nhypervisor = "virtualbox"\nplatforms = ["native", "virtualbox"]\n'
    with pytest.raises(StudyError, match=r'release: must be "sid" for hypervisor = "virtualbox"'):
        parse(text, "g.toml")
    plan = guest_of(parse(f'{text}release = "sid"\n', "g.toml"))
    recipe = recipe_of("sid", "", plan.platforms, plan.hypervisor, "7.2-amd64")
    assert {"virtualbox", "virtualbox-dkms", "linux-headers-7.2-amd64", "grub-pc-bin"} <= set(recipe.packages)
    assert recipe.components == "main,contrib" and "dkms autoinstall -k 7.2-amd64" in recipe.hooks[-1]
    made = start(tmp_path, hypervisor=plan.hypervisor)
    argv = made.argv("tcg", 4022)
    assert argv[argv.index("-cpu") + 1].startswith("EPYC,-xsave,")
    assert "vboxnetflt" in start_of(plan.hypervisor)
    usual = recipe_of("bookworm", "", PLATFORMS)
    assert usual.components == "" and usual.key == recipe_of("bookworm", "", PLATFORMS, "none", "6.1").key


def test_xen_itself_is_in_a_package_of_the_userland(tmp_path: Path) -> None:
    boot = tmp_path / "image/rootfs/boot"
    boot.mkdir(parents=True)
    (boot / "xen-4.17-amd64.gz").write_bytes(gzip.compress(b"ELF"))
    (boot / "xen-4.17-amd64.config").touch()
    assert ensure_xen(Image("ab" * 32, tmp_path / "image"), tmp_path / "store").read_bytes() == b"ELF"


@pytest.mark.parametrize(
    ("hypervisor", "platform", "wanted"),
    [("xen", "kvm", "none"), ("none", "xen", "xen"), ("xen", "firecracker", "none")],
)
def test_a_platform_that_the_hypervisor_of_the_guest_excludes_is_an_error(
    hypervisor: str, platform: str, wanted: str
) -> None:
    common = f'kind = "guest"\nplatforms = ["native", "{platform}"]\n'
    for text, where in ((f'hypervisor = "{hypervisor}"', "platforms"), ("[guests.one]", "guests.one.platforms")):
        own = text if text.startswith("hyper") else f'{text}\nhypervisor = "{hypervisor}"'
        with pytest.raises(StudyError) as refused:
            parse(f"{common}{own}\n", "g.toml")
        said = f'\'{platform}\' needs hypervisor = "{wanted}", but the guest has hypervisor = "{hypervisor}"'
        assert refused.value.message.startswith(f"g.toml: {where}: {said}"), refused.value.message
        assert "[guests.NAME]" in str(refused.value.hint)


def test_a_platform_that_does_not_exist_is_not_asked_for() -> None:
    with pytest.raises(StudyError, match=r"platforms: has no platform 'dokcer'") as refused:
        parse('kind = "guest"\nplatforms = ["dokcer"]\n', "g.toml")
    assert "docker" in str(refused.value.hint) + str(refused.value)


def test_its_root_has_what_setup_would_install_for_its_parts() -> None:
    old, new = (set(recipe_of(release, "", PLATFORMS).packages) for release in ("bookworm", "trixie"))
    assert {"openssh-server", "runc", "crun", "docker.io", "apparmor", "openvswitch-switch", "tcpdump"} <= old
    assert new - old == {"docker-cli"}, "which docker.io contains in Debian 12"


def start(tmp_path: Path, **changes: Any) -> _GuestBoot:
    (tmp_path / "image/rootfs").mkdir(parents=True)
    kernel, initramfs, root, disk, modules = map(Path, ("/k", "/i", "/root.img", "/disk-1.img", "/modules.img"))
    files = GuestHost(kernel, initramfs, root, (disk,), modules, profile="", digests={})
    plan = replace(guest_of(load(Path("guest"))), **changes)
    images = (Image("ab" * 32, tmp_path / "image"),)
    return _GuestBoot(LocalHost(), images, plan, files, Path("/run/x"), Path("/scratch/x"))


def test_it_is_booted_without_a_network_but_its_door(tmp_path: Path) -> None:
    argv = start(tmp_path, cpus=3, memory="1G").argv("tcg", 4022)
    text = " ".join(argv)
    assert "-accel tcg,thread=multi -cpu max -smp 3 -m 1024M" in text
    assert "restrict=on,hostfwd=tcp:127.0.0.1:4022-198.19.255.15:22" in text and argv.count("-netdev") == 1
    drives = [word.partition("file=")[2] for word in argv if word.startswith("if=none")]
    assert drives[:3] == ["/scratch/x/root.qcow2", "/run/x/door.tar", "/scratch/x/instances-0.qcow2"]
    assert drives[3:] == [f"{tmp_path}/image/rootfs.tar", "/modules.img"]
    words = argv[argv.index("-append") + 1].split()
    assert {"apparmor=1", "security=apparmor", "mitigations=off", "lastro.cgroups=v2"} <= set(words)
    epoch = int((tmp_path / "image/rootfs").stat().st_mtime)
    tree = "/var/lib/lastro/rootfs/abababababab/rootfs"
    assert f"lastro.root=/dev/vdc:/dev/vdd:{tree}:{epoch}" in words and "lastro.modules=/dev/vde" in words


def test_the_root_filesystems_of_variants_are_more_disks(tmp_path: Path) -> None:
    one = start(tmp_path)
    (tmp_path / "new/rootfs").mkdir(parents=True)
    images = (*one.images, Image("cd" * 32, tmp_path / "new"))
    files = replace(one.files, instances=(*one.files.instances, Path("/disk-2.img")))
    argv = replace(one, images=images, files=files).argv("tcg", 4022)
    drives = [word.partition("file=")[2] for word in argv if word.startswith("if=none")]
    assert drives[4:] == ["/scratch/x/instances-1.qcow2", f"{tmp_path}/new/rootfs.tar", "/modules.img"]
    words = argv[argv.index("-append") + 1].split()
    roots = [word.split(":")[:3] for word in words if word.startswith("lastro.root=")]
    assert roots[1] == ["lastro.root=/dev/vde", "/dev/vdf", "/var/lib/lastro/rootfs/cdcdcdcdcdcd/rootfs"]
    assert len(roots) == 2 and "lastro.modules=/dev/vdg" in words


@pytest.mark.processes
def test_programs_of_this_machine_come_with_what_is_beside_them(tmp_path: Path) -> None:
    (tmp_path / "runc-1.2").mkdir()
    for name, mode in (("runc", 0o755), ("shim", 0o755), ("notes", 0o644)):
        (tmp_path / "runc-1.2" / name).write_text(name)
        (tmp_path / "runc-1.2" / name).chmod(mode)
    plan = replace(guest_of(load(Path("guest"))), programs=(f"{tmp_path}/runc-1.2/runc", "/bin/true", "/not/here"))
    (tmp_path / "home").mkdir()
    _make_keys_and_disk(LocalHost(), tmp_path / "home", start(tmp_path).files, plan)
    with tarfile.open(tmp_path / "home/door.tar") as door:
        names = door.getnames()
    own = [name for name in names if name.startswith(f"programs{tmp_path}/runc-1.2/")]
    assert sorted(Path(name).name for name in own) == ["runc", "shim"]
    assert "programs/bin/true" in names and not any("not/here" in name for name in names)
    assert plan.facts()["programs"].startswith(str(tmp_path))
    assert "programs" not in replace(plan, programs=()).facts()


def test_on_kvm_it_has_the_processor_and_the_mitigations_of_its_own(tmp_path: Path) -> None:
    argv = start(tmp_path, lsm="none").argv("kvm", 4022)
    assert argv[argv.index("-cpu") + 1] == "host"
    words = argv[argv.index("-append") + 1].split()
    assert (
        "mitigations=off" not in words
        and "lsm=landlock,lockdown,yama,bpf" in words
        and "security=apparmor" not in words
    )


# What results say of it


def in_guest(accelerator: str) -> dict[str, Any]:
    return {**PROVENANCE, "guest": _facts(guest_of(load(Path("guest"))), accelerator, "")}


@pytest.fixture
def reports(tmp_path: Path) -> dict[str, CampaignResults]:
    provenances = {"host": PROVENANCE, "tcg": in_guest("tcg"), "kvm": in_guest("kvm")}
    return {
        name: report_of(make_campaign(tmp_path / name, make_study(replicates=2), provenance=found))
        for name, found in provenances.items()
    }


def test_every_table_says_that_the_host_was_a_guest(reports: dict[str, CampaignResults]) -> None:
    assert premises(reports["host"], ENGLISH) == ()
    (emulated,) = premises(reports["tcg"], ENGLISH)
    assert emulated.startswith("Measured in a guest emulated in software (2G, cgroup v2, AppArmor): times and")
    (on_kvm,) = premises(reports["kvm"], ENGLISH)
    assert on_kvm.startswith("Measured in a guest on KVM")
    assert document(reports["host"])["guest"] is None
    assert document(reports["tcg"])["guest"]["emulated"] is True and document(reports["kvm"])["guest"]["title"]


def test_each_table_says_it_in_its_caption(tmp_path: Path) -> None:
    """A table is copied into a paper without the sentence at the top of its document."""
    make_campaign(tmp_path / "tcg", make_study(replicates=2), provenance=in_guest("tcg"))
    content = content_of([tmp_path / "tcg"], ENGLISH, all_metrics=False)
    captions = re.findall(r"^\\caption\{(.*)\}\\label", render_latex(content), re.MULTILINE)
    captions += [line for line in render_markdown(content).splitlines() if re.fullmatch(r"\*\*\w[^.]*\*\*", line)]
    assert len(captions) > 6 and all(", in an emulated guest" in caption for caption in captions), captions
    table, say = results_table(content, content.report.views[0]), content.say
    page = html([Title("t"), table_with_place(table, content.report, say)], say, "")
    assert f"<h4>{table.title}, in an emulated guest</h4>" in page
    rows = list(csv.DictReader(io.StringIO(to_csv(load_data(tmp_path / "tcg")))))
    assert {row["measured_in"] for row in rows} == {"emulated guest"}


def test_a_comparison_with_a_host_is_warned_of(reports: dict[str, CampaignResults]) -> None:
    found = compare(reports["host"], replace(reports["tcg"], attempts=()))
    assert any(what == "guest" and a == "none" for what, a, _ in differences(found))
    assert any("different kinds of machines" in note for note in comparison_notes(found))
    alike = compare(reports["tcg"], replace(reports["tcg"], directory="other", attempts=()))
    assert not any("kinds of machines" in note for note in comparison_notes(alike))
    assert named_facts({})["guest"] == "none"


def test_a_guest_whose_addresses_were_random_is_another_machine(reports: dict[str, CampaignResults]) -> None:
    """As guests in software were before: nothing was recorded of it, and their titles are equal."""
    provenance = in_guest("tcg")
    del provenance["guest"]["address_randomization"]
    before = replace(reports["tcg"], directory="before", attempts=(), provenance=Provenance.of(provenance))
    found = compare(before, reports["tcg"])
    assert [*differences(found)] == [("address randomization", "on", "off")]
    assert any("different kinds of machines" in note for note in comparison_notes(found))
    assert (
        machine(before.provenance.chapters) != machine(reports["tcg"].provenance.chapters)
        and machine(PROVENANCE)[-1] is None
    )


def test_a_claim_on_a_figure_of_a_host_is_untestable_in_software(reports: dict[str, CampaignResults]) -> None:
    claim = AnyClaim.model_validate({"id": "fast", "says": "it is fast", "level": LEVEL})
    claims = Claims(Source(), (claim,))
    verdicts = {name: judge(claims, report)[0] for name, report in reports.items()}
    assert verdicts["tcg"].verdict == "untestable here" and "emulated" in str(verdicts["tcg"].why_not[0])
    assert verdicts["host"].verdict == verdicts["kvm"].verdict == "contradicted"
    assert claims_document(JudgedClaims(claims, (verdicts["tcg"],), reports["tcg"]))["guest"]["emulated"] is True


def changes_between(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return change_texts(changed_facts(before, now))


def test_a_campaign_is_not_resumed_in_another_kind_of_machine() -> None:
    assert changes_between(PROVENANCE, PROVENANCE) == []
    found, randomness = changes_between(PROVENANCE, in_guest("tcg"))
    assert found.startswith("guest was none, is a guest emulated in software")
    assert randomness == "address randomization was on, is off"
    before = in_guest("tcg")
    del before["guest"]["address_randomization"]  # as it was recorded while it was on there, too
    assert changes_between(before, in_guest("tcg")) == [randomness]
    assert len(changes_between(PROVENANCE, in_guest("kvm"))) == 1


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("release", "release of the guest"),
        ("userland_sha256", "userland of the guest"),
        ("kernel_sha256", "kernel file of the guest"),
    ],
)
def test_a_guest_that_boots_something_else_is_another_one(key: str, what: str) -> None:
    """Of one title and one `uname -r`: with another runc, or with a kernel that was built again."""
    digests = {"userland_sha256": "ab" * 32, "kernel_sha256": "cd" * 32}
    before, now = ({**PROVENANCE, "guest": in_guest("tcg")["guest"] | digests} for _ in range(2))
    assert changes_between(before, now) == [] and named_facts(before) == named_facts(now)
    was, now["guest"][key] = now["guest"][key], "another"
    assert changes_between(before, now) == [f"{what} was {was}, is another"]
    assert named_facts(before).items() ^ named_facts(now).items() == {(what, was), (what, "another")}
    del before["guest"][key]  # as in campaigns of earlier versions: unknown, and no reason to refuse
    assert changes_between(before, now) == changes_between(now, before) == []
    assert named_facts(before)[what] is None and named_facts(PROVENANCE)[what] == "none"


def test_doctor_says_what_the_guest_adds() -> None:
    here = {"apparmor": "absent", "cgroup_version": 1, "security_modules": "capability,landlock"}
    guest = {"apparmor": "Y", "cgroup_version": 2, "security_modules": "capability,landlock,yama,apparmor"}
    assert isolation_additions(here, guest) == ["AppArmor", "cgroup v2", "yama"]
    assert isolation_additions(guest, guest) == isolation_additions(guest, here) == []


class Links:
    """Probes and links of a host whose kernel has ipvlan or not, and Open vSwitch with this datapath, if any."""

    def __init__(self, ipvlan: bool, datapath: str, native: bool = True) -> None:
        self._works = {"ipvlan": ipvlan, "ovs": bool(datapath), "native": native}
        self._ovs = Ovs()
        self._ovs._datapath = datapath

    def platform(self, name: str) -> Availability:
        return AVAILABLE if self._works[name] else Availability("it does not start")

    def attachment(self, name: str, platform: str) -> Availability:
        return AVAILABLE if self._works[name] else Availability("it does not work")

    def residuals(self, name: str) -> dict[str, str]:
        return {f"{name}: {what}": text for what, text in self._ovs.residuals(cast(Any, None)).items()}


@pytest.mark.parametrize(
    ("here", "adds"),
    [
        (Links(ipvlan=False, datapath="netdev"), ["ipvlan", "Open vSwitch's datapath in the kernel"]),
        (Links(ipvlan=True, datapath="netdev"), ["Open vSwitch's datapath in the kernel"]),
        (Links(ipvlan=False, datapath="system"), ["ipvlan"]),
        (Links(ipvlan=False, datapath=""), ["ipvlan"]),  # not installed: what its kernel has cannot be tried
        (Links(ipvlan=False, datapath="netdev", native=False), []),
    ],
)
def test_doctor_says_which_links_the_guest_adds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here: Any, adds: list[str]
) -> None:
    monkeypatch.setattr("lastro.cli._guest_adds._links_of_machine", lambda near: supported_links(here, here))
    monkeypatch.setattr("lastro.host.facts.isolation", lambda host: {"apparmor": "Y", "cgroup_version": 2} | LSM)
    bed, guest = recording_testbed(RecordingHost(), tmp_path), cast(Any, Links(ipvlan=True, datapath="system"))
    assert guest_additions(replace(bed, controller=bed.session, guest={}), guest, guest) == adds
    assert guest_additions(bed, guest, guest) == []


def lacking(**files: str) -> Any:
    """A testbed whose kernel has only these files, and refuses every command."""

    def read_or_empty(path: str) -> str:
        return next((text for end, text in files.items() if path.endswith(end)), "")

    def run(argv: Any) -> None:
        raise CommandFailed(argv, 2, "Invalid argument")

    return SimpleNamespace(host=SimpleNamespace(read_or_empty=read_or_empty, run=run))


def test_where_a_kernel_lacks_a_level_the_remedy_names_the_guest() -> None:
    found = AppArmor().probe(lacking(), Native())
    assert "without AppArmor" in str(found.reason) and "--testbed guest" in str(found.remedy)
    for name in ("ipvlan", "macvlan-bridge", "macvtap", "nat", "routed", "vxlan"):
        assert "--testbed guest" in str(registry.get("attachment", name).remedy)


def test_selinux_without_a_type_for_containers_is_unavailable() -> None:
    said = {mode: SELinux().probe(lacking(enforce=mode), Native()) for mode in ("0", "1")}
    assert "permissive" in str(said["0"].reason)
    assert "no type for containers (container_t)" in str(said["1"].reason) and "Fedora" in str(said["1"].remedy)
    assert "without the module `container`" in str(said["1"].reason)
    assert "without SELinux" in str(SELinux().probe(lacking(), Native()).reason)


class Inside(SshHost):
    """A guest that has no program beside those of `_which`, and is not there."""

    def ask(self, query: Any, words: Any, stdin: str | None = None) -> str:
        return ""


def inside(tmp_path: Path, called: str = "the guest") -> Testbed:
    host: Any = Inside(SshTarget("127.0.0.1", called=called), tmp_path / "s", "0a1b2c")
    return replace(recording_testbed(host, tmp_path), guest={"emulated": True} if called else None)


@pytest.mark.parametrize("name", ["podman", "lxc", "nspawn", "gvisor", "qemu-tcg", "kvm"])
def test_what_a_guest_does_not_contain_is_measured_on_a_host(name: str, tmp_path: Path) -> None:
    """It has no network from which anything could be installed, and Lastro does not run in it."""
    with ExitStack() as stack:
        found = PlatformPool(inside(tmp_path), stack).availability(name)
    assert re.search("the guest does not contain program|not in a guest", str(found.reason))
    on_a_host = "measure it on a host, without a guest as its testbed"
    contain = f"in the testbed file of the guest, add {name!r} to `platforms`, or {on_a_host}"
    assert found.remedy == (on_a_host if name == "gvisor" else contain)


def test_a_guest_without_xen_says_how_one_has_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        remedy = PlatformPool(inside(tmp_path), stack).availability("xen").remedy
    setting = "in the testbed file of the guest, set hypervisor = \"xen\" and add 'xen' to `platforms`, or"
    assert str(remedy).startswith(setting)


def test_on_a_host_that_ssh_reaches_the_remedy_says_what_to_install(tmp_path: Path) -> None:
    with ExitStack() as stack:
        pool = PlatformPool(inside(tmp_path, called=""), stack)
        assert pool.availability("podman") == Availability(
            "127.0.0.1 has no program 'podman'", "apt-get install podman"
        )
        assert "apt-get install qemu-system-x86" in str(pool.availability("kvm").remedy)


def test_in_a_guest_no_remedy_is_another_guest(tmp_path: Path) -> None:
    bed = inside(tmp_path)

    class Works:
        def get(self, name: str) -> Any:
            return SimpleNamespace(name=name)

        def availability(self, name: str) -> Availability:
            return AVAILABLE

    class Fails:
        def get(self, name: str) -> Any:
            remedy = registry.get("attachment", name).remedy
            return SimpleNamespace(probe=lambda testbed, platform: Availability("it has none", remedy))

    for testbed, said in ((bed, False), (replace(bed, guest=None), True)):
        found = PartProbes(testbed, cast(Any, Works()), cast(Any, Fails())).attachment("ipvlan", "native")
        assert ("--testbed guest" in str(found.remedy)) is said
        assert str(found.remedy).startswith("use a kernel with ipvlan")


def test_the_documentation_lists_each_platform_that_no_guest_has() -> None:
    text = (Path(__file__).parents[3] / "docs/howto-guest.md").read_text()
    _, _, text = text.partition("These are unavailable, each with its reason:\n")
    named = set(re.findall(r"`([a-z-]+)`", text.partition("\ndockerd waits")[0]))
    parts = {name: registry.get("platform", name) for name in registry.names("platform")}
    by_program = {
        name for name, part in parts.items() if part.requirements.program and part.hypervisor not in HYPERVISORS
    }
    assert named & registry.names("platform") == {*by_program, "incus"}
    assert named - registry.names("platform") == {"jmeter", "vegeta"}


HANGS = """lastro: sshd starts
[ 1674.93] rcu: INFO: rcu_preempt self-detected stall on CPU
[ 1700.60] watchdog: BUG: soft lockup - CPU#1 stuck for 44s! [ksoftirqd/1:21]
[ 1701.02] a last word of something else
"""


@pytest.mark.parametrize(
    ("alive", "console", "said"),
    [
        (True, HANGS, "the guest hangs; its kernel says: [ 1700.60] watchdog: BUG: soft lockup"),
        (True, "lastro: sshd starts\n", "cannot be reached"),
        (False, "", "the guest has ended: QEMU exited with 9"),
    ],
)
def test_a_guest_that_is_lost_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alive: bool, console: str, said: str
) -> None:
    """Without an answer of sshd, only its console knows more."""
    (tmp_path / "guest").mkdir()
    (tmp_path / "guest/qemu.pid").write_text("4711")
    (tmp_path / "guest/console.log").write_text(console)
    qemu = SimpleNamespace(alive=lambda: alive, stop=lambda: SimpleNamespace(error_text="", returncode=9))
    monkeypatch.setattr(LocalHost, "require", lambda *_: None)
    monkeypatch.setattr("lastro.guest.guest_host.ensure", lambda *_: SimpleNamespace(digests={}))
    monkeypatch.setattr("lastro.guest._make_keys_and_disk", lambda *_: None)
    monkeypatch.setattr(_GuestBoot, "first_that_boots", lambda self: ("tcg", "", 2222, qemu))
    near: Any = SimpleNamespace(
        host=LocalHost("t"), run_dir=tmp_path, scratch_dir=tmp_path, ledger=SimpleNamespace(state=tmp_path),
        building=nullcontext, owned=lambda *_: nullcontext(),
    )  # fmt: skip
    with pytest.raises(HostError, match=re.escape(said)), booted_guest(near, (), guest_of(load(Path("guest")))):
        raise HostError("the guest cannot be reached: Connection timed out")
    if alive:  # a stall that it survived is not why something else fails
        with (
            pytest.raises(HostError, match=r"^no part can run$"),
            booted_guest(near, (), guest_of(load(Path("guest")))),
        ):
            raise HostError("no part can run")
