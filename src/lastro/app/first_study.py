"""A study from a few answers: functions, platforms, neighbours, service levels, and the time that it may take.

The design is the largest that fits into this time. To make it fit, first the measurements become shorter, then there
are fewer blocks, then half of the combinations are left out, and then links and limits are held constant. Each step
records the questions that the study can no longer answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lastro import registry
from lastro.campaign.duration import forecast
from lastro.errors import InputError, did_you_mean
from lastro.scenarios.base import scenario_of, schemas
from lastro.study import design
from lastro.study.levels import check_level, split_options
from lastro.study.load import parse
from lastro.study.problems import FieldError
from lastro.study.service_level import ServiceLevel
from lastro.units import human_duration

_SCENARIO = "chain"
_COST = "cpu_per_gbit"
_LINKS, _LIMITS = ("veth-bridge", "macvlan-bridge"), ("none", "cgroups")


@dataclass(frozen=True, slots=True)
class Answers:
    """The user's answers: names of parts, service levels as typed, and the time that the study may take."""

    functions: tuple[str, ...]
    platforms: tuple[str, ...]
    neighbours: tuple[str, ...]
    levels: tuple[str, ...]
    within_s: float


@dataclass(frozen=True, slots=True)
class FirstStudy:
    """The text of a study file, its expected duration, and the questions that were left out to save time."""

    text: str
    expected_s: float
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Effort:
    """A design whose measurements last `measure_s` each; `dropped` are the questions that it cannot answer."""

    measure_s: float
    replicates: int
    links: tuple[str, ...] = _LINKS
    limits: tuple[str, ...] = _LIMITS
    fraction: str = "1"
    dropped: tuple[str, ...] = ()


def parts_named(kind: str, text: str) -> tuple[str, ...]:
    """Split a list of parts of a kind, such as 'runc, docker', into names; each name is returned once.

    Raises: InputError for an unknown part, invalid options, or an empty list."""
    known = registry.names(kind)
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if split_options(name)[0] not in known:
            raise InputError(f"there is no {kind} '{name}'", did_you_mean(name, known) or f"see `lastro parts {kind}`")
        try:
            check_level(schemas()[_SCENARIO], kind, name)
        except FieldError as wrong:
            raise InputError(f"'{name}': {wrong.message}", wrong.hint_text or None) from None
    if not names:
        raise InputError(f"name at least one {kind}", f"see `lastro parts {kind}`")
    return names


def levels_named(text: str) -> tuple[str, ...]:
    """Split a list of service levels such as 'throughput >= 2 Gbit/s, latency_p95 < 1 ms', and check each.

    Raises: InputError for an invalid level, two levels for the same metric, or an empty list."""
    metrics = tuple(schemas()[_SCENARIO].metrics.values())
    texts = tuple(part.strip() for part in text.split(",") if part.strip())
    named = [ServiceLevel.parse(level_text, metrics).metric.name for level_text in texts]
    if repeated := next((name for name in named if named.count(name) > 1), None):
        raise InputError(f"{repeated} has two service levels", "a study has one for each metric")
    if not texts:
        raise InputError("name at least one service level", "write it as in 'throughput >= 2 Gbit/s'")
    return texts


def first_study(name: str, answers: Answers) -> FirstStudy:
    """Return the study with the largest design that fits into the time of the answers.

    Raises: InputError, with the time needed, when even the smallest design takes too long."""
    for effort in _efforts(len(answers.platforms)):
        text = _text(name, answers, effort)
        study = parse(text, name, schemas())
        scenario = scenario_of(study)
        expected_s = forecast(study, scenario, design.treatments(study)).total_s
        if expected_s <= answers.within_s:
            return FirstStudy(text, expected_s, effort.dropped)
    hint = "give it more time, or name fewer platforms, functions or neighbours"
    raise InputError(f"three blocks of this study take {human_duration(expected_s)} at the least", hint)


