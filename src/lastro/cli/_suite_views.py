"""Results and report of a suite: of each study, and of the whole."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lastro.campaign import suite as suites
from lastro.cli import report as report_command
from lastro.cli import results as results_command
from lastro.cli._common import refuse_suite
from lastro.cli.claims import claims_of
from lastro.plain import json_text
from lastro.report.language import language

FORMAT = "lastro-suite-results/1"


def results(args: argparse.Namespace) -> int:
    from lastro.analysis.campaign import build_report
    from lastro.report.document import document

    suite = suites.read(args.dir)
    data = {
        front.name: results_command.loaded(args.dir / front.name)
        for front in suite.fronts
        if suites.begun(args.dir, front)
    }
    results_command.export(args, data)
    reports = {front: build_report(each, all_metrics=args.all_metrics) for front, each in data.items()}
    if args.json:
        fronts = [{"front": front, **document(report)} for front, report in reports.items()]
        missing = [
            {"front": front.name, "reason": front.stopped, "remedy": front.remedy}
            for front in suite.fronts
            if front.name not in data
        ]
        head = {"format": FORMAT, "directory": str(args.dir), "suite": suite.name, "title": suite.title}
        print(json_text({**head, "fronts": fronts, "not_begun": missing}))
    elif not (args.csv or args.parquet):
        for number, front in enumerate(suite.fronts, 1):
            print(f"── front {number} of {len(suite.fronts)}: {front.name} ──\n", flush=True)
            if front.name in reports:
                results_command.print_table(reports[front.name])
            else:
                remedy = f"\n  remedy: {front.remedy}" if front.remedy else ""
                print(f"not begun{': ' + front.stopped if front.stopped else ''}{remedy}\n")
    return 0


def report(args: argparse.Namespace) -> int:
    """Write the page of the whole suite, and the pages of its studies, to which it links."""
    from lastro.report.suite import Stopped, SuiteFront, render_suite

    if args.format != "html":
        refuse_suite(args.dir, f"--format {args.format}")
    suite, say = suites.read(args.dir), language(args.lang)
    output = args.output or str(args.dir / "report.html")
    folder = Path.cwd() if output == "-" else Path(output).parent
    fronts = []
    for front in suite.fronts:
        place = args.dir / front.name
        content, page, unjudged = None, place / "report.html", False
        if suites.begun(args.dir, front):
            content = report_command.content_of(place, say, all_metrics=args.all_metrics)
            report_command.write(args, place, content, None)
        else:
            unjudged = claims_of(place, front.study) is not None
        stopped = Stopped(front.stopped, front.remedy, suites.can_run(args.dir, front)) if front.stopped else None
        link = os.path.relpath(page, folder)
        fronts.append(SuiteFront(front.name, front.title, content, stopped, unjudged, link))
    report_command.put(output, render_suite(suite.label, suite.description, str(args.dir), fronts, say))
    return 0
