"""`lastro ab` on real instances: a real slowdown, an A/A campaign, another program, a setting of the network."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lastro.host.local import LocalHost
from lastro.results.store import Store

from ..cli.conftest import Finished, is_error, lastro, no_stragglers, study_text
from ..support.scenarios import TOLERANT, xdp_needs

pytestmark = pytest.mark.root
__all__ = ["no_stragglers"]  # a fixture for every test here

CHAIN = {
    "attachment": "veth-direct", "function": "firewall", "settle_s": 0, "tcp_s": 1, "udp_s": 0, "ping_s": 0.5,
    "gap_s": 0, "ping_interval_ms": 10,
}  # fmt: skip


def write(place: Path, factors: dict[str, list[str]], scenario: str, metric: str, **settings: Any) -> Path:
    text = study_text(factors, scenario=scenario, **settings, **TOLERANT)
    (place / "study.toml").write_text(text.replace("[factors]", f'metrics = ["{metric}"]\n[factors]'))
    return place / "study.toml"


def ab(place: Path, platform: str, *words: str) -> Finished:
    file = write(place, {"platform": [platform]}, "chain", "latency_mean", **CHAIN)
    return lastro("ab", file, "-o", place / "campaign", "--wait", *words)


def is_slower(place: Path, done: Finished) -> None:
    assert done.code == 4 and done.out.startswith("b is slower by "), done
    assert "confirmed by 3 new blocks" in done.out
    assert lastro("ab", place / "campaign").code == 4


@pytest.mark.measures
def test_more_work_is_a_slowdown_that_new_blocks_confirm(tmp_path: Path) -> None:
    """Two computations of a fraction of a second, so that whole campaigns are short."""
    factors = {"platform": ["native"], "instrument": ["pi", "sysbench-cpu"]}
    work = {"--a": (20_000, 500), "--b": (100_000, 2000)}
    words = [
        word
        for option, (digits, events) in work.items()
        for word in (option, f"instrument.pi.digits={digits}", option, f"instrument.sysbench-cpu.events={events}")
    ]
    file = write(tmp_path, factors, "compute", "time_host")
    is_slower(tmp_path, lastro("ab", file, "-o", tmp_path / "campaign", "--wait", "--blocks", "2", *words))


@pytest.mark.slow
def test_many_rules_of_a_firewall_are_a_slowdown(tmp_path: Path) -> None:
    is_slower(tmp_path, ab(tmp_path, "native", "--b", "function.firewall.rules=10000", "--blocks", "2"))


@pytest.mark.slow
def test_equal_variants_are_not_called_worse(tmp_path: Path) -> None:
    done = ab(tmp_path, "native", "--a", "settle_s=0", "--b", "settle_s=0", "--blocks", "5")
    assert done.code in (0, 8) and "is slower" not in done.out, done


@pytest.mark.slow
def test_a_program_and_a_setting_of_the_network_reach_the_instances(tmp_path: Path) -> None:
    """A copy of runc is another program by its path: transcripts name it, and the provenance has its version."""
    own = tmp_path / "runc-copy"
    shutil.copy2(str(shutil.which("runc")), own)
    done = ab(tmp_path, "runc", "--b", f"runc={own}", "--b", "net.ipv4.ip_default_ttl=63", "--blocks", "2")
    assert done.code in (0, 8), done
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert not any(row.unavailable for row in store.treatments())
        assert "runc" in store.provenance.chapters["tools"][str(own)]["version"]
    scripts = [lastro("show", tmp_path / "campaign", number, "--commands").out for number in (1, 2)]
    assert sorted(str(own) in script for script in scripts) == [False, True]
    assert sorted('"net.ipv4.ip_default_ttl": "63"' in script for script in scripts) == [False, True]


@pytest.mark.slow
def test_what_the_kernel_does_not_have_makes_the_variant_unavailable(tmp_path: Path) -> None:
    done = ab(tmp_path, "native", "--b", "net.ipv4.tcp_congestion_control=nosuch", "--blocks", "2")
    assert done.code == 8 and done.out.startswith("nothing could be compared: b: ") and "nosuch" in done.out, done


@pytest.mark.slow
def test_a_program_that_others_could_change_is_never_started(tmp_path: Path) -> None:
    own, mark = tmp_path / "runc-of-another", tmp_path / "started"
    own.write_text(f"#!/bin/sh\ntouch {mark}\n")
    own.chmod(0o755)
    os.chown(own, 65534, 65534)
    done = ab(tmp_path, "runc", "--b", f"runc={own}", "--blocks", "2")
    is_error(done, 2, "variant b:", "does not belong to root")
    assert not mark.exists(), "not even for its version"
    assert not (tmp_path / "campaign").exists(), "before anything is measured"


@pytest.mark.slow
@pytest.mark.parametrize(("text", "said"), [("echo crun version 1", "is not runc"), ("exit 3", "exit code 3")])
def test_another_program_and_one_that_does_not_start_are_one_error(tmp_path: Path, text: str, said: str) -> None:
    own = tmp_path / "runc-of-mine"
    own.write_text(f"#!/bin/sh\n{text}\n")
    own.chmod(0o755)
    is_error(ab(tmp_path, "runc", "--b", f"runc={own}", "--blocks", "2"), 2, said)
    assert not (tmp_path / "campaign").exists()


@pytest.mark.slow
def test_packages_are_another_root_filesystem_of_the_variant_alone(tmp_path: Path) -> None:
    """Those of an image that the tests have anyway. In a chain, all instances have the variant's."""
    packages = ",".join(xdp_needs(LocalHost()).packages)
    done = ab(tmp_path, "runc", "--b", f"packages={packages}", "--blocks", "2", "--margin", "90%")
    assert done.code in (0, 8), done
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert not any(row.unavailable for row in store.treatments())
        files = store.provenance.chapters["root_filesystem"]
        (variant,) = files["variants"].values()
        trees = [files["sha256"][:12], variant["sha256"][:12]]
        assert variant["image_tools"]["iperf3"] == store.provenance.chapters["image_tools"]["iperf3"]
        assert all(row.state == "valid" for row in store.trials()) or done.code == 8
    scripts = [lastro("show", tmp_path / "campaign", number, "--commands").out for number in (1, 2)]
    assert sorted([tree in script for tree in trees] for script in scripts) == [[False, True], [True, False]]


