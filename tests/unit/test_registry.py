"""Parts by name: found by scanning, each in one file; what is broken says so on use and breaks nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastro
from lastro import registry
from lastro.errors import InputError, Unavailable

PART = """
from lastro.anomalies.base import Anomaly

class Noise(Anomaly):
    name = {name!r}
    summary = "makes noise"

    def argv(self, demand):
        return ["true"]
"""

ANOMALIES = {
    "none", "cpu", "memory", "membw", "cache", "disk", "diskbw", "io", "fork", "frames", "network", "files", "sockets",
    "conntrack",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user's own parts, which nobody else sees afterwards."""
    monkeypatch.setenv("LASTRO_PARTS", str(tmp_path))
    registry.scan.cache_clear()
    (tmp_path / "anomalies").mkdir()
    yield tmp_path
    registry.scan.cache_clear()
    for module in [name for name in sys.modules if name.startswith("lastro_parts_")]:
        del sys.modules[module]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("platform", {"native", "runc", "docker"}),
        ("attachment", {"veth-bridge", "veth-direct", "macvlan-bridge"}),
        ("isolation", {"none", "cgroups", "apparmor", "seccomp"}),
        ("function", {"none", "firewall", "dpi", "nat"}),
        ("anomaly", ANOMALIES),
        ("instrument", {"iperf3-tcp", "iperf3-udp", "ping"}),
        ("meter", {"host", "interfaces", "usage"}),
        ("scenario", {"chain"}),
    ],
)
def test_the_houses_own_parts_are_found(kind: str, expected: set[str]) -> None:
    assert expected <= registry.names(kind)
    assert list(registry.parts(kind)) == sorted(registry.parts(kind))


@pytest.mark.parametrize("kind", sorted(registry.KINDS))
def test_every_part_says_what_it_is_and_fits_its_file(kind: str) -> None:
    for name, info in registry.parts(kind).items():
        assert info.cls is not None, info.broken
        assert (info.cls.name, info.cls.kind) == (name, kind)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert info.summary and "\n" not in info.summary and len(info.summary) < 110
        file = Path(sys.modules[info.cls.__module__].__file__ or "")
        assert len(file.read_text().splitlines()) <= 300, f"{file} is too long for one part"


def test_a_part_is_one_file_in_a_folder(folder: Path) -> None:
    (folder / "anomalies" / "noise.py").write_text(PART.format(name="noise"))
    assert "noise" in registry.names("anomaly")
    assert registry.get("anomaly", "noise").summary == "makes noise"
    assert registry.parts("anomaly")["noise"].origin == str(folder / "anomalies" / "noise.py")


def test_a_scenario_offers_a_users_part_at_once(folder: Path) -> None:
    (folder / "anomalies" / "noise.py").write_text(PART.format(name="noise"))
    script = "from lastro.scenarios.base import schemas; print('noise' in schemas()['chain'].parts['anomaly'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_name_taken_twice_is_an_error_that_names_both(folder: Path) -> None:
    (folder / "anomalies" / "mine.py").write_text(PART.format(name="cpu"))
    with pytest.raises(
        InputError, match=r"two parts of kind anomaly are named 'cpu': lastro\.anomalies\.cpu and .*mine\.py"
    ):
        registry.parts("anomaly")


