"""`lastro report --format md` and `latex`: well-formed whatever a campaign holds, and nothing in it is markup."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lastro import papers
from lastro.app.contents import content_of
from lastro.cli import main
from lastro.document import Table
from lastro.figures import Picture
from lastro.render import latex, markdown
from lastro.results.connection import FLEET_FORMAT as NEWEST
from lastro.words.language import LANGUAGES, language

from ..support.campaigns import KAGAMI, METRICS, make_campaign, make_study
from ..support.documents import render_latex, render_markdown
from ..support.fates import CAMPAIGNS
from .conftest import Bench, is_error, lastro

texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x17F) | st.sampled_from("\n\t×±≈−▲▼↑↓²†—“”…中"))


@pytest.fixture(params=CAMPAIGNS, scope="module")
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CAMPAIGNS[request.param](tmp_path_factory.mktemp("campaigns") / request.param)


def rendered(text: str) -> str:
    return MarkdownIt("commonmark").enable("table").render(text)


def one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def test_figures_follow_no_link_out_of_the_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign, elsewhere = make_campaign(tmp_path / "campaign", stop_after=6), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (campaign / "figures").symlink_to(elsewhere)
    assert main(["report", str(campaign), "--figures", "--format", "md"]) == 3
    assert "'figures' is a symbolic link, which Lastro does not follow there" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("full", [[], ["--full"]], ids=["short", "full"])
@pytest.mark.parametrize("code", LANGUAGES)
def test_markdown_of_any_campaign(campaign: Path, code: str, full: list[str], capsys) -> None:
    assert main(["report", str(campaign), "--format", "md", "--lang", code, *full]) == 0
    file = Path(capsys.readouterr().out.strip())
    assert file == campaign / "report.md"
    text = file.read_text(encoding="utf-8")
    page = rendered(text)
    tags = set(re.findall(r"<([a-z0-9]+)", page))
    assert tags <= {"h1", "h2", "p", "ul", "li", "strong", "em", "code", "pre", "details", "summary", *TABLE}
    widths = [row.count("<th") + row.count("<td") for row in re.findall(r"(?s)<tr>.*?</tr>", page)]
    assert all(width > 1 for width in widths)


TABLE = {"table", "thead", "tbody", "tr", "th", "td"}


@given(texts)
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    page = rendered(f"{markdown.escape(text)}\n\n| a |\n| --- |\n| x{markdown.escape(text)} |")
    shown = re.sub(r"<[^>]*>", "", page.split("</p>")[0]) if one_line(text) else ""
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        shown = shown.replace(entity, char)
    assert shown == one_line(text)
    assert set(re.findall(r"<([a-z0-9]+)", page)) <= {"p", *TABLE}


@pytest.mark.parametrize(
    "text", ["1. one", "- a", "+ b", "# h", "> q", "===", "---", "@someone", "http://x.y", "![a](b)"]
)
def test_nothing_becomes_a_list_a_link_or_a_mention(text: str) -> None:
    assert set(re.findall(r"<([a-z0-9]+)", rendered(markdown.escape(text)))) == {"p"}
    assert "@" not in markdown.escape(text) and "://" not in markdown.escape(text)


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert rendered(markdown.code("a ```` b")).strip() == "<pre><code>a ```` b\n</code></pre>"


@pytest.mark.parametrize("code", LANGUAGES)
def test_latex_of_any_campaign(campaign: Path, code: str, capsys) -> None:
    assert main(["report", str(campaign), "--format", "latex", "--lang", code, "-o", "-"]) == 0
    text = capsys.readouterr().out
    environments: list[str] = []
    for kind, name in re.findall(r"\\(begin|end){(\w+)}", text):
        if kind == "begin":
            environments.append(name)
        else:
            assert environments.pop() == name
    assert environments == []
    bare = re.sub(r"\\[\\{}$&#_%]", "", text)
    assert bare.count("{") == bare.count("}") and "$" not in bare and "#" not in bare
    for table in re.findall(r"(?s)\\begin{longtable}.*?\\end{longtable}", bare):
        assert len({line.count("&") for line in table.splitlines() if "&" in line}) <= 1
    assert "\\begin{tabular" not in text and "<script" not in text


@given(texts)
def test_latex_escapes_what_can_be_read_back(text: str) -> None:
    written = latex.escape(text)
    back = {escaped: char for char, escaped in latex._SPECIAL.items() if len(escaped) > 1}
    back |= {"''": "”", "'": "’", "~": "\xa0", "{}": ""}
    pattern = "|".join(map(re.escape, sorted(back, key=len, reverse=True)))
    read = re.sub(pattern, lambda found: back[found[0]], written)
    read = re.sub(r"<U\+([0-9A-F]{4,})>", lambda found: chr(int(found[1], 16)), read)
    assert read == one_line(text)


@pytest.mark.parametrize(
    ("texts", "wrapped"), [(("short", "7"), 0), (("a word " * 40, "7"), 1), (("a word " * 40,) * 6, 6)]
)
def test_the_widest_columns_of_latex_break_lines_so_that_a_table_fits_the_page(
    texts: tuple[str, ...], wrapped: int
) -> None:
    table = Table("t", "t", tuple("abcdef"[: len(texts)]), (texts,), frozenset({0}))
    found = re.findall(r"p\{(0\.\d+)\\linewidth\}", str(latex._columns(table)))
    assert len(found) == wrapped
    assert sum(map(float, found)) + 2 * len(texts) / latex._LINE <= 1.01
    assert ("raggedleft" in latex._columns(table)) is bool(wrapped), "numbers end together"


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of the paper's study, whose claims are judged without being asked for."""
    study = replace(make_study(KAGAMI, replicates=2, baseline={"isolation": "none"}), name="kagami2017")
    return make_campaign(tmp_path_factory.mktemp("paper") / "c", study)


