"""Papers with several studies: each study loads and plans, and its claims are judged on synthetic campaigns."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lastro import papers, registry
from lastro.analysis.build import build_report
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.claim import Claim
from lastro.analysis.claims.kinds.additive import Additive
from lastro.analysis.claims.kinds.alike import Alike
from lastro.analysis.claims.kinds.compare import Compare
from lastro.analysis.claims.kinds.extreme import Extreme
from lastro.analysis.claims.kinds.order import Order
from lastro.analysis.claims.kinds.recovery import Recovery
from lastro.analysis.claims.load import load_claims
from lastro.app.studies import suite_of
from lastro.campaign.duration import forecast
from lastro.cli._matrix import absent_lines
from lastro.errors import InputError
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.study.design import treatments
from lastro.study.json_schema import json_schema
from lastro.study.levels import split_options
from lastro.study.load import load
from lastro.study.model import Study
from lastro.study.selection import Selection
from lastro.words.claims import reason_text, verdict_text
from lastro.words.language import LANGUAGES

from ...support.caches import LARGE, cache_of
from ...support.campaigns import Levels, make_campaign
from ...support.products import some

MEMBERS = [*papers.studies("mendes2019"), *papers.studies("trindade2018")]
BLOCKS = 6
# What each paper measured, of the factors to which its studies add levels.
EMULATED = tuple(f"trindade2018/{name}" for name in ("cpu", "memory", "uplink", "application"))
PUBLISHED: dict[str, dict[str, tuple[Any, ...]]] = {
    "mendes2019/cpu": {"platform": ("docker", "lxd")},
    "mendes2019/memory": {"platform": ("docker", "lxd")},
    "mendes2019/disk": {"platform": ("docker:storage=devicemapper", "lxd:storage=zfs")},
    "mendes2019/gzip": {"instrument": ("pts:test=pts/compress-gzip",)},
    "trindade2018/cpu": {"instrument": ("y-cruncher:threads=0", "sysbench-cpu:primes=200000")},
    "trindade2018/cpu-size": {"platform": ("native", "docker", "lxc", "virtualbox", "kvm")},
    "trindade2018/memory": {"platform": ("native", "docker", "lxc", "virtualbox", "kvm")},
    "trindade2018/disk": {"instrument.files": (25, 50, 100)},
    "trindade2018/uplink": {"offered": ("1G", "100%", "120%"), "attachment": ("nat",), "instrument": ("iperf2-udp",)},
    "trindade2018/application": {"server": ("mysql",), "client": ("inside",), "mode": ("read-only",)},
}
_MISSING = (  # a usual host without hardware virtualization
    "kvm", "virtualbox", "y-cruncher", "pts", "lxd:storage=zfs", "incus", "docker:storage=aufs",
    "docker:storage=devicemapper", "mysql",
)  # fmt: skip
_NOISE = 1e-4  # the smallest published effect is 0.29 %


def study_of(member: str) -> Study:
    study = load(papers.find(member), schemas())
    return replace(study, design=replace(study.design, replicates=BLOCKS))


def claims_of(study: Study) -> tuple[Claim, ...]:
    file = papers.claims(study.name)
    assert file is not None
    return load_claims(file, study).claims


def judged(member: str, directory: Path, **options: Any) -> dict[str, Judgement]:
    study = study_of(member)
    make_campaign(directory, study, **{"value": published_value, "notes": lambda levels, block: {}, **options})
    with Store.open(directory) as store:
        report = build_report(load_campaign(store))
    file = papers.claims(study.name)
    assert file is not None
    return {one.claim.id: one for one in judge(load_claims(file, study), report)}


# A world in which what was published is so

_SECONDS = {"native": 200.0, "docker": 200.0, "lxc": 200.0, "virtualbox": 0.0, "kvm": 210.0, "qemu-tcg": 3000.0}
_LOSS = {"y-cruncher": 50.0, "pi": 50.0, "sysbench-cpu": 102.0}  # of VirtualBox, in seconds
_LOOPS = {"virtualbox": 0.7, "kvm": 0.92, "qemu-tcg": 0.1}
_FILES = {"docker": 0.75, "lxc": 0.85, "virtualbox": 0.96, "kvm": 0.97, "qemu-tcg": 0.5}
_SEEKS = {"docker": 0.99, "lxc": 0.9, "virtualbox": 0.5, "kvm": 0.6, "qemu-tcg": 0.3}
_UDP = {"virtualbox": 511 / 815, "kvm": 672 / 815, "qemu-tcg": 0.3}
_QUERIES = {"native": 10.0, "docker": 14.0, "lxc": 20.0, "kvm": 18.0, "virtualbox": 40.0, "qemu-tcg": 90.0}
_LXD = ("lxd", "incus")
_CLIENTS: dict[int, dict[str, float]] = {
    6: {"docker": 25.09, "lxd": 133.67},
    12: {"docker": 40.58, "lxd": 230.33},
    128: {"docker": 106.67, "lxd": 321.33},
    256: {"docker": 96.77, "lxd": 314.33},
}


def published_value(levels: Levels, block: int, metric: str) -> float | None:
    """What this trial would measure; None for a metric that its workload does not bring."""
    mean = _mean(levels, metric)
    noise = random.Random(f"{sorted(levels.items())}:{block}:{metric}").gauss(0, _NOISE)
    return None if mean is None else mean * (1 + noise)


def _mean(levels: Levels, metric: str) -> float | None:
    platform, tool = (str(levels.get(name, "")).partition(":")[0] for name in ("platform", "instrument"))
    if metric.startswith("stream_"):
        return None if tool not in ("stream", "") else 9000 * (1.015 if platform in _LXD else _loops(platform, levels))
    if metric in ("y_cruncher_computation", "pi_computation") or tool in _LOSS:
        alone = {"y_cruncher_computation": "y-cruncher", "pi_computation": "pi", "time_host": tool}.get(metric)
        return _SECONDS[platform] or _SECONDS["native"] + _LOSS[tool] if alone == tool else None
    if metric.startswith(("bonnie_", "fio_")):
        seeks = metric in ("bonnie_seeks", "fio_random_reads")
        volume = "place=volume" in str(levels["platform"])  # no layers, and no copies of files
        return 400 * (_SEEKS if seeks else _FILES).get("native" if volume else platform, 1.0)
    if metric == "udp_throughput":
        bridged = platform == "virtualbox" and "network=nat" not in str(levels["platform"])
        return 815 * _UDP.get(platform, 1.0) * (1.1 if bridged else 1.0)
    if metric == "john_rate":
        return 900 * (1.0029 if platform in _LXD else 1.0)
    if metric in ("memory_bandwidth", "copy_bandwidth"):
        brings = {"memory_bandwidth": "sysbench-memory", "copy_bandwidth": "mbw"}[metric]
        return 7000 * (1.15 if platform in _LXD else 1.0) if tool == brings else None
    if metric == "pts_result" and "ramspeed" in str(levels["instrument"]):
        return 8000 * (1.15 if platform in _LXD else 1.0)
    if metric == "dbench_throughput":
        return _CLIENTS[int(levels["instrument.clients"])].get("lxd" if platform in _LXD else platform, 400.0)
    if metric in ("time_host", "gzip_rate", "pts_seconds") and tool in ("gzip", "pts"):
        seconds = 120.0 if platform in _LXD else 100.0
        return 2048 / seconds if metric == "gzip_rate" else seconds
    if metric == "time_host" and "mode" in levels:
        return _QUERIES[platform]
    return 1.0


def _loops(platform: str, levels: Levels) -> float:
    few = int(levels.get("instrument.threads", 0)) < 2000
    return 0.9 if platform == "virtualbox" and few else _LOOPS.get(platform, 1.0)


# What the files say


def test_the_comments_of_studies_and_claims_fit_on_a_screen() -> None:
    long = [
        f"{path.name}:{number}"
        for path in Path(papers.__file__).parent.rglob("*.toml")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.startswith("#") and len(line) > 120
    ]
    assert not long


@pytest.mark.parametrize("member", MEMBERS)
def test_a_study_of_a_paper_names_itself_and_has_claims(member: str) -> None:
    study = study_of(member)
    assert study.name == member.replace("/", "-")
    more = {"published": member in PUBLISHED, "emulated": member in EMULATED}
    assert set(study.profiles) == {"quick", "standard", "paper", *(name for name, has in more.items() if has)}
    assert study.title and study.description
    assert claims_of(study)


@pytest.mark.parametrize("member", EMULATED)
def test_the_profile_for_an_emulated_guest_has_the_papers_platforms_and_minutes_of_work(member: str) -> None:
    study = load(papers.find(member), schemas()).with_profile("emulated")
    kept = {str(row.levels["platform"]).partition(":")[0] for row in treatments(study)}
    assert kept == {"native", "docker", "lxc", "virtualbox", "kvm"} and study.settings["memory"] == "512M"
    assert forecast(study, registry.get("scenario", study.scenario), treatments(study)).total_s < 300


@pytest.mark.parametrize("member", PUBLISHED)
def test_the_profile_published_holds_what_the_paper_measured_alone(member: str) -> None:
    study = load(papers.find(member), schemas())
    kept, whole = study.with_profile("published"), study.with_profile("paper")
    for name, levels in PUBLISHED[member].items():
        assert {row.levels[name] for row in treatments(kept)} == set(levels), name
    assert kept.design.replicates == whole.design.replicates and kept.settings == whole.settings
    scenario = registry.get("scenario", study.scenario)
    assert forecast(kept, scenario, treatments(kept)).total_s < forecast(whole, scenario, treatments(whole)).total_s


@pytest.mark.parametrize("paper", ["eiras2018", "mendes2019", "trindade2018"])
def test_a_suite_runs_published_the_studies_that_have_the_profile(paper: str) -> None:
    given = suite_of(paper, Selection(profile="published"))
    assert given is not None
    have = {name for name in papers.studies(paper) if "published" in load(papers.find(name), schemas()).profiles}
    assert {f"{paper}/{study.name.removeprefix(f'{paper}-')}" for study in given.studies} == have


def test_editors_find_every_published_study_sound() -> None:
    validator = jsonschema.Draft202012Validator(json_schema(schemas()))
    for name in papers.names():
        document = tomllib.loads(papers.find(name).read_text(encoding="utf-8"))
        assert [error.message for error in validator.iter_errors(document)] == [], name


@pytest.mark.parametrize("name", [name for name in papers.names() if papers.claims(name.replace("/", "-"))])
def test_a_quick_look_runs_two_blocks_of_all_that_claims_name(name: str) -> None:
    """So it gives verdicts on a host that has everything; but for routing, where it has one hello interval of three."""
    study, file = load(papers.find(name), schemas()), papers.claims(name.replace("/", "-"))
    assert file is not None
    quick = study.with_profile("quick")
    assert quick.design.replicates >= 2
    rows = [{**quick.settings, **row.levels} for row in treatments(quick)]
    lacking = {
        claim.id
        for claim in load_claims(file, study).claims
        for side in sides_of(claim)
        for factor, levels in side.items()
        for level in levels
        if not any(row[factor] == level and all(row[key] in kept for key, kept in side.items()) for row in rows)
    }
    slower = {claim for claim in lacking if claim.endswith(("-5s", "-10s")) or "hello" in claim}
    assert lacking == (slower if name == "correa2011" else set())


def sides_of(claim: Claim) -> Iterator[Levels]:
    """Yield each choice of levels that a claim compares, with the levels at which it does."""
    said = claim.statement
    named = [side for key, side in said if key != "at" and isinstance(side, dict)]
    named += [side for group in getattr(said, "sides", ()) for side in group]
    named += [{said.factor: group} for group in said.falling] if isinstance(said, Order) and said.factor else []
    named += [{said.factor: said.levels}] if isinstance(said, Alike) else []
    yield from ({**said.at, **side} for side in named or [{}])


@pytest.mark.parametrize("member", MEMBERS)
def test_the_quick_profile_of_a_study_takes_minutes_where_only_software_virtualizes(member: str) -> None:
    study = study_of(member)
    assert 0 < quick_s(member) < 25 * 60
    assert study.with_profile("paper").design.replicates >= 30


@pytest.mark.parametrize("paper", ["mendes2019", "trindade2018"])
def test_the_quick_profile_of_a_whole_suite_is_short_where_only_software_virtualizes(paper: str) -> None:
    """25 minutes on two CPUs, less three for trials that must be repeated and for probes that fail late.

    The cache, by which STREAM's arrays are sized, is a large one, on whatever host this runs."""
    suite = tomllib.loads((papers.find(papers.studies(paper)[0]).parent / "suite.toml").read_text(encoding="utf-8"))
    with cache_of(LARGE):
        assert 0 < sum(quick_s(f"{paper}/{member}") for member in suite["studies"]) < 22 * 60


