"""The texts of a bundle for people: its README, and how to cite it.

They are always in English, even if the report is in another language."""

from __future__ import annotations

import json
from collections.abc import Iterator

from lastro.builders.crate import Crate, licence_url
from lastro.render.markdown import escape
from lastro.words.campaign import guest_sentences, when
from lastro.words.language import ENGLISH
from lastro.words.phrases import merged_sentences

SOFTWARE_TITLE = "Lastro: what virtualization costs a network function, and what isolation saves"
SOFTWARE_AUTHORS = "The Lastro maintainers"
SOFTWARE_LICENCE = "Apache-2.0"

_CONTENTS = """\
- `campaign/`: the campaign as Lastro reads it: `campaign.db` (SQLite), `study.toml` and claims. The studies of a suite
  have a directory each, here and below.
- `report/`: the report (`report.html`, Markdown, LaTeX), its figures, and `tables/`: `trials.csv` has every value,
  `results.json` the analysis.
- `record/`: the provenance of the host, and the transcript of every attempt: each command with its output.
- `ro-crate-metadata.json`: a description for programs, an RO-Crate 1.1.
- `SHA256SUMS`: the SHA-256 of every other file.
- `CITATION.cff`: how to cite these data, and Lastro."""

_VERIFY = """\
With Lastro, in the directory that contains the bundle:

```sh
lastro verify BUNDLE
```

This checks every hash, makes everything in `report/` and `record/` again from `campaign/` alone, and compares it byte
for byte. Without Lastro, in the unpacked bundle:

```sh
sha256sum --check SHA256SUMS
sqlite3 {folder}/campaign.db 'SELECT trial, metric, value FROM measurement AS m JOIN attempt ON id = m.attempt LIMIT 9'
```

A hash shows damage. It does not show who made the bundle: whoever changes a file can also change its hash."""

_ANONYMOUS = """\
Names of hosts and users, addresses of testbeds, and the kernel's command line were left out (`lastro bundle
--anonymous`). The study and its claims are as their author wrote them."""


def readme(crate: Crate) -> str:
    """Return the README of a bundle, in Markdown."""
    return "\n\n".join(_readme(crate)) + "\n"


def _readme(crate: Crate) -> Iterator[str]:
    yield f"# {escape(crate.title or crate.name)}"
    if crate.description:
        yield escape(crate.description)
    runs = [
        f"- {escape(campaign.title or campaign.name)}: {campaign.valid} of {campaign.trials} trials valid"
        + (f", {campaign.waiting} not run" if campaign.waiting else "")
        + f", from {when(campaign.began)} to {when(campaign.ended)} UTC"
        for campaign in crate.campaigns
    ]
    many = "These are the results of several campaigns" if len(runs) > 1 else "These are the results of a campaign"
    yield f"{many} of Lastro, which measures what virtualization costs a network function:"
    yield "\n".join(runs)
    measured = [
        (campaign.title or campaign.name, guest_sentences(campaign.guest, ENGLISH)) for campaign in crate.campaigns
    ]
    yield from map(escape, merged_sentences(measured, ENGLISH, len(measured)))
    if crate.authors:
        yield f"Authors: {'; '.join(escape(author.name) for author in crate.authors)}"
    if crate.licence:
        yield f"Licence: <{licence_url(crate.licence)}>"
    else:
        yield "Licence: not stated. Ask the authors before you publish or change the data."
    if crate.anonymous:
        yield _ANONYMOUS.replace("\n", " ")
    yield "## Contents"
    yield _CONTENTS
    yield "## Verify"
    yield _VERIFY.format(folder=crate.campaigns[0].folder)
    yield "## Made with"
    yield ", ".join(f"{name} {version}" for name, version in crate.versions.items())


def citation(crate: Crate) -> str:
    """Return the text of CITATION.cff, which says how to cite the data and Lastro.

    Source: Citation File Format 1.2.0, https://citation-file-format.github.io."""
    return "\n".join(_citation(crate)) + "\n"


def _citation(crate: Crate) -> Iterator[str]:
    yield "cff-version: 1.2.0"
    yield "message: If you use these data in a publication, please cite them as below, and Lastro."
    yield "type: dataset"
    yield f"title: {json.dumps(crate.title or crate.name, ensure_ascii=False)}"
    yield f"date-released: {json.dumps(crate.published)}"
    if crate.licence:
        key = "license-url" if crate.licence == licence_url(crate.licence) else "license"
        yield f"{key}: {json.dumps(crate.licence)}"
    yield "authors:"
    for author in crate.authors:
        yield f"  - name: {json.dumps(author.name, ensure_ascii=False)}"
        if author.url:
            yield f"    orcid: {json.dumps(author.url)}"
    if not crate.authors:
        yield "  - name: Anonymous"  # the format requires an author
    yield "references:"
    yield "  - type: software"
    yield f"    title: {json.dumps(SOFTWARE_TITLE)}"
    yield f"    version: {json.dumps(crate.versions['Lastro'])}"
    yield f"    license: {SOFTWARE_LICENCE}"
    yield "    authors:"
    yield f"      - name: {SOFTWARE_AUTHORS}"
