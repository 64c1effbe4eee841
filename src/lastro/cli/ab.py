"""Answers whether b is worse than a. What differs may be a program, a root filesystem, a version of a function or of
another part of your own, a setting of the kernel's network, or any setting or option of a part. Both run in the same
blocks of one campaign, in random order, so that no change of the host or of the day can pass for a change of the
variant.

  lastro ab study.toml --a runc=/opt/runc-1.1/runc --b runc=/opt/runc-1.2/runc
  lastro ab study.toml --b net.ipv4.tcp_congestion_control=reno        a is the study as it is
  lastro ab study.toml --b release=trixie --b packages=jq,curl         or --b rootfs=DIRECTORY, an OCI image
  lastro ab study.toml --a git=v1.0 --b git=HEAD                       of functions that are built from a repository
  lastro ab study.toml --b parts=HEAD~1                                of parts in the folders of LASTRO_PARTS
  lastro ab study.toml --a cpus=1 --b cpus=2 --until decided --within 20min
  lastro ab study.toml           a study with the factor `variant` and its tables [variants.NAME]
  lastro ab DIR                  the answer of a campaign once more; `lastro resume DIR` continues it

Without a study it is `demo`. The first line is the answer. The exit code is 0 if b is no worse, 4 if it is worse, and 8
if that is undecided. b passes if any change for the worse is surely below the margin. It raises an alarm if it is
surely worse, and perhaps by more than the margin. An alarm is tried once more on new blocks before it fails anything,
so a campaign may have up to twice the blocks. Needs root when the scenario does."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from lastro.cli._common import hosts_arguments, junit_argument, language_argument, share, wait_argument, write_file
from lastro.errors import InputError
from lastro.words.language import language

DEMO = "demo"
_EXIT_CODES = {"no worse": 0, "worse": 4, "unconfirmed": 8, "alarm": 8, "undecided": 8}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "study", metavar="STUDY|DIR", nargs="?", default=DEMO,
        help="a study file, the name of a built-in study, or the directory of a campaign with variants; default: demo",
    )  # fmt: skip
    for name, of in (("a", "a, the reference"), ("b", "b, which is judged")):
        add(
            f"--{name}", metavar="NAME=VALUE", action="append", default=[], dest=f"of_{name}",
            help=f"what differs in {of}: runc=/PATH, release=NAME, git=REVISION, parts=REVISION, net.ipv4.x=VALUE, or a"
            " setting such as cpus=1; repeatable",
        )  # fmt: skip
    hosts_arguments(parser)
    add("--profile", metavar="P", help="one of the study's profiles")
    add(
        "--only", metavar="FACTOR=LEVEL,...", action="append", default=[],
        help="keep only these levels of a factor, such as platform=runc; repeatable",
    )  # fmt: skip
    add(
        "--set", metavar="NAME=VALUE", action="append", default=[], dest="settings",
        help="change a constant of both variants, such as tcp_s=5; repeatable",
    )  # fmt: skip
    add("--metric", metavar="NAME", help="what is judged (default: the first metric of the study)")
    add(
        "--margin", metavar="P",
        help="a change for the worse passes if it is surely smaller (default: that of the metric in the study, or 3%%)",
    )  # fmt: skip
    add("--blocks", metavar="N", type=int, help="blocks before an alarm; with --until, at most")
    add("--until", choices=("decided",), help="look after each block, and stop when it is decided; 20 blocks at most")
    add("--within", metavar="TIME", help="begin no block that would end later, such as 20min")
    add("-o", "--output", type=Path, metavar="DIR", help="directory of the campaign")
    wait_argument(parser)
    junit_argument(parser)
    language_argument(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print it as JSON")
    output.add_argument("--format", choices=("text", "md"), default="text", help="md: Markdown, for a pull request")


def run(args: argparse.Namespace) -> int:
    from lastro.analysis.variants import judge_variants, variant_test
    from lastro.app import variants
    from lastro.app.contents import report_of
    from lastro.builders.data.variants import document, junit
    from lastro.builders.variants import variant_blocks
    from lastro.cli._terminal import print_answer
    from lastro.render.markdown import markdown
    from lastro.study.selection import Selection
    from lastro.units import parse_duration_s

    margin = None if args.margin is None else share(args.margin, "--margin", above_zero=True)
    directory = Path(args.study)
    if directory.is_dir() and args.study != DEMO:
        study_options = ("of_a", "of_b", "only", "settings", "profile", "blocks", "until", "within", "output")
        if wrong := next((name for name in study_options if getattr(args, name)), None):
            option = f"--{wrong.removeprefix('of_').replace('settings', 'set')}"
            raise InputError(f"{option} is for a study, and {directory} is a campaign", "give a study file")
    else:
        selection = Selection(args.profile, tuple(args.only), tuple(args.settings))
        a, b, until_decided = tuple(args.of_a), tuple(args.of_b), args.until is not None
        within_s = 0.0 if args.within is None else parse_duration_s(args.within)
        plan = variants.VariantOptions(
            args.study, selection, a, b, args.metric, margin, args.blocks, until_decided, within_s
        )
        directory = variants.run(plan, args.output, args.testbed, args.fleet, wait=args.wait)
    report = report_of(directory)
    variant_answer = judge_variants(report, variant_test(report.study, args.metric, margin))
    if args.junit:
        write_file(args.junit, junit(variant_answer))
    if args.format == "md":
        say = language(args.lang)
        print(markdown(variant_blocks(variant_answer, say), say), end="")
    else:
        print_answer(args, partial(document, variant_answer), partial(variant_blocks, variant_answer))
    return _EXIT_CODES[variant_answer.outcome]
