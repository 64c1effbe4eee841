"""Campaigns from Python, as in a notebook: `import lastro; c = lastro.open("c1")`.

Tables are dictionaries of columns, {name: [value]}: `pandas.DataFrame(c.values())` and `polars.DataFrame(c.values())`
take them as they are, but Lastro needs neither. All numbers are those that commands print, from the same functions:
`values` is the CSV of `lastro results`, `means` and `effects` are in the JSON of `lastro results`, and `decide` answers
as `lastro decide` does on one campaign. This interface is stable from 0.1.0 on."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro.app.contents import claims_of, content_from, load_data
from lastro.errors import InputError, did_you_mean
from lastro.words.language import ENGLISH

if TYPE_CHECKING:
    from lastro.analysis.decision import SlaDecision
    from lastro.builders.content import Content
    from lastro.document import Block

__all__ = ["ArrowTable", "Campaign", "Columns", "Drawing", "SlaAnswer", "open"]

Value = str | int | float | bool | None
_ROWS_SHOWN = 60
_WIDTH = 120


def open(directory: str | Path, *, all_metrics: bool = False) -> Campaign:
    """Load a campaign, finished or not, as it is now.

    It has the metrics of its study or, with `all_metrics`, all that were measured. More metrics mean more effects for
    which p-values are corrected, and more sentences.

    Raises: lastro.errors.InputError when the directory holds no campaign, or a suite; StoreError when it is damaged."""
    return Campaign(Path(directory), all_metrics=all_metrics)


class Columns(dict[str, list[Value]]):
    """A table as a dictionary: {name of a column: its values, one for each row}. A missing value is None."""

    types: Mapping[str, str] = {}  # by column, in SQL; a column without one has that of its values

    @classmethod
    def of(cls, types: Mapping[str, str], rows: Iterable[Sequence[Value]]) -> Columns:
        """Return a table of rows; `types` is {name of a column: its SQL type}."""
        values = list(zip(*rows, strict=True)) or [()] * len(types)
        table = cls(zip(types, map(list, values), strict=True))
        table.types = types
        return table

    def rows(self) -> list[dict[str, Value]]:
        """Return the rows of the table, each as {name of a column: value}."""
        return [dict(zip(self, row, strict=True)) for row in zip(*self.values(), strict=True)]

    def arrow(self) -> ArrowTable:
        """Return the table for programs that read Arrow; as a dictionary, it would lose the types of its columns."""
        return ArrowTable(self)

    def _repr_html_(self) -> str:
        rows = self.rows()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_shown(value))}</td>' for value in row.values())}</tr>"
            for row in rows[:_ROWS_SHOWN]
        )
        more = f"<p>and {len(rows) - _ROWS_SHOWN} more rows</p>" if len(rows) > _ROWS_SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


class ArrowTable:
    """A table for programs that read Arrow (PyCapsule interface): each column has a type, and None is null."""

    def __init__(self, table: Columns) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a stream of the rows. Raises: lastro.errors.OutputError when DuckDB is not installed."""
        from lastro.results.export import duckdb_table, sql_type

        table = self._table
        types = {name: table.types.get(name) or sql_type(values) for name, values in table.items()}
        with duckdb_table(types, table.values(), "a table for Arrow", "use the table as a dictionary") as rows:
            return rows.__arrow_c_stream__(requested_schema)