def quick_s(member: str) -> float:
    """Seconds that the quick profile is expected to take on a usual host."""
    study = study_of(member).with_profile("quick")
    here = [row for row in treatments(study) if not missing(row.levels)]
    return forecast(study, registry.get("scenario", study.scenario), here).total_s


@pytest.mark.parametrize("member", papers.studies("trindade2018"))
def test_what_a_machine_and_its_process_on_the_host_use_is_on_the_page(member: str) -> None:
    reported = {metric.name for metric in study_of(member).metrics}
    assert reported >= {"instance_cpus", "guest_cpus", "instance_memory", "guest_memory"}


@pytest.mark.parametrize("member", MEMBERS)
def test_claims_name_levels_that_the_study_has(member: str) -> None:
    """A level that is misspelt would be untestable for ever, in silence."""
    study = study_of(member)
    known = {factor.name: set(factor.levels) for factor in study.factors}
    for claim in claims_of(study):
        for name, level in levels_named(claim):
            assert level in known[name], (claim.id, name, level)
        for factor, levels in ((factor, levels) for each in claim.stand_in for factor, levels in each.levels.items()):
            assert known[factor].issuperset(other for others in levels.values() for other in others), claim.id


@pytest.mark.parametrize("member", MEMBERS)
def test_every_claim_of_a_study_has_its_place_and_its_portuguese(member: str) -> None:
    for claim in claims_of(study_of(member)):
        assert claim.where.startswith(("section ", "chapter ", "results ", "conclusion")), claim.id
        assert claim.text("pt-BR") != claim.text("en"), claim.id
        assert claim.published is None or claim.published.printed, claim.id


