"""The contents of a report: the data of a campaign, its analysis, and the verdicts on claims about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lastro.app.campaign_dirs import open_campaign
from lastro.campaign import suite as suites
from lastro.campaign.suite import SuiteStudy
from lastro.errors import InputError
from lastro.files import has_plain
from lastro.results.members import NAMELESS
from lastro.words.language import Language

if TYPE_CHECKING:
    from lastro.analysis.as_published import MatchedPublication
    from lastro.analysis.campaign import CampaignResults
    from lastro.analysis.claims.claim import Claims
    from lastro.analysis.pooled_study import PooledHost
    from lastro.builders.claims import JudgedClaims
    from lastro.builders.content import Content
    from lastro.builders.suite import StudySection
    from lastro.results.read import CampaignData

Identity: TypeAlias = tuple[str | None, ...]  # of a host: its name, then further facts; the name is None if unknown


def load_data(directory: Path) -> CampaignData:
    """Load a campaign. Raises: InputError when the directory holds no campaign; StoreError when it is damaged."""
    from lastro.results.read import load_campaign

    with open_campaign(directory) as store:
        return load_campaign(store)


def load_together(directories: Sequence[Path]) -> CampaignData:
    """Load several campaigns of one study as a single campaign.

    Raises: as `load_data`; InputError if they are campaigns of different studies."""
    from lastro.results.merge import merge_campaigns

    return merge_campaigns(load_all(directories))


def hosts_of(directories: Sequence[Path]) -> tuple[PooledHost, ...]:
    """Return the hosts on which campaigns of one study ran, in the order of `directories`, each with its report.

    Campaigns of the same host are put together. Each testbed of a fleet is a separate host, even if testbeds share a
    name and a processor. The host of each anonymous campaign is a separate host, too. The reports have all metrics.

    Raises: as `load_together`; InputError if a host is not known, or if there is only one host."""
    from lastro.analysis.build import build_report
    from lastro.analysis.pooled_study import PooledHost
    from lastro.results.merge import merge_campaigns, require_one_study
    from lastro.results.read import split_by_testbed

    loaded_campaigns = load_all(directories)
    campaigns = [host_campaign for campaign in loaded_campaigns for host_campaign in split_by_testbed(campaign)]
    if len(campaigns) == 1:
        raise InputError("one campaign is of one host", "give the campaigns of three hosts or more")
    require_one_study(campaigns)
    by_machine: dict[Identity, list[CampaignData]] = {}
    for campaign, identity in zip(campaigns, _identities(loaded_campaigns), strict=True):
        if identity[0] is None:
            hint = "pool campaigns whose provenance names the host"
            raise InputError(f"{campaign.directory} does not record its host", hint)
        by_machine.setdefault(identity, []).append(campaign)
    names = [str(name) for name, *_ in by_machine]
    if len(names) == 1:
        hint = "`lastro report DIR DIR ... -o FILE` puts them together; `lastro pool` is for hosts that differ"
        raise InputError(f"all of these campaigns are of one host, {names[0]}", hint)
    return tuple(
        PooledHost(
            f"{name} ({', '.join(filter(None, more))})" if names.count(str(name)) > 1 else str(name),
            build_report(merge_campaigns(of_host), all_metrics=True),
            tuple(campaign.directory for campaign in of_host),
        )
        for (name, *more), of_host in by_machine.items()
    )


def _identities(campaigns: Sequence[CampaignData]) -> Iterator[Identity]:
    """Yield a key for the host of each campaign; for a campaign on a fleet, one for each testbed.

    Equal keys mean the same host. The name of a testbed is part of its key only if another testbed of the fleet has the
    same facts, as clones do. Otherwise it is left out, since the same host may have another name, or none, in other
    campaigns. The keys of anonymous hosts are never equal."""
    from lastro.analysis.pooled_study import machine

    fleets = [Counter(machine(member.provenance.chapters) for member in campaign.members) for campaign in campaigns]
    clones = {facts for fleet in fleets for facts, n in fleet.items() if n > 1}
    for campaign in campaigns:
        testbeds = [(member.directory, member.provenance) for member in campaign.members]
        for name, provenance in testbeds or [("", campaign.provenance)]:
            facts = machine(provenance.chapters)
            if facts[0] == NAMELESS:
                yield (*facts, campaign.directory, name)
            else:
                yield (*facts, name) if facts in clones else facts


def load_all(directories: Sequence[Path]) -> list[CampaignData]:
    """Load campaigns. Raises: as `load_data`; InputError for a suite among several directories."""
    if len(directories) > 1:
        for directory in filter(suites.is_suite, directories):
            hint = f"give the directories of one of its studies, such as {directory}/STUDY"
            raise InputError(f"{directory} holds a suite, which cannot be put together with other campaigns", hint)
    return [load_data(directory) for directory in directories]


def report_of(directory: Path, *, all_metrics: bool = False) -> CampaignResults:
    """Load and analyse a campaign, and return its results. Raises: as `load_data`."""
    from lastro.analysis.build import build_report

    return build_report(load_data(directory), all_metrics=all_metrics)


def content_of(directories: Sequence[Path], say: Language, *, all_metrics: bool) -> Content:
    """Return the content of a report on campaigns, with the claims of the first campaign or of its paper."""
    data = load_together(directories)
    return content_from(data, claims_of(directories[0], data.study.name), say, all_metrics=all_metrics)


def content_from(data: CampaignData, file: Path | None, say: Language, *, all_metrics: bool = False) -> Content:
    """Return the content of a report on a loaded campaign; `file` is the claims file, or None for no claims."""
    from lastro.analysis import analyse
    from lastro.analysis.build import build_report
    from lastro.builders.content import Content

    if file is None:
        report = build_report(data, all_metrics=all_metrics)
        return Content(report, analyse(report), say)
    from lastro.words.claims import explanation, source_text, tally_text

    judged = judge_claims(data, file)
    report = judged.report if all_metrics else judged.report.of_the_study()
    texts = (source_text(judged.claims.source), tally_text(judged.judgements, say))
    tally = ": ".join(filter(None, texts))
    published = _as_published(judged.claims, judged.report)
    return Content(report, analyse(report), say, judged.judgements, tally, explanation(report, say), published)


def published_of(directory: Path, data: CampaignData) -> MatchedPublication | None:
    """Return the published tables and figures in a campaign's claims file, matched with the campaign's results.

    None if there are none. Raises: StudyError when the claims file is invalid or is about another study."""
    from lastro.analysis.build import build_report
    from lastro.analysis.claims.load import load_claims

    file = claims_of(directory, data.study.name)
    return _as_published(load_claims(file, data.study), build_report(data, all_metrics=True)) if file else None


def _as_published(claims: Claims, report: CampaignResults) -> MatchedPublication | None:
    from lastro.analysis.as_published import match_publication

    return match_publication(claims, report) or None


def suite_section(directory: Path, member: SuiteStudy, content: Content | None, link: str) -> StudySection:
    """Return the section about one study on a suite's page; `content` is None if the study has no campaign yet."""
    from lastro.builders.suite import StoppedStudy, StudySection

    stopped = StoppedStudy(member.stopped, member.remedy, suites.can_run(directory, member)) if member.stopped else None
    unjudged = content is None and claims_of(directory / member.name, member.study) is not None
    return StudySection(member.name, member.title, content, stopped, unjudged, link)


