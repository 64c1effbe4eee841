"""A guest that is the host of a testbed: what its kernel offers is in force, and nothing of it is left.

In software, each command inside costs most of a second, so `make test` boots one guest for all that it tries."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest

from lastro.app.hosts import image_of
from lastro.errors import CommandFailed
from lastro.host import facts
from lastro.host.files import OWNER_VARIABLE
from lastro.host.ledger import session
from lastro.host.local import LocalHost
from lastro.host.lock import silently
from lastro.host.testbed_file import parse
from lastro.isolation.apparmor import AppArmor
from lastro.platforms.base import InstanceSpec
from lastro.results.store import Store
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.routing import RoutingScenario
from lastro.testbed import guest_testbeds

from ..cli.conftest import finish, lastro, no_stragglers, start, study_text, until
from ..support.images import IN_A_GUEST
from ..support.scenarios import BUSY, SHORT, TOLERANT, attempted, configured, xdp_needs

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]  # a fixture for every test here

SMALL = f'kind = "guest"\ncpus = 1\nmemory = "1G"\naccelerator = "tcg"\nplatforms = {list(IN_A_GUEST)}\n'
# More than a boot, on a machine on which others work as well.
PATIENCE_S = 600
LEVELS = {"isolation": ["none", "apparmor"], "function": ["none", "firewall"]}


def write(place: Path, factors: dict[str, list[str]], replicates: int = 1) -> list[object]:
    """A study and its testbed, as the words that name them on the command line."""
    settings = {"platform": "crun", **SHORT["chain"], **TOLERANT, "attachment": "veth-direct"}
    settings = {name: value for name, value in settings.items() if name not in factors}
    (place / "study.toml").write_text(study_text(factors, scenario="chain", replicates=replicates, **settings))
    (place / "guest.toml").write_text(SMALL)
    return [place / "study.toml", "--testbed", place / "guest.toml", "--wait"]


def guests() -> list[int]:
    """The QEMU processes of this machine that carry a mark of Lastro."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program = (process / "comm").read_text().strip()
            if program.startswith("qemu-system") and OWNER_VARIABLE in (process / "environ").read_text():
                found.append(int(process.name))
    return found


def ran(store: Store) -> int:
    """The number of trials that have run; what is invalid has no other reason than work beside it on this machine."""
    reasons = [reason for attempt in store.attempts() for reason in attempt.reasons]
    assert all(any(busy in reason for busy in BUSY) for reason in reasons), reasons
    counts = store.counts()
    return counts["valid"] + counts["invalid"]


def test_apparmor_is_in_force_in_a_chain_and_nothing_is_left() -> None:
    """A chain on the guest and in confined containers, under cgroup v2; what the profile denies is tried."""
    plan = parse(SMALL, "guest.toml").guest
    assert plan is not None
    with session("tests", wait=silently) as held:
        with guest_testbeds(held, image_of(held), [plan], "tests") as bed, closing(ChainScenario(bed)) as scenario:
            assert bed.cgroups.version == 2 and bed.guest and bed.guest["emulated"]
            confined = AppArmor().apply(InstanceSpec("confined", "subject"), None)
            with scenario.pool.get("crun").start(bed, confined) as instance:
                assert AppArmor().verify(instance) is None
                with pytest.raises(CommandFailed, match="Permission denied"):
                    instance.run(["sh", "-c", ": > /proc/loadavg"])
            link = {"link.delay_ms": 20.0, "link.loss": 2.0, "link.rate": "50M", "offloads": "off", "ping_s": 2.0}
            for platform, isolation, function, more in (
                ("native", "none", "none", {}), ("crun", "apparmor", "firewall", link),
            ):  # fmt: skip
                levels = {"platform": platform, "isolation": isolation, "function": function, "anomaly": "none"}
                chosen = {**SHORT["chain"], "attachment": "veth-direct", **levels, **more}
                outcome = attempted(scenario, configured(ChainScenario, **chosen))
                assert outcome.valid, outcome.invalid_because
                assert outcome.measurements["throughput"] > 0
                clock = outcome.notes["clocks"]["the guest"]  # type: ignore[index]
                assert 0 < clock["uncertainty"] < 0.05
                assert abs(clock["drift"]) < 0.001 + clock["uncertainty"]
            assert outcome.measurements["throughput"] < 50
            (rtt,) = [series for series in outcome.series if series.name == "rtt"]
            assert 40 <= min(rtt.values) < 60, "each direction has the delay once"
            towards = outcome.notes["impaired_link"]["towards the sink"]  # type: ignore[index]
            assert towards["shown"] == "20 ms delay, 2 % loss, 50 Mbit/s" and towards["lost"] > 0
        assert not guests() and not [each for each in held.owned_objects() if "guest" in each.name]