def test_what_a_paper_says_against_itself_is_told_in_portuguese_too() -> None:
    told = {}
    for name in papers.names():
        file = papers.claims(name.replace("/", "-"))
        for claim in load_claims(file, load(papers.find(name), schemas())).claims if file else ():
            if found := claim.contradicted_by:
                assert found.text("pt-BR") != found.text("en") and found.where, claim.id
                told[name] = told.get(name, 0) + 1
    assert told == {
        "correa2011": 2, "kagami2017": 3, "mendes2019/disk": 1, "trindade2018/disk": 8, "trindade2018/disk-fio": 8,
        "trindade2018/uplink": 4, "trindade2018/uplink-peer": 2,
    }  # fmt: skip


@pytest.mark.parametrize("member", MEMBERS)
def test_a_tolerance_is_half_of_the_published_effect(member: str) -> None:
    for claim in claims_of(study_of(member)):
        if claim.published is not None and claim.published.tolerance is not None:
            measure, figure = claim.published.judged
            effect = abs(figure - 1) if measure == "ratio" else abs(figure)
            # "fewer than 20" and "up to 28 s" are all from none on, and "almost 85 %" is less vague than half of it
            wanted = {"john-20": effect, "gzip-docker": effect, "dbench-85": 0.05}.get(claim.id, effect / 2)
            wanted = 0.15 if claim.id == "virtualbox-most" else wanted  # it holds a second reading
            assert claim.published.tolerance == pytest.approx(wanted, rel=0.01), claim.id


