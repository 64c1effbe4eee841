"""The topology of a trial: instances from source to sink, devices between them, the neighbour, the witnesses.

It is drawn as a column, no wider than the names and addresses need."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import cos, pi, sin
from typing import Any

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.topology import drawn_topology, is_mesh, n_hosts, nodes_off_path, path_loads, tool_versions
from lastro.figures.matplotlib_types import Axes, Figure
from lastro.figures.style import GREY, PALETTE, SMALL_PT, Picture, new_figure, style, width_of
from lastro.figures.text import chars, safe, wrapped
from lastro.results.topology import Device, Link, LinkEnd, Node, Topology
from lastro.words.language import ENGLISH, Language
from lastro.words.topology import description, node_facts, node_heading

_WIDEST_IN, _LINE_IN, _PAD_IN = 4.1, 0.155, 0.07
_LEFT_IN, _EDGE_IN, _WIRE_IN, _LOAD_IN = 0.42, 0.18, 0.7, 0.24
_FILL, _FILL_ANOMALY, _DEVICE = "#EEF4F9", "#FCEFE6", "#C9CED3"
_LOADS, _ANOMALY, _WITNESS = PALETTE[0], PALETTE[1], "#00714F"
_MOST_NAMED = 60  # routers
_GRID = re.compile(r"r(\d+)-(\d+)")


def topology_picture(title: str, how: str, topology: Topology, known: Mapping[str, str]) -> Picture:
    """Return the picture of a topology, with its title and the line `how` above it; `known` is {tool: version}."""
    with style():
        return Picture("topology", title, draw_topology(topology, title, (how,), known))


def draw_recorded_topology(report: CampaignResults, say: Language) -> Figure | None:
    """Draw the topology of the baseline or, if it has none, of the first treatment that has one.

    The lines below the title name the factors of the study. None if no valid trial recorded a topology."""
    drawn = drawn_topology(report)
    if drawn is None:
        return None
    levels = [f"{name} = {level}" for name, level in drawn.treatment.levels.items()]
    varied = [f"{factor.name} ({', '.join(map(str, factor.levels))})" for factor in report.varying]
    how = [say("trial {trial}: {levels}", trial=drawn.recorded.trial, levels=", ".join(levels))]
    how += [say("the study varies {factors}", factors="; ".join(varied))] if varied else []
    title = say("What a trial consisted of")
    return draw_topology(drawn.recorded.topology, title, how, tool_versions(report.provenance), say, drawn.others)


def draw_topology(
    topology: Topology,
    title: str,
    how: Sequence[str],
    known: Mapping[str, str],
    say: Language = ENGLISH,
    others: Sequence[Node] = (),
) -> Figure:
    """Return a figure of a topology below its title and the lines `how`.

    `known` is {tool: version}. `others` are nodes that only other treatments have; their edges are dashed."""
    figure = new_figure()
    figure.set_size_inches(min(_WIDEST_IN, width_of(figure)), 1)
    sketch = _Sketch(topology, known, say, width_of(figure))
    sketch.head(title, how)
    if is_mesh(topology):
        sketch.mesh()
    else:
        sketch.chain(others)
    sketch.legend()
    figure.set_size_inches(width_of(figure), sketch.y_in)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width_of(figure)), ylim=(sketch.y_in, 0))
    axes.set_axis_off()
    for stroke in sketch.strokes:
        stroke(axes)
    figure.set_label(description(topology))
    return figure


class _Sketch:
    """A drawing in progress, from the top down, in inches.

    It keeps its strokes in a list, because the height of the figure is known only at the end."""

    def __init__(self, topology: Topology, known: Mapping[str, str], say: Language, width_in: float) -> None:
        self.topology, self.known, self.say = topology, known, say
        self.width_in, self.right_in = width_in, width_in - _EDGE_IN
        self.strokes: list[Callable[[Axes], Any]] = []
        self.y_in = 0.14
        self._middles: dict[str, float] = {}

    def head(self, title: str, how: Sequence[str]) -> None:
        """Write the title in bold, and below it the lines `how`, which explain how to read the figure."""
        for part in self._wrapped(title, self.width_in - 0.1, 9, bold=True):
            self._text(0.05, self.y_in, part, 9, "black", fontweight="bold")
            self.y_in += 1.05 * _LINE_IN
        for part in (part for line in how for part in self._wrapped(line, self.width_in - 0.1, 8.2)):
            self._text(0.05, self.y_in, part, 8.2, "#333333")
            self.y_in += _LINE_IN
        self.y_in += 0.05

    def chain(self, others: Sequence[Node]) -> None:
        """Draw the nodes of the main path and their links as a column, then all other nodes, then `others`."""
        main = self.topology.main_path
        for role, next_role in zip(main, [*main[1:], ""], strict=True):
            self._box(self.topology.node(role) or Node(role))
            for link, here, there in self.topology.at(role):
                if there.role == next_role:
                    self._wire(link, here, there)
                    break
        self._arrows(main)
        for node in nodes_off_path(self.topology):
            self.y_in += 0.14
            self._box(node)
            for link, here, there in self.topology.at(node.role):
                self._wire(link, here, there, to=self.say("to {role}", role=there.role))
        for node in others:
            self.y_in += 0.14
            self._box(node, absent=self.say("in other treatments"))

    def _box(self, node: Node, absent: str = "") -> None:
        lines = node_facts(node, self.known, n_hosts(self.topology), self.say)
        wrapped = [part for line in lines for part in self._wrapped(line, self.right_in - _LEFT_IN - 0.2, 7.8)]
        edge, fill = (_ANOMALY, _FILL_ANOMALY) if node.anomaly else ("#31383E", _FILL)
        top_in, height_in = self.y_in, _LINE_IN * (1.1 + len(wrapped)) + 2 * _PAD_IN
        self._rectangle(_LEFT_IN, top_in, self.right_in - _LEFT_IN, height_in, edge, fill, broken=bool(absent))
        at_in = top_in + _PAD_IN + 0.55 * _LINE_IN
        self._text(_LEFT_IN + 0.1, at_in, safe(node_heading(node)), 9, "black", fontweight="bold")
        witnesses = [number for number, witness in enumerate(self.topology.witnesses, 1) if node.role in witness.at]
        for place, number in enumerate(reversed(witnesses)):
            self._number(number, self.right_in - 0.15 - 0.2 * place, at_in)
        if absent:
            self._text(self.right_in - 0.1, at_in, absent, SMALL_PT, GREY, ha="right")
        for number, text in enumerate(wrapped, 1):
            self._text(_LEFT_IN + 0.1, at_in + number * _LINE_IN, text, 7.8, "#31383E")
        self.y_in += height_in
        self._middles[node.role] = top_in + height_in / 2

    def _number(self, number: int, x_in: float, at_in: float) -> None:
        circle = {"boxstyle": "circle,pad=0.22", "facecolor": _WITNESS, "edgecolor": "none"}
        self._text(x_in, at_in, str(number), 6.5, "white", ha="center", bbox=circle, fontweight="bold")

    def _wire(self, link: Link, here: LinkEnd, there: LinkEnd, to: str = "") -> None:
        """Draw a link as a line from the port `here` down to the port `there`, with the devices between them.

        With `to`, this text replaces the port `there`."""
        way = link.way if here is link.a else link.way[::-1]
        top_in = self.y_in
        rows: list[LinkEnd | Device | str] = [here, f"{link.attachment} {to}".strip(), *way]
        if not to:
            rows.append(there)
        for row, what in enumerate(rows):
            at_in = top_in + (row + 0.75) * _LINE_IN
            if isinstance(what, str):
                text, look = what, {"colour": "black", "fontweight": "bold"}
            else:
                name = what.port if isinstance(what, LinkEnd) else what.name
                text = " ".join(filter(None, (name, what.address, f"({what.kind})" if what.kind else "")))
                look = {"colour": GREY if isinstance(what, Device) else "#31383E"}
            self._text(_WIRE_IN + 0.12, at_in, safe(text), 7.8, **look)
            if isinstance(what, Device):
                self._rectangle(_WIRE_IN - 0.045, at_in - 0.045, 0.09, 0.09, "#31383E", _DEVICE, above=True)
        self.y_in += (len(rows) + 0.5) * _LINE_IN
        self._line([_WIRE_IN, _WIRE_IN], [top_in, self.y_in], "#31383E", 1.3)

    def _arrows(self, main: Sequence[str]) -> None:
        """Draw one arrow for each path of a load, along the left side."""
        for source, target in path_loads(self.topology):
            if source != target and {source, target} <= set(main):
                from_in, to_in = self._middles[source], self._middles[target]
                self._line([_LEFT_IN, _LOAD_IN, _LOAD_IN, _LEFT_IN], [from_in, from_in, to_in, to_in], _LOADS, 1.4)
                self._line([_LEFT_IN - 0.04], [to_in], _LOADS, 0, marker=">", ms=5.5)

    def mesh(self) -> None:
        """Draw routers as boxes and links as lines, on a grid or a circle; below, list the kinds of nodes and links."""
        names = [node.role for node in self.topology.nodes]
        places = _places(names)
        side_in = self.right_in - _LEFT_IN
        at = {
            name: (_LEFT_IN + 0.1 + x * (side_in - 0.2), self.y_in + 0.15 + y * 0.8 * side_in)
            for name, (x, y) in places.items()
        }
        for link in self.topology.links:
            (x_a, y_a), (x_b, y_b) = at[link.a.role], at[link.b.role]
            self._line([x_a, x_b], [y_a, y_b], "#31383E", 1.0)
        for name, (x_in, y_in) in at.items():
            shape = {"boxstyle": "round,pad=0.35", "facecolor": _FILL, "edgecolor": "#31383E", "linewidth": 0.8}
            label = safe(name, 12) if len(names) <= _MOST_NAMED else " "
            self._text(x_in, y_in, label, 7.0, "black", ha="center", bbox=shape)
        self.y_in += 0.8 * side_in + 0.35
        kinds = dict.fromkeys(" · ".join(node_facts(node, self.known, 1, self.say)) for node in self.topology.nodes)
        kinds |= dict.fromkeys(link.attachment for link in self.topology.links)
        for text in kinds:
            self._text(0.3, self.y_in, safe(text), 7.8, "#31383E")
            self.y_in += _LINE_IN

    def legend(self) -> None:
        """Name the load generators and the witnesses, and say so when the whole topology is on one host."""
        self.y_in += 0.2
        for (source, target), instruments in path_loads(self.topology).items():
            way = self.say("inside {role}", role=source) if source == target else f"{source} → {target}"
            self._entry(f"{way}: {', '.join(instruments)}", _LOADS)
        for number, witness in enumerate(self.topology.witnesses, 1):
            self._number(number, 0.15, self.y_in)
            self._entry(f"{witness.name}: {witness.watches}", _WITNESS)
        if n_hosts(self.topology) == 1 and len(self.topology.nodes) > 1:
            self._entry(self.say("Everything is on one host."), GREY)

    def _entry(self, text: str, colour: str) -> None:
        for part in self._wrapped(text, self.width_in - 0.35, SMALL_PT):
            self._text(0.3, self.y_in, part, SMALL_PT, colour)
            self.y_in += _LINE_IN

    @staticmethod
    def _wrapped(text: str, room_in: float, size_pt: float, *, bold: bool = False) -> list[str]:
        return wrapped(text, chars(room_in, size_pt), 400, bold=bold).split("\n")

    # Strokes

    def _text(self, x_in: float, y_in: float, text: str, size_pt: float, colour: str, **more: Any) -> None:
        self.strokes.append(
            lambda axes: axes.text(x_in, y_in, text, fontsize=size_pt, color=colour, va="center", **more)
        )

    def _line(self, x_in: Sequence[float], y_in: Sequence[float], colour: str, width_pt: float, **more: Any) -> None:
        self.strokes.append(lambda axes: axes.plot(x_in, y_in, color=colour, linewidth=width_pt, zorder=1, **more))

    def _rectangle(
        self, x_in: float, y_in: float, width_in: float, height_in: float, edge: str, fill: str, *,
        broken: bool = False, above: bool = False,
    ) -> None:  # fmt: skip
        def draw(axes: Axes) -> None:
            from matplotlib.patches import Rectangle

            line = (0, (3, 2)) if broken else "-"
            axes.add_patch(
                Rectangle(
                    (x_in, y_in), width_in, height_in, facecolor=fill, edgecolor=edge, linewidth=0.9, linestyle=line,
                    zorder=2 + above,
                )
            )  # fmt: skip

        self.strokes.append(draw)


def _places(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return {name of a node: (x, y)} in a square of side 1.

    If all names have the form 'r2-3', they are rows and columns of a grid; otherwise the nodes are on a circle."""
    cells = [match for name in names if (match := _GRID.fullmatch(name))]
    if len(cells) == len(names):
        rows, columns = (max(1, *(int(cell[side]) for cell in cells)) for side in (1, 2))
        return {cell[0]: (int(cell[2]) / columns, int(cell[1]) / rows) for cell in cells}
    turns = [2 * pi * at / len(names) for at in range(len(names))]
    return {name: (0.5 + 0.5 * sin(turn), 0.5 - 0.5 * cos(turn)) for name, turn in zip(names, turns, strict=True)}