def _efforts(n_platforms: int) -> Iterator[_Effort]:
    """Yield the designs to try, from the largest to the smallest."""
    yield from (_Effort(10, 10), _Effort(5, 10), _Effort(5, 5), _Effort(2, 5), _Effort(1, 5), _Effort(1, 3))
    if n_platforms == 2:  # a fraction halves factors of two levels, and needs three
        half = "half of the combinations; the effect of platform, link or limits alone is measured together with others"
        yield from (_Effort(1, n, fraction="1/2", dropped=(half,)) for n in (5, 3))
    no_link = f"whether another link than {_LINKS[0]} is better"
    yield from (_Effort(1, n, links=_LINKS[:1], dropped=(no_link,)) for n in (5, 3))
    no_limits = "what limits by cgroups give back, and what they cost"
    yield from (_Effort(1, n, _LINKS[:1], _LIMITS[:1], dropped=(no_link, no_limits)) for n in (5, 3))


def _text(name: str, answers: Answers, effort: _Effort) -> str:
    known_metrics = tuple(schemas()[_SCENARIO].metrics.values())
    bounded = [ServiceLevel.parse(level_text, known_metrics).metric.name for level_text in answers.levels]
    metrics = list(dict.fromkeys(("throughput", *bounded, _COST)))
    texts = dict(zip(bounded, answers.levels, strict=True))
    varied, fixed = _factors(answers, effort)
    baseline = ", ".join(f"{factor} = {_quoted(levels[0])}" for factor, levels in varied.items())
    lines = [
        "# Written from five answers by `lastro new --ask`. `lastro plan` shows it; `lastro run` ends with",
        "# the decision: which combination keeps the service levels at the least cost.",
        *(f"# Left out for the time: {what}." for what in effort.dropped),
        "",
        "[study]",
        f'name = "{name}"',
        f'title = "Which platform keeps the service levels of {" and ".join(answers.functions)}?"',
        f'scenario = "{_SCENARIO}"',
        f"metrics = {_array(metrics)}",
        "",
        "[factors]",
        *(f"{factor} = {_array(levels)}" for factor, levels in varied.items()),
        "",
        "[settings]",
        *(f'{factor} = "{level}"' for factor, level in fixed.items()),
        *_durations(metrics, effort),
        'cpus_idle = "awake"   # else latency also tells how long a CPU takes to wake up',
        "",
        "[sla]",
        *(f'{metric} = "{text.removeprefix(metric).strip()}"' for metric, text in texts.items()),
        "",
        "[cost]",
        f"{_COST} = 1",
        "",
        "[design]",
        f"replicates = {effort.replicates}",
        "seed = 1",
        *([f"fraction = {_quoted(effort.fraction)}"] if effort.fraction != "1" else []),
        f"baseline = {{ {baseline} }}",
    ]
    return "\n".join(lines) + "\n"


def _factors(answers: Answers, effort: _Effort) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the factors that vary as {name: levels}, at least one, and those that do not as {name: level}."""
    factors = {
        "platform": answers.platforms,
        "attachment": effort.links,
        "isolation": effort.limits,
        "function": answers.functions,
        "anomaly": answers.neighbours,
    }
    varied = {factor: levels for factor, levels in factors.items() if len(levels) > 1}
    varied = varied or {"platform": answers.platforms}
    return varied, {factor: levels[0] for factor, levels in factors.items() if factor not in varied}


def _durations(metrics: Sequence[str], effort: _Effort) -> Iterator[str]:
    """Yield the settings with the durations of a trial's phases; a phase that no metric needs is short or left out."""
    pings = any(name.startswith("latency") for name in metrics)
    udp = any(name.startswith(("jitter", "udp")) for name in metrics)
    yield f"tcp_s = {effort.measure_s:g}"
    yield f"udp_s = {effort.measure_s if udp else 0:g}"
    yield f"ping_s = {effort.measure_s if pings else 0.5:g}"
    yield "ping_interval_ms = 10"
    yield f"settle_s = {2 if effort.measure_s > 1 else 0}"
    yield "gap_s = 0"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _array(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"