# As PAPERS.md has them, figure by figure: nothing here is computed from the files.
_DBENCH = {6: (25.09, 133.67), 12: (40.58, 230.33), 128: (106.67, 321.33), 256: (96.77, 314.33)}
_UDP_MBIT_S = {"docker": 814, "lxc": 814, "virtualbox": 511, "kvm": 672}
_LOOP_NAMES = ("copy", "scale", "add", "triad")
_HOSTS = ("docker", "lxc", "virtualbox", "kvm")  # chapter 8: "in all cases"
RATIOS = {
    "mendes2019/cpu": {"john-lxd": 1.0029},
    "mendes2019/memory": {
        **{f"stream-{loop}": 1.015 for loop in _LOOP_NAMES},
        **dict.fromkeys(("ramspeed", "ramspeed-copy"), 1.15),
    },
    "mendes2019/disk": {f"dbench-{clients}": lxd / docker for clients, (docker, lxd) in _DBENCH.items()},
    "trindade2018/memory": {f"{loop}-virtualbox-2000": 0.7 for loop in _LOOP_NAMES},
    "trindade2018/disk": {f"{way}-{name}-20": 0.8 for way in ("write", "read") for name in _HOSTS},
    "trindade2018/disk-fio": {f"{way}-{name}-20": 0.8 for way in ("write", "read") for name in _HOSTS},
    "trindade2018/uplink": {"virtualbox-udp": 511 / 815, "kvm-udp": 672 / 815, "virtualbox-40": 0.6, "kvm-40": 0.6},
}
SECONDS = {
    "mendes2019/gzip": {"gzip-docker": -14.0},  # "up to 28 s" is all from none to 28
    "trindade2018/cpu": {"y-cruncher-virtualbox-50-s": 50.0, "primes-virtualbox-102-s": 102.0},
}


