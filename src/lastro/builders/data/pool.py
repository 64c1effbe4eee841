"""The JSON document of a study that was measured on several hosts.

    format       "lastro-pool/1"
    study        name and title
    guest        the guests among the hosts {title, emulated, partly}, as in `lastro results --json`; null without any
    confidence   of every interval
    estimator    of tau squared: "reml" or "paule-mandel"
    hosts        [{name, campaigns [directory], guest, facts {fact: text}, finished}]; guest is that of this host,
                 null for a real one
    effects      [{metric, unit, better, factor, level, reference, strata, all_strata, hosts, mean, tau, prediction,
                 heterogeneity, apart, p, p_adjusted, verdict, reason}], by metric, factor and level
                 an effect is the ratio of the mean of a level to that of the reference, over `strata` of `all_strata`
                 combinations of the other factors
                 hosts [{host, ratio, interval {low, high, confidence}, log_error, df, reason}]: log_error is the
                 standard error of the logarithm of the ratio; reason says why a host has no ratio
                 mean {value, interval, log_error, df, hosts}: the mean ratio over hosts; null for fewer than three
                 tau {value, interval}: the standard deviation of the logarithms between hosts
                 prediction {low, high, confidence}: the interval of the true ratio on a new host
                 heterogeneity {q, df, p}: Cochran's test that no host differs from another, in which an error from few
                 trials counts as larger, by the factor of Student's t
                 apart {value, interval}: for two hosts, the ratio on the second divided by that on the first
                 p and p_adjusted (by Holm's method) are those of the mean or, without a mean, of apart
                 reason says why there is no mean
    claims       [{over_hosts, on_each [{host, verdict}]}]; over_hosts has the keys of a claim of `lastro claims`

A value that does not exist is null, never absent and never NaN."""

from __future__ import annotations

from typing import Any

from lastro.analysis.host_effects import HostEffect
from lastro.analysis.host_facts import named_facts
from lastro.analysis.pooled_study import JudgedClaim, PooledEffect, PooledHost, PooledStudy
from lastro.builders.data.claims import CLAIM_FORMS, judgement_document
from lastro.builders.data.encoder import encode, pick
from lastro.words.language import ENGLISH

FORMAT = "lastro-pool/1"


def document(pooled: PooledStudy) -> dict[str, Any]:
    """Return the pooled study as JSON-serializable data, with the keys of this module's docstring."""
    names = [host.name for host in pooled.hosts]
    study = {
        "format": FORMAT,
        "study": pick(pooled.study, "name title"),
        "guest": pooled.guest,
        "confidence": pooled.confidence,
        "estimator": pooled.estimator,
        "hosts": [_host(host) for host in pooled.hosts],
        "effects": [_effect(effect, names) for effect in pooled.effects],
        "claims": [_claim(claim, names) for claim in pooled.claims],
    }
    return encode(study, CLAIM_FORMS)


def _host(host: PooledHost) -> dict[str, Any]:
    known = {"facts": named_facts(host.report.provenance.chapters), "finished": host.report.progress.finished}
    return pick(host, "name campaigns") | {"guest": host.report.guest} | known


def _effect(effect: PooledEffect, names: list[str]) -> dict[str, Any]:
    pooled, tested = effect.pooled, effect.mean or effect.between_hosts
    return {
        "metric": effect.metric.name,
        **pick(effect.metric, "unit better"),
        **pick(effect, "factor level reference strata all_strata"),
        "hosts": [_on_host(host_effect, names) for host_effect in effect.hosts],
        "mean": pooled
        and effect.mean
        and pick(effect.mean, "value interval")
        | {"log_error": pooled.error, "df": pooled.df, "hosts": pooled.estimate.n},
        "tau": pooled and pick(pooled.tau, "value interval"),
        "prediction": effect.prediction,
        "heterogeneity": pooled and {"q": pooled.q, "df": pooled.df, "p": pooled.q_p},
        "apart": effect.between_hosts and pick(effect.between_hosts, "value interval"),
        "p": tested and tested.p,
        "p_adjusted": effect.p_adjusted,
        "verdict": effect.verdict or None,
        "reason": "; ".join(effect.absent_because) or None,
    }


def _on_host(effect: HostEffect, names: list[str]) -> dict[str, Any]:
    return {
        "host": names[effect.host],
        "ratio": effect.ratio and effect.ratio.value,
        "interval": effect.ratio and effect.ratio.interval,
        "log_error": effect.effect and effect.effect.error,
        "df": effect.effect and effect.effect.df,
        "reason": "; ".join(effect.absent_because) or None,
    }


def _claim(claim: JudgedClaim, names: list[str]) -> dict[str, Any]:
    on_each = [
        {"host": name, "verdict": judgement.verdict} for name, judgement in zip(names, claim.on_each, strict=True)
    ]
    return {"over_hosts": judgement_document(claim.pooled, ENGLISH), "on_each": on_each}
