"""Dependencies point downwards only, and what is pure imports nothing that does I/O: DESIGN.md, "Layout"."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import lastro

SOURCE = Path(lastro.__file__).parent

# From the bottom to the top. A module may import what is on a lower line, and what is in its own package.
# Packages on one line do not know each other.
LAYERS = (
    (
        "errors",
        "interrupts",
        "requirements",
        "shapes",
        "results.samples",
        "host.files",
        "host.moments",
        "plain",
        "validity",
        "grouping",
    ),
    ("console", "files", "units", "registry", "stats", "papers", "host.base"),
    ("study",),
    ("results",),
    ("host",),
    ("image",),
    ("guest",),
    ("testbed",),
    ("platforms",),
    ("attachments", "isolation", "functions", "anomalies", "instruments", "meters"),
    ("scenarios", "analysis", "document", "words.language"),
    ("words", "render"),
    ("figures", "campaign", "setup", "testing"),
    ("builders",),
    ("app",),
    ("cli", "api"),
    ("__main__",),
)
RANKS = {package: rank for rank, packages in enumerate(LAYERS) for package in packages}

PURE = (
    "console",
    "results.history_points",
    "results.looks",
    "results.members",
    "results.provenance",
    "results.rows",
    "results.segments",
    "requirements",
    "shapes",
    "words.caveats",
    "words.claims",
    "builders.claims",
    "builders.data.claims",
    "study",
    "stats",
    "builders.advice",
    "campaign.outcomes",
    "builders.compare",
    "builders.decision",
    "builders.decision_tables",
    "builders.gate_plan",
    "builders.noise_floor",
    "builders.status",
    "document",
    "render",
    "words.comparison",
    "builders.data.comparison",
    "builders.data.encoder",
    "builders.data.junit",
    "words.estimates",
    "words.variants",
    "builders.variants",
    "builders.data.variants",
    "figures.matplotlib_types",
    "figures.scale",
    "figures.svg",
    "figures.text",
    "figures.ticks",
    "words.interference",
    "words.key_findings",
    "words.pairs",
    "words.phrases",
    "words.platform_line",
    "builders.data.pool",
    "builders.history",
    "builders.data.history",
    "builders.data.prometheus",
    "words.history",
    "words.remarks",
    "words.looks",
    "words.language",  # reads the catalogues that lie beside it, and nothing else
    "words.numbers",
    "words.numeric",
    "words.opening",
    "words.reasons",
    "words.topology",
    "words.campaign",
    "analysis",
    "builders.data.statistics",
    "results.additions",
    "results.trial_notes",
    "results.samples",
    "results.topology",
    "host.moments",
    "validity",
    "plain",
    "grouping",
    "units",
    "errors",
)
IO = {
    "asyncio", "duckdb", "fcntl", "http", "importlib.metadata", "io", "multiprocessing", "os", "select", "shutil",
    "socket", "sqlite3", "subprocess", "tempfile", "threading", "urllib",
}  # fmt: skip
# `study.document` reads the one file that it is given, and nothing else; the others know its path.
PURE_BUT_FOR = {
    "study.document": {"pathlib", "lastro.files"},
    "study.load": {"pathlib"},
    "analysis.claims.load": {"pathlib"},
}


@cache
def modules() -> dict[str, Path]:
    """Modules by their name below `lastro`."""
    files = {file: file.relative_to(SOURCE).with_suffix("").parts for file in SOURCE.rglob("*.py")}
    return {".".join(part for part in parts if part != "__init__"): file for file, parts in files.items() if parts}


def imports(file: Path, *, at_run_time_only: bool = False) -> Iterator[str]:
    """Full names of what a file imports, wherever in it; with `from M import N`, both M and M.N."""
    tree = ast.parse(file.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if at_run_time_only and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in node.body
        for inner in ast.walk(child)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(module: str) -> str:
    """The longest entry of the table that a module belongs to."""
    fitting = [package for package in RANKS if module == package or module.startswith(package + ".")]
    assert fitting, f"lastro.{module} belongs to no layer: give it one in this table"
    return max(fitting, key=len)


@cache
def inner_imports(module: str, file: Path) -> set[str]:
    """Modules of Lastro that a file imports, below `lastro`."""
    known = modules()
    found = {name.removeprefix("lastro.") for name in imports(file) if name.startswith("lastro.")}
    return {name for name in found if name in known} - {module, ""}


def test_dependencies_point_downwards_only() -> None:
    upwards = []
    for module, file in modules().items():
        own = layer(module) if module else ""
        for imported in sorted(inner_imports(module, file)) if module else ():
            other = layer(imported)
            same_package = own.split(".")[0] == other.split(".")[0] and RANKS[own] >= RANKS[other]
            if not same_package and RANKS[other] >= RANKS[own]:
                upwards.append(f"lastro.{module} ({own}) imports lastro.{imported} ({other})")
    assert upwards == []


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {module: inner_imports(module, file) for module, file in modules().items() if module}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join([*way, module])
        if module not in done:
            for imported in sorted(graph.get(module, ())):
                visit(imported, (*way, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_what_reports_and_analyses_names_no_scenario() -> None:
    """Figures and tables of one scenario come from what it declares (`results.additions`)."""
    named = [
        f"lastro.{module} imports lastro.{imported}"
        for module, file in modules().items()
        if layer(module or "errors") in ("analysis", "builders")
        for imported in inner_imports(module, file)
        if imported.startswith("scenarios.") and imported != "scenarios.base"
    ]
    assert named == []


def private_to_others(module: str, file: Path) -> Iterator[str]:
    """Yield the private modules and names that a file imports from a package other than its own."""
    for name in imports(file):
        owner, _, private = re.sub(r"\.(?=_[a-z])", " ", name, count=1).partition(" ")
        if private and owner.split(".")[0] == "lastro" and not f"lastro.{module}.".startswith(f"{owner}."):
            yield f"{file.name}: {name}"


def test_what_begins_with_an_underscore_is_private_to_its_package() -> None:
    assert [name for module, file in modules().items() for name in private_to_others(module, file)] == []


def test_parts_and_pages_for_strangers_use_public_names_only() -> None:
    """A part of one's own, as `tests/parts`, `examples` and the documentation have them, needs no private name."""
    root = Path(__file__).parents[2]
    files = [*(root / "tests" / "parts").rglob("*.py"), *(root / "examples").rglob("*.py")]
    assert [name for file in files for name in private_to_others("a stranger", file)] == []
    pages = [*(root / "docs").glob("*.md"), *root.glob("*.md")]
    assert [page.name for page in pages if re.search(r"\blastro\.[\w.]*\b_[a-z]", page.read_text())] == []