@pytest.mark.slow
def test_routers_converge_in_a_guest_by_its_own_clock() -> None:
    """Containers over the kernel's Open vSwitch, which only the guest's kernel may have."""
    plan = parse(SMALL.replace("cpus = 1", "cpus = 2"), "guest.toml").guest
    assert plan is not None
    parts = {**SHORT["routing"], "platform": "lxc", "attachment": "ovs", "quiet_s": 6.0, "regular_s": 4.0}
    wanted = configured(RoutingScenario, **parts)
    with session("tests", wait=silently) as held:
        image = image_of(held, RoutingScenario.image_needs(held.host, []))
        with guest_testbeds(held, image, [plan], "tests") as bed, closing(RoutingScenario(bed)) as scenario:
            found = scenario.availability(wanted)
            assert found, found.reason
            outcome = attempted(scenario, wanted)
        assert outcome.valid, outcome.invalid_because
        values = outcome.measurements
        assert 0 < values["created"] < values["boot"] < values["initial_routes"]
        assert max(values[f"{event}_routes"] for event in ("failure", "recovery")) < 20
        assert 2 < values["ospf_regular"] < 30  # eight ends say hello every second
        assert 0 < values["cpu_regular"] < values["cpu_boot"] <= 100
        assert not guests()


@pytest.mark.slow
def test_a_campaign_says_everywhere_that_it_is_of_a_guest(tmp_path: Path) -> None:
    process = start("run", *write(tmp_path, LEVELS), "-o", tmp_path / "campaign", "--no-report")
    done = finish(process, PATIENCE_S)
    assert done.code == 0, done.err
    assert "Measured in a guest emulated in software (1G, cgroup v2, AppArmor)" in " ".join(done.out.split())
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert ran(store) == 4, done.err
        isolation, guest = store.provenance.chapters["isolation"], store.provenance.chapters["guest"]
    assert isolation["apparmor"] == "Y" and isolation["cgroup_version"] == 2
    assert guest["emulated"] and guest["accelerator"] == "tcg"
    script = lastro("show", tmp_path / "campaign", 1, "--commands")
    assert script.out.index("ssh-keygen") < script.out.index("qemu-system-x86_64") < script.out.index("crun --root")
    assert subprocess.run(["sh", "-n"], input=script.out, text=True, check=False).returncode == 0
    assert not guests()


@pytest.mark.slow
def test_a_variant_has_another_disk_of_the_guest_and_a_program_of_this_machine(tmp_path: Path) -> None:
    packages, own = ",".join(xdp_needs(LocalHost()).packages), tmp_path / "own" / "crun-copy"
    own.parent.mkdir()
    shutil.copy2(str(shutil.which("crun")), own)
    words = write(tmp_path, {"function": ["none"]})
    words += ["--b", f"packages={packages}", "--b", f"crun={own}", "--blocks", "2", "--margin", "90%"]
    words += ["--metric", "throughput"]
    done = finish(start("ab", *words, "-o", tmp_path / "campaign"), PATIENCE_S)
    assert done.code in (0, 8), done.err
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert ran(store) == 4, done.err
        files = store.provenance.chapters["root_filesystem"]
        (variant,) = files["variants"].values()
        trees = [f"/rootfs/{each['sha256'][:12]}/rootfs" for each in (files, variant)]
    script = lastro("show", tmp_path / "campaign", 1, "--commands").out
    assert all(f":/var/lib/lastro{tree}:" in script for tree in trees), "the guest boots with both"
    scripts = [lastro("show", tmp_path / "campaign", number, "--commands").out for number in (1, 2)]
    assert sorted(f"{own} --root" in text for text in scripts) == [False, True], "one variant runs it"
    assert not guests()


@pytest.mark.slow
def test_two_guests_share_the_blocks_of_a_campaign_which_resumes(tmp_path: Path) -> None:
    """They differ in the version of cgroups, as two kernels would in more: each needs no other image."""
    words = write(tmp_path, {"guest": ["new", "old"], "function": ["none"]}, replicates=2)
    (tmp_path / "guest.toml").write_text(f'{SMALL}[guests.new]\n[guests.old]\ncgroups = "v1"\n')
    process = start("run", *words, "-o", tmp_path / "campaign", "--no-report")
    until(lambda: _valid(tmp_path / "campaign") >= 1, "the first trial", PATIENCE_S)
    assert len(guests()) == 2
    process.kill()
    process.communicate()
    done = finish(start("resume", tmp_path / "campaign", "--wait", "--no-report"), 2 * PATIENCE_S)
    assert done.code == 0, done.err
    assert "Measured in 2 guests in turn (new: a guest emulated" in " ".join(done.out.split())
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert ran(store) == 4
        levels = [row.treatment.levels["guest"] for row in store.treatments()]
        assert {levels[row.treatment] for row in store.trials() if row.state == "valid"} == {"new", "old"}
        assert [sorted(levels[row.treatment] for row in store.trials() if row.block == block) for block in (1, 2)] == [
            ["new", "old"]
        ] * 2
        versions = {
            name: each["isolation"]["cgroup_version"] for name, each in store.provenance.chapters["guests"].items()
        }
        first = levels[next(row for row in store.trials() if row.number == 1).treatment]
    assert versions == {"new": 2, "old": 1}
    script = lastro("show", tmp_path / "campaign", 1, "--commands").out
    assert script.count("-pidfile") == 1 and f"lastro.cgroups=v{versions[str(first)]}" in script
    assert not guests()


