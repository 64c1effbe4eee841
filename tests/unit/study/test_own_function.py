"""Network functions that a study brings: what a study may say of them, and what it may not."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from lastro.errors import StudyError
from lastro.functions.base import Function
from lastro.scenarios.base import make_parts, schema, schemas
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.compute import ComputeScenario
from lastro.study.document import read_document
from lastro.study.json_schema import json_schema
from lastro.study.levels import join_hops
from lastro.study.load import load, parse
from lastro.study.model import Study
from lastro.study.own_function import OwnFunction
from lastro.study.problems import Problems
from lastro.study.resolve import check_stored
from lastro.study.selection import Selection

SCHEMAS = {kind.name: schema(kind) for kind in (ChainScenario, ComputeScenario)}
STUDY = """[study]
name = "own"
scenario = "chain"

[factors]
function = ["firewall", "mine", "firewall>mine>nat"]

[settings]
platform = "native"
attachment = "veth-bridge"

[functions.mine]
"""
MINE = """directory = "files"
command = ["/bin/filter", "--fast"]
ready = ["/bin/ready"]
ready_s = 3
environment = { MODE = "fast" }
"""


def read(text: str) -> Study:
    return parse(STUDY + text, "own.toml", SCHEMAS)


def test_a_function_of_the_study_is_a_level_and_a_hop(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(STUDY + MINE)
    study = load(tmp_path / "own.toml", SCHEMAS)
    assert study.functions == (
        OwnFunction(
            "mine", str(tmp_path / "files"), "", ("/bin/filter", "--fast"), ("/bin/ready",), 3.0, {"MODE": "fast"}
        ),
    )
    assert study.factors[0].levels == ("firewall", "mine", "firewall>mine>nat")
    assert Study.from_dict(study.to_dict()).functions == study.functions
    check_stored(study, SCHEMAS["chain"], "the campaign")
    chosen = Selection(only=("function=firewall>mine>nat",)).of(study, SCHEMAS["chain"])
    assert chosen.factors[0].levels == ("firewall>mine>nat",)
    assert [each.name for each in make_parts(Function, "firewall>mine>nat")] == ["firewall", "mine", "nat"]


@pytest.mark.parametrize(
    ("image", "absolute"),
    [
        ("docker-archive:mine.tar", "docker-archive:{}/mine.tar"),
        ("oci:images/mine:1.0", "oci:{}/images/mine:1.0"),
        ("oci-archive:/srv/mine.tar", "oci-archive:/srv/mine.tar"),
        ("docker-daemon:mine:latest", "docker-daemon:mine:latest"),
        ("docker://example.org/mine:1", "docker://example.org/mine:1"),
    ],
)
def test_an_image_is_named_as_podman_does(tmp_path: Path, image: str, absolute: str) -> None:
    (tmp_path / "own.toml").write_text(f'{STUDY}image = "{image}"\n')
    assert load(tmp_path / "own.toml", SCHEMAS).functions[0].image == absolute.format(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"functions\.mine: needs its files: either `directory` or `image`"),
        ('directory = "a"\nimage = "oci:b"\n', "either `directory` or `image`"),
        ('directory = "a"\n', "has a directory and no command"),
        ('directory = "a"\ncommand = []\n', r"functions\.mine\.command: is empty"),
        ('directory = "a"\ncommand = [""]\n', "`command` begins with an empty word"),
        ('image = "mine:latest"\n', "'mine:latest' does not say where the image is"),
        ('image = "oci:"\n', "does not say where the image is"),
        ('image = "oci:a"\nready_s = 0\n', r"ready_s: must be above 0"),
        ('image = "oci:a"\nforwarding = "magic"\n', "forwarding: must be 'kernel' or 'function'"),
        ('image = "oci:a"\ncomand = ["x"]\n', "unknown key"),
        ('image = "oci:a"\nenvironment = { LASTRO_IN = "x" }\n', "'LASTRO_IN' cannot be a variable"),
        ('image = "oci:a"\nenvironment = { "A B" = "x" }\n', "'A B' cannot be a variable"),
        ('image = "oci:a"\n[functions.nat]\nimage = "oci:a"\n', r"functions\.nat: Lastro has a function of this name"),
        ('image = "oci:a"\n[functions."a>b"]\nimage = "oci:a"\n', "its name must be 2 to 30 of a-z"),
    ],
)
def test_what_is_wrong_with_a_function_is_one_error(text: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        read(text)


def test_a_scenario_without_packets_in_transit_brings_no_functions() -> None:
    text = """[study]
name = "own"
scenario = "compute"
[factors]
platform = ["native"]
[settings]
instrument = "pi"
[functions.mine]
"""
    with pytest.raises(StudyError, match="scenario compute sends nothing through a function"):
        parse(text + MINE, "own.toml", SCHEMAS)


def test_a_stored_function_is_checked_as_one_in_a_file() -> None:
    data = read(MINE).to_dict()
    data["functions"][0]["name"] = "../../etc"
    with pytest.raises(StudyError, match="its name must be"):
        check_stored(Study.from_dict(data), SCHEMAS["chain"], "the campaign")


def test_editors_know_functions_of_the_study_only_where_it_has_some() -> None:
    validator = jsonschema.Draft202012Validator(json_schema(SCHEMAS))

    def valid(text: str) -> bool:
        return validator.is_valid(read_document(text, Problems("own.toml")))

    assert valid(STUDY + MINE)
    assert not valid((STUDY + MINE).replace("[functions.mine]", "[cost]").partition("[cost]")[0])
    assert not valid(STUDY + MINE.replace("directory", "dir"))


def test_rows_of_own_functions_have_at_most_as_many_hops_as_others() -> None:
    with pytest.raises(StudyError, match="has 9 hops"):
        parse((STUDY + MINE).replace("firewall>mine>nat", join_hops(9 * ["mine"])), "own.toml", SCHEMAS)


def test_the_example_has_one_of_each_kind() -> None:
    example = load(Path(__file__).parents[3] / "examples" / "own-function" / "study.toml", schemas())
    assert [each.forwarding for each in example.functions] == ["kernel", "function"]