@pytest.mark.slow
def test_a_directory_and_a_revision_of_a_function_are_root_filesystems_too(tmp_path: Path) -> None:
    """A function of a repository, in two revisions; and all files of another directory, a copy of the usual one."""
    code = tmp_path / "code"
    code.mkdir()
    for number in (1, 2):
        (code / "start").write_text(f"#!/bin/sh\n# {number}\nexec sleep infinity\n")
        (code / "start").chmod(0o755)
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(code)]
        for command in ("init --quiet", "add start", f"commit --quiet --message {number}", f"tag v{number}"):
            subprocess.run([*git, *command.split()], check=True)
    build = (
        'build = ["sh", "-ec", "mkdir -p out/bin; cp /bin/busybox out/bin/; ln -s busybox out/bin/sh; cp start out"]\n'
    )
    file = write(tmp_path, {"platform": ["docker"]}, "chain", "latency_mean", **{**CHAIN, "function": "mine"})
    table = f'[functions.mine]\nrepository = "code"\n{build}directory = "out"\ncommand = ["/start"]\n'
    file.write_text(file.read_text() + table)
    words = ["--a", "git=v1", "--b", "git=v2", "--blocks", "2", "--margin", "90%"]
    done = lastro("ab", file, "-o", tmp_path / "campaign", "--wait", *words)
    assert done.code in (0, 8), done
    with Store.open(tmp_path / "campaign", readonly=True) as store:
        assert not any(row.unavailable for row in store.treatments())
        found = store.provenance.chapters["root_filesystem"]["variants"]
        assert len({each["functions"]["mine"]["commit"] for each in found.values()}) == 2
    usual = Path(lastro("image", "--json", "--wait").json["directory"])
    done = ab(code, "native", "--b", f"rootfs={usual}", "--blocks", "2", "--margin", "90%")
    assert done.code in (0, 8), done
