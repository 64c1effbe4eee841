"""What a reader sees of figures, wide and narrow: labels that stand apart, axes that end where a quantity does, numbers

without exponents, bars that say what they add up to."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from lastro.analysis import analyse
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claims import Judgement, judge
from lastro.analysis.claims.claim import Claims, Source
from lastro.analysis.claims.kinds import AnyClaim
from lastro.figures import NARROW_IN, WIDE_IN, FigurePlan, plans
from lastro.figures.effects import draw_effects
from lastro.figures.rows import FigureRow, RowDot, RowPanel, draw_rows
from lastro.figures.scale import AxisEnds, axis_ends
from lastro.figures.style import fit_height, new_figure, style
from lastro.figures.text import CHAR_EM, width_em, wrapped
from lastro.figures.xy import Plot, PlotAxis, PlotLine, PlotPanel, draw_plot
from lastro.results.samples import Metric
from lastro.stats.intervals import Interval
from lastro.stats.noise_floor import FORMAT
from lastro.words.language import ENGLISH
from lastro.words.numbers import axis_numbers, no_exponent

from ...support.campaigns import METRICS, Levels, make_campaign, make_study, plausible_notes, plausible_value
from ..analysis.test_curves import value as curve_value
from .test_figures import report_of, texts
from .test_scenario import counted, marks

WIDTHS = (WIDE_IN, NARROW_IN)
LONG = {
    "platform": ("native", "docker:storage=overlay2,userns=remap", "kata:hypervisor=cloud-hypervisor", "W" * 70),
    "isolation of the function under test": ("none", "cgroups+apparmor+seccomp+user-namespace"),
}  # fmt: skip
MAGNITUDES = tuple(Metric(f"m{exponent}", "1/s", "higher", "") for exponent in (-4, -1, 2, 5, 9))


def figures(report: CampaignResults, width_in: float, kind: str = "") -> Iterator[tuple[FigurePlan, Figure]]:
    """Every figure, or those of one kind alone."""
    kept = {"floor": 1.3, "n_pairs": 20, "ratio": 1.2, "interval": {"low": -0.1, "high": 2.5}}
    floors = {"format": FORMAT, "blocks": 2, "metrics": {metric.name: kept for metric in report.metrics}}
    report = replace(report, noise_floor=floors)
    for plan in plans(report, analyse(report), judgements=judged(report)):
        if kind in ("", plan.kind) and (picture := plan.picture(width_in)):
            yield plan, picture.figure


def judged(report: CampaignResults) -> tuple[Judgement, ...]:
    """Judgements of claims with long names: that each metric differs between the first two levels of each factor."""
    claims = [
        {"id": re.sub("[^a-z]", "-", f"{direction}-{factor.name}-{metric.name}")[:64], "says": "so",
         "direction": direction,
         "compare": {"metric": metric.name, "of": {factor.name: levels[1]}, "to": {factor.name: levels[0]}},
         "published": {"difference": 0.1, "unit": metric.unit, "tolerance": 0.02}}
        for metric in report.metrics for factor in report.varying for direction in ("lower", "higher")
        if len(levels := factor.levels) > 1
    ]  # fmt: skip
    return judge(Claims(Source(), tuple(map(AnyClaim.model_validate, claims))), report)


def labels(figure: Figure) -> list[Text]:
    """Every text that is drawn."""
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        if axes.axison:
            found += [axes.title, axes._left_title, *axes.texts, axes.xaxis.label, axes.yaxis.label]  # type: ignore[attr-defined]
            for axis in (axes.xaxis, axes.yaxis):
                found += [tick.label1 for tick in axis._update_ticks()]  # type: ignore[attr-defined]
                assert not axis.get_offset_text().get_text()
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Where each stands; the blank lines that the title keeps free for what follows it are no part of it."""
    if figure._suptitle is not None:  # type: ignore[attr-defined]
        figure._suptitle.set_text(figure._suptitle.get_text().rstrip())  # type: ignore[attr-defined]
    with style():
        figure.draw_without_rendering()
        return [(text.get_text(), _written(text)) for text in labels(figure)]