@pytest.mark.parametrize(
    ("code", "heading", "contradiction"),
    [
        pytest.param("en", "Claims", "the source contradicts itself: a loss of 115.31", marks=pytest.mark.slow),
        ("pt-BR", "Afirmações", "a própria fonte se contradiz: uma perda de 115,31"),
    ],
)
def test_claims_of_the_paper_are_in_the_report(paper: Path, code: str, heading: str, contradiction: str) -> None:
    n = len(tomllib.loads((papers.claims("kagami2017") or Path()).read_text())["claim"])
    content = content_of([paper], language(code), all_metrics=False)
    text = render_markdown(content)
    section = text[text.index(f"## {heading}") :].split("\n## ")[0]
    assert len(re.findall(r"^\| ", section, re.MULTILINE)) == n + 2 and f"{n} " in section
    assert contradiction in section
    table = re.search(r"(?s)% lastro: claims\n.*?% end", render_latex(content))
    assert table and table[0].count("\\\\\n") >= n


@pytest.mark.parametrize("kind", ["html", "md", "latex"])
@pytest.mark.parametrize("code", LANGUAGES)
def test_a_damaged_campaign_and_a_newer_one_are_one_clear_error(kind: str, code: str, tmp_path: Path, capsys) -> None:
    newer = make_campaign(tmp_path / "newer", stop_after=3)
    with sqlite3.connect(newer / "campaign.db") as database:
        database.execute("UPDATE meta SET value = ? WHERE key = 'format'", [str(NEWEST + 1)])
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "campaign.db").write_bytes(b"no database at all, and long enough to be looked at" * 40)
    for name, said in (("newer", "written by a newer Lastro"), ("damaged", "not a readable campaign")):
        assert main(["report", str(tmp_path / name), "--format", kind, "--lang", code]) == 5
        error = capsys.readouterr().err
        assert said in error and len(error.splitlines()) == 2
        assert not list((tmp_path / name).glob("report.*"))


def test_figures_are_linked_from_where_the_text_lies(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    for form in ("png", "pdf"):  # tests/cli/test_results_report.py looks into them
        monkeypatch.setattr(Picture, form, lambda picture: b"")
    study = make_study({"platform": ("native", "runc")}, metrics=METRICS[:1])
    directory = make_campaign(tmp_path / "a campaign", study)
    assert main(["report", str(directory), "--format", "md", "--figures", "-o", str(tmp_path / "x.md")]) == 0
    capsys.readouterr()
    links = re.findall(r"!\[.*?\]\(<(.*?)>\)", (tmp_path / "x.md").read_text())
    assert len(links) >= 3 and all((tmp_path / link).is_file() for link in links)


def test_a_csv_for_a_spreadsheet_with_a_decimal_comma(bench: Bench) -> None:
    assert bench.run({"level": ["a"]}, replicates=1).code == 0
    done = lastro("results", bench.directory, "--csv", "-", "--separator", ";", "--decimal", ",", "--bom")
    assert done.code == 0 and done.out.startswith("\ufefftreatment;")
    assert lastro("results", bench.directory, "--csv", "-", "--separator", "tab").out.startswith("treatment\t")
    is_error(lastro("results", bench.directory, "--csv", "-", "--decimal", ","), 2, "--separator ';'")
    is_error(lastro("results", bench.directory, "--separator", ";"), 2, "--csv FILE")
    for mark in ("ab", "1", '"', "\n"):
        is_error(lastro("results", bench.directory, "--csv", "-", "--separator", mark), 2, "one character")
