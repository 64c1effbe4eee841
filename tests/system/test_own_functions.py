"""Functions that a study brings, on real links: the two of the example, one that dies, and one that is never ready."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lastro.app.provenance import comparable_facts, identity
from lastro.errors import ImageError, PlatformError
from lastro.host.base import Host
from lastro.host.local import LocalHost
from lastro.image import functions
from lastro.image.rootfs import ImageAdditions
from lastro.results.topology import Topology
from lastro.scenarios.base import schemas
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario
from lastro.study.load import load
from lastro.study.own_function import OwnFunction
from lastro.testbed import Testbed

from ..support.products import some
from ..support.scenarios import SHORT, attempted, configured, frames_needs, on_chain

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own-function"
FILES = ROOT / "build" / "own-function"
PLACES = [("native", "veth-bridge"), ("docker", "macvlan-bridge"), ("crun", "routed"), ("lxc", "veth-bridge")]
PLACES += [("runc", "veth-direct"), ("nspawn", "veth-direct"), ("podman", "veth-bridge"), ("native", "ovs")]
FUNCTIONS = ["firewall>limiter>nat", "forwarder", "forwarder>limiter"]


def image_needs(host: Host) -> ImageAdditions:
    """The functions of the example, made now from this host's packages, and two that fail."""
    FILES.parent.mkdir(exist_ok=True)
    subprocess.run([str(EXAMPLE / "make-files"), str(FILES)], check=True)
    limiter, forwarder = (
        replace(each, directory=str(FILES / each.name)) for each in load(EXAMPLE / "study.toml", schemas()).functions
    )
    dying = replace(limiter, name="dying", command=("sh", "-c", "sleep 3; echo 'out of memory' >&2; exit 7"), ready=())
    unready = replace(limiter, name="unready", ready=("sh", "-c", "echo 'no peer'; exit 1"), ready_s=0.5)
    return frames_needs(host).combined_with(ImageAdditions(functions=(limiter, forwarder, dying, unready)))


