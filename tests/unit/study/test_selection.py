"""What a user may change of a study on the command line, and which errors say what is possible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastro import papers
from lastro.errors import InputError
from lastro.scenarios.base import schemas
from lastro.study.design import treatments
from lastro.study.load import load, parse
from lastro.study.model import Factor, Study
from lastro.study.resolve import check_stored
from lastro.study.selection import Selection

SCHEMAS = schemas()


@pytest.fixture(scope="module")
def kagami() -> Study:
    return load(papers.find("kagami2017"), SCHEMAS)


def chosen(study: Study, **choices: object) -> Study:
    return Selection(**choices).of(study, SCHEMAS[study.scenario])  # type: ignore[arg-type]


def levels(study: Study, name: str) -> tuple[object, ...]:
    return next(factor.levels for factor in study.factors if factor.name == name)


def test_nothing_chosen_changes_nothing(kagami: Study) -> None:
    assert chosen(kagami) == kagami


def test_levels_are_kept_in_the_order_of_the_study_however_they_are_spelt(kagami: Study) -> None:
    found = chosen(kagami, only=("anomaly=memory,none", "isolation=none", "isolation=apparmor+cgroups"))
    assert levels(found, "anomaly") == ("none", "memory")
    assert levels(found, "isolation") == ("none", "cgroups+apparmor")
    assert len(treatments(found)) == 3 * 2 * 3 * 2
    assert found.changes == (
        "--only", "anomaly=memory,none", "--only", "isolation=none", "--only", "isolation=apparmor+cgroups",
    )  # fmt: skip
    assert Study.from_dict(found.to_dict()) == found, "a campaign keeps it"


def test_the_first_level_that_is_left_becomes_the_baseline(kagami: Study) -> None:
    found = chosen(kagami, only=("anomaly=disk,cpu", "isolation=none,cgroups"))
    assert found.design.baseline == {"isolation": "none", "anomaly": "cpu"}


def test_a_constant_has_the_type_of_its_setting_and_beats_the_profile(kagami: Study) -> None:
    found = chosen(kagami, profile="paper", settings=("tcp_s=5", "platform=runc", "settle_s=0.5", "udp_rate=10M"))
    wanted = {"tcp_s": 5, "platform": "runc", "settle_s": 0.5, "udp_rate": "10M", "udp_s": 15}
    assert {name: found.settings[name] for name in wanted} == wanted
    assert found.profile == "paper" and found.metrics == kagami.metrics


def test_what_is_left_may_be_nothing_of_a_profile_that_was_not_chosen(kagami: Study) -> None:
    """The campaign can be resumed, whatever the profiles would leave out."""
    found = chosen(kagami, only=("attachment=veth-direct", "function=dpi,nat"))
    with pytest.raises(InputError, match="leaves no treatment"):
        chosen(kagami, profile="quick", only=found.changes[1::2])
    check_stored(found, SCHEMAS["chain"], "the study in c1")


def test_the_number_of_blocks_is_fixed(kagami: Study) -> None:
    sequential = replace(kagami, design=replace(kagami.design, stopping="sequential"))
    found = chosen(sequential, profile="quick", replicates=4)
    assert (found.design.replicates, found.design.stopping) == (4, "fixed")


def test_levels_with_options_hold_commas(kagami: Study) -> None:
    split = "docker:runtime=crun,storage=vfs"
    study = replace(
        kagami,
        factors=(*kagami.factors, Factor("platform", ("native", split, "runc"))),
        settings={name: value for name, value in kagami.settings.items() if name != "platform"},
    )
    found = chosen(study, only=("platform=docker:storage=vfs,runtime=crun", "platform=native"))
    assert levels(found, "platform") == ("native", split)
    found = chosen(study, only=("platform=native,docker:runtime=crun,storage=vfs",))
    assert levels(found, "platform") == ("native", split)
    with pytest.raises(InputError, match="no level 'storage=vfs'"):
        chosen(study, only=("platform=native,storage=vfs",))


def test_metrics_follow_the_parts_where_the_study_lists_none() -> None:
    text = """
        [study]
        name = "mine"
        scenario = "compute"
        [factors]
        platform = ["native", "runc"]
        [settings]
        instrument = "john"
        """
    study = parse(text, "mine.toml", SCHEMAS)
    other = parse(text.replace("john", "stream"), "mine.toml", SCHEMAS)
    assert chosen(study, settings=("instrument=stream",)).metrics == other.metrics != study.metrics
    listed = replace(study, metrics=study.metrics[:1])
    assert chosen(listed, settings=("instrument=stream",)).metrics == listed.metrics


@pytest.mark.parametrize(
    ("choices", "message", "hint"),
    [
        ({"only": ("anomly=none",)}, "has no factor 'anomly'", "did you mean 'anomaly'?"),
        ({"only": ("platform=runc",)}, "has no factor 'platform'", "--set platform=VALUE changes it"),
        ({"only": ("anomaly=none,cpus",)}, "has no level 'cpus'", "did you mean 'cpu'?"),
        ({"only": ("anomaly",)}, "--only anomaly is not NAME=VALUE", "--only platform=lxc,runc"),
        ({"settings": ("=5",)}, "--set =5 is not NAME=VALUE", "--set tcp_s=5"),
        ({"settings": ("anomaly=cpu",)}, "'anomaly' is a factor", "--only anomaly=LEVEL"),
        ({"settings": ("tcp=5",)}, "scenario chain has no factor or setting of this name", "or 'tcp_s'"),
        ({"settings": ("tcp_s=x",)}, "--set tcp_s: 'x' is not a whole number", None),
        ({"settings": ("settle_s=nan",)}, "--set settle_s: 'nan' is not a number", None),
        ({"settings": ("tcp_s=0",)}, "--set tcp_s: must be at least 1", None),
        ({"settings": ("tcp_s=1", "tcp_s=2")}, "--set tcp_s is given 2 times", "a constant has one value"),
        ({"settings": ("platform=dokcer",)}, "no platform is named 'dokcer'", "did you mean 'docker'?"),
        ({"replicates": 0}, "--replicates 0 is not possible", "at least 1"),
        ({"replicates": 10_000}, "--replicates 10000 is not possible", "at most 1,000,000 trials"),
        ({"profile": "quik"}, "has no profile 'quik'", "did you mean 'quick'?"),
    ],
)
def test_what_cannot_be_chosen_says_what_can(
    kagami: Study, choices: dict[str, object], message: str, hint: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        chosen(kagami, **choices)
    assert message in caught.value.message
    assert caught.value.hint is None if hint is None else hint in (caught.value.hint or "")


def test_of_a_suite_each_study_takes_what_concerns_it(kagami: Study) -> None:
    given = Selection("quick", ("anomaly=none", "tools=a", "platform=runc"), ("tcp_s=5", "disk_s=5", "anomaly=cpu"), 3)
    assert given.within(kagami, SCHEMAS["chain"]) == Selection("quick", ("anomaly=none",), ("tcp_s=5",), 3)