@pytest.fixture
def folders(folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two folders of a user's own parts, each with a file `anomalies/noise.py` to be written."""
    other = tmp_path_factory.mktemp("other")
    (other / "anomalies").mkdir()
    monkeypatch.setenv("LASTRO_PARTS", f"{folder}:{other}:{folder / 'anomalies' / '..'}")
    return [each / "anomalies" / "noise.py" for each in (folder, other)]


def test_files_of_one_name_in_two_folders_are_two_modules(folders: list[Path]) -> None:
    for file, name in zip(folders, ("loud", "quiet"), strict=True):
        file.write_text(PART.format(name=name).replace("makes noise", name))
    for file, name in zip(folders, ("loud", "quiet"), strict=True):
        info = registry.parts("anomaly")[name]
        assert (info.summary, Path(info.origin).resolve()) == (name, file)
        assert sys.modules[registry.get("anomaly", name).__module__].__file__ == info.origin
    assert len({module for module in sys.modules if module.startswith("lastro_parts_anomalies_noise_")}) == 2


@pytest.mark.parametrize("text", [PART.format(name="noise"), "import no_such_package_at_all\n"])
def test_a_part_in_two_folders_is_an_error_that_names_both_files(folders: list[Path], text: str) -> None:
    for file in folders:
        file.write_text(text)
    with pytest.raises(InputError, match="two parts of kind anomaly are named 'noise': ") as caught:
        registry.parts("anomaly")
    assert all(f"{file.parts[-3]}/" in str(caught.value) for file in folders)
    assert caught.value.hint == "rename one of them, or take it out of LASTRO_PARTS"


def test_versions_of_a_part_take_turns_in_one_process(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copies = {tmp_path_factory.mktemp("copy"): version for version in ("first", "second")}
    for copy, version in {**copies, folder: "present"}.items():
        (copy / "anomalies").mkdir(exist_ok=True)
        text = PART.format(name="noise").replace("makes noise", version)
        (copy / "anomalies" / "noise.py").write_text(text)
    (folder / "anomalies" / "later.py").write_text(PART.format(name="later"))
    found = []
    for copy, version in copies.items():
        with registry.using_versions(registry.versions_in({copy: version})):
            found.append(registry.get("anomaly", "noise").summary)
            assert registry.get("anomaly", "cpu") is registry.scan("anomaly")["cpu"].cls, "parts of Lastro stay"
            with pytest.raises(Unavailable, match=f"no part of this name in version {version}"):
                registry.get("anomaly", "later")
    assert found == ["first", "second"] and registry.get("anomaly", "noise").summary == "present"
    with registry.using_versions({}):
        assert registry.get("anomaly", "later").name == "later"


def test_a_broken_version_of_a_part_is_not_corrected_in_its_copy(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (folder / "anomalies" / "noise.py").write_text(PART.format(name="noise"))
    copy = tmp_path_factory.mktemp("copy")
    (copy / "anomalies").mkdir()
    for name in ("noise", "cpu"):
        (copy / "anomalies" / f"{name}.py").write_text("import no_such_package_at_all\n")
    with registry.using_versions(registry.versions_in({copy: "first"})):
        assert registry.get("anomaly", "cpu") is registry.scan("anomaly")["cpu"].cls
        with pytest.raises(Unavailable, match="no_such_package_at_all") as caught:
            registry.get("anomaly", "noise")
    assert caught.value.hint == "choose another revision, or commit a correction"


def test_a_missing_dependency_is_kept_and_raised_on_use(folder: Path) -> None:
    (folder / "anomalies" / "needs_more.py").write_text("import no_such_package_at_all\n")
    info = registry.parts("anomaly")["needs-more"]
    assert info.cls is None
    assert "no_such_package_at_all" in str(info.broken)
    assert registry.get("anomaly", "cpu").name == "cpu"
    with pytest.raises(Unavailable, match="no_such_package_at_all") as caught:
        registry.get("anomaly", "needs-more")
    assert "needs_more.py" in str(caught.value.hint)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="no platform is named 'dokcer'") as caught:
        registry.get("platform", "dokcer")
    assert caught.value.hint == "did you mean 'docker'?"


def test_helpers_and_bases_are_no_parts(folder: Path) -> None:
    (folder / "anomalies" / "derived.py").write_text(
        "from lastro.anomalies.cpu import Cpu\n\nclass Helper(Cpu):\n    pass\n\nclass Mine(Cpu):\n    name = 'mine'\n"
    )
    assert registry.names("anomaly") - ANOMALIES == {"mine"}


def test_finding_parts_imports_no_heavy_library() -> None:
    script = "import sys; from lastro.scenarios.base import schemas; dict(schemas()); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for heavy in ("numpy", "scipy", "matplotlib", "duckdb", "rich", "jinja2", "pydantic"):
        assert f"'{heavy}'" not in done.stdout
    assert Path(lastro.__file__).is_file()