@pytest.fixture(scope="module")
def running(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


@pytest.mark.parametrize("at", some(range(len(PLACES) * len(FUNCTIONS)), 12), ids=str)
def test_own_functions_carry_flows_on_each_platform(running: ChainScenario, at: int) -> None:
    function = FUNCTIONS[at // len(PLACES)]
    wanted = on_chain(PLACES[at % len(PLACES)], function)
    found = running.availability(wanted)
    assert found, found.reason
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because
    drawn = Topology.of(outcome.notes)
    assert drawn is not None
    assert [node.does for node in drawn.nodes[1:-1]] == [f"{each} (kernel)" for each in function.split(">")]


@pytest.mark.slow
def test_an_own_function_runs_in_virtual_machines(running: ChainScenario) -> None:
    wanted = on_chain(("qemu-tcg", "veth-bridge"), "forwarder")
    found = running.availability(wanted)
    assert found, found.reason
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because


@pytest.mark.skipif(shutil.which("runsc") is None, reason="no runsc here, and no Go toolchain to build it")
@pytest.mark.slow
def test_a_platform_whose_containers_may_not_mount_is_unavailable_for_it(running: ChainScenario) -> None:
    found = running.availability(on_chain(("gvisor", "veth-direct"), "forwarder"))
    assert "cannot have /proc and /dev on this platform" in str(found.reason)


def test_a_function_that_dies_in_a_trial_makes_it_invalid_with_its_last_words(running: ChainScenario) -> None:
    wanted = on_chain(("runc", "veth-direct"), "firewall>dying")
    assert running.availability(wanted)
    with pytest.raises(PlatformError, match="'dying' ended during the trial with exit code 7: out of memory"):
        attempted(running, {**wanted, "settle_s": 1.5})


def test_a_function_that_is_never_ready_makes_its_treatments_unavailable(running: ChainScenario) -> None:
    found = running.availability(on_chain(("native", "veth-bridge"), "unready"))
    assert "function 'unready' is not ready within 0.5 s. Its check: no peer" in str(found.reason)


def test_the_provenance_has_the_digest_of_each_function(testbed: Testbed) -> None:
    with closing(ChainScenario(testbed)) as scenario:
        facts = comparable_facts(identity(scenario))
    assert len(facts["functions.limiter.sha256"]) == 64 and "nft -D" in facts["functions.limiter.command"]


@pytest.mark.slow
@pytest.mark.parametrize("function", ["forwarder", "limiter>forwarder"])
def test_a_load_crosses_a_function_that_forwards_by_itself(testbed: Testbed, function: str) -> None:
    parts = {"platform": "runc", "isolation": "none", "anomaly": "none", "instrument": "sockperf", "one_way": "no"}
    with closing(LoadScenario(testbed)) as scenario:
        outcome = attempted(scenario, configured(LoadScenario, **{**SHORT["load"], **parts, "function": function}))
    assert outcome.valid, outcome.invalid_because


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["seccomp", "capabilities", "read-only-root", "user-namespace", "landlock"])
def test_an_own_function_runs_under_each_isolation(running: ChainScenario, isolation: str) -> None:
    """Its directories are mounted from outside, whatever the instance itself may not do."""
    wanted = on_chain(("runc", "veth-bridge"), "limiter", isolation=isolation)
    assert (found := running.availability(wanted)), found.reason
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because


@pytest.mark.slow
def test_an_image_is_the_function_and_a_hostile_one_is_refused(testbed: Testbed, tmp_path: Path) -> None:
    """An archive as `docker save` makes it, and one whose layer leads out of it; both made here."""
    store, host = testbed.session.state / "rootfs", LocalHost()
    script = """cd "$1"; p() { podman --root s --runroot r --tmpdir t --storage-driver vfs --events-backend none "$@"; }
    cat "$2" | p import --change 'CMD ["/forwarder"]' --change 'ENV MODE=fast' - localhost/mine:1 >/dev/null
    p save --quiet --format docker-archive -o "$3" localhost/mine:1"""
    tar = tmp_path / "layer.tar"
    subprocess.run(["tar", "-C", str(FILES / "forwarder"), "-cf", str(tar), "."], check=True)
    hidden = tmp_path / "p"
    hidden.mkdir()
    made = ["unshare", "--mount", "sh", "-ec", f"mount -t tmpfs tmpfs /dev/shm; {script}", "make"]
    subprocess.run([*made, str(hidden), str(tar), str(tmp_path / "mine.tar")], check=True)
    own = OwnFunction("mine", image=f"docker-archive:{tmp_path / 'mine.tar'}")
    image = functions.with_functions(testbed.image, [own], store, host)
    found = functions.function_in(image, "mine")
    assert found and found.command == ("/forwarder",) and found.environment["MODE"] == "fast"
    for hostile, message in (
        (entry("bin/sda", type=tarfile.BLKTYPE), "'/bin/sda' is a device"),
        (entry("hard", type=tarfile.LNKTYPE, linkname="../../../../../etc/passwd"), "cannot be pulled"),
        (entry("etc", type=tarfile.SYMTYPE, linkname=str(tmp_path)), "cannot be pulled"),
    ):
        evil = docker_archive(tmp_path / "evil.tar", hostile, entry("etc/written"), entry("forwarder"))
        with pytest.raises(ImageError, match=message):
            functions.with_functions(testbed.image, [replace(own, image=f"docker-archive:{evil}")], store, host)
        assert not (tmp_path / "written").exists()
    assert not list(store.glob("building-*"))


def entry(name: str, **attributes: Any) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.mode = 0o755
    vars_of: Any = found
    for key, value in attributes.items():
        setattr(vars_of, key, value)
    return found


def docker_archive(path: Path, *entries: tarfile.TarInfo) -> Path:
    """Write an image of one layer with empty files, links and devices, as `docker save` does, and return its path."""

    def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
        written = io.BytesIO()
        with tarfile.open(fileobj=written, mode="w") as archive:
            for member, data in members:
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return written.getvalue()

    layer = packed(*((each, b"") for each in entries))
    layers = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    image = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/forwarder"]}, "rootfs": layers})
    name = f"{hashlib.sha256(image.encode()).hexdigest()}.json"
    listed = json.dumps([{"Config": name, "RepoTags": ["localhost/evil:1"], "Layers": ["layer.tar"]}])
    files = {name: image.encode(), "layer.tar": layer, "manifest.json": listed.encode()}
    path.write_bytes(packed(*((tarfile.TarInfo(each), data) for each, data in files.items())))
    return path