@pytest.mark.parametrize("member", RATIOS)
def test_published_ratios_are_in_the_claims(member: str) -> None:
    found = {claim.id: claim.published.ratio for claim in claims_of(study_of(member)) if claim.published}
    assert {name: found[name] for name in RATIOS[member]} == pytest.approx(RATIOS[member], abs=6e-5)


@pytest.mark.parametrize("member", SECONDS)
def test_published_seconds_are_in_the_claims(member: str) -> None:
    published = {claim.id: claim.published for claim in claims_of(study_of(member)) if claim.published}
    for name, seconds in SECONDS[member].items():
        assert (published[name].difference, published[name].unit) == (seconds, "s"), name


def test_published_extremes_of_memory_are_in_the_claims() -> None:
    """Up to 40 % less is a ratio of 0.6 where it is least, up to 10 % one of 0.9; or 1 / 1.4, and 1 / 1.1."""
    claims = {claim.id: claim for claim in claims_of(study_of("trindade2018/memory"))}
    most = (("virtualbox", 0.6, 0.15), ("kvm", 0.9, 0.05))
    for platform, ratio, tolerance in most:
        found, published = claims[f"{platform}-most"].statement, claims[f"{platform}-most"].published
        assert isinstance(found, Extreme) and found.over == _THREADS
        assert (found.metric, *found.also) == tuple(f"stream_{loop}" for loop in _LOOP_NAMES), "one maximum over all"
        assert published is not None and (published.ratio, published.tolerance) == (ratio, tolerance)
        assert ratio < 1 / (2 - ratio) < ratio + tolerance, "the other reading"


def test_a_loss_of_22_percent_is_not_up_to_40(tmp_path: Path) -> None:
    """The tolerance ends at a loss of 25 %; half of the effect would end at 20 %."""

    def milder(levels: Levels, block: int, metric: str) -> float | None:
        value, platform = published_value(levels, block, metric), levels["platform"]
        return value if value is None or platform != "virtualbox" else 0.78 * value / _loops("virtualbox", levels)

    found = judged("trindade2018/memory", tmp_path / "c", value=milder)
    assert found["virtualbox-most"].verdict == "contradicted"


def test_one_loop_that_loses_40_percent_is_enough(tmp_path: Path) -> None:
    """The dissertation gives one maximum over four operations. Elsewhere the loss may be small."""

    def copying(levels: Levels, block: int, metric: str) -> float | None:
        value = published_value(levels, block, metric)
        if value is None or levels["platform"] != "virtualbox":
            return value
        return value / _loops("virtualbox", levels) * (0.6 if metric == "stream_scale" else 0.95)

    assert judged("trindade2018/memory", tmp_path / "c", value=copying)["virtualbox-most"].verdict == "reproduced"


_THREADS = {"instrument.threads": (1, 2000, 4000)}


def test_published_tables_are_printed_as_they_were() -> None:
    """With the bare host's 815 Mbit/s, the UDP table has five platforms; that of dbench has both of four numbers."""
    printed = {
        claim.id: claim.published.printed
        for member in ("mendes2019/disk", "trindade2018/uplink")
        for claim in claims_of(study_of(member))
        if claim.published
    }
    for platform, mbit_s in _UDP_MBIT_S.items():
        assert printed[f"{platform}-udp"].startswith(f"{mbit_s} ± ")
        assert printed[f"{platform}-udp"].endswith("Mbps; 815 ± 0,15 Mbps")
    for clients, (docker, lxd) in _DBENCH.items():
        assert printed[f"dbench-{clients}"] == f"{lxd:.2f} MB/s; {docker:.2f} MB/s".replace(".", ",")


def levels_named(claim: Claim) -> list[tuple[str, Any]]:
    said = claim.statement
    sides: list[Mapping[str, tuple[Any, ...]]] = [said.at]
    if isinstance(said, Compare | Order | Extreme):
        sides += [said.of, said.to]
    if isinstance(said, Extreme):
        sides += [said.over]
    assert not isinstance(said, Alike | Additive | Recovery)
    named = [(name, level) for side in sides for name, levels in side.items() for level in levels]
    groups = said.falling if isinstance(said, Order) else ()
    return named + [(said.factor, level) for group in groups for level in group if isinstance(said, Order)]