class Drawing:
    """A figure. `svg` is the text of its SVG file, and `save` writes that file."""

    def __init__(self, name: str, title: str, svg: str) -> None:
        self.name, self.title, self.svg = name, title, svg

    def save(self, path: str | Path) -> None:
        """Write the figure to an SVG file. `lastro report DIR --figures` writes all figures, as SVG, PNG and PDF."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.svg[self.svg.index("<svg") :]


class _TextView:
    """An object that prints as text in a terminal, and as Markdown in a notebook."""

    def _blocks(self) -> Iterator[Block]:
        raise NotImplementedError

    def __str__(self) -> str:
        from lastro.render.terminal import terminal_lines

        return "\n".join(terminal_lines(self._blocks(), _WIDTH, ENGLISH))

    def _repr_markdown_(self) -> str:
        from lastro.render.markdown import markdown

        return markdown(self._blocks(), ENGLISH)


class SlaAnswer(_TextView):
    """The answer of `Campaign.decide`. It prints as `lastro decide` does, and its properties have the parts."""

    def __init__(self, decision: SlaDecision) -> None:
        from lastro.builders.data.decision import document

        self._decision = decision
        self.document: dict[str, Any] = document(decision)

    @property
    def outcome(self) -> str:
        """Return the verdict: "recommended", "undecided", or "none" if no candidate holds the service levels."""
        return str(self.document["verdict"])

    @property
    def recommended(self) -> dict[str, str] | None:
        """Return the recommended candidate as {factor: level}; None if no candidate is recommended."""
        best = self._decision.choice.recommended
        return None if best is None else dict(self._decision.candidates[best].levels)

    def candidates(self) -> Columns:
        """Return a table of the candidates, the best first.

        Its columns are the label, the verdict, the probability that the candidate holds the service levels (`holds`),
        the cost, and the interval of the cost."""
        rows = []
        for candidate in self.document["candidates"]:
            cost = candidate["cost"] or {}
            said = candidate["label"], candidate["verdict"], candidate["holds"]
            rows.append((*said, *map(cost.get, ("value", "low", "high"))))
        return Columns.of(_CANDIDATES, rows)

    def _blocks(self) -> Iterator[Block]:
        from lastro import papers
        from lastro.builders.decision import decision_blocks

        return decision_blocks(self._decision, ENGLISH, papers.recommended_by(self._decision.report.study.name))


class Campaign(_TextView):
    """A campaign as it was when it was opened. It is analysed on first use, which takes seconds."""

    def __init__(self, directory: Path, *, all_metrics: bool = False) -> None:
        self.directory = directory
        self._data, self._all_metrics = load_data(directory), all_metrics

    @property
    def study(self) -> str:
        """Return the name of the study."""
        return self._data.study.name

    @property
    def factors(self) -> dict[str, list[Value]]:
        """Return the factors of the study as {factor: its levels}."""
        return {factor.name: list(factor.levels) for factor in self._data.study.factors}

    @property
    def metrics(self) -> dict[str, str]:
        """Return the metrics that are analysed as {metric: its unit}."""
        return {metric.name: metric.unit for metric in self._content.report.metrics}

    @cached_property
    def document(self) -> dict[str, Any]:
        """The whole report as data, with the keys of `lastro results --json`."""
        from lastro.builders.data.results import document

        return document(self._content.report, self._content.published, self._content.analysis)

    @property
    def treatments(self) -> Columns:
        """Return a table of the treatments, one in each row.

        Its columns are the id, the level of each factor, the status, the number of valid trials, and the reason if the
        treatment is unavailable."""
        rows = []
        for treatment in self.document["treatments"]:
            outcome = treatment["status"], treatment["trials"].get("valid", 0), treatment["reason"]
            rows.append((treatment["id"], *treatment["levels"].values(), *outcome))
        return Columns.of({**self._levels, "status": _TEXT, "valid": _COUNT, "reason": _TEXT}, rows)

    def values(self, metric: str | None = None, *, invalid: bool = False) -> Columns:
        """Return a table of the values of valid trials, one in each row, as `lastro results DIR --csv FILE` writes it.

        It has all metrics that were measured, or only `metric`. With `invalid`, it also has rows for invalid attempts
        and for trials without an attempt. Raises: InputError for an unknown metric."""
        from lastro.results.export import columns, rows

        self._known(metric, [listed.name for listed in (*self._data.study.all_metrics, *self._data.study.metrics)])
        types = columns(self._data)
        names = list(types)
        valid_at, metric_at = names.index("valid"), names.index("metric")
        selected = (
            row
            for row in rows(self._data)
            # A valid attempt without values has a row without a metric.
            if (invalid or (row[valid_at] and row[metric_at])) and (metric is None or row[metric_at] == metric)
        )
        return Columns.of(types, selected)

    def means(self, metric: str | None = None) -> Columns:
        """Return a table of the mean of each treatment and its ratio to the baseline, both with intervals.

        It has a row for each metric, or only for `metric`, and treatment; n is 0 in the row of a treatment without a
        valid value. `at_least` is the number of values that are only lower bounds. `ratio_bound` is ">=" or "<=" where
        only a bound of the ratio is known. `verdict` is better, worse, same or unknown, corrected for all ratios of the
        metric. `marks` lists the kinds of remarks on the values: for example, that the load generator was the limit.
        Raises: InputError for an unknown metric."""
        rows: list[Sequence[Value]] = []
        for name in self._known(metric):
            for treatment in self.document["treatments"]:
                measured = treatment["metrics"].get(name) or {}
                ratio = measured.get("ratio") or {}
                rows.append((
                    treatment["id"], *treatment["levels"].values(), name, self.metrics[name], measured.get("n", 0),
                    measured.get("bounded", 0), measured.get("mean"), *_ends(measured),
                    ratio.get("value"), *_ends(ratio), ratio.get("bound"), ratio.get("verdict"),
                    ", ".join(mark["kind"] for mark in measured.get("marks", ())),
                ))  # fmt: skip
        return self._in_place({**self._levels, **_MEANS}, rows)

    def effects(self, metric: str | None = None) -> Columns:
        """Return a table of the effect of each level against its factor's reference, averaged over the other factors.

        The table has the effects on all metrics, or only on `metric`. `p` is corrected for all effects on the metric.
        `decision` is different, same or unknown. `aliases` lists the effects that a fractional design cannot separate
        from this one. `marks` lists the kinds of remarks on the values. Raises: InputError for an unknown metric."""
        rows: list[Sequence[Value]] = []
        for name in self._known(metric):
            for effect in self.document["analysis"][name]["effects"] or ():
                ratio, remarks = effect["ratio"], map(", ".join, (effect["aliases"], effect["marks"]))
                head = (name, effect["factor"], effect["level"], effect["reference"])
                rows.append((*head, ratio["value"], *_ends(ratio), effect["p_adjusted"], effect["decision"], *remarks))
        return self._in_place(_EFFECTS, rows)

    @property
    def _levels(self) -> dict[str, str]:
        """Return the columns that identify a treatment, with their SQL types: its id, and its level of each factor."""
        from lastro.results.export import sql_type

        return {"treatment": _TEXT} | {name: sql_type(levels) for name, levels in self.factors.items()}

    def _in_place(self, types: Mapping[str, str], rows: Iterable[Sequence[Value]]) -> Columns:
        """Return a table with the columns in `types`, and a column `measured_in` if the campaign ran in a guest.

        The column is there because times in a guest are not comparable with times on a real host."""
        if (guest := self.document["guest"]) is None:
            return Columns.of(types, rows)
        return Columns.of({**types, "measured_in": _TEXT}, ((*row, guest["title"]) for row in rows))

    def decide(
        self,
        *sla: str,
        cost: str | None = None,
        under: Mapping[str, str | Sequence[str]] | None = None,
        require: Sequence[str] = (),
        wish: Sequence[str] = (),
        confidence: float | None = None,
    ) -> SlaAnswer:
        """Decide which choice of platform, link and isolation holds service levels such as "latency_p99 < 1 ms".

        If an argument is left out, the table of the study with its name is used. `cost` is a sum such as
        "chain_cpus + 0.1*function_memory". `under` has the conditions in which the service levels must hold, such as
        {"anomaly": "memory"}. `require` and `wish` name properties.
        Raises: InputError where `lastro decide` would report an error."""
        from lastro.analysis.decision import SlaQuestion, decide

        texts = {name: [level] if isinstance(level, str) else list(level) for name, level in (under or {}).items()}
        report = self._content.report
        return SlaAnswer(decide(report, SlaQuestion.asked(report, sla, cost, require, wish, texts, confidence)))

    @property
    def figures(self) -> dict[str, str]:
        """Return the figures that can be requested as {name: title}; some may have nothing to show."""
        return {plan.name: plan.title for plan in self._plans()}

    def figure(self, name: str) -> Drawing:
        """Draw the figure named `name`, or else the first figure whose name begins with `name` and a hyphen.

        Raises: InputError for an unknown figure, and for a figure that has nothing to show."""
        plans = {plan.name: plan for plan in self._plans()}
        plan = plans.get(name) or next((plan for key, plan in plans.items() if key.startswith(f"{name}-")), None)
        if plan is None:
            raise InputError(f"no figure is named '{name}'", did_you_mean(name, plans))
        if (picture := plan.picture()) is None:
            raise InputError(f"figure {plan.name} has nothing to show", "the campaign lacks its values")
        return Drawing(plan.name, plan.title, picture.svg())

    def __repr__(self) -> str:
        return f"lastro.open({str(self.directory)!r})"

    def _blocks(self) -> Iterator[Block]:
        from lastro.builders.results import results_blocks

        return results_blocks(self._content, "short")

    def _plans(self) -> Iterator[Any]:
        from lastro.builders.page_figures import planned_figures

        return planned_figures(self._content)

    def _known(self, metric: str | None, among: Sequence[str] = ()) -> Sequence[str]:
        """Return [`metric`] or, if it is None, all of `among` (default: the analysed metrics).

        Raises: InputError when `metric` is not in `among`."""
        known = list(among or self.metrics)
        if metric is not None and metric not in known:
            raise InputError(f"no metric is named '{metric}'", did_you_mean(metric, known))
        return known if metric is None else [metric]

    @cached_property
    def _content(self) -> Content:
        return content_from(self._data, claims_of(self.directory, self.study), ENGLISH, all_metrics=self._all_metrics)


_TEXT, _COUNT, _NUMBER = "VARCHAR", "BIGINT", "DOUBLE"  # SQL types of columns
_CANDIDATES = {
    "candidate": _TEXT, "verdict": _TEXT, "holds": _NUMBER, "cost": _NUMBER, "cost_low": _NUMBER, "cost_high": _NUMBER
}  # fmt: skip
_MEANS = {
    "metric": _TEXT, "unit": _TEXT, "n": _COUNT, "at_least": _COUNT, "mean": _NUMBER, "low": _NUMBER, "high": _NUMBER,
    "ratio": _NUMBER, "ratio_low": _NUMBER, "ratio_high": _NUMBER, "ratio_bound": _TEXT, "verdict": _TEXT,
    "marks": _TEXT,
}  # fmt: skip
_EFFECTS = {
    "metric": _TEXT, "factor": _TEXT, "level": _TEXT, "reference": _TEXT, "ratio": _NUMBER, "low": _NUMBER,
    "high": _NUMBER, "p": _NUMBER, "decision": _TEXT, "aliases": _TEXT, "marks": _TEXT,
}  # fmt: skip


def _ends(estimate: Mapping[str, Any]) -> tuple[Value, Value]:
    interval = estimate.get("interval") or {}
    return interval.get("low"), interval.get("high")


def _shown(value: Value) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