@pytest.mark.slow
@pytest.mark.measures
def test_two_kernels_alternate_in_one_campaign(tmp_path: Path) -> None:
    """The newer one is fetched here, which needs the network. Each trial notes the kernel that it saw."""
    words = write(tmp_path, {"guest": ["old", "new"], "platform": ["native"]}, replicates=2)
    (tmp_path / "guest.toml").write_text(f'{SMALL}[guests.old]\n[guests.new]\nkernel = "linux-image-amd64/trixie"\n')
    done = finish(start("run", *words, "-o", tmp_path / "campaign", "--no-report"), 2 * PATIENCE_S)
    assert done.code == 0, done.err
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert ran(store) == len(store.trials()) == 4, done.err
        provenance, levels = (
            store.provenance.chapters,
            [str(row.treatment.levels["guest"]) for row in store.treatments()],
        )
        blocks = [sorted(levels[row.treatment] for row in store.trials() if row.block == block) for block in (1, 2)]
        seen = {(levels[each.treatment], each.notes["residuals"]["kernel"]) for each in store.attempts()}
    kernels = {name: each["host"]["kernel"] for name, each in provenance["guests"].items()}
    assert kernels["old"].startswith("6.1.") and kernels["new"].startswith("6.12")
    assert provenance["host"]["kernel"] == f"{kernels['old']} (old), {kernels['new']} (new)"
    assert blocks == [["new", "old"]] * 2 and seen == {(name, f"Linux {kernel}") for name, kernel in kernels.items()}
    old, new = (provenance["guests"][name]["guest"] for name in ("old", "new"))
    assert old["kernel_sha256"] != new["kernel_sha256"] and old["userland_sha256"] == new["userland_sha256"]
    assert not guests()


@pytest.mark.slow
@pytest.mark.measures
def test_debian_13_is_a_userland_too(tmp_path: Path) -> None:
    """It is built here, which needs the network. Its tools and runtimes are of other versions, and it has Incus."""
    words = write(tmp_path, {"platform": ["native", "crun", "incus"]})
    of_trixie = SMALL.replace("1G", "2G").partition("platforms")[0]
    (tmp_path / "guest.toml").write_text(f'{of_trixie}platforms = ["native", "crun", "incus"]\nrelease = "trixie"\n')
    done = finish(start("run", *words, "-o", tmp_path / "campaign", "--no-report"), 2 * PATIENCE_S)
    assert done.code == 0, done.err
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert ran(store) == 3, done.err
        guest, kernel = store.provenance.chapters["guest"], store.provenance.chapters["host"]["kernel"]
    assert guest["release"] == "trixie" and kernel.startswith("6.12")
    assert not guests()


@pytest.mark.slow
def test_doctor_says_what_the_guest_adds(tmp_path: Path) -> None:
    (tmp_path / "guest.toml").write_text(SMALL)
    words = ["--platform", "runc", "--quick", "--json", "--wait"]
    done = finish(start("doctor", "--testbed", tmp_path / "guest.toml", *words), PATIENCE_S)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["guest"]["emulated"] and ("AppArmor" in found["guest"]["adds"]) is (
        facts.isolation(LocalHost())["apparmor"] != "Y"
    )


@pytest.mark.slow
def test_a_killed_guest_is_replaced_and_a_killed_campaign_resumes(tmp_path: Path) -> None:
    words = write(tmp_path, {"isolation": ["none", "apparmor"]}, replicates=2)
    process = start("run", *words, "-o", tmp_path / "campaign", "--no-report")
    until(lambda: _valid(tmp_path / "campaign") >= 1, "the first trial", PATIENCE_S)
    (first,) = guests()
    os.kill(first, signal.SIGKILL)
    until(lambda: _valid(tmp_path / "campaign") >= 2, "a trial in another guest", PATIENCE_S)
    assert guests() and first not in guests()
    process.kill()
    assert "the guest has ended" in process.communicate()[1]
    assert lastro("clean", "--wait").code == 0
    assert not guests()
    done = finish(start("resume", tmp_path / "campaign", "--wait", "--no-report"), PATIENCE_S)
    assert done.code == 0, done.err
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert ran(store) == 4


def _valid(directory: Path) -> int:
    if not (directory / "campaign.db").exists():
        return 0
    with Store.open(directory, readonly=True) as store:
        return store.counts()["valid"]