def _written(text: Text) -> Bbox:
    """Without the empty lines above a label of the second row."""
    box, lines = text.get_window_extent(), text.get_text().split("\n")
    empty = next(at for at, line in enumerate(lines) if line)
    return Bbox.from_extents(box.x0, box.y0, box.x1, box.y1 - box.height * empty / len(lines))


def collisions(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of labels of which one covers more than half a point of the other, and labels that the edge cuts."""
    half_pt = 0.5 * figure.dpi / 72
    inner = [
        (text, Bbox.from_extents(b.x0 + half_pt, b.y0 + half_pt, b.x1 - half_pt, b.y1 - half_pt))
        for text, b in boxes(figure)
    ]
    page = figure.bbox
    cut = [(text, "edge") for text, b in inner if b.x0 < 0 or b.y0 < 0 or b.x1 > page.width or b.y1 > page.height]
    return cut + [(one, two) for (one, a), (two, b) in itertools.combinations(inner, 2) if a.overlaps(b)]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    """Long names, two blocks, values below one ten thousandth, one level that cannot run, and packets over time."""
    tiny = Metric("a_metric_with_a_long_name_of_which_there_are_some", "s", "lower", "")
    study = make_study(LONG, replicates=2, metrics=(tiny,), baseline={"platform": "native"})
    return report_of(
        make_campaign(
            tmp_path_factory.mktemp("crowded") / "c", study, series=counted,
            value=lambda levels, block, metric: 1e-4 * plausible_value(levels, block, "latency_max"),
            unavailable=lambda levels: ("no KVM", None) if str(levels["platform"]).startswith("kata") else None,
            notes=lambda levels, block: plausible_notes(levels, block) | marks(levels, block),
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    """Numbers on an axis, of which many are close to each other."""
    numbers = {"platform": LONG["platform"], "instrument.threads": (1, 2, 1000, 1100, 2000, 2048, 1_000_000)}
    study = make_study(numbers, metrics=METRICS[:1], replicates=3, baseline={"platform": "native"})
    return report_of(make_campaign(tmp_path_factory.mktemp("counts") / "c", study, value=curve_value))


@pytest.mark.parametrize("width_in", WIDTHS)
@pytest.mark.parametrize("name", ["crowded", "counts"])
def test_no_label_touches_another_or_the_edge(name: str, width_in: float, request: pytest.FixtureRequest) -> None:
    drawn = list(figures(request.getfixturevalue(name), width_in))
    assert len(drawn) >= 4
    assert {plan.name: found for plan, figure in drawn if (found := collisions(figure))} == {}


@pytest.mark.parametrize("width_in", WIDTHS)
def test_labels_of_effects_stand_apart_whatever_they_say(crowded: CampaignResults, width_in: float) -> None:
    analysis, rng = analyse(crowded).metrics[0], random.Random(5)
    (first, *_) = analysis.effects
    for _ in range(6):
        effects = []
        for factor in range(rng.randint(1, 3)):
            for _ in range(rng.randint(1, 6)):
                name = "".join(rng.choice("iWm-=,: 0é") for _ in range(rng.randint(1, 80)))
                ratio = 10 ** rng.uniform(-9, 9)
                interval = Interval(ratio / 3, ratio * 10 ** rng.uniform(0, 12), 0.95)
                contrast = replace(first.ratio, value=ratio, interval=rng.choice([None, interval]))
                cells = rng.randint(1, 9)
                effects.append(
                    replace(first, factor=f"f{factor}" * rng.randint(1, 30), level=name, cells=cells, all_cells=9,
                            comparison=replace(first.comparison, ratio=contrast), n=(rng.randint(1, 10**6), 3))
                )  # fmt: skip
        with style(width_in):
            figure = draw_effects(replace(analysis, effects=tuple(effects)), ENGLISH, 0.95)
        assert figure is not None and collisions(figure) == []


LONG_WORDS = ("rate", "+1,234,567 [−1,234, 5] Mbit/s", "a_metric_with_a_long_name", "W" * 90, "i" * 160)


@pytest.mark.parametrize("width_in", WIDTHS)
def test_names_and_numbers_and_axes_of_any_length_fit_into_a_figure(width_in: float) -> None:
    rng = random.Random(7)

    def text() -> str:
        return " ".join(rng.choices(LONG_WORDS, k=rng.randint(1, 4)))

    for _ in range(8):
        dot = RowDot(0.5, (0.1, 0.9))
        rows = [FigureRow(text(), f"{text()}\n{text()}", [dot], heading=rng.random() < 0.2) for _ in range(3)]
        ends = AxisEnds(*rng.choice([(0.0, 1.0), (0.0, 1e-7), (-123_456_789.0, 98_765_432.0)]))
        line = PlotLine([0, 1], [0, 1], {"color": "black"})
        panel = PlotPanel([line], [text()], PlotAxis(text()))
        with style(width_in):
            looks = [(text(), {"marker": "o"})]
            of_rows = draw_rows([RowPanel(rows, ends, text(), 0.5)] * 2, text(), [text()], ENGLISH, looks)
            of_lines = draw_plot(Plot([panel], text(), [text()], PlotAxis(), PlotAxis(text()), 1.5), ENGLISH)
        assert collisions(of_rows) == []
        assert collisions(of_lines) == []


def test_a_figure_whose_labels_take_the_whole_width_is_drawn_all_the_same() -> None:
    with style(NARROW_IN):
        axes = (figure := new_figure()).subplots()
        axes.set_yticks([0], ["W" * 70])
        fit_height(figure, [axes], 1)
    assert axes.get_position().height * figure.get_size_inches()[1] == pytest.approx(1)
    assert figure.get_size_inches()[1] < 3


@pytest.fixture(scope="module")
def magnitudes(tmp_path_factory: pytest.TempPathFactory) -> CampaignResults:
    """Metrics from a ten thousandth to a thousand millions, against a number and over time."""

    def value(levels: Levels, block: int, metric: str) -> float:
        return 10.0 ** int(metric[1:]) * plausible_value(levels, block, "throughput") / 21_000

    factors = {"isolation": ("none", "cgroups"), "instances": (1, 2, 4)}
    study = make_study(factors, replicates=3, metrics=MAGNITUDES, baseline={"isolation": "none"})
    return report_of(make_campaign(tmp_path_factory.mktemp("magnitudes") / "c", study, value=value))


def test_no_number_has_an_exponent_and_no_axis_an_offset(magnitudes: CampaignResults) -> None:
    kinds = set()
    for width_in in WIDTHS:
        for plan, figure in figures(magnitudes, width_in):
            kinds.add(plan.kind)
            with style():
                said = "\n".join(text.get_text() for text in labels(figure))
            assert not re.search(r"\d[eE][+-]?\d", said), plan.name
    assert kinds >= {"effects", "curve", "course"}


def test_the_svg_says_what_the_axis_says(magnitudes: CampaignResults) -> None:
    plan = next(plan for plan in plans(magnitudes, analyse(magnitudes)) if plan.name == "curve-m9-instances")
    picture = plan.picture()
    assert picture is not None
    said = texts(picture.svg()).split("\n")
    assert any(re.fullmatch(r"\d(\.\d+)?G", text) for text in said) and "1e9" not in said


@given(st.floats(-1e14, 1e14), st.floats(1e-6, 1e14), st.integers(3, 7))
def test_numbers_of_an_axis_are_read_back_and_differ(low: float, step: float, n: int) -> None:
    step = float(f"{step:.1g}")
    low = math.floor(low / step) * step
    values = [low + at * step for at in range(n)]
    said = axis_numbers(values)
    assert len(set(said)) == n or abs(low) > 1e9 * step
    for value, text in zip(values, said, strict=True):
        plain = text.replace("−", "-").replace(",", "")
        scale = {"M": 1e6, "G": 1e9, "T": 1e12}.get(plain[-1], 1.0)
        if "·10" not in plain:
            assert float(plain.rstrip("MGT")) * scale == pytest.approx(value, rel=1e-3, abs=step / 10)


def test_numbers_are_written_as_people_write_them() -> None:
    assert axis_numbers([0, 20_000, 40_000]) == ["0", "20,000", "40,000"]
    assert axis_numbers([0, 5e8, 1e9]) == ["0", "0.5G", "1.0G"]
    assert axis_numbers([1e9, 1e9 + 1, 1e9 + 2])[1] == "1,000,000,001"
    assert axis_numbers([1e-4, 3e-4, 1e-3]) == ["0.0001", "0.0003", "0.001"]
    assert axis_numbers([-2e-9]) == ["−2·10⁻⁹"]
    assert no_exponent("×1.20e+09 [1.0e-07, 3]") == "×1.20·10⁹ [1.0·10⁻⁷, 3]"


@given(st.text(st.characters(exclude_categories=("C",)), max_size=90), st.integers(4, 40))
def test_no_line_of_a_label_is_wider_than_it_may_be(text: str, width: int) -> None:
    lines = wrapped(text, width).split("\n")
    assert all(width_em(line) <= max(width * CHAR_EM, width_em(line[:1])) + 1e-9 for line in lines)


# Axes


def spread(tmp_path: Path, metric: Metric, middle: float) -> CampaignResults:
    """Two blocks that differ: intervals of tens of times the difference."""
    study = make_study({"platform": ("native", "runc"), "isolation": ("none", "x")}, replicates=2, metrics=(metric,))
    return report_of(
        make_campaign(tmp_path / "c", study, value=lambda levels, block, name: middle + (0.9 if block == 1 else -0.9))
    )


@pytest.mark.parametrize("width_in", WIDTHS)
def test_an_axis_ends_at_zero_where_the_quantity_does(tmp_path: Path, width_in: float) -> None:
    report = spread(tmp_path, Metric("loss", "%", "lower", ""), 1.0)
    ((_, figure),) = figures(report, width_in, "distribution")
    assert figure.axes[0].get_xlim()[0] == 0
    drawn = [x for line in figure.axes[0].lines for x in line.get_xdata()]
    assert min(drawn) == 0, "an interval ends there, too"


def test_a_difference_keeps_what_lies_below_zero(tmp_path: Path) -> None:
    report = spread(tmp_path, Metric("memory_host", "MiB", "lower", "", signed=True), 1.0)
    ((_, figure),) = figures(report, WIDE_IN, "distribution")
    assert figure.axes[0].get_xlim()[0] < 0
    assert "cut at 0" not in " ".join(text.get_text() for text in figure.texts)


def test_a_quantity_has_no_values_below_zero_by_its_definition() -> None:
    for unit in ("Mbit/s", "ms", "%", "1/s", "CPU", "MiB", "1", "ms/s", "MB/s"):
        assert Metric("m", unit, "lower", "").non_negative, unit
        assert not Metric("m", unit, "lower", "", signed=True).non_negative
    for unit in ("", "°C", "dBm"):
        assert not Metric("m", unit, "lower", "").non_negative, unit


positive = st.lists(st.floats(0, 1e6), min_size=1, max_size=5)


@given(positive, st.floats(0, 1e6))
def test_the_axis_of_an_amount_never_goes_below_zero(values: list[float], half: float) -> None:
    amount, change = Metric("m", "ms", "lower", ""), Metric("m", "ms", "lower", "", signed=True)
    intervals = [(value - half, value + half) for value in values]
    found = axis_ends(amount, values, intervals, values)
    assert found.low >= 0 and found.low <= min(values) and found.high >= max(values)
    assert found.log or found.cut == any(low < 0 for low, _ in intervals)
    assert not axis_ends(change, values, intervals, values).cut


def test_a_value_below_zero_is_shown_whatever_the_definition_says() -> None:
    assert axis_ends(Metric("m", "ms", "lower", ""), [-3.0, 5.0], []).low < -3