def judge_claims(data: CampaignData, file: Path, *, by_blocks: bool = False) -> JudgedClaims:
    """Judge the claims in `file` by a campaign, and if `by_blocks` also by its first blocks.

    Raises: StudyError when the file is not a valid claims file of the campaign's study."""
    from lastro.analysis.build import build_report
    from lastro.analysis.claims import judge
    from lastro.analysis.claims.advice import verdicts_by_blocks
    from lastro.analysis.claims.load import load_claims
    from lastro.builders.claims import JudgedClaims

    claims = load_claims(file, data.study)
    report = build_report(data, all_metrics=True)
    after = verdicts_by_blocks(claims, data) if by_blocks else ()
    return JudgedClaims(claims, judge(claims, report), report, after)


def find_claims(directory: Path, study: str) -> Path:
    """Return the claims file of a campaign: DIR/claims.toml, or else the claims of the built-in study named `study`.

    Raises: InputError when neither exists."""
    file = claims_of(directory, study)
    if file is None:
        raise InputError(
            f"there is no {directory / 'claims.toml'}, and no paper with claims has a study named {study}",
            "name a file with --claims; docs/explanation-claims.md explains how to write one",
        )
    return file


def claims_of(directory: Path, study: str) -> Path | None:
    """Return the claims file of a campaign as `find_claims` does, but None if neither file exists.

    Raises: InputError when DIR/claims.toml is a link, which may lead out of the campaign, or is not a file."""
    from lastro import papers

    file = directory / "claims.toml"
    try:
        return file if has_plain(file) else papers.claims(study)
    except OSError as error:
        hint = "put the file itself there, or remove it"
        raise InputError(f"{file} cannot be read: {error.strerror}", hint) from error
