"""What a variant changes in the root filesystem of instances, and functions that are built from a repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lastro.errors import InputError, StudyError
from lastro.scenarios.base import schemas
from lastro.study.design import treatments
from lastro.study.load import load, parse
from lastro.study.model import Study
from lastro.study.resolve import check_stored
from lastro.study.root_change import UNCHANGED, RootChange
from lastro.study.selection import with_variants

SCHEMAS = schemas()
HEAD = '[study]\nname = "x"\nscenario = "chain"\n[settings]\nattachment = "veth-direct"\nfunction = "mine"\n'
BUILT = '[functions.mine]\nrepository = "code"\nbuild = ["make"]\ndirectory = "out"\ncommand = ["/run"]\n'
BOTH = '[factors]\nplatform = ["runc"]\nvariant = ["before", "after"]\n[variants.before]\n'


def study(text: str) -> Study:
    return parse(HEAD + text + BUILT, "x.toml", SCHEMAS)


def test_a_variant_has_another_root_filesystem_and_the_reference_has_that_of_the_study() -> None:
    found = study(BOTH + '[variants.after]\nrelease = "trixie"\npackages = ["jq", "nftables"]\ngit = "v1"\n')
    before, after = (RootChange.of(found.config(each.levels)) for each in treatments(found))
    assert before == UNCHANGED and not before
    assert after == RootChange("trixie", ("jq", "nftables"), "", "v1")
    assert str(after) == "release = trixie; packages = jq, nftables; git = v1"
    assert Study.from_dict(found.to_dict()) == replace(found, notes=())
    check_stored(found, SCHEMAS["chain"], "c")


def test_files_are_found_beside_the_study(tmp_path: Path) -> None:
    text = HEAD + BOTH + '[variants.after]\nrootfs = "files/new"\n' + BUILT
    (tmp_path / "x.toml").write_text(text)
    found = load(tmp_path / "x.toml", SCHEMAS)
    assert found.variants["after"] == {"rootfs": f"{tmp_path}/files/new"}
    (own,) = found.functions
    assert (own.repository, own.directory) == (f"{tmp_path}/code", "out"), "the files are inside a checkout"
    assert own.in_checkout("/c").directory == "/c/out"
    (tmp_path / "x.toml").write_text(text.replace("files/new", "oci-archive:new.tar"))
    assert load(tmp_path / "x.toml", SCHEMAS).variants["after"]["rootfs"] == f"oci-archive:{tmp_path}/new.tar"


def test_the_command_line_takes_the_same() -> None:
    found = parse(
        HEAD.replace('function = "mine"\n', "")
        + '[factors]\nplatform = ["runc"]\nfunction = ["mine", "nat"]\n'
        + BUILT,
        "x.toml",
        SCHEMAS,
    )
    root = with_variants(found, SCHEMAS["chain"], (), ("release=trixie", "packages=jq,curl", "rootfs=/srv/new"))
    assert root.variants["b"] == {"release": "trixie", "packages": "jq, curl", "rootfs": "/srv/new"}
    assert len(treatments(root)) == 4
    git = with_variants(found, SCHEMAS["chain"], ("git=v1.0",), ("git=HEAD",))
    assert {row.levels["function"] for row in treatments(git)} == {"mine"}, "nat is built from no repository"


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ('[variants.after]\nrelease = "Debian 13"\n', "such as bookworm or trixie"),
        ('[variants.after]\npackages = ["jq", "--evil"]\n', "not the name of a Debian package"),
        ('[variants.after]\ngit = "--upload-pack=x"\n', "not a revision of Git"),
        ('[variants.after]\nreleases = "trixie"\n', "did you mean 'release'"),
    ],
)
def test_what_cannot_be_is_refused(tables: str, said: str) -> None:
    with pytest.raises(StudyError) as wrong:
        study(BOTH + tables)
    assert said in f"{wrong.value.message} {wrong.value.hint}"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (BUILT.replace('repository = "code"\n', ""), "and no repository"),
        (BUILT.replace('"out"', '"/out"'), "not inside the checkout"),
        (BUILT.replace('"out"', '"a/../../b"'), "not inside the checkout"),
        (BUILT.replace("directory", "image").replace('"out"', '"docker:x"'), "not inside the checkout"),
    ],
)
def test_files_outside_of_the_checkout_are_refused(table: str, said: str) -> None:
    with pytest.raises(StudyError) as wrong:
        parse(HEAD + '[factors]\nplatform = ["runc"]\n' + table, "x.toml", SCHEMAS)
    assert said in f"{wrong.value.message} {wrong.value.hint}"


def test_a_revision_without_a_repository_and_a_scenario_without_instances_are_refused() -> None:
    head = '[study]\nname = "x"\nscenario = "chain"\n[settings]\nattachment = "veth-direct"\nfunction = "nat"\n'
    plain = parse(head + '[factors]\nplatform = ["runc"]\n', "x.toml", SCHEMAS)
    with pytest.raises(InputError, match="no function of the study is built from a repository"):
        with_variants(plain, SCHEMAS["chain"], (), ("git=HEAD",))
    with pytest.raises(InputError, match="starts no instances"):
        with_variants(plain, replace(SCHEMAS["chain"], roots=False), (), ("release=trixie",))
