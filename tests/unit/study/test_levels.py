"""Options of parts in studies: in levels, as factors, as constants of all or of one; and what profiles may change."""

from __future__ import annotations

from typing import Any

import pytest

from lastro.errors import InputError, StudyError, Unavailable
from lastro.instruments.base import Workload
from lastro.scenarios.base import make_part, schemas
from lastro.study import design
from lastro.study.json_schema import json_schema
from lastro.study.levels import part_level
from lastro.study.load import parse
from lastro.study.model import Study


def study(rest: str = "", factors: str = 'instrument = ["sysbench-cpu"]') -> Study:
    text = f'[study]\nname = "s"\nscenario = "compute"\n[factors]\nplatform = ["native", "runc"]\n{factors}\n{rest}'
    return parse(text, "s.toml", schemas())


def levels(of: Study) -> list[str]:
    configs = [of.config(treatment.levels) for treatment in design.treatments(of)]
    return sorted({part_level(config, "instrument") for config in configs})


@pytest.mark.parametrize(
    ("config", "level"),
    [
        ({"instrument": "pi"}, "pi"),
        ({"instrument": "pi:digits=9", "instrument.threads": 2}, "pi:digits=9,threads=2"),
        ({"instrument": "pi", "instrument.pi.digits": 7}, "pi:digits=7"),
        ({"instrument": "pi", "instrument.stream.digits": 7}, "pi"),
        ({"instrument": "pi:digits=9", "instrument.pi.digits": 7}, "pi:digits=9"),
        ({"instrument": "pi", "instrument.pi.digits": 7, "instrument.digits": 8}, "pi:digits=8"),
    ],
)
def test_what_is_said_of_one_part_gives_way_to_what_is_said_of_its_level(config: dict[str, Any], level: str) -> None:
    assert part_level(config, "instrument") == level


def test_options_are_levels_factors_and_constants() -> None:
    assert levels(study(factors='instrument = ["sysbench-cpu:primes=5000", "sysbench-memory"]')) == [
        "sysbench-cpu:primes=5000", "sysbench-memory"
    ]  # fmt: skip
    factor = study(factors='instrument = ["sysbench-cpu"]\n"instrument.threads" = [1, 2]')
    assert levels(factor) == ["sysbench-cpu:threads=1", "sysbench-cpu:threads=2"]
    one = study(
        '[settings]\n"instrument.sysbench-cpu.primes" = 3000', 'instrument = ["sysbench-cpu", "sysbench-memory"]'
    )
    assert levels(one) == ["sysbench-cpu:primes=3000", "sysbench-memory"]


def test_an_option_of_one_part_is_a_factor_where_every_treatment_has_the_part() -> None:
    primes = '"instrument.sysbench-cpu.primes" = [1000, 2000]'
    factor = study(factors=f'instrument = ["sysbench-cpu"]\n{primes}')
    assert levels(factor) == ["sysbench-cpu:primes=1000", "sysbench-cpu:primes=2000"]
    with pytest.raises(StudyError, match="not every treatment has it: instrument pi") as refused:
        study(factors=f'instrument = ["sysbench-cpu", "pi"]\n{primes}')
    assert "'sysbench-cpu:primes=VALUE'" in str(refused.value.hint)
    with pytest.raises(StudyError, match="has no effect in the instrument 'sysbench-cpu:primes=9'"):
        study(factors=f'instrument = ["sysbench-cpu:primes=9"]\n{primes}')
    with pytest.raises(StudyError, match=r"has no effect beside instrument\.primes"):
        study(factors=f'instrument = ["sysbench-cpu"]\n"instrument.primes" = [7, 8]\n{primes}')


def test_a_value_out_of_bounds_is_refused_wherever_it_stands() -> None:
    with pytest.raises(StudyError, match="at least 3"):
        study('[settings]\n"instrument.sysbench-cpu.primes" = 2')
    with pytest.raises(StudyError, match="no factor or setting of this name"):
        study('[settings]\n"instrument.sysbench-cpu.prime" = 2000')


def test_profiles_change_durations_and_amounts_of_work() -> None:
    profile = '[profiles.quick]\n"instrument.sysbench-cpu.events" = 500\n"instrument.time_s" = 1\nlimit_s = 60'
    quick = study(profile).with_profile("quick")
    assert levels(quick) == ["sysbench-cpu:events=500,time_s=1"]
    with pytest.raises(
        StudyError, match="a profile can change only replicates, durations, amounts of work, tools, CPUs and memory"
    ):
        study('[profiles.quick]\n"instrument.sysbench-cpu.primes" = 500')


def test_the_metrics_of_a_study_are_those_of_its_instruments() -> None:
    names = [metric.name for metric in study().metrics]
    assert names[0] == "time_host"
    assert "cpu_events" in names and "host_cpus" in names
    assert "memory_bandwidth" not in names
    both = study(factors='instrument = ["sysbench-cpu:primes=9", "sysbench-memory"]')
    assert {"cpu_events", "memory_bandwidth"} <= {metric.name for metric in both.metrics}
    assert "memory_bandwidth" in {metric.name for metric in study().all_metrics}


def test_instruments_of_links_are_none_of_compute() -> None:
    with pytest.raises(StudyError, match="no instrument is named 'ping'"):
        study(factors='instrument = ["ping"]')


def test_editors_know_options_of_one_part_as_constants_and_as_factors() -> None:
    tables = json_schema(schemas())["$defs"]["compute"]
    name = "instrument.sysbench-cpu.primes"
    assert tables["properties"]["settings"]["properties"][name]["minimum"] == 3
    assert tables["properties"]["factors"]["properties"][name]["items"]["minimum"] == 3
    assert "instrument.sysbench-cpu.events" in tables["$defs"]["ProfileTable"]["properties"]


def test_a_part_is_made_of_its_level() -> None:
    assert make_part(Workload, "sysbench-cpu:primes=7,threads=3").chosen["primes"] == 7
    with pytest.raises(Unavailable, match="instrument sysbench-cpu has no option 'digits'"):
        make_part(Workload, "sysbench-cpu:digits=7")
    with pytest.raises(InputError, match="at least 3"):
        make_part(Workload, "sysbench-cpu:primes=1")
