"""Study files: what a sound one becomes, and what is said of one that is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

from lastro import papers
from lastro.errors import InputError, StudyError
from lastro.scenarios.base import schemas
from lastro.study.design import treatments
from lastro.study.document import MAX_BYTES
from lastro.study.json_schema import json_schema
from lastro.study.levels import check_level, options_named, options_of_one
from lastro.study.load import load, parse
from lastro.study.model import Exclusion, Factor, Level, Study
from lastro.study.problems import FieldError, shown

from ...support.study_schemas import CHAIN, KAGAMI, SCHEMAS

HEAD = '[study]\nname = "x"\nscenario = "chain"\n'
PARTS = 'platform = ["runc", "docker"]\nattachment = ["veth-bridge", "veth-direct"]\n'
SMALL = f"{HEAD}[factors]\n{PARTS}"


def read(text: str) -> Study:
    return parse(text, "s.toml", SCHEMAS)


def refusal(text: str) -> StudyError:
    with pytest.raises(StudyError) as caught:
        read(text)
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith("s.toml: ")
    assert "\x1b" not in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


# Sound files


def test_the_paper_has_its_180_treatments_and_2160_trials() -> None:
    study = load(KAGAMI, SCHEMAS)
    assert [(factor.name, len(factor.levels)) for factor in study.factors] == [
        ("attachment", 3),
        ("isolation", 4),
        ("function", 3),
        ("anomaly", 5),
    ]
    assert len(treatments(study)) == 180
    assert len(treatments(study)) * study.design.replicates == 2160
    assert study.design.baseline == {"isolation": "none", "anomaly": "none"}
    names = [metric.name for metric in study.metrics]
    assert names == ["throughput", "frame_size", "jitter", "latency_mean", "latency_max"]
    durations = ("settle_s", "tcp_s", "udp_s", "ping_s", "gap_s")
    assert [study.settings[name] for name in durations] == [5, 15, 15, 15, 5]
    assert study.settings["platform"] == "docker"
    assert study.file == str(KAGAMI)
    assert study.source == KAGAMI.read_text(encoding="utf-8")


def test_a_margin_is_the_change_of_a_metric_that_matters() -> None:
    study = read(f'{SMALL}[margins]\nthroughput = "5%"\njitter = "0.2"\n')
    assert study.margins == {"throughput": 0.05, "jitter": 0.2} == Study.from_dict(study.to_dict()).margins
    for table, message, hint in (
        ('throughput = "0%"', "margins.throughput: '0%' is not a fraction above 0 and below 1", "such as 5%"),
        ('throughput = "5"', "margins.throughput: '5' is not a fraction", "such as 5%"),
        ('througput = "5%"', "margins.througput: the study has no metric 'througput'", "did you mean 'throughput'?"),
        ("throughput = 5", "margins.throughput: must be a string", ""),
    ):
        error = refusal(f"{SMALL}[margins]\n{table}\n")
        assert message in error.message and hint in (error.hint or "")


def test_the_papers_own_profile_is_the_study_itself() -> None:
    study = load(KAGAMI, SCHEMAS)
    paper = study.with_profile("paper")
    assert (paper.settings, paper.design) == (study.settings, study.design)
    quick = study.with_profile("quick")
    assert (quick.design.replicates, quick.settings["tcp_s"], quick.settings["gap_s"]) == (2, 1, 0)
    assert list(study.profiles) == ["quick", "standard", "paper", "published"]


def test_defaults_are_filled_in() -> None:
    study = read(SMALL)
    assert {name: study.settings[name] for name in ("isolation", "function", "anomaly")} == dict.fromkeys(
        ("isolation", "function", "anomaly"), "none"
    )
    assert study.settings["ping_interval_ms"] == 100
    assert "platform" not in study.settings
    assert set(study.settings) | {"platform", "attachment"} == set(CHAIN.parts) | set(CHAIN.settings)
    assert study.metrics == tuple(CHAIN.metrics.values())
    assert (study.design.replicates, study.design.order, study.design.confidence) == (5, "randomised-blocks", 0.95)
    assert study.profiles == {} and study.exclusions == ()


def test_a_whole_number_is_accepted_for_a_setting_with_a_point() -> None:
    study = read(SMALL + "tcp_s = [1, 2.5]\n[settings]\nudp_s = 3\n")
    assert study.factors[-1] == Factor("tcp_s", (1.0, 2.5))
    assert [type(level) for level in study.factors[-1].levels] == [float, float]
    assert type(study.settings["udp_s"]) is float


def test_combined_parts_match_in_any_order_and_keep_the_factors_spelling() -> None:
    study = read(
        f'{SMALL}isolation = ["none", "cgroups+apparmor"]\n[design]\nbaseline = {{ isolation = "apparmor+cgroups" }}\n'
        '[[exclude]]\nwhen = { isolation = "apparmor+cgroups", platform = ["runc"] }\nreason = "r"\n'
    )
    assert study.design.baseline == {"isolation": "cgroups+apparmor"}
    assert study.exclusions == (Exclusion({"isolation": ("cgroups+apparmor",), "platform": ("runc",)}, "r"),)
    assert len(treatments(study)) == 6


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load(file, SCHEMAS).name == "x"


def test_a_study_survives_json() -> None:
    study = load(KAGAMI, SCHEMAS).with_profile("quick")
    assert Study.from_dict(json.loads(json.dumps(study.to_dict()))) == study


# Files that cannot be read


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "chain.toml").write_text(SMALL)
    with pytest.raises(StudyError, match=r"chian\.toml: there is no such file") as caught:
        load(tmp_path / "chian.toml", SCHEMAS)
    assert "did you mean 'chain.toml'?" in str(caught.value.hint)
    with pytest.raises(StudyError) as caught:
        load(tmp_path / "nowhere" / "chain.toml", SCHEMAS)
    assert "lastro new" in str(caught.value.hint)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="is a directory"):
        load(tmp_path, SCHEMAS)
    with pytest.raises(StudyError, match="cannot be read"):
        load(Path("a\0b"), SCHEMAS)
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    with pytest.raises(StudyError, match="cannot be read: Too many levels of symbolic links"):
        load(loop, SCHEMAS)
    with pytest.raises(StudyError, match="it is a device, not a regular file"):
        load(Path("/dev/zero"), SCHEMAS)


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text(SMALL + "#" * (MAX_BYTES - len(SMALL)))
    assert load(file, SCHEMAS).name == "x"
    file.write_text(SMALL + "#" * (MAX_BYTES - len(SMALL) + 1))
    with pytest.raises(StudyError, match="exceeds the limit"):
        load(file, SCHEMAS)


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "latin1.toml"
    file.write_bytes(b'[study]\ntitle = "caf\xe9"\n')
    with pytest.raises(StudyError, match=r"latin1\.toml: line 2: is not UTF-8: unexpected byte 0xe9"):
        load(file, SCHEMAS)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("[study]\nname = x\n", "line 2, column 8", "is not TOML: Invalid value"),
        ("[study", "end of document", "is not TOML"),
        ("x = 1\nx = 1\n", "line 2, column 6", "is not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 40_000, "", "is nested too deeply"),
        ("a = " + "[" * 100 + "]" * 100, "a" + "[0]" * 7, "is nested too deeply"),
        ("a." * 500 + "a = 1", ".".join("a" * 8), "is nested too deeply"),
        ("a = " + "9" * 5000, "", "contains a number that is too large"),
        ("a = 0x" + "f" * 5000, "a", "is too large: an integer has at most 64"),
        ("a = [1, nan]", "a[1]", "must be a finite number, but is nan"),
        ("a.b = -inf", "a.b", "must be a finite number, but is -inf"),
        ("[cost]\na = 1e308", "cost.a", "must be a number up to 1e+100, but is 1e+308"),
    ],
)
def test_what_is_not_usable_toml(text: str, where: str, message: str) -> None:
    error = refusal(text)
    assert error.where == where
    assert message in error.message


# Files that say what cannot be

_EXCLUDE = '[[exclude]]\nreason = "r"\nwhen = '
_QUICK_EXCLUDE = _EXCLUDE.replace("exclude", "profiles.quick.exclude")


@pytest.mark.parametrize(
    ("text", "where", "message", "hint"),
    [
        ("", "study", "is missing", "s.toml: factors: is missing"),
        (SMALL.replace("name", "nmae"), "study.nmae", "unknown key", "did you mean 'name'?"),
        (SMALL.replace("[factors]", "[factor]"), "factor", "unknown key", "did you mean 'factors'?"),
        (SMALL + "[designs]\n", "designs", "unknown key", "did you mean 'design'?"),
        (SMALL + "[design]\nreplicate = 3\n", "design.replicate", "unknown key", "did you mean 'replicates'?"),
        (SMALL + '[[exclude]]\nwen = 1\nreason = "r"\n', "exclude[0].wen", "unknown key", "did you mean 'when'?"),
        (SMALL + "[profiles.quik]\n", "profiles.quik", "unknown key", "did you mean 'quick'?"),
        (SMALL + '"\\u001b[31m" = ["x"]\n', "factors.'\\x1b[31m'", "no factor or setting", ""),
        (SMALL.replace('"x"', '"My study"'), "study.name", "but is 'My study'", ""),
        (SMALL.replace('"x"', '"../x"'), "study.name", "must consist of", ""),
        (SMALL.replace('"x"', f'"{"x" * 65}"'), "study.name", "at most 64 characters", ""),
        (SMALL.replace('"x"', "1"), "study.name", "must be a string, but is 1", ""),
        (SMALL.replace('"x"', '"x"\ntitle = "\\u001b"'), "study.title", "control character", ""),
        (SMALL.replace('"x"', '"x"\ndescription = "\\u0007"'), "study.description", "control character", ""),
        (SMALL.replace("chain", "chian"), "study.scenario", "no scenario is named 'chian'", "did you mean 'chain'?"),
        (SMALL.replace('"x"', '"x"\nmetrics = []'), "study.metrics", "is empty", ""),
        (SMALL.replace('"x"', '"x"\nmetrics = ["jiter"]'), "study.metrics[0]", "no metric 'jiter'", "mean 'jitter'?"),
        (SMALL.replace('"x"', '"x"\nmetrics = ["jitter", "jitter"]'), "study.metrics[1]", "listed already", ""),
        (HEAD + "[factors]\n", "factors", "is empty", ""),
        (HEAD + "factors = 1\n" + PARTS, "study.factors", "unknown key", ""),
        (SMALL + "isolation = []\n", "factors.isolation", "is empty", ""),
        (SMALL + 'isolation = "none"\n', "factors.isolation", "must be a list, but is 'none'", ""),
        (SMALL + "isolation = [[]]\n", "factors.isolation[0]", "but is a list", ""),
        (SMALL + "isolation = [1979-05-27]\n", "factors.isolation[0]", "but is a date or a time", ""),
        (SMALL + "isolation = [true]\n", "factors.isolation[0]", "must be a string, but is true", ""),
        (SMALL + 'isolation = [""]\n', "factors.isolation[0]", "1 to 100 characters, but has 0", ""),
        (SMALL + f'udp_rate = ["{"x" * 101}"]\n', "factors.udp_rate[0]", "but has 101", ""),
        (SMALL + 'udp_rate = ["\\u0000"]\n', "factors.udp_rate[0]", "control character", ""),
        (SMALL.replace("veth-direct", "veth-dirct"), "factors.attachment[1]", "'veth-dirct'", "mean 'veth-direct'?"),
        (SMALL.replace("veth-direct", "veth-bridge"), "factors.attachment[1]", "listed already", ""),
        (SMALL.replace("docker", "docker+runc"), "factors.platform[1]", "cannot be combined", ""),
        (SMALL + 'isolaton = ["none"]\n', "factors.isolaton", "no factor or setting", "did you mean 'isolation'?"),
        (SMALL + 'isolation = ["none+cgroups"]\n', "factors.isolation[0]", "combines 'none'", ""),
        (SMALL + 'isolation = ["cgroups+cgroups"]\n', "factors.isolation[0]", "more than once", ""),
        (SMALL + 'isolation = ["cgroups+"]\n', "factors.isolation[0]", "no isolation is named ''", ""),
        (SMALL + 'isolation = ["cgroups+aparmor"]\n', "factors.isolation[0]", "'aparmor'", "mean 'apparmor'?"),
        (
            SMALL + 'isolation = ["cgroups+apparmor", "apparmor+cgroups"]\n',
            "factors.isolation[1]",
            "the same level as 'cgroups+apparmor'",
            "",
        ),
        (SMALL + 'tcp_streams = [1, "2"]\n', "factors.tcp_streams[1]", "must be a whole number", ""),
        (SMALL + "tcp_streams = [1, true]\n", "factors.tcp_streams[1]", "must be a whole number", ""),
        (
            SMALL + "tcp_streams = [1, 2.5]\n",
            "factors.tcp_streams[1]",
            "must be a whole number, such as 1, but is 2.5",
            "",
        ),
        (SMALL + "tcp_s = [1, 1.0]\n", "factors.tcp_s[1]", "the same level as 1.0", ""),
        (SMALL + "[settings]\ntcp_s = false\n", "settings.tcp_s", "must be a number, such as 5.0, but is false", ""),
        (SMALL + "[settings]\ntcp_s = 0.4\n", "settings.tcp_s", "must be at least 0.5, but is 0.4", ""),
        (SMALL + "[settings]\ntcp_s = 86401\n", "settings.tcp_s", "must be at most 86400", ""),
        (SMALL + "[settings]\nudp_rate = 1\n", "settings.udp_rate", "must be a string, such as '1M'", ""),
        (SMALL + "[settings]\nudp_rat = 1\n", "settings.udp_rat", "no factor or setting", "did you mean 'udp_rate'?"),
        (SMALL + '[settings]\nplatform = "runc"\n', "settings.platform", "is also a factor of this study", ""),
        (
            SMALL + '[settings]\nimplementation = "clik"\n',
            "settings.implementation",
            "is not a valid implementation",
            "did you mean 'click'?",
        ),
        (
            HEAD + '[factors]\nattachment = ["veth-bridge"]\n',
            "settings.platform",
            "the platform has no default",
            "valid names: docker, native, runc",
        ),
        (SMALL + "[design]\nreplicates = 0\n", "design.replicates", "must be at least 1, but is 0", ""),
        (SMALL + "[design]\nreplicates = 10001\n", "design.replicates", "must be at most 10000", ""),
        (SMALL + "[design]\nreplicates = true\n", "design.replicates", "must be a whole number, but is true", ""),
        (SMALL + "[design]\nreplicates = 2.5\n", "design.replicates", "must be a whole number, but is 2.5", ""),
        (SMALL + "[design]\nseed = -1\n", "design.seed", "must be at least 0", ""),
        (
            SMALL + "[design]\nseed = 9223372036854775808\n",
            "design.seed",
            "is too large: an integer has at most 64",
            "",
        ),
        (SMALL + "[design]\nconfidence = 95\n", "design.confidence", "must be at most 0.9999", ""),
        (SMALL + "[design]\nconfidence = 0.05\n", "design.confidence", "must be at least 0.5", ""),
        (SMALL + "[design]\nconfidence = nan\n", "design.confidence", "must be a finite number", ""),
        (
            SMALL + "[require]\ninterfaces = 8\n",
            "require.interfaces",
            "must be true, false or a string, but is 8",
            'write a number as in ">= 8"',
        ),
        (SMALL + "[require]\ninterfaces = []\n", "require.interfaces", "must be true, false or a string", ""),
        (SMALL + '[design]\norder = "random"\n', "design.order", "must be 'randomised-blocks'", ""),
        (
            SMALL + '[design]\nbaseline = { platfrm = "runc" }\n',
            "design.baseline.platfrm",
            "no factor 'platfrm'",
            "did you mean 'platform'?",
        ),
        (
            SMALL + '[design]\nbaseline = { platform = "native" }\n',
            "design.baseline.platform",
            "'native' is not a level of factor platform",
            "valid names: docker, runc",
        ),
        (SMALL + "[design]\nbaseline = { platform = 1 }\n", "design.baseline.platform", "1 is not a level", ""),
        (SMALL + _EXCLUDE + '{ function = "dpi" }\n', "exclude[0].when.function", "no factor 'function'", ""),
        (
            SMALL + _EXCLUDE + '{ platform = ["runc", "dockr"] }\n',
            "exclude[0].when.platform",
            "'dockr' is not a level",
            "did you mean 'docker'?",
        ),
        (SMALL + _EXCLUDE + "{}\n", "exclude[0].when", "is empty", ""),
        (SMALL + _EXCLUDE + "{ platform = [] }\n", "exclude[0].when.platform", "is empty", ""),
        (SMALL + '[[exclude]]\nwhen = { platform = "runc" }\n', "exclude[0].reason", "is missing", ""),
        (SMALL + _EXCLUDE + '{ platform = ["runc", "docker"] }\n', "exclude", "leave no treatment", ""),
        (
            SMALL + _QUICK_EXCLUDE + '{ platform = "lxc" }\n',
            "profiles.quick.exclude[0].when.platform",
            "'lxc' is not a level of factor platform",
            "",
        ),
        (
            SMALL + _QUICK_EXCLUDE + '{ platform = ["runc", "docker"] }\n',
            "profiles.quick.exclude",
            "leave no treatment",
            "",
        ),
        (
            SMALL + '[[profiles.quick.exclude]]\nwen = 1\nreason = "r"\n',
            "profiles.quick.exclude[0].wen",
            "unknown key",
            "",
        ),
        (SMALL + "[profiles.quick]\ntcp_streams = 2\n", "profiles.quick.tcp_streams", "can change only", ""),
        (SMALL + "[profiles.quick]\nreplicate = 2\n", "profiles.quick.replicate", "change only", "mean 'replicates'?"),
        (SMALL + "[profiles.quick]\nreplicates = 0\n", "profiles.quick.replicates", "must be at least 1", ""),
        (SMALL + "[profiles.quick]\ntcp_s = 0\n", "profiles.quick.tcp_s", "must be at least 0.5", ""),
        (SMALL + "tcp_s = [1]\n[profiles.quick]\ntcp_s = 2\n", "profiles.quick.tcp_s", "is not a level of factor", ""),
        (SMALL + '[profiles.quick]\nplatform = "runc"\n', "profiles.quick.platform", "is a factor", ""),
    ],
)
def test_what_cannot_be_is_refused(text: str, where: str, message: str, hint: str) -> None:
    error = refusal(text)
    assert error.where == where
    assert error.message.startswith(f"s.toml: {where}: ")
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize("raw", [True, 2, 0.5, "0,5 s"])
def test_a_value_of_the_wrong_kind_is_shown(raw: Level) -> None:
    """Its kind alone, 'but is a number', leaves open which of the numbers in the file is meant."""
    refused = 0
    for schema in schemas().values():
        for name in {*schema.parts, *schema.settings, *options_named(schema), *options_of_one(schema)}:
            try:
                check_level(schema, name, raw)
            except FieldError as wrong:
                assert "but is" not in wrong.message or wrong.message.endswith(f"but is {shown(raw)}")
                refused += "but is" in wrong.message
    assert refused > 50


def test_an_exclusion_of_a_level_that_a_copied_study_lacks_is_dropped_with_a_note() -> None:
    text = KAGAMI.read_text().replace('["veth-bridge", "veth-direct", "macvlan-bridge"]', '["veth-bridge"]', 1)
    study = read(text)
    assert study.notes == tuple(
        f"s.toml: profiles.quick.exclude[{rule}].when.attachment: the study has no attachment 'veth-direct', "
        "'macvlan-bridge', so the rule leaves out nothing"
        for rule in range(2)
    )
    assert len(treatments(study.with_profile("quick"))) == len(treatments(study)) == 60
    assert "notes" not in study.to_dict() and Study.from_dict(study.to_dict()) == study


def test_an_exclusion_keeps_the_levels_that_the_study_has() -> None:
    study = read(
        SMALL + "tcp_streams = [1, 4]\n" + _EXCLUDE + '{ platform = ["native", "runc"], tcp_streams = [4, 99] }\n'
    )
    assert [rule.when for rule in study.exclusions] == [{"platform": ("runc",), "tcp_streams": (4,)}]
    assert study.notes == (
        "s.toml: exclude[0].when.platform: the study has no platform 'native'",
        "s.toml: exclude[0].when.tcp_streams: the study has no tcp_streams 99",
    )


@pytest.mark.parametrize(
    ("levels", "wrong", "hint"), [('["10M"]', '"10"', "did you mean '10M'?"), ('["10M"]', "10", "'10M'")]
)
def test_an_exclusion_of_a_misspelt_value_is_an_error(levels: str, wrong: str, hint: str) -> None:
    error = refusal(SMALL + f"udp_rate = {levels}\n{_EXCLUDE}{{ udp_rate = {wrong} }}\n")
    assert error.where == "exclude[0].when.udp_rate" and hint in (error.hint or "")


def test_a_profile_holds_a_factor_of_durations_at_one_of_its_levels() -> None:
    study = parse(SMALL + "tcp_s = [1, 2]\n[profiles.quick]\ntcp_s = 2\n", "s.toml", SCHEMAS)
    held = {factor.name: factor.levels for factor in study.with_profile("quick").factors}
    assert held == {factor.name: factor.levels for factor in study.factors} | {"tcp_s": (2,)}
    assert "tcp_s" not in study.with_profile("quick").settings
    baseline = SMALL + "tcp_s = [1, 2]\n[design]\nbaseline = { tcp_s = 1 }\n[profiles.quick]\ntcp_s = 2\n"
    assert "would exclude 1, the level of the baseline" in refusal(baseline).message


def test_a_profile_leaves_out_treatments_that_the_study_and_its_other_profiles_have() -> None:
    rules = '[[{}exclude]]\nwhen = {{ platform = "docker", attachment = "{}" }}\nreason = "{}"\n'
    always, rarely = rules.format("", "veth-direct", "never"), rules.format("profiles.quick.", "veth-bridge", "slow")
    study = read(f"{SMALL}{always}[profiles.quick]\nreplicates = 2\n{rarely}[profiles.paper]\nreplicates = 9\n")
    slow = Exclusion({"platform": ("docker",), "attachment": ("veth-bridge",)}, "slow")
    assert study.profile_exclusions == {"quick": (slow,)}
    quick, paper = study.with_profile("quick"), study.with_profile("paper")
    assert quick.exclusions == (*study.exclusions, slow) and paper.exclusions == study.exclusions
    assert [len(treatments(each)) for each in (study, quick, paper)] == [3, 2, 3]
    assert Study.from_dict(json.loads(json.dumps(quick.to_dict()))) == quick


def test_a_profile_keeps_levels_and_moves_a_baseline_that_it_leaves_out() -> None:
    base = '[design]\nbaseline = { platform = "runc" }\n[profiles.published]\nreplicates = 9\n'
    study = read(f'{SMALL}{base}[profiles.published.only]\nplatform = "docker"\n')
    kept = study.with_profile("published")
    assert {row.levels["platform"] for row in treatments(kept)} == {"docker"} < set(study.factors[0].levels)
    assert (study.design.baseline, kept.design.baseline) == ({"platform": "runc"}, {"platform": "docker"})
    assert Study.from_dict(json.loads(json.dumps(kept.to_dict()))) == kept
    wrong = {
        'platform = "dokcer"': "profiles.published.only.platform: 'dokcer' is not a level of factor platform",
        'plattform = "docker"': "profiles.published.only.plattform: this study has no factor 'plattform'",
    }
    for text, message in wrong.items():
        assert message in refusal(f"{SMALL}[profiles.published.only]\n{text}\n").message
    twice = f"{SMALL}tcp_s = [1, 2]\n[profiles.quick]\ntcp_s = 1\n[profiles.quick.only]\ntcp_s = [1, 2]\n"
    assert "profiles.quick.only.tcp_s: is already fixed by this profile" in refusal(twice).message


def test_a_study_kept_before_profiles_could_exclude_is_still_read() -> None:
    study = read(SMALL)
    kept = study.to_dict()
    del kept["profile_exclusions"], kept["profile_levels"]
    assert Study.from_dict(kept) == study


def test_every_problem_has_a_line() -> None:
    error = refusal(SMALL.replace("runc", "rnc").replace("veth-bridge", "veth-brige") + "foo = [1]\n")
    assert error.where == "factors.platform[0]"
    did, second, third = str(error.hint).splitlines()
    assert did == "did you mean 'runc'?"
    assert second.startswith("s.toml: factors.attachment[0]: no attachment is named 'veth-brige' (did you mean 'veth-b")
    assert third.startswith("s.toml: factors.foo: scenario chain has no factor or setting")


def test_a_misspelt_key_hides_no_other_problem() -> None:
    error = refusal(SMALL.replace("name", "titel = 'x'\nname").replace('"chain"', '"chian"'))
    assert error.where == "study.titel" and "no scenario is named 'chian'" in (error.hint or "")
    error = refusal(SMALL.replace("name", "titel = 'x'\nname").replace("platform", "container"))
    assert error.where == "study.titel" and "did you mean 'platform'?" in (error.hint or "")
    error = refusal(SMALL.replace('"chain"', '"chian"').replace("platform", "plattform"))
    assert error.where == "study.scenario" and "factors.plattform" in (error.hint or "")


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("[settings]\nfunction.firewall.rules = 0\n", '"function.firewall.rules" = 0'),
        ('[settings]\nplatform.nic = "e1000"\n', '"platform.nic" = "e1000"'),
    ],
)
def test_a_name_with_dots_is_shown_in_the_quotes_that_it_needs(line: str, quoted: str) -> None:
    assert (refusal(SMALL + line).hint or "").endswith(f"put it in quotes: {quoted}")


def _range(first: int, last: int) -> str:
    return f"[{', '.join(map(str, range(first, last + 1)))}]"


def test_more_than_a_million_trials_are_refused() -> None:
    def text(replicates: int, profile: int = 1) -> str:
        factors = f"tcp_streams = {_range(1, 100)}\nping_interval_ms = {_range(2, 101)}\n"
        return f"{SMALL}{factors}[design]\nreplicates = {replicates}\n[profiles.paper]\nreplicates = {profile}\n"

    assert read(text(25)).design.replicates == 25  # 4 x 100 x 100 treatments in 25 blocks: exactly a million
    assert refusal(text(26)).where == "design.replicates"
    assert refusal(text(1, profile=26)).where == "profiles.paper.replicates"
    wide = f"{SMALL}tcp_streams = {_range(1, 128)}\nping_interval_ms = {_range(2, 9999)}\n"
    assert "treatments" in refusal(wide).message


def test_a_title_that_is_too_long_is_counted_in_characters() -> None:
    error = refusal(SMALL.replace('"x"', f'"x"\ntitle = "{"t" * 201}"'))
    assert error.where == "study.title"
    assert "must have at most 200 characters" in error.message


def test_many_problems_are_one_error() -> None:
    levels = ", ".join(f'"level{i}"' for i in range(40_000))
    error = refusal(f"{HEAD}[factors]\nplatform = [{levels}]\n")
    assert len(str(error.hint).splitlines()) == 1 + 19 + 1
    assert str(error.hint).endswith("and 39981 more problems in this file")  # of 40,000 and the missing attachment


# The JSON Schema


def _validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(json.dumps(json_schema(SCHEMAS)))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_json_schema_accepts_the_paper() -> None:
    _validator().validate(tomllib.loads(KAGAMI.read_text()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[factors]", "[factor]"),
        ("replicates = 12", "replicate = 12"),
        ("replicates = 12", "replicates = 0"),
        ('"veth-bridge"', '"veth-brige"'),
        ('"cgroups+apparmor"', '"cgroups+none"'),
        ("tcp_s = 15", "tcp_s = 0"),
        ("tcp_s = 15", 'tcp_s = "15"'),
        ('"jitter"', '"jiter"'),
        ('scenario = "chain"', 'scenario = "chian"'),
        ('implementation = "kernel"', 'implementation = "userland"'),
        ('isolation = "none",', 'isolatio = "none",'),
        ("[profiles.quick]", "[profiles.quik]"),
        ("[profiles.quick]", "[profiles.quick]\ntcp_streams = 1"),
        (
            "[profiles.quick]",
            '[[profiles.quick.exclude]]\nwhen = { attachment = "veth" }\nreason = "r"\n[profiles.quick]',
        ),
    ],
)
def test_the_json_schema_refuses_what_the_parser_refuses(old: str, new: str) -> None:
    text = KAGAMI.read_text().replace(old, new, 1)
    assert text != KAGAMI.read_text()
    refusal(text)
    assert not _validator().is_valid(tomllib.loads(text))


def test_the_json_schema_serves_several_scenarios() -> None:
    other = {"proxy": type(CHAIN)("proxy", "", {"platform": frozenset({"runc"})}, frozenset(), {}, CHAIN.metrics)}
    validator = jsonschema.Draft202012Validator(json_schema(SCHEMAS | other))
    proxy = {"study": {"name": "x", "scenario": "proxy"}, "factors": {"platform": ["runc"]}}
    assert validator.is_valid(proxy)
    assert not validator.is_valid(proxy | {"factors": {"attachment": ["veth-bridge"]}})
    assert not validator.is_valid(proxy | {"study": {"name": "x", "scenario": "chain"}} | {"settings": {"nat": 1}})


# What stands around


def test_papers_are_found_by_name() -> None:
    assert "kagami2017" in papers.names()
    assert papers.find("kagami2017") == KAGAMI
    with pytest.raises(InputError, match="there is no built-in study 'kagami2071'") as caught:
        papers.find("kagami2071")
    assert caught.value.hint == "did you mean 'kagami2017'?"
    with pytest.raises(InputError):
        papers.find("../kagami2017")


def test_the_template_is_a_sound_study() -> None:
    from lastro.cli.new import study_text

    study = parse(study_text("first-look"), "study.toml", SCHEMAS)
    assert study.name == "first-look"
    assert len(treatments(study)) == 8
    assert study.with_profile("quick").design.replicates == 2
    assert study.design.baseline == {"platform": "native"}


def test_what_the_template_offers_in_comments_is_sound_too() -> None:
    from lastro.cli.new import study_text

    offers = ("# isolation = ", "# anomaly = ", "# [[exclude]]", "# when = ", "# reason = ")
    lines = [line[2:] if line.startswith(offers) else line for line in study_text("x").splitlines()]
    study = parse("\n".join(lines), "study.toml", SCHEMAS)
    assert len(study.factors) == 5 and len(study.exclusions) == 1


def test_pydantic_is_imported_for_studies_only() -> None:
    program = "import lastro.study.design, lastro.study.levels, lastro.cli.new, lastro.app.studies, sys\n"
    program += "import lastro.cli.status, lastro.cli.results, lastro.cli.show, lastro.cli.compare, sys\n"
    program += "import lastro.analysis, lastro.app.contents, lastro.builders.results, lastro.render.html\n"
    program += "sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)
