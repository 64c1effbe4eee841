"""The figures of a campaign as parts of its documents: drawn within a page, or in files to which a document links."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lastro.builders.content import Content
from lastro.document import Figure
from lastro.figures import NARROW_IN, WIDE_IN, FigurePlan, Kind, plans
from lastro.figures.svg import with_unique_ids


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure of a document; its section selects it by the kind, metric and factor of its plan."""

    plan: FigurePlan
    figure: Figure


class PageFigures(tuple[PageFigure, ...]):
    """The figures of a document in their order; `of` selects those of one section."""

    __slots__ = ()

    def of(self, kind: Kind, metric: int | None = None) -> tuple[Figure, ...]:
        """Return the figures of this kind: of the metric with this index or, if `metric` is None, of all metrics."""
        return tuple(
            page_figure.figure
            for page_figure in self
            if page_figure.plan.kind == kind and metric in (None, page_figure.plan.metric)
        )


NO_FIGURES = PageFigures()


def draw_figures(planned: Iterable[FigurePlan]) -> PageFigures:
    """Draw the planned figures as SVG and return them in order, without those for which there is no data."""
    drawings = ((plan, svgs_of(plan)) for plan in planned)
    return PageFigures(PageFigure(plan, Figure(plan.title, svgs)) for plan, svgs in drawings if svgs)


def link_figures(planned: Iterable[FigurePlan], links: Mapping[str, str]) -> PageFigures:
    """Return those planned figures that are in files, as links to the files; `links` is {title: address}."""
    if not links:
        return NO_FIGURES  # without making the plans
    in_files = ((plan, links[plan.title]) for plan in planned if plan.title in links)
    return PageFigures(PageFigure(plan, Figure(plan.title, address=address)) for plan, address in in_files)


def planned_figures(content: Content) -> Iterator[FigurePlan]:
    """Yield the plans of all figures of a campaign, in the order of a page; a planned figure may have no data."""
    return plans(content.report, content.analysis, content.say, content.judgements, content.published)


def svgs_of(plan: FigurePlan) -> tuple[str, ...]:
    """Return a figure as two SVGs, for a wide and a narrow page, with ids unique on a page; empty without data."""
    pictures = [plan.picture(width_in) for width_in in (WIDE_IN, NARROW_IN)]
    svgs = [picture.svg() for picture in pictures if picture]
    return tuple(with_unique_ids(svg, f"f{zlib.crc32(svg.encode()):x}-") for svg in svgs)
