"""Variants: what a study and the command line may let differ, where it enters a treatment, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastro.analysis.variants import variant_test
from lastro.errors import InputError, StudyError
from lastro.platforms.base import Platform
from lastro.platforms.oci import OciPlatform
from lastro.platforms.runc import Runc
from lastro.scenarios.base import chosen_part, schemas, sysctls_of
from lastro.study.design import baseline_indices, treatments
from lastro.study.load import parse
from lastro.study.model import Study
from lastro.study.resolve import check_stored
from lastro.study.selection import SAME_IN_VARIANTS, Selection, with_variants

SCHEMAS = schemas()
HEAD = '[study]\nname = "x"\nscenario = "chain"\n[settings]\nattachment = "veth-direct"\nfunction = "firewall"\n'
PLAIN = '[factors]\nplatform = ["runc", "docker", "native"]\n'
BOTH = '[factors]\nvariant = ["before", "after"]\nplatform = ["runc"]\n[variants.before]\n'


def study(text: str, head: str = HEAD) -> Study:
    return parse(head + text, "x.toml", SCHEMAS)


def varied(*b: str, a: tuple[str, ...] = (), text: str = PLAIN) -> Study:
    found = study(text)
    return with_variants(found, SCHEMAS["chain"], a, b)


def test_what_a_variant_changes_enters_the_configuration_of_its_treatments() -> None:
    found = study(
        BOTH + '[variants.after]\nprograms = { runc = "/opt/runc" }\n'
        'sysctl = { "net.ipv4.tcp_congestion_control" = "reno", "net.core.somaxconn" = 9 }\n'
        'settings = { tcp_s = 3, "function.firewall.rules" = 500 }\n'
    )
    before, after = (found.config(each.levels) for each in treatments(found))
    assert before["tcp_s"] != 3 and after["tcp_s"] == 3 and after["function.firewall.rules"] == 500
    assert sysctls_of(after) == {"net.ipv4.tcp_congestion_control": "reno", "net.core.somaxconn": "9"}
    assert not sysctls_of(before) and set(after) - set(before) >= {"platform.runc.program"}
    assert chosen_part(Platform, after).program == "/opt/runc" and chosen_part(Platform, before).program == "runc"  # type: ignore[attr-defined]
    assert Study.from_dict(found.to_dict()) == replace(found, notes=()), "a campaign keeps it"
    check_stored(found, SCHEMAS["chain"], "c")


def test_metrics_are_those_of_all_variants() -> None:
    head = '[study]\nname = "x"\nscenario = "compute"\n'
    text = '[factors]\nplatform = ["native"]\nvariant = ["a", "b"]\n[settings]\ninstrument = "gzip"\n'
    found = study(f'{text}[variants.a]\n[variants.b.settings]\ninstrument = "mbw"\n', head)
    alone = study(f"{text}[variants.a]\n[variants.b.settings]\ncpus = 1\n", head)
    assert {metric.name for metric in found.metrics} > {metric.name for metric in alone.metrics}


def test_the_command_line_makes_two_variants_of_which_a_is_the_reference() -> None:
    found = varied("runc=/opt/new", a=("runc=/opt/old",))
    assert found.variants == {"a": {"platform.runc.program": "/opt/old"}, "b": {"platform.runc.program": "/opt/new"}}
    rows = treatments(found)
    assert [row.levels for row in rows] == [{"platform": "runc", "variant": each} for each in ("a", "b")]
    assert {rule.reason for rule in found.exclusions} == {SAME_IN_VARIANTS}, (
        "docker and native start no runc of this study"
    )
    assert baseline_indices(found, rows) == {0: 0, 1: 0}
    assert found.changes == ("--a", "runc=/opt/old", "--b", "runc=/opt/new")
    everywhere = varied("net.ipv4.tcp_rmem=4096 9000 9000", "function.firewall.rules=5")
    assert len(treatments(everywhere)) == 6
    assert everywhere.variants["b"] == {"sysctl.net.ipv4.tcp_rmem": "4096 9000 9000", "function.firewall.rules": 5}


def test_the_margin_of_the_metric_in_the_study_is_that_of_its_variants() -> None:
    found = study(BOTH + '[variants.after.settings]\ntcp_s = 3\n[margins]\njitter = "8%"\n')
    assert variant_test(found, "jitter").margin == 0.08 and variant_test(found, "throughput").margin == 0.03
    assert variant_test(found, "jitter", 0.01).margin == 0.01
    assert with_variants(study(PLAIN + '[margins]\njitter = "8%"\n'), SCHEMAS["chain"], (), ("tcp_s=2",)).margins


def test_equal_variants_are_an_a_a_campaign_and_a_study_keeps_its_own_reference() -> None:
    assert len(treatments(varied("tcp_s=2", a=("tcp_s=2",)))) == 6
    own = study(BOTH + '[variants.after.settings]\ntcp_s = 3\n[design]\nbaseline = { variant = "after" }\n')
    found = with_variants(own, SCHEMAS["chain"], (), ())
    assert found.design.baseline == {"variant": "after"} and found.factors == own.factors


def test_a_profile_changes_no_variant() -> None:
    found = study(BOTH + "[variants.after.settings]\ntcp_s = 3\n[profiles.quick]\ntcp_s = 1\n")
    quick = Selection("quick").of(found, SCHEMAS["chain"])
    assert [quick.config(each.levels)["tcp_s"] for each in treatments(quick)] == [1, 3]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("", "has no table [variants.after]"),
        ("[variants.after]\n", "all variants are the same"),
        ("[variants.after.settings]\ntcp_s = 3\n[variants.other]\n", "is not a level of the factor `variant`"),
        ("[variants.after.settings]\ntcp_s = 'x'\n", "must be a whole number"),
        ("[variants.after.settings]\ntcps = 3\n", "did you mean 'tcp_s'"),
        ("[variants.after.settings]\nplatform = 'docker'\n", "is a factor of this study"),
        ("[variants.after.settings]\nguest = 'old'\n", "says where a treatment runs"),
        ("[variants.after.programs]\nrunk = '/x'\n", "'runc'"),
        ("[variants.after.programs]\nrunc = 'x'\n", "not an absolute path"),
        ("[variants.after.sysctl]\n'vm.swappiness' = 3\n", "its own guest in a testbed file"),
        ("[variants.after.sysctl]\n'net.ipv4.x/../../y' = 3\n", "setting of the whole host"),
        ("[variants.after.sysctl]\n'net.ipv4.x' = 'a; b'\n", "not a value of a sysctl"),
        ("[variants.after.sysctl]\nnet.ipv4.x = 3\n", "put it in quotes"),
        ("[variants.after]\nprogram = {}\n", "'programs'"),
    ],
)
def test_what_cannot_differ_is_refused_with_the_place_and_the_reason(tables: str, said: str) -> None:
    with pytest.raises(StudyError) as wrong:
        study(BOTH + tables)
    text = f"{wrong.value.message} {wrong.value.hint}"
    assert said.lower() in text.lower(), text


def test_tampered_variants_of_a_campaign_are_refused() -> None:
    found = study(BOTH + "[variants.after.settings]\ntcp_s = 3\n")
    for changes in ({"tcp_s": "x"}, {"sysctl.kernel.core_pattern": "|/x"}, {"platform.runc.program": "x"}, {"y": 1}):
        with pytest.raises(StudyError):
            check_stored(replace(found, variants={"after": changes}), SCHEMAS["chain"], "c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("crun=/opt/crun", "changes nothing in any treatment"),
        ("kernel.pid_max=9", "testbed file"),
        ("function.firewall.rules=x", "not a whole number"),
        ("platform=lxc", "is a factor of this study"),
    ],
)
def test_what_the_command_line_asks_for_in_vain_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as wrong:
        varied(text)
    assert said in f"{wrong.value.message} {wrong.value.hint}"


def test_a_runtime_has_its_own_program_in_every_command() -> None:
    assert isinstance(runc := Runc(program="/opt/runc"), OciPlatform) and runc.program == "/opt/runc"
    assert Runc().program == "runc"


def test_campaigns_with_other_variants_are_not_of_one_study() -> None:
    one, other = (study(BOTH + f"[variants.after.settings]\ntcp_s = {n}\n") for n in (3, 4))
    assert (
        one.settings == other.settings
        and one.constants != other.constants
        and one.constants["variants.after.tcp_s"] == 3
    )