# Verdicts


@pytest.mark.parametrize("member", MEMBERS)
def test_every_claim_of_a_study_is_reproduced_where_the_published_is_so(member: str, tmp_path: Path) -> None:
    others = {name: one.verdict for name, one in judged(member, tmp_path / "c").items() if one.verdict != "reproduced"}
    assert others == dict.fromkeys(AGAINST_ITSELF.get(member, ()), "same direction, another size")
    contradicted = {claim.id for claim in claims_of(study_of(member)) if claim.contradicted_by}
    assert set(others) <= contradicted, "no other figure of a paper can differ from the rest of it"


_MACHINES_20 = tuple(f"{way}-{name}-20" for way in ("write", "read") for name in ("virtualbox", "kvm"))
# The dissertation's own table has 17.5 % for what its last chapter calls 40 %. Section 7.3 has machines near the bare
# host; by the last chapter they are 20 % behind.
AGAINST_ITSELF = {
    "trindade2018/uplink": ("kvm-40",),
    "trindade2018/disk": _MACHINES_20,
    "trindade2018/disk-fio": _MACHINES_20,
}


@pytest.mark.parametrize("member", ["trindade2018/disk", "trindade2018/disk-fio"])
def test_where_the_other_passage_is_so_its_claims_come_out_and_the_first_ones_do_not(
    member: str, tmp_path: Path
) -> None:
    def last_chapter(levels: Levels, block: int, metric: str) -> float | None:
        value, machine = (
            published_value(levels, block, metric),
            str(levels["platform"]).startswith(("virtualbox", "kvm")),
        )
        return None if value is None else value * (0.84 if machine else 1.0)

    found = judged(member, tmp_path / "c", value=last_chapter)
    assert {found[name].verdict for name in _MACHINES_20} == {"reproduced"}
    near = [f"{way}-{name}" for way in ("write", "read") for name in ("virtualbox", "kvm")]
    assert {found[name].verdict for name in near} == {"contradicted"}


@pytest.mark.parametrize("member", MEMBERS)
def test_claims_on_what_a_host_lacks_are_untestable_and_the_others_are_judged(member: str, tmp_path: Path) -> None:
    found = judged(member, tmp_path / "c", unavailable=missing)
    claims = claims_of(study_of(member))
    needing = {claim.id for claim in claims if needs_missing(claim)}
    assert {name for name, one in found.items() if one.verdict == "untestable here"} == needing
    lacking = {claim.id for claim in claims if any(is_missing(level) for _, level in levels_named(claim))}
    assert {name for name, one in found.items() if one.stand_in} == lacking - needing
    assert all("stand-in" in verdict_text(found[name]) for name in lacking - needing)
    for name in needing:
        assert "unavailable: not on this host" in reason_text(found[name]), name


def mirrored_value(levels: Levels, block: int, metric: str) -> float | None:
    """What a trial would measure where everything that was published is the other way round."""
    value = published_value(levels, block, metric)
    return None if value is None else 1e4 / value


def unlike_value(levels: Levels, block: int, metric: str) -> float | None:
    """What a trial would measure where no platform is like another."""
    value, platform = published_value(levels, block, metric), str(levels["platform"])
    return None if value is None else value * 3 ** _UNLIKE.index(platform.partition(":")[0])


_UNLIKE = ("native", "docker", "lxc", "lxd", "incus", "kvm", "virtualbox", "qemu-tcg")


@pytest.mark.parametrize("member", some(MEMBERS, 5))
def test_every_claim_of_a_study_is_contradicted_where_its_opposite_is_so(member: str, tmp_path: Path) -> None:
    """So each can come out both ways: differences where they are mirrored, likenesses where nothing is alike."""
    mirrored = judged(member, tmp_path / "mirrored", value=mirrored_value)
    unlike = judged(member, tmp_path / "unlike", value=unlike_value)
    verdicts = {
        name: (unlike if one.claim.direction == "alike" else mirrored)[name].verdict for name, one in mirrored.items()
    }
    assert {name: verdict for name, verdict in verdicts.items() if verdict != "contradicted"} == {}


