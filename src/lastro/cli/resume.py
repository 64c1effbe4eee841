"""Continues with the schedule drawn at the start. The trial that was running when the campaign stopped runs again.

Trials of one campaign are compared with each other, so a campaign continues only on the host, and with the kernel,
settings, programs and root filesystem, with which it began. With --accept-change it continues anyway: later trials are
a segment of their own, which is not paired with earlier trials, and the report says so. --invalid also
repeats the trials that were given up as invalid; their earlier attempts are kept and reported.

A suite continues with the study that was interrupted and those that had not begun. When nothing is left, it
tries the unavailable trials again."""

from __future__ import annotations

import argparse

from lastro.app import campaigns, suites
from lastro.app.campaigns import ResumeOptions
from lastro.campaign.suite import is_suite
from lastro.cli import _common
from lastro.cli._conclude import conclude
from lastro.words.language import language


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _common.campaign_argument(parser)
    _common.hosts_arguments(parser)
    _common.wait_argument(parser)
    add(
        "--accept-change", "--changed-host", dest="changed_host", action="store_true",
        help="continue although the host, a program or the image has changed; later trials are a new segment",
    )  # fmt: skip
    add("--invalid", action="store_true", help="also repeat trials given up as invalid; earlier attempts are kept")
    add("--no-report", action="store_true", help="do not write the HTML report at the end")
    _common.language_argument(parser, "report and of the results at the end")
    _common.fail_invalid_argument(parser)


def run(args: argparse.Namespace) -> int:
    most = _common.most_invalid(args)
    how = ResumeOptions(args.wait, args.changed_host, args.invalid, args.testbed, args.fleet)
    resume = suites.resume if is_suite(args.dir) else campaigns.resume
    if not resume(args.dir, how):
        print(f"{args.dir}: nothing is left to run")
    return conclude(args.dir, language(args.lang), report=not args.no_report, most_invalid=most)