def test_a_class_name_means_one_thing() -> None:
    """Except in `testing`: its contracts are named for what they are about, and its templates all make `MyPart`."""
    defined = Counter(
        node.name
        for module, file in modules().items()
        if not module.startswith("testing")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in defined.items() if times > 1] == []


def pure_modules() -> list[str]:
    return sorted(
        module for module in modules() if any(module == pure or module.startswith(pure + ".") for pure in PURE)
    )


def test_pure_modules_do_no_io() -> None:
    impure, pure = [], {*pure_modules(), "", "stats", "study"}
    inner = {f"lastro.{name}" for name in modules()}
    for module in pure_modules():
        for used in sorted(set(imports(modules()[module], at_run_time_only=True)) - PURE_BUT_FOR.get(module, set())):
            does_io = used in IO or used.split(".")[0] in IO or used.startswith("lastro.host") or used == "pathlib"
            if does_io or (used in inner and used.removeprefix("lastro.") not in pure):
                impure.append(f"lastro.{module} imports {used}")
    assert impure == []


def test_the_table_names_what_exists() -> None:
    known = modules()
    assert set(RANKS) <= set(known), "a layer that is gone"
    assert set(PURE) <= set(known)


def test_the_map_of_the_code_shows_these_layers() -> None:
    page = Path(__file__).parents[2] / "docs" / "development.md"
    rows = re.findall(
        r"^\| (`.*?) \| .* \|$", page.read_text(encoding="utf-8").partition("## How a trial runs")[0], re.MULTILINE
    )
    assert [set(re.findall(r"`([\w.]+)`", row)) for row in rows] == [set(packages) for packages in reversed(LAYERS)]


def test_io_is_what_the_standard_library_calls_it() -> None:
    assert {name.split(".")[0] for name in IO} - {"duckdb"} <= sys.stdlib_module_names
