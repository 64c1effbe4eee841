"""Load claims files: from TOML text to the `Claims` model. All problems of a file become one StudyError.

A metric or a factor that the study does not know is an error. A level that the study does not have is not an error, but
makes the claim untestable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lastro.analysis.claims.check import check_claim
from lastro.analysis.claims.claim import Claims
from lastro.analysis.claims.kinds import KINDS
from lastro.analysis.claims.load_printed import ClaimsFile, check_ids, checked_figures, checked_tables, resolved
from lastro.study.document import read_document, read_text
from lastro.study.model import Study
from lastro.study.printed import PrintedTable
from lastro.study.problems import Problems
from lastro.study.schema import read_shape


def load_claims(path: Path, study: Study) -> Claims:
    """Return the claims about this study in a file.

    Raises: StudyError when the file cannot be read, or is not a valid claims file of this study."""
    text = read_text(path, "claims", "docs/explanation-claims.md explains how to write one")
    return parse_claims(text, str(path), study, partial(_tables_beside, path))


def claims_copy(path: Path, base: Path) -> dict[str, str]:
    """Return {file name: text} for copying a claims file, named claims.toml, and the file whose tables it reads.

    No symbolic link below the directory `base` is followed. Raises: StudyError unless both are claims files."""
    text = read_text(path, "claims", "correct the file, or remove it", base=base)
    if beside := _shape(text, Problems(str(path))).tables_from:
        other = path.with_name(beside)
        tables = read_text(other, "claims", f"{path} reads its tables: `tables_from`", base=base)
        _shape(tables, Problems(str(other)))
        return {beside: tables, "claims.toml": text}
    return {"claims.toml": text}


def _shape(text: str, problems: Problems) -> ClaimsFile:
    """Return the shape of the text of a claims file, without checks against a study. Raises: StudyError."""
    shape = read_shape(read_document(text, problems), problems, ClaimsFile)
    problems.raise_if_any()
    return shape


def parse_claims(
    text: str, file: str, study: Study, others: Callable[[str], Mapping[str, PrintedTable]] = lambda name: {}
) -> Claims:
    """Return the claims in a text; `file` is its name in errors, and `others` returns the tables of another file.

    Raises: StudyError when the text is not a valid claims file of this study."""
    problems = Problems(file)
    shape = read_shape(read_document(text, problems), problems, ClaimsFile)
    tables = checked_tables(shape, study, problems)
    readable = {**others(shape.tables_from), **{table.id: table for table in tables}}
    figures = checked_figures(shape, readable, study, problems)
    check_ids("claim", shape.claim, problems)
    claims = []
    for index, claim in enumerate(shape.claim):
        with problems.at("claim", index, "published"):
            claim = claim.model_copy(update={"published": resolved(claim, readable, study)})
        if check_claim(claim, list(KINDS), index, study, problems):
            claims.append(claim)
    problems.raise_if_any()
    return Claims(shape.source, tuple(claims), file, tables, figures)


def _tables_beside(path: Path, name: str) -> Mapping[str, PrintedTable]:
    """Return the tables of another claims file in the same directory; none without a name."""
    if not name:
        return {}
    other = path.with_name(name)
    text = read_text(other, "claims", f"{path} reads its tables: `tables_from`", base=path.parent)
    return {table.id: table for table in _shape(text, Problems(str(other))).table}
