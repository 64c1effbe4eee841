"""What the documentation says is so: its commands parse, its studies load, its tables are those of the code.

`python tests/unit/test_docs.py` writes the generated tables anew."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lastro import __version__, cli, errors, papers, registry, testing, validity
from lastro.anomalies import _held, base, conntrack, cpu, disk, fork, io, memory, network
from lastro.cli import compare, verify
from lastro.cli._common import MANY_INVALID_TRIALS
from lastro.instruments import iperf3_udp
from lastro.instruments._http import HttpLoad
from lastro.interrupts import EXIT_CODES
from lastro.results.samples import MAX_ATTEMPTS, Metric
from lastro.scenarios import application, chain, compute, exposure, lifecycle, proxy, routing, uplink
from lastro.scenarios import load as load_line
from lastro.scenarios.base import Scenario, schemas
from lastro.scenarios.compute import instrument
from lastro.scenarios.shared import calibration
from lastro.study.json_schema import json_schema
from lastro.study.load import load, parse

ROOT = Path(__file__).parents[2]
READMES = (ROOT / "README.md", ROOT / "README.pt-BR.md")
OTHERS = tuple(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))
PAGES = (*READMES, *OTHERS, *sorted((ROOT / "docs").glob("*.md")))
TWINS = [(page.with_name(page.name.replace(".pt-BR", "")), page) for page in PAGES if ".pt-BR" in page.name]
PART = ROOT / "examples" / "parts" / "functions" / "shaper.py"
COMMANDS = {name for group in cli.COMMANDS.values() for name in group}

sys.path.insert(0, str(ROOT / "tools"))
import docs_hooks as hooks  # noqa: E402
import paper_notes  # noqa: E402

table, toml, unit, bounds = hooks.table, hooks.toml, hooks.unit, hooks.bounds

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def test_a_note_on_a_paper_belongs_to_the_key_that_follows_or_stands_before_it() -> None:
    source = """
# "Paper" below means the article.
#
# Deviation: all of it.
# On two lines.
#
# A remark.

