"""Keeps the means of campaigns over months, with every fact of the host, and says where they changed. All
of it is in the file that --file names, so the campaigns may be deleted.

  lastro history add DIR... --label v1.2        add campaigns; the first ones begin the file
  lastro history list                           the campaigns, and what changed on their hosts between them
  lastro history check                          the changes; exit code 4 if one for the worse is not acknowledged
  lastro history check --sentinel platform=native
                                                tell changes of the software from those of the host
  lastro history show throughput -o page.html --format html
                                                the values of a metric, with figures
  lastro history acknowledge v1.2 --note "new kernel" --metric throughput
  lastro history mute --where platform=lxd --note "LXD is to be replaced"; unmute ends it
  lastro history export --format prometheus     the newest means for the node exporter; openmetrics: all of them

A change needs three campaigns on either side, so the newest two are never decided on. All series that are looked at
together show a change that is none with a probability of at most 0.5 % at each look; docs/howto-history.md tells
how that was measured. Needs no root."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.cli._common import junit_argument, language_argument, levels_named, output_argument, write_file
from lastro.cli._terminal import print_answer, rendered, write_output
from lastro.errors import InputError
from lastro.results.history_points import DEFAULT_FILE, RemarkKind
from lastro.words.language import language

if TYPE_CHECKING:
    from lastro.analysis.history import HistoryReport

ALARM = 4
_SHOWN = ("metric", "where", "sentinel", "format", "output", "lang", "all", "json")
_OPTIONS = {
    "add": ("label",),
    "list": ("lang", "all", "json"),
    "show": _SHOWN,
    "check": (*_SHOWN, "junit"),
    "acknowledge": ("note", "metric", "where"),
    "mute": ("note", "metric", "where"),
    "unmute": ("note", "metric", "where"),
    "export": ("metric", "where", "sentinel", "format", "output"),
}
_SAID: dict[str, RemarkKind] = {"acknowledge": "acknowledged", "mute": "muted", "unmute": "unmuted"}
_FORMATS = {"show": ("text", "md", "html"), "check": ("text", "md", "html"), "export": ("prometheus", "openmetrics")}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_OPTIONS), help="what to do, as in the examples below")
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help="add: campaigns; show: a metric; acknowledge: the label or the campaign at which a change begins",
    )  # fmt: skip
    parser.add_argument(
        "--file", type=Path, metavar="FILE", default=Path(DEFAULT_FILE), dest="history",
        help=f"the history (default: {DEFAULT_FILE} in the working directory)",
    )  # fmt: skip
    parser.add_argument("--label", metavar="WORD", default="", help="a commit, tag or other name of what was measured")
    parser.add_argument("--note", metavar="TEXT", default="", help="why: it is kept, and shown beside the change")
    parser.add_argument("--metric", metavar="NAME", default="", help="only this metric")
    parser.add_argument(
        "--where", metavar="FACTOR=LEVEL,...", action="append", default=[],
        help="only treatments with these levels, such as platform=docker; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--sentinel", metavar="FACTOR=LEVEL", action="append", default=[],
        help="treatments that the software under test cannot change, such as platform=native",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("text", "md", "html", "prometheus", "openmetrics"),
        help="show, check: text, md or html; export: prometheus or openmetrics",
    )  # fmt: skip
    output_argument(parser)
    junit_argument(parser)
    language_argument(parser)
    parser.add_argument("--all", action="store_true", help="as text: print what is folded, too, such as every fact")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    from lastro.app import histories

    _check_options(args)
    match args.action:
        case "add":
            added, known = histories.add(args.history, [Path(name) for name in args.names], args.label)
            print(f"{args.history}: {added} added" + (f", {known} known already" if known else ""))
        case "list":
            from lastro.builders.data.history import campaigns_document
            from lastro.builders.history import list_blocks
            from lastro.results.history import read_history

            history = read_history(args.history)
            as_json, as_text = partial(campaigns_document, history), partial(list_blocks, history)
            print_answer(args, as_json, as_text, everything=args.all)
        case "show":
            args.metric = args.names[0]
            _write_report(args, _report(args), details=True)
        case "check":
            report = _report(args)
            if args.junit:
                from lastro.builders.data.history import junit

                write_file(args.junit, junit(report))
            _write_report(args, report, details=False)
            return ALARM if report.alarms else 0
        case "export":
            from lastro.builders.data.prometheus import openmetrics, prometheus

            text = openmetrics if args.format == "openmetrics" else prometheus
            write_output(args.output, text(_report(args)))
        case action:
            at, where = args.names[0] if args.names else "", levels_named(args.where, "--where")
            histories.remark(args.history, _SAID[action], args.note, at, args.metric, where)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Raise InputError for an option or a name that the action does not take, and for a name that it needs."""
    defaults: dict[str, object] = {
        "junit": None, "label": "", "note": "", "metric": "", "where": [], "sentinel": [], "format": None,
        "output": "-", "lang": "en", "all": False, "json": False,
    }  # fmt: skip
    command, hint = f"`lastro history {args.action}`", "`lastro history --help` has examples"
    for name, default in defaults.items():
        if getattr(args, name) != default and name not in _OPTIONS[args.action]:
            raise InputError(f"--{name} is not for {command}", hint)
    if args.format and args.format not in _FORMATS[args.action]:
        formats = ", ".join(_FORMATS[args.action])
        raise InputError(f"--format {args.format} is not for {command}", f"one of {formats}")
    wanted = {"add": "a campaign's directory", "show": "a metric", "acknowledge": "a label or a campaign"}
    if args.action in wanted and not args.names:
        raise InputError(f"{command} needs {wanted[args.action]}", hint)
    if len(args.names) > {"add": len(args.names), "show": 1, "acknowledge": 1}.get(args.action, 0):
        raise InputError(f"{command} does not take '{args.names[-1]}'", hint)
    if args.action in _SAID and not args.note.strip():
        raise InputError(f"{command} needs a reason", 'give it with --note "…"')


def _report(args: argparse.Namespace) -> HistoryReport:
    from lastro.analysis.history import judge_history
    from lastro.results.history import read_history

    wanted, sentinel = levels_named(args.where, "--where"), levels_named(args.sentinel, "--sentinel")
    return judge_history(read_history(args.history), args.metric, wanted, sentinel)


def _write_report(args: argparse.Namespace, report: HistoryReport, *, details: bool) -> None:
    from lastro.builders.data.history import document
    from lastro.builders.history import history_blocks
    from lastro.document import Figure
    from lastro.plain import json_text

    say = language(args.lang)
    if args.json:
        write_output(args.output, f"{json_text(document(report))}\n")
        return
    figures = {}
    if args.format == "html" and details:
        from lastro.builders.page_figures import svgs_of
        from lastro.figures.history import history_plans

        figures = {at: Figure(plan.title, svgs_of(plan)) for at, plan in enumerate(history_plans(report, say))}
    blocks = history_blocks(report, say, figures, details=details)
    write_output(args.output, rendered(args.format or "text", blocks, say, args.history.name, everything=args.all))
