"""`lastro decide`: the answer, what it is based on, and what a gate does with it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.analysis.breaking_points import BrokenLevel
from lastro.app.campaigns import begin
from lastro.builders.decision_tables import dose_text
from lastro.errors import InputError
from lastro.stats.intervals import Estimate, Interval
from lastro.study.service_level import ServiceLevel
from lastro.words.language import ENGLISH

from ..support.campaigns import METRICS, PROVENANCE, Levels, make_campaign, make_study, plausible_value
from .conftest import is_error, lastro

LEVELS = ("--sla", "throughput >= 15 Gbit/s", "--sla", "latency_mean < 0.08 ms")
BOTH = "throughput ≥ 15000 Mbit/s and latency_mean ≤ 0.08 ms"
RATES = {"native": 21_000.0, "runc": 18_000.0, "docker": 14_000.0, "lxc": 15_700.0}
COSTS = {"native": 1.0, "runc": 0.4, "docker": 0.2, "lxc": 0.3}


def value(levels: Levels, block: int, metric: str) -> float:
    noise = plausible_value(levels, block, metric) / plausible_value(levels, 1, metric)
    name = str(levels["platform"])
    if metric == "throughput":
        return RATES[name] * noise * (0.94 if levels["anomaly"] == "cpu" else 1.0)
    return (COSTS[name] if metric == "jitter" else 0.04) * noise


def campaign(home: Path, provenance: dict[str, Any] | None = None, **changes: object) -> Path:
    factors = {"platform": tuple(RATES), "anomaly": ("none", "cpu")}
    study = make_study(factors, replicates=6, metrics=METRICS[:3], **changes)  # type: ignore[arg-type]
    return make_campaign(home / "c", study, value=value, provenance=provenance)


def test_the_answer_names_the_cheapest_that_holds_and_what_may_be_cheaper(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    done = lastro("decide", directory, *LEVELS, "--cost", "jitter")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert text.startswith(f"runc holds {BOTH} with a probability of > 99 %, worst beside cpu.")
    assert "It costs 0.4" in text and "lxc may cost less, but may not hold them" in text
    assert "4 candidates, in each of 2 conditions." in text
    found = lastro("decide", directory, *LEVELS, "--cost", "jitter", "--json").json
    assert (found["verdict"], found["recommended"]) == ("recommended", "runc")
    verdicts = {each["label"]: each["verdict"] for each in found["candidates"]}
    assert verdicts == {"runc": "holds", "native": "holds", "lxc": "undecided", "docker": "does not hold"}
    assert found["levels"][0] == {"metric": "throughput", "unit": "Mbit/s", "limit": 15000.0, "at_least": True}
    worst = next(each for each in found["candidates"] if each["label"] == "docker")["limits"][0]
    assert worst["condition"] == "anomaly = cpu" and worst["high"] < 15000


def test_what_would_change_the_answer(tmp_path: Path) -> None:
    """The recommended runc holds a little more than the level, and native much more."""
    args = ("decide", campaign(tmp_path), *LEVELS, "--cost", "jitter")
    rate, _ = lastro(*args, "--json").json["changes"]
    assert rate["metric"] == "throughput" and 15_000 < rate["limit"] < 0.94 * RATES["runc"]
    assert rate["beyond"]["candidate"] == "native" and rate["limit"] < rate["beyond"]["limit"] < RATES["native"]
    text = " ".join(lastro(*args).out.split())
    assert "What would change the answer" in text and "Beyond that, native remains, until ≥ " in text
    nothing = ("decide", tmp_path / "c", "--sla", "throughput >= 40 Gbit/s")
    assert lastro(*nothing, "--json").json["changes"] == [] and "would change" not in lastro(*nothing).out


def test_each_of_few_levels_has_a_column(tmp_path: Path) -> None:
    args = ("decide", campaign(tmp_path), *LEVELS, "--format", "md")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lastro(*args).out.splitlines() if "|" in line]
    assert rows[0][2:] == ["holds", "throughput (≥ 15000 Mbit/s)", "latency_mean (≤ 0.08 ms)", "next trial holds"]
    by_name = {row[0]: row for row in rows[2:6]}
    assert re.fullmatch(r"1[67]\d{3} \(&gt; 99 %\)", by_name["runc"][3])
    assert re.fullmatch(r"1[23]\d{3} \(&lt; 1 %\)", by_name["docker"][3])
    many = ("--sla", "jitter < 9 ms", "--sla", "throughput < 90 Gbit/s")
    table = lastro(*args, *many).out
    assert "| next trial holds |" in table and "| throughput (≥" not in table


def test_the_same_document_in_every_form(tmp_path: Path) -> None:
    file, args = tmp_path / "choice.html", ("decide", campaign(tmp_path), *LEVELS, "--cost", "jitter")
    assert lastro(*args, "--format", "html", "-o", file).out == f"{file}\n"
    forms = {form: lastro(*args, "--format", form).out for form in ("text", "md", "latex")}
    forms |= {"html": file.read_text(encoding="utf-8"), "pt": lastro(*args, "--format", "md", "--lang", "pt-BR").out}
    marks = {"text": "✓ holds", "md": "| runc |", "latex": r"\toprule", "html": "<svg ", "pt": "✓ cumpre"}
    assert [form for form, mark in marks.items() if mark not in forms[form]] == []
    for words in ("worst beside cpu", "What would change the answer", "is at most 5"):
        assert [form for form, text in forms.items() if words not in " ".join(text.split())] == ["pt"], words
    both = lastro(*args, "--format", "md", "--json")
    assert both.code == 2 and "not allowed with" in both.err


def test_only_the_conditions_that_are_asked_for_count(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    done = lastro("decide", directory, *LEVELS, "--under", "anomaly=none", "--json").json
    assert done["given"] == {"anomaly": "none"} and done["conditions"] == [""] and done["cost"] is None
    for where, place in (("cpu", "beside cpu"), ("none", "without a neighbour")):
        text = " ".join(lastro("decide", directory, *LEVELS, "--under", f"anomaly={where}").out.split())
        assert text.startswith(
            "native holds throughput ≥ 15000 Mbit/s and latency_mean ≤ 0.08 ms " + place + " with"
        ), text
    is_error(lastro("decide", directory, *LEVELS, "--under", "anomaly=dsk"), 2, "has no level 'dsk'")
    is_error(lastro("decide", directory, *LEVELS, "--under", "neighbor=cpu"), 2, "no factor 'neighbor'")
    is_error(lastro("decide", directory, *LEVELS, "--under", "cpu"), 2, "is not FACTOR=LEVEL")


@pytest.mark.parametrize(
    ("choices", "under", "candidates"),
    [
        ({"platform": ("runc", "lxc", "docker")}, "platform=runc", ["runc"]),
        ({"platform": ("runc", "lxc", "docker")}, "platform=runc,lxc", ["runc", "lxc"]),
        ({"platform": ("runc", "lxc"), "attachment": ("nat", "routed")}, "platform=runc", ["nat", "routed"]),
        ({"platform": ("runc",)}, "anomaly=none,cpu", ["runc"]),
    ],
)
def test_a_candidate_has_the_name_of_its_levels_though_they_are_asked_for(
    tmp_path: Path, choices: dict[str, tuple[str, ...]], under: str, candidates: list[str]
) -> None:
    """A platform is a condition where a link is left to choose; where nothing is, the question is about platforms."""
    study = make_study({**choices, "anomaly": ("none", "cpu")}, replicates=6, metrics=METRICS[:3])
    directory = make_campaign(tmp_path / "c", study, value=value)
    found = lastro("decide", directory, *LEVELS, "--under", under, "--json").json
    assert [each["label"] for each in found["candidates"]] == candidates
    assert found["given"] == ({"platform": "runc"} if "attachment" in choices else {})


def test_a_gate_fails_where_none_holds_and_where_nothing_is_decided(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    for level, code in (("15 Gbit/s", 0), ("40 Gbit/s", 4), ("20.3 Gbit/s", 8)):
        done = lastro("decide", directory, "--sla", f"throughput >= {level}", "--require", "95%")
        assert done.code == code, done.out
    done = lastro("decide", directory, "--sla", "throughput >= 40 Gbit/s")
    assert "No candidate holds throughput ≥ 40000 Mbit/s." in done.out


def test_levels_and_cost_are_those_of_the_study_unless_others_are_given(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    is_error(lastro("decide", directory), 2, "no service level to decide by")
    is_error(lastro("decide", directory, "--sla", "throughput >= 2 ms"), 2, "is not in Mbit/s")
    is_error(lastro("decide", directory, "--sla", "speed > 2"), 2, "no metric is named 'speed'")


@pytest.mark.parametrize("n", [1])
def test_one_block_decides_nothing(tmp_path: Path, n: int) -> None:
    study = make_study({"platform": ("native", "runc")}, replicates=n, metrics=METRICS[:1])
    directory = make_campaign(tmp_path / "c", study)
    is_error(lastro("decide", directory, "--sla", "throughput > 1"), 2, "at least two blocks")


def test_a_level_whose_metric_has_no_values_ends_no_other_command(tmp_path: Path) -> None:
    """Such as a latency that is measured on a single chain only."""

    study = make_study(
        {"platform": ("native", "runc")}, replicates=3, metrics=METRICS[:3], sla={"latency_mean": "< 1 ms"}
    )

    def rates_only(levels: Levels, block: int, metric: str) -> float | None:
        return plausible_value(levels, block, metric) if metric == "throughput" else None

    directory = make_campaign(tmp_path / "c", study, value=rates_only)
    assert lastro("results", directory).code == lastro("report", directory, "-o", "-").code == 0
    is_error(lastro("decide", directory), 2, "needs values of at least two blocks")


HOSTILE = [
    (("--sla", "throughput >= 1e400"), "is not a number with a unit"),
    (("--sla", "throughput <= 1" + "0" * 400 + " Gbit/s"), "is not a number with a unit"),
    (("--sla", "throughput >= nan"), "is not a number with a unit"),
    (("--sla", "throughput >= ١٥ Gbit/s"), "is not a number with a unit"),
    (("--sla", ""), "is not a service level"),
    (("--cost", ""), "is not a cost"),
    (("--cost", "1e400*jitter"), "a weight is above 1e+30"),
    (("--cost", "1e30*jitter + 1e30*jitter"), "a weight is above 1e+30"),
    (("--prices", ""), "is not the price of a resource"),
    (("--prices", "cpu_hour"), "--prices cpu_hour=0.04"),
    (("--prices", "cpu_hour=-1"), "--prices cpu_hour=0.04"),
    (("--prices", "cpu_hour=1,cpu_hour=2"), "--prices cpu_hour=0.04"),
    (("--under", ""), "is not FACTOR=LEVEL"),
    (("--require", ""), "is not a requirement"),
    (("--require", "95%", "--require", "50%"), "several confidences: 95%, 50%"),
    (("--require", "٩٥%"), "is not a fraction"),
    (("--weights", ""), "--weights is for campaigns of several studies"),
]


def test_each_hostile_option_is_one_error_that_names_it(tmp_path: Path) -> None:
    directory = campaign(tmp_path)
    for options, words in HOSTILE:
        is_error(lastro("decide", directory, *LEVELS, *options), 2, words)


@pytest.mark.parametrize("form", [(), ("--json",), ("--cost", "jitter")])
def test_a_metric_without_any_value_leaves_every_candidate_unmeasured(tmp_path: Path, form: tuple[str, ...]) -> None:
    levels = {"jitter": "< 0.5 ms", "throughput": "> 1 Mbit/s"}
    study = make_study({"platform": tuple(RATES)}, replicates=3, metrics=METRICS[:2], sla=levels)
    directory = make_campaign(
        tmp_path / "c", study, value=lambda levels, block, metric: None if metric == "jitter" else 5.0 + block
    )
    done = lastro("decide", directory, *form)
    assert (done.code, done.err) == (0, "")
    if form == ("--json",):
        assert done.json["verdict"] == "undecided" and all(each["missing"] for each in done.json["candidates"])
    else:
        assert "No candidate was measured in every condition." in done.out
    for command in ("results", "report"):
        again = lastro(command, directory, *(("-o", "-", "--format", "md") if command == "report" else ()))
        assert (again.code, again.err) == (0, "")


def test_a_level_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    found = lastro("decide", campaign(tmp_path), *LEVELS, *LEVELS, "--json").json
    assert [each["metric"] for each in found["levels"]] == ["throughput", "latency_mean"]


def test_it_answers_in_portuguese(tmp_path: Path) -> None:
    done = lastro("decide", campaign(tmp_path), *LEVELS, "--cost", "jitter", "--lang", "pt-BR")
    assert "runc cumpre throughput ≥ 15000 Mbit/s" in " ".join(done.out.split())


def test_a_campaign_of_a_study_with_levels_ends_with_the_decision(tmp_path: Path) -> None:
    levels = {"throughput": ">= 15 Gbit/s", "latency_mean": "< 0.08 ms"}
    directory = campaign(tmp_path, sla=levels, cost={"jitter": 1.0})
    sentence = f"runc holds {BOTH} with a probability of > 99 %, worst beside cpu."
    for done in (lastro("decide", directory), lastro("results", directory)):
        assert sentence in " ".join(done.out.split())
    page, markdown, paper = (
        lastro("report", directory, "-o", "-", "--format", form).out for form in ("html", "md", "latex")
    )
    sentence = sentence.replace(">", "&gt;").replace(" %", "\N{NO-BREAK SPACE}%")
    assert page.index(sentence) < page.index('id="decision"') < page.index('id="trials"')
    assert markdown.index("runc holds throughput") < markdown.index("## Which one?") and "Which one?" in paper
    for text in (page, markdown, paper):
        assert "What would change the answer" in text and "is at most 5" in text
    assert "Cost against service" in page and "the candidates that no other beats in both" in page


def test_what_the_paper_recommends_and_whether_this_host_agrees(tmp_path: Path) -> None:
    """Limits cost more here, and keep more beside the neighbour."""

    def value(levels: Levels, block: int, metric: str) -> float:
        noise = plausible_value(levels, block, metric) / plausible_value(levels, 1, metric)
        limited, disturbed = levels["isolation"] == "cgroups", levels["anomaly"] == "cpu"
        rate = 18_000 if limited or not disturbed else 14_000
        return noise * {"throughput": rate, "jitter": 0.4 if limited else 0.2, "latency_mean": 0.04}[metric]

    plain = make_study(
        {"isolation": ("none", "cgroups"), "anomaly": ("none", "cpu")}, replicates=6, metrics=METRICS[:3]
    )
    for name in ("kagami2017", "small"):
        make_campaign(tmp_path / name, replace(plain, name=name), value=value)

    def said(level: str, *options: str, name: str = "kagami2017") -> str:
        done = lastro("decide", tmp_path / name, "--sla", f"throughput >= {level} Mbit/s", *options)
        return " ".join(done.out.split())

    assert "The source recommends cgroups and cgroups+apparmor (section 6, second and third paragraphs)" in said(
        "16000"
    )
    assert "This host agrees: cgroups holds the levels." in said("16000")
    assert "cgroups holds the levels here, too, but costs more than isolation=none." in said(
        "12000", "--cost", "jitter"
    )
    assert "This host says otherwise" in said("40000")
    found = lastro("decide", tmp_path / "kagami2017", "--sla", "throughput >= 16000 Mbit/s", "--json").json
    middle = found["candidates"][0]["limits"][0]["mean"]
    assert re.search(r"leaves that open: cgroups holds the levels with a probability of \d\d %", said(f"{middle:.0f}"))
    assert "A fonte recomenda" in said("16000", "--lang", "pt-BR") and "source" not in said("16000", name="small")


def test_a_candidate_without_a_required_property_is_none(tmp_path: Path) -> None:
    found = {name: {"own_kernel": {"value": name == "lxc", "at_least": False, "text": "no", "how": "boot id"}}
             for name in RATES if name != "docker"}  # fmt: skip
    directory = campaign(tmp_path, provenance=PROVENANCE | {"properties": {"platform": found}})
    args = ("decide", directory, "--sla", "throughput >= 12 Gbit/s", "--require")
    done = lastro(*args, "own-kernel", "--json").json
    assert (done["recommended"], done["required"]) == ("lxc", ["own_kernel"])
    assert [each["label"] for each in done["candidates"]] == ["lxc"]
    why = {each["label"]: each["gaps"][0] for each in done["lacking"]}
    assert why["docker"] == "own_kernel of docker is not known: the campaign did not look for it"
    assert why["runc"] == "own_kernel of runc: no (boot id)" and "native" in why
    text = lastro(*args, "own-kernel").out
    assert "✕ requirement not met" in text and "Required: own_kernel." in text
    portuguese = " ".join(lastro(*args, "own-kernel", "--lang", "pt-BR").out.split())
    assert "docker: own_kernel de docker é desconhecido: a campanha não o procurou" in portuguese
    assert "runc: own_kernel de runc: não (boot id)" in portuguese and "Requisitos não atendidos" in portuguese
    none = lastro(*args, "own-kernel", "--require", "interfaces >= 8", "--require", "95%")
    assert none.code == 4 and "No candidate meets all requirements: own_kernel and interfaces ≥ 8." in none.out
    is_error(lastro(*args, "own-kernl"), 2, "did you mean 'own_kernel'?")
    is_error(lastro(*args, "95%", "--prices", "cpu=1"), 2, "did you mean 'cpu_hour'?")


def test_a_wish_decides_between_candidates_of_like_cost(tmp_path: Path) -> None:
    own = {"own_kernel": {"value": True, "text": "yes", "how": "boot id"}, "daemon": {"value": True, "text": "yes"}}
    directory = campaign(tmp_path, provenance=PROVENANCE | {"properties": {"platform": {"lxc": own}}})
    args = ("decide", directory, "--sla", "throughput >= 12 Gbit/s")
    assert lastro(*args, "--cost", "latency_mean", "--json").json["recommended"] == "native"
    found = lastro(*args, "--cost", "latency_mean", "--wish", "own-kernel", "--wish", "no daemon", "--json").json
    assert (found["recommended"], found["wished"]) == ("lxc", ["own_kernel", "no daemon"])
    assert {each["label"]: each["wishes"] for each in found["candidates"]}["lxc"] == [True, False]
    assert [each["verdict"] for each in found["candidates"]] == ["holds"] * 4, "none is left out for a wish"
    text = " ".join(lastro(*args, "--cost", "latency_mean", "--wish", "own-kernel", "--wish", "no daemon").out.split())
    assert "Of what is wished, it has own_kernel, and lacks no daemon, and so comes before native." in text
    assert "✓ own_kernel, ✕ no daemon" in text and "? own_kernel, ? no daemon" in text
    dearer = " ".join(lastro(*args, "--cost", "jitter", "--wish", "own-kernel").out.split())
    assert dearer.startswith("docker holds") and "It lacks what is wished (own_kernel)." in dearer, (
        "the cheaper is first"
    )
    free = " ".join(lastro(*args, "--wish", "own-kernel").out.split())
    assert "It has what is wished (own_kernel), and so comes before native." in free


def test_a_campaign_that_did_not_look_for_properties_says_so(tmp_path: Path) -> None:
    is_error(lastro("decide", campaign(tmp_path), *LEVELS, "--require", "own-kernel"), 2, "did not look for properties")


def test_where_a_level_breaks_along_a_factor_of_numbers(tmp_path: Path) -> None:
    """The load of a neighbour in percent: Docker breaks between 50 and 75, native nowhere, LXC everywhere."""
    rates = {"native": (21, 20, 19, 18), "docker": (18, 17, 16, 13), "lxc": (14, 13, 12, 11)}
    doses = (0, 50, 60, 75)

    def value(levels: Levels, block: int, metric: str) -> float:
        rate = rates[str(levels["platform"])][doses.index(int(levels["step"]))]
        return 1000 * rate * (1 + 0.004 * math.sin(9 * block + rate))

    study = make_study({"platform": tuple(rates), "step": doses}, replicates=4, metrics=METRICS[:1])
    directory = make_campaign(tmp_path / "c", study, value=value)
    done = lastro("decide", directory, "--sla", "throughput >= 15 Gbit/s", "--json").json
    found = {each["candidate"]: (each["low"], each["high"]) for each in done["breaks"]}
    assert found == {"native": (75, None), "docker": (60, 75), "lxc": (None, 0)}
    assert {tuple(each["doses"]) for each in done["breaks"]} == {(0, 75)}
    text = lastro("decide", directory, "--sla", "throughput >= 15 Gbit/s").out
    assert "Where a level breaks" in text and "never broke up to 75" in text and "at 0 or below" in text
    assert "[60, 75]" in text
    at = lastro("decide", directory, "--sla", "throughput >= 15 Gbit/s", "--at", "step=0.05k,75%", "--json").json
    assert {each["candidate"]: (each["low"], each["high"]) for each in at["breaks"]}["docker"] == (50, 75)


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ((80.0, 50.0, math.inf), "80.0 [50, > 100]"),
        ((math.inf, 50.0, math.inf), "> 100 [50, > 100]"),
        ((62.0, -math.inf, math.inf), "62.0 [≤ 0, > 100]"),
        ((math.inf, 100.0, math.inf), "never broke up to 100"),
        ((-math.inf, -math.inf, 50.0), "at 50 or below"),
        (None, "—"),
    ],
)
def test_a_dose_beyond_those_that_were_measured_is_a_bound(point: tuple[float, float, float] | None, text: str) -> None:
    level = ServiceLevel.parse("throughput >= 15 Gbit/s", METRICS)
    at = point and Estimate(point[0], Interval(*point[1:], 0.95), 8000)
    assert dose_text(BrokenLevel("step", level, 0, "", (0.0, 100.0), at), ENGLISH) == text


def test_a_factor_of_numbers_is_held_at_a_value_that_was_measured(tmp_path: Path) -> None:
    """The rate falls with the offered load; both candidates hold the level at the smaller one."""

    def loaded(levels: Levels, block: int, metric: str) -> float:
        noise = 1 + 0.002 * math.sin(9 * block + len(str(levels["platform"])))
        return noise * (18_000.0 if levels["load"] == 100_000 else 14_000.0)

    study = make_study({"platform": ("native", "lxc"), "load": (100_000, 200_000)}, metrics=METRICS[:1])
    args = ("decide", make_campaign(tmp_path / "c", study, value=loaded), "--sla", "throughput >= 15 Gbit/s")
    assert lastro(*args, "--json").json["verdict"] == "none"
    for text in ("100kpps", "100000", "0.1M", "100 kfps"):
        at = lastro(*args, "--at", f"load={text}", "--json").json
        assert (at["verdict"], at["given"]) == ("recommended", {"load": "100000"}) and at["breaks"] == []
    assert lastro(*args, "--under", "load=200kpps", "--json").json["given"] == {"load": "200000"}
    is_error(lastro(*args, "--at", "load=150kpps"), 2, "not measured at 150kpps", "it has 100000, 200000")
    is_error(lastro(*args, "--at", "load=100Mbit/s"), 2, "not measured at 100Mbit/s")
    is_error(lastro(*args, "--at", "load=much"), 2, "has no level 'much'")
    is_error(lastro(*args, "--at", "platform=lxc"), 2, "levels of platform are not numbers")
    is_error(lastro(*args, "--at", "load=100kpps", "--under", "load=100000"), 2, "both have levels of load")


@pytest.mark.parametrize("table", ["require", "wish"])
def test_a_fleet_cannot_find_the_properties_that_a_study_requires(tmp_path: Path, table: str) -> None:
    study = make_study({"platform": ("native", "runc")}, **{table: {"own_kernel": True}})
    fleet: Any = SimpleNamespace()
    with pytest.raises(InputError, match="no properties are found"):
        begin(tmp_path / "c", study, wait=False, fleet=fleet)
    assert not (tmp_path / "c").exists()