[factors]
# Paper, table 2: four. Ours: one more.
link = [
  "a", # paper: not a note on a key
]
rate = 5  # open: its default
other = 6  # paper
"""
    assert paper_notes.notes(source) == [
        (paper_notes.HEAD, "", "deviation", "all of it. On two lines."),
        ("link", "", "paper", "table 2: four."),
        ("link", "", "ours", "one more."),
        ("rate", "5", "open", "its default"),
        ("other", "6", "paper", ""),
    ]


@pytest.mark.parametrize("name", papers.names())
def test_every_note_of_a_study_is_on_the_page_of_papers(name: str) -> None:
    claims = papers.claims(name.replace("/", "-"))
    source = "".join(file.read_text(encoding="utf-8") for file in (papers.find(name), claims) if file)
    found = paper_notes.all_notes(name)
    section = paper_notes.page(hooks.table).partition(f"## {name}\n")[2].partition("\n## ")[0]
    for word, state in paper_notes.STATES.items():
        own = [note for note in found if note.word == word]
        assert len(own) >= len(re.findall(rf'\b{word.capitalize()}\b[^:."\n]{{0,60}}: ', source)), word
        assert section.count(f" | {state} | ") == len(own), word


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of each code block of a page."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_no_page_has_a_merge_that_nobody_finished(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|>{7}) .*|^={7}$", page.read_text(encoding="utf-8"), re.MULTILINE) == []


# Commands


def command_lines(page: Path) -> list[list[str]]:
    """The words after `lastro` of every command line that a page shows, in a block or within a sentence."""
    lines = [line for language, text in blocks(page) if language == "sh" for line in text.splitlines()]
    lines += [code for code in re.findall(r"`([^`\n]+)`", prose(page)) if re.match(r"(\w+=\S+ )*lastro ", code)]
    found = []
    for line in lines:
        words = shlex.split(re.split(r"[|>;&]", line)[0], comments=True)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        if words and words[0] == "lastro":
            found.append(words[1:])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_one_that_lastro_takes(page: Path) -> None:
    for words in command_lines(page):
        assert words[0] in COMMANDS | {"COMMAND"}, words
        if len(words) == 1 or words[0] == "COMMAND":  # the name of a command in a sentence
            continue
        module = importlib.import_module(f"lastro.cli.{cli.module_name(words[0])}")
        parser = argparse.ArgumentParser(allow_abbrev=False)
        module.configure(parser)
        try:
            parser.parse_args(words[1:])
        except SystemExit:
            pytest.fail(f"{page.name}: lastro {shlex.join(words)}")


def test_the_search_for_command_lines_finds_them() -> None:
    found = [words for page in PAGES for words in command_lines(page)]
    assert len(found) > 40
    assert {words[0] for words in found} >= COMMANDS


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_readme_lists_every_command_part_exit_code_and_paper(page: Path) -> None:
    from lastro import papers

    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `lastro ([\w-]+)` \|", text, re.MULTILINE)
    assert rows == [name for group in cli.COMMANDS.values() for name in group]
    for kind in registry.KINDS:
        for info in own_parts(kind):
            assert f"`{info.name}`" in text, (kind, info.name)
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    of_commands = {
        0,
        compare.REGRESSION,
        compare.UNDECIDED,
        MANY_INVALID_TRIALS,
        verify.NOT_VERIFIED,
        *EXIT_CODES.values(),
    }
    assert codes == of_commands | {error.exit_code for error in all_errors(errors.LastroError)}
    assert all(f"`{name}`" in text for name in papers.names())


def all_errors(kind: type[errors.LastroError]) -> Iterator[type[errors.LastroError]]:
    yield kind
    for sub in kind.__subclasses__():
        yield from all_errors(sub)


# Studies and the example part


@pytest.fixture
def example_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LASTRO_PARTS", str(ROOT / "examples" / "parts"))
    registry.parts.cache_clear()
    yield
    registry.parts.cache_clear()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_study_in_a_block_loads(page: Path, example_parts: None) -> None:
    for language, text in blocks(page):
        if language == "toml" and "study" in tomllib.loads(text):
            assert parse(text, page.name, schemas()).factors


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.name)
def test_every_example_loads(file: Path, example_parts: None) -> None:
    assert load(file, schemas()).factors


def test_the_example_part_is_the_one_that_is_shown() -> None:
    shown = [text for page in PAGES for language, text in blocks(page) if language == "python" and "Shaper" in text]
    assert len(shown) == 5  # README and tutorial in both languages, CONTRIBUTING
    assert set(shown) == {PART.read_text(encoding="utf-8")}


def test_what_a_page_imports_is_there() -> None:
    lines = [
        line for page in PAGES for language, text in blocks(page) if language == "python" for line in text.split("\n")
    ]
    for line in filter(lambda line: line.startswith("from lastro"), lines):
        exec(compile(line, "a page", "exec"), {})


def test_the_example_part_is_found_without_an_edit(example_parts: None) -> None:
    info = registry.parts("function")["shaper"]
    assert info.cls is not None and Path(info.origin) == PART


def test_the_tutorials_study_is_the_file() -> None:
    study = (ROOT / "examples" / "shaper.toml").read_text(encoding="utf-8")
    assert ("toml", study[study.index("[study]") :]) in blocks(ROOT / "docs" / "tutorial.md")


# Links, images, the two languages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_and_image_of_docs_is_linked() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve() for page in PAGES for target in _LINK.findall(prose(page))
    }
    files = [file for file in (ROOT / "docs").rglob("*") if file.is_file()]
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [file for file in files if file.resolve() not in linked and file.name not in site] == []


# The repository and its site


def test_every_page_has_its_place_in_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    placed = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    pages = {hooks.MOVED.get(f"docs/{page.name}", page.name) for page in (ROOT / "docs").glob("*.md")}
    parts = {f"parts/{package}.md" for package in registry.KINDS.values()}
    assert sorted(placed) == sorted(pages | set(hooks.MOVED.values()) | parts | {"papers.md"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_belongs_to_an_item_of_a_list_is_indented_by_four(page: Path) -> None:
    """GitHub takes two or three spaces as well; the site would end the list there, without a warning."""
    assert re.findall(r"(?:^ {1,3}(?:[-*]|\d+\.) .*|(?<=\n\n) {1,3}\S.*)$", prose(page), re.MULTILINE) == []


def test_links_of_the_repository_become_links_of_the_site() -> None:
    text = "[a](../README.md#start) [b](../examples/x.toml) [c](howto.md) [d](https://e.org)\n```sh\n[e](../f)\n```\n"
    turned = "[a](index.md#start) [b](files/examples/x.toml) [c](howto.md) [d](https://e.org)\n```sh\n[e](../f)\n```\n"
    assert hooks.with_site_links(text, "page.md") == turned
    assert hooks.linked_files(text, "docs/page.md") == ["examples/x.toml"]


@pytest.mark.parametrize("kind", registry.KINDS)
def test_the_page_of_a_kind_has_every_part_with_its_options(kind: str) -> None:
    text = hooks.kind_page(kind)
    for info in own_parts(kind):
        section = text.partition(f"\n## {info.name}\n")[2].partition("\n## ")[0]
        assert info.summary[1:] in section
        for each in (*getattr(info.cls, "options", ()), *getattr(info.cls, "metrics", ())):
            assert f"| `{each.name}` |" in section


def test_what_names_a_version_or_a_licence_names_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r"^([\w-]+): *(.*)$", citation, re.MULTILINE))
    assert cited["version"] == __version__
    assert cited["license"] == project["license"] == "Apache-2.0"
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    licence = (ROOT / "LICENSE").read_bytes()
    assert hashlib.sha256(licence).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    versions = re.findall(r"^## (Unreleased|\[?\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == "Unreleased" or versions[0].strip("[") == __version__


@pytest.mark.parametrize("pages", TWINS, ids=lambda pages: pages[0].name)
def test_a_translation_has_the_shape_of_its_original(pages: tuple[Path, Path]) -> None:
    shapes = [re.findall(r"^(#+) ", prose(page), re.MULTILINE) for page in pages]
    assert shapes[0] == shapes[1]
    english, portuguese = ([_without_comments(block) for block in blocks(page)] for page in pages)
    assert english == portuguese
    rows = [len(re.findall(r"^\|", prose(page), re.MULTILINE)) for page in pages]
    assert rows[0] == rows[1]
    links = [{_without_language(target) for target in _LINK.findall(prose(page))} for page in pages]
    assert links[0] == links[1]
    sections = [re.split(r"^#+ ", prose(page), flags=re.MULTILINE) for page in pages]
    for section, translated in zip(*sections, strict=True):
        assert _figures(section) == _figures(translated), section


def _figures(text: str) -> list[str]:
    """The numbers of a text, without what separates their thousands and decimals."""
    return sorted(re.sub(r"\D", "", number) for number in re.findall(r"\d+(?:[.,]\d+)*", _LINK.sub("", text)))


def _without_language(target: str) -> str:
    return target.partition("#")[0].replace(".pt-BR", "")


def _without_comments(block: tuple[str, str]) -> tuple[str, str]:
    language, text = block
    if language in ("sh", "toml"):
        text = re.sub(r"\s*#.*", "", text)
    return language, text


# Tables made from the code


def own_parts(kind: str) -> list[registry.PartInfo]:
    return [info for info in registry.parts(kind).values() if info.origin.startswith("lastro.")]


def settings_table(scenario: type[Scenario] = chain.ChainScenario) -> str:
    return hooks.settings_table(scenario.settings)


def metrics_table(scenario: type[Scenario] = chain.ChainScenario) -> str:
    return hooks.metrics_table(scenario.metrics)


def workloads() -> list[registry.PartInfo]:
    return [info for info in own_parts("instrument") if info.name in instrument.workloads()]


def workloads_table() -> str:
    rows: list[tuple[object, ...]] = []
    for info in workloads():
        assert info.cls is not None
        rows.append((f"`{info.name}`", "", "", "", info.summary))
        for s in info.cls.options:
            work = " (by profile)" if s.by_profile else ""
            rows.append(("", f"`{s.name}`{work}", f"`{toml(s.default)}`", bounds(s) or unit(s), s.summary))
    return table(("instrument", "option", "default", "bounds", "meaning"), rows)


def http_metrics_table() -> str:
    """Each once: closed loops share theirs."""
    found: dict[Metric, list[str]] = {}
    for info in own_parts("instrument"):
        if info.cls is not None and issubclass(info.cls, HttpLoad):
            for metric in info.cls.metrics:
                found.setdefault(metric, []).append(f"`{info.name}`")
    rows = [(", ".join(by), f"`{m.name}`", m.unit, m.better, m.summary) for m, by in found.items()]
    return table(("instrument", "metric", "unit", "better", "meaning"), rows)


def workload_metrics_table() -> str:
    rows = [(f"`{i.name}`", f"`{m.name}`", m.unit, m.better, m.summary) for i in workloads() for m in i.cls.metrics]  # type: ignore[union-attr]
    return table(("instrument", "metric", "unit", "better", "meaning"), rows)


def parts_table() -> str:
    kinds = chain.ChainScenario.parts
    return table(("kind", "level", "what it is"), [(k, f"`{i.name}`", i.summary) for k in kinds for i in own_parts(k)])


def keys_table() -> str:
    tables = json_schema(schemas())["$defs"]["chain"]["$defs"]
    names = {"StudyTable": "study", "DesignTable": "design", "ExcludeTable": "exclude"}
    rows = []
    for model, name in names.items():
        required = tables[model].get("required", [])
        for key, schema in tables[model]["properties"].items():
            if key == "scenario":
                schema = {
                    **schema,
                    "type": "string",
                    "description": f"The procedure of a trial: {', '.join(f'`{name}`' for name in SCENARIOS)}.",
                }
            default = "required" if key in required else f"`{toml(schema['default'])}`" if schema.get("default") else ""
            low, high = schema.get("minimum"), schema.get("maximum")
            limits = f"{low:,g} to {high:,g}" if low is not None and key != "seed" else ""
            limits = " or ".join(f"`{toml(word)}`" for word in schema["enum"]) if "enum" in schema else limits
            limits = f"only `{toml(schema['const'])}`" if "const" in schema and key != "scenario" else limits
            rows.append((f"`{name}.{key}`", kind_word(schema), default, limits, schema.get("description", "")))
    return table(("key", "type", "default", "bounds", "meaning"), rows)


SCENARIOS = [info.name for info in own_parts("scenario")]


def kind_word(schema: dict[str, Any]) -> str:
    words = {"object": "table", "array": "list", "integer": "whole number"}
    found = schema.get("type") or ("table" if "properties" in schema else "string")
    return words.get(found, found)


def limits_table() -> str:
    settings = {setting.name: setting for setting in chain.ChainScenario.settings}
    tolerance, slack = f"{validity._TOLERANCE:.0%}".replace("%", " %"), validity._SLACK_BYTES // 1024
    over = f"more than {base.OVER_LIMIT:g} of its limit"
    rows: list[tuple[object, ...]] = [
        ("traffic", "none reached the sink, by TCP, UDP or ping"),
        ("path", f"a hop carried less than arrived at the sink, by more than {tolerance}: another path"),
        ("path", f"a hop received more than was sent to it, by more than {tolerance} and {slack} KiB: foreign traffic"),
        (
            "path",
            "a counter of the links that every flow must increase did not change",
        ),
        ("path", f"the function's own counter saw less than arrived, by more than {tolerance} (in the kernel)"),
        ("path", "a counter of the function that every new flow must increase did not change"),
        (
            "frames",
            "the mean frame that the function received exceeds the MTU and its header, although `offloads` are off",
        ),
        ("generator", f"it offered less than {iperf3_udp._LEAST_OFFERED:.0%} of the UDP rate".replace("%", " %")),
        ("generator", "the duration of iperf3 was wrong by more than 20 %, and by more than 0.5 s"),
        ("dose", "the neighbour's load ended before the measurement did"),
        ("dose of `cpu`", f"less than {cpu._LEAST_SHARE:g} of the CPU time that was available to it"),
        ("dose of `memory`", f"less than {memory._LEAST_SHARE:g} of the memory that it wanted, or of its limit"),
        ("dose of `disk`", f"less than {disk._LEAST_BPS // 2**20} MiB written in a second"),
        ("dose of `io`", f"less than {io._LEAST_CPUS:g} CPUs used: almost no calls of sync()"),
        (
            "dose of `fork`",
            f"less than {fork._LEAST_SHARE:g} of {fork.HELD:,} processes held, or of its limit, at the beginning and "
            f"at the end; or fewer than {fork._LEAST_PER_S} created in a second on the whole host",
        ),
        (
            "dose of `network`",
            f"fewer than {network.LEAST_PER_S:,} frames sent in a second; under a limit, less than"
            f" {network.LEAST_SHARE:g} or more than {base.OVER_LIMIT:g} of its rate",
        ),
        *(
            (
                f"dose of `{name}`",
                f"less than {_held.LEAST_SHARE:g} of {_held.HELD:,} {name} held, or of its limit; or {over}",
            )
            for name in ("files", "sockets")
        ),
        (
            "dose of `conntrack`",
            f"less than {conntrack.LEAST_SHARE:g} of {conntrack.HELD:,} connections held, or of its limit; or {over}",
        ),
        ("host", f"steal above `max_steal_percent`, by default {settings['max_steal_percent'].default:g} %"),
        ("host", f"foreign load above `max_foreign_cpus`, by default {settings['max_foreign_cpus'].default:g} CPUs"),
        ("clock", f"that of a host was set by more than {validity._CLOCK_STEP_S:g} s during the trial"),
        ("clock", "that of a remote host, or of a guest as testbed, drifted by more than `max_drift_percent`"),
        ("isolation", "a requested isolation is not in force on an instance"),
        (
            "apparatus",
            f"Lastro, clients and daemons woke up more than {validity._MOST_WAKE_UPS} times and"
            f" {validity._MOST_WAKE_UPS_PER_S} times a second while an instrument measured, beyond what is usual on the"
            " platform",
        ),
        ("tools", "a command failed, did not end in time, or printed anything but a measurement"),
        (
            "calibration",
            f"none of the {MAX_ATTEMPTS} runs that measure the profile for `cgroups` was valid, and neither was"
            " the extra run for this trial",
        ),
    ]
    near = f"(mark only: throughput of {calibration._AT_CEILING:.0%} of plain forwarding or more)".replace("%", " %")
    return table(("witness", "the trial is invalid when"), [*rows, ("ceiling", near)])


def contracts_table() -> str:
    """A row for each kind of part: the class, the attribute that names a part, and what the class says it requires."""
    rows = []
    for kind in registry.KINDS:
        contract = getattr(testing, f"{kind.capitalize()}Contract")
        summary = str(contract.__doc__).splitlines()[0].rstrip(".").partition(": ")[2]
        rows.append((kind, f"`{contract.__name__}`", f"`{kind}`", summary))
    return table(("kind", "contract", "named by", "what it requires"), rows)


TABLES = {
    "settings": settings_table,
    "metrics": metrics_table,
    "lifecycle_settings": partial(settings_table, lifecycle.LifecycleScenario),
    "compute_settings": partial(settings_table, compute.ComputeScenario),
    "compute_metrics": partial(metrics_table, compute.ComputeScenario),
    "workloads": workloads_table,
    "workload_metrics": workload_metrics_table,
    "application_settings": partial(settings_table, application.ApplicationScenario),
    "application_metrics": partial(metrics_table, application.ApplicationScenario),
    "load_settings": partial(settings_table, load_line.LoadScenario),
    "load_metrics": partial(metrics_table, load_line.LoadScenario),
    "uplink_settings": partial(settings_table, uplink.UplinkScenario),
    "uplink_metrics": partial(metrics_table, uplink.UplinkScenario),
    "proxy_settings": partial(settings_table, proxy.ProxyScenario),
    "http_metrics": http_metrics_table,
    "proxy_metrics": partial(metrics_table, proxy.ProxyScenario),
    "exposure_metrics": partial(metrics_table, exposure.ExposureScenario),
    "routing_settings": partial(settings_table, routing.RoutingScenario),
    "routing_metrics": partial(metrics_table, routing.RoutingScenario),
    "lifecycle_metrics": partial(metrics_table, lifecycle.LifecycleScenario),
    "parts": parts_table,
    "keys": keys_table,
    "limits": limits_table,
    "contracts": contracts_table,
}


def with_tables(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return _GENERATED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[4]}", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_tables_are_those_of_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == with_tables(page), "run `python tests/unit/test_docs.py`"


def test_every_generated_table_has_its_place() -> None:
    names = [match[1] for page in PAGES for match in _GENERATED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted(TABLES)


if __name__ == "__main__":
    os.environ.pop("LASTRO_PARTS", None)
    for written in PAGES:
        written.write_text(with_tables(written), encoding="utf-8")
    sys.exit(0)
