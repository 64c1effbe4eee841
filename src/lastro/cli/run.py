"""Results, transcripts and provenance go to DIR, which defaults to campaigns/NAME-DATE-TIME. Each finished trial is
saved immediately: after Ctrl-C, a crash or kill -9, `lastro resume DIR` continues with the same schedule.

A folder of study files, or a paper with several studies, is a suite: its studies run one after the other, each as a
campaign of its own in DIR/STUDY. One that cannot run here, or cannot finish, does not stop the others; the exit code is
then 3."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from lastro.app import campaigns, suites
from lastro.app.campaign_dirs import check_place, place_for
from lastro.app.campaigns import ResumeOptions
from lastro.app.rights import require_root
from lastro.app.studies import load_fleet, load_study, load_testbed, suite_of
from lastro.cli import _common
from lastro.cli._conclude import conclude
from lastro.errors import InputError
from lastro.scenarios.base import scenario_of
from lastro.units import parse_duration_s
from lastro.words.language import language


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _common.study_arguments(parser, _common.hosts_arguments)
    add("-o", "--output", type=Path, metavar="DIR", help="directory of the campaign; must not hold one already")
    _common.wait_argument(parser)
    add("--properties", action="store_true", help="first find properties of the study's platforms and links")
    add(
        "--until", choices=("decided",),
        help="run whole blocks until the service levels of the study, [sla], are decided, and no more than it has",
    )  # fmt: skip
    add("--within", metavar="TIME", help="with --until: begin no block that would end later, such as 30min, 90s or 2h")
    add("--no-report", action="store_true", help="do not write the HTML report at the end")
    _common.language_argument(parser, "report and of the results at the end")
    _common.fail_invalid_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.within is not None and not args.until:
        raise InputError("--within is for --until", "add --until decided")
    within_s = 0.0 if args.within is None else parse_duration_s(args.within)
    chosen = replace(_common.selection(args), until_decided=args.until is not None, within_s=within_s)
    given = suite_of(args.study, _common.selection(args))
    if given and chosen.until_decided:
        raise InputError(f"--until is for one study, and {args.study} is a suite", "name one of its study files")
    studies = given.studies if given else (load_study(args.study, chosen),)
    most = _common.most_invalid(args)
    if args.properties and args.fleet:
        hint = "ask each testbed: lastro doctor --testbed FILE --properties"
        raise InputError("--properties is not for campaigns on a fleet", hint)
    if any(scenario_of(study).needs_root for study in studies):
        require_root("run")
    directory = args.output or place_for(given.folder.name if given else studies[0].name)
    if given:
        how = ResumeOptions(wait=args.wait, testbed=args.testbed, fleet=args.fleet, properties=args.properties)
        suites.begin(directory, given, how)
    else:
        check_place(directory)
        file, fleet, properties = load_testbed(args.testbed), load_fleet(args.fleet), args.properties
        campaigns.begin(directory, studies[0], wait=args.wait, file=file, fleet=fleet, properties=properties)
    return conclude(directory, language(args.lang), report=not args.no_report, most_invalid=most)