def missing(levels: Levels) -> tuple[str, str | None] | None:
    named = any(map(is_missing, levels.values()))
    return ("not on this host", "find another host") if named else None


def is_missing(level: Any) -> bool:
    return str(level).startswith(_MISSING)


def needs_missing(claim: Claim) -> bool:
    """Whether it names a level that the host lacks, and that has no stand-in there."""
    for factor, level in levels_named(claim):
        choices = [each.levels[factor][level] for each in claim.stand_in if level in each.levels.get(factor, {})]
        if is_missing(level) and not any(not any(map(is_missing, others)) for others in choices):
            return True
    return False


# Finding them


def test_the_page_on_claims_counts_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation-claims.md").read_text(encoding="utf-8")
    told = {member: int(number) for member, number in re.findall(r"^\| `(\S+/?\S*)` \| (\d+) \|", page, re.MULTILINE)}
    assert set(MEMBERS) <= set(told)
    assert told == {member: len(claims_of(load(papers.find(member), schemas()))) for member in told}
    n = len(claims_of(load(papers.find("kagami2017"), schemas())))
    assert f"All {n} claims" in page
    for name, words in (("reference-papers.md", f"{n} claims"), ("reference-papers.pt-BR.md", f"{n} afirmações")):
        assert words in (Path(__file__).parents[3] / "docs" / name).read_text(encoding="utf-8")


def test_a_paper_with_several_studies_lists_them_and_says_how_to_name_one() -> None:
    with pytest.raises(InputError, match="trindade2018 is a suite of 8 studies") as caught:
        papers.find("trindade2018")
    assert caught.value.hint is not None
    assert all(member in caught.value.hint for member in papers.studies("trindade2018"))
    assert len(papers.studies("trindade2018")) == 8 and len(papers.studies("mendes2019")) == 4
    assert papers.studies("kagami2017") == []


def test_a_study_that_is_misspelt_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        papers.find("trindade2018/disc")
    assert caught.value.hint == "did you mean 'trindade2018/disk'?"
    for name in ("trindade2018/claims/cpu", "trindade2018/", "/cpu", "kagami2017/study", "../trindade2018/cpu"):
        with pytest.raises(InputError):
            papers.find(name)


def test_claims_are_found_by_the_name_of_the_study() -> None:
    assert papers.claims("trindade2018-cpu") == papers.find("trindade2018/cpu").parent / "claims" / "cpu.toml"
    assert papers.claims("trindade2018") is None
    assert papers.claims("lifecycle") is None
    assert papers.claims("trindade2018/cpu") is None


def test_what_papers_name_and_no_part_stands_for_is_listed_with_what_comes_nearest() -> None:
    parts = {kind: registry.names(kind) for kind in registry.KINDS}
    rows = papers.absent()
    assert {"TUN/TAP point to point", "Linux-VServer", "VMware vSphere", "Smack"} == {row.name for row in rows}
    for row in rows:
        assert row.name.lower() not in parts[row.kind], "a part by now: its row goes"
        assert set(row.papers) <= {name.partition("/")[0] for name in papers.names()}
        nearest = re.split(r"[;, ]", row.nearest)[0]
        assert nearest in parts[row.kind] | parts["scenario"] or "testbed" in row.nearest
    shown = " ".join(" ".join(absent_lines(80)).split())
    assert all(f"{row.kind} {row.name} ({', '.join(row.papers)}): {row.because}" in shown for row in rows)


def test_what_a_paper_recommends_is_in_its_studies_and_in_every_language() -> None:
    papers_named = {name.partition("/")[0] for name in papers.names()}
    recommending = {name: found for name in papers_named if (found := papers.recommended(name))}
    assert set(recommending) == {"correa2011", "eiras2018", "kagami2017", "mendes2019", "trindade2018"}
    for name, found in recommending.items():
        levels: dict[str, set[str]] = {}
        for study in papers.studies(name) or [name]:
            for factor in load(papers.find(study), schemas()).factors:
                levels.setdefault(factor.name, set()).update(split_options(str(level))[0] for level in factor.levels)
        assert all(set(wanted) <= levels[factor] for factor, wanted in found.levels.items()), name
        assert set(found.because) == set(found.passage) == set(LANGUAGES)
    assert papers.recommended_by("mendes2019-cpu") == papers.recommended("mendes2019")
    assert papers.recommended_by("mine") is None and papers.recommended_by("edge") is None
