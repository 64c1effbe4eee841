"""Programs that a study names by their path, on each platform that takes them: the platform starts these, and no other.

The second program is a script that notes its call and becomes the first: a build that behaves the same."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from lastro.errors import Unavailable
from lastro.platforms.base import InstanceSpec, Platform
from lastro.scenarios.base import make_part
from lastro.testbed import Testbed

pytestmark = pytest.mark.root


def second(place: Path, name: str) -> tuple[Path, Path]:
    """Return a program that notes its calls in a file, and that file. What lies beside the first lies beside it."""
    found = Path(str(shutil.which(name))).resolve()
    calls, program = place / f"{name}.calls", place / name
    program.write_text(f'#!/bin/sh\necho "$*" >>{calls}\nexec {found} "$@"\n')
    program.chmod(0o755)
    return program, calls


CASES = [
    ("podman", {"program": "podman", "conmon": "conmon", "runc": "runc"}),
    ("crun", {"program": "crun"}),
    ("nspawn", {"program": "systemd-nspawn"}),
    ("lxc", {"program": "lxc-start"}),
    pytest.param("docker", {"program": "dockerd", "containerd": "containerd", "runc": "runc"}, marks=pytest.mark.slow),
    pytest.param("lxd", {"program": "lxd"}, marks=pytest.mark.slow),
    pytest.param("qemu-tcg", {"program": "qemu-system-x86_64"}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("platform", "programs"), CASES)
def test_a_platform_starts_the_programs_that_were_chosen(
    testbed: Testbed, tmp_path: Path, platform: str, programs: dict[str, str]
) -> None:
    made = {option: second(tmp_path, name) for option, name in programs.items()}
    for other in ("lxc-attach", "lxc-stop") if platform == "lxc" else ():
        second(tmp_path, other)
    chosen = ",".join(f"{option}={program}" for option, (program, _) in made.items())
    part = make_part(Platform, f"{platform}:{chosen}")
    with testbed.attempt(), ExitStack() as stack:
        stack.enter_context(part.prepare(testbed))
        versions = {option: len(calls.read_text().splitlines()) for option, (_, calls) in made.items()}
        with part.start(testbed, InstanceSpec("chosen", "probe")) as instance:
            assert instance.run(["echo", "inside"]).text == "inside\n"
    for option, (_, calls) in made.items():
        assert len(calls.read_text().splitlines()) > (0 if option in ("program", "containerd") else versions[option])
        assert any("--version" not in line for line in calls.read_text().splitlines()), option


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("podman:conmon={}", "is not conmon"),
        ("docker:containerd={}", "is not containerd"),
        ("lxc:program={}", "is not"),
    ],
)
def test_a_program_of_another_kind_is_refused_before_it_is_used(
    testbed: Testbed, tmp_path: Path, level: str, said: str
) -> None:
    program, _ = second(tmp_path, "crun")
    part = make_part(Platform, level.format(program))
    with testbed.attempt(), pytest.raises(Unavailable, match=said), part.prepare(testbed):
        pass
