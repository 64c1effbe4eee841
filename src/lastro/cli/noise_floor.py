"""Runs the baseline against itself (an A/A campaign): its settings and metrics, two blocks for each block of the study.
Trials as far apart as in a block of the study are pairs, and the differences within them are noise. They give each
metric's noise floor: with the study's number of blocks, equal treatments differ on this host by more than that in 5 %
of campaigns. They also show how often an interval excludes "no difference" by chance.

  lastro noise-floor DIR           runs in DIR/noise-floor, and stores the floors in the campaign, for its report
  lastro noise-floor study.toml    runs on its own, in campaigns/NAME-noise-floor-DATE-TIME
  lastro noise-floor DIR -o AA     if AA holds a finished A/A campaign, judges it and runs nothing

It runs on the testbed with which the campaign in DIR began, unless --testbed names another.

With --campaigns K, it runs K A/A campaigns, in DIR/noise-floor, DIR/noise-floor-2 and so on, as far as they do not
exist yet, and stores how much equal campaigns differ: `lastro compare` needs that. Two campaigns in a row may differ
less than two days do, so run some today and some tomorrow: --campaigns 2 now, --campaigns 4 later.

After an interruption, `lastro resume DIR/noise-floor` continues; then `lastro noise-floor DIR` stores the floors.
Without --all, it runs only the baseline treatments that fit in an hour, and at least one. Needs root when the scenario
does."""

from __future__ import annotations

import argparse
from pathlib import Path

from lastro.app import noise_floor
from lastro.app.campaign_dirs import place_for
from lastro.app.studies import load_study, load_testbed
from lastro.campaign.runner import utc_now
from lastro.cli._common import language_argument, testbed_argument, wait_argument
from lastro.cli._terminal import print_answer
from lastro.document import Document, Paragraph
from lastro.errors import InputError
from lastro.files import require_own_directory
from lastro.results.database import holds_campaign
from lastro.study.selection import Selection
from lastro.words.language import Language

_MOST_CAMPAIGNS = 100


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("study", metavar="DIR|STUDY", help="a campaign's directory, or a study file, or the name of a built-in study")
    add("--profile", metavar="P", help="profile of a study file: quick, standard, paper or published")
    testbed_argument(parser)
    add("-o", "--output", type=Path, metavar="AA", help="directory of the A/A campaign, new or finished")
    add(
        "--campaigns", type=int, metavar="K",
        help="have K A/A campaigns, to measure the spread between campaigns (default: those that exist, at least 1)",
    )  # fmt: skip
    add("--all", action="store_true", help="run every baseline treatment, however long it takes")
    wait_argument(parser)
    add("--changed-host", action="store_true", help="store the floors even if the host or image differs")
    language_argument(parser)
    add("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> None:
    from lastro.analysis.noise_floor import to_dict
    from lastro.builders.noise_floor import KEPT_IN, KEPT_WITH, noise_floor_blocks

    judged = Path(args.study) if Path(args.study).is_dir() else None  # the campaign in which the floors are stored
    if judged and args.profile:
        raise InputError("--profile is for study files", "a campaign has its profile already")
    study = noise_floor.study_of(judged) if judged else load_study(args.study, Selection(args.profile))
    directory = judged / "noise-floor" if judged else place_for(f"{study.name}-noise-floor")
    directory = args.output or directory
    if judged:
        require_own_directory(judged)  # before anything runs: the floors are kept there
    file = load_testbed(args.testbed)  # an invalid one is reported, even if nothing is left to run
    directories = _directories(directory, args.campaigns)
    for place in directories:
        if not holds_campaign(place):
            noise_floor.run(study, place, judged, file, everything=args.all, wait=args.wait)
    floors = noise_floor.judge(directories, study)
    if judged:
        noise_floor.store_in_campaign(judged, directories, floors, changed_host=args.changed_host)

    def blocks(say: Language) -> Document:
        kept = say(KEPT_WITH, place=judged) if judged else say(KEPT_IN, place=directory)
        return [*noise_floor_blocks(floors, say), Paragraph(kept)]

    print_answer(args, lambda: to_dict(floors, utc_now()), blocks)


def _directories(first: Path, n_campaigns: int | None) -> list[Path]:
    """Return the directories of the A/A campaigns, `first`, `first`-2 and so on, some of which may not exist yet.

    There are `n_campaigns`, or as many as exist if that is more, and at least one. Raises: InputError when
    `n_campaigns` is out of range."""
    if n_campaigns is not None and not 1 <= n_campaigns <= _MOST_CAMPAIGNS:
        raise InputError(f"--campaigns {n_campaigns} is not from 1 to {_MOST_CAMPAIGNS}", "five is a good number")
    places = [first, *(first.with_name(f"{first.name}-{at}") for at in range(2, _MOST_CAMPAIGNS + 1))]
    existing = next((at for at, place in enumerate(places) if not holds_campaign(place)), len(places))
    return places[: max(existing, n_campaigns or 1)]
