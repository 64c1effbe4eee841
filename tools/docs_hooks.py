"""What the documentation site has beyond docs/: pages from elsewhere in the repository, one for each kind of part, and
one on the published studies.

Links between files of the repository are written as GitHub resolves them. Here they are turned into links of the site;
a file that is not a page, such as an example, is copied to `files/`."""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import paper_notes
from lastro import registry
from lastro.registry import PartInfo
from lastro.study.model import Setting

ROOT = Path(__file__).resolve().parents[1]
# Pages that lie elsewhere in the repository, or have another name there.
MOVED = {
    "README.md": "index.md",
    "README.pt-BR.md": "index.pt-BR.md",
    "docs/README.md": "contents.md",
    "benches/README.md": "benches.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_ORIGINS = {page: origin for origin, page in MOVED.items()}
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LOADED = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*\s(?:src|href)=["']?(?:https?:)?//""")

TITLES = {
    "platform": ("Platforms", "A platform hosts instances: containers, virtual machines, or bare processes."),
    "attachment": ("Attachments", "An attachment is the virtual link between instances."),
    "isolation": ("Isolations", "An isolation confines an instance. Several are joined by `+`: `cgroups+seccomp`."),
    "function": ("Functions", "A function is the network function under test."),
    "anomaly": ("Anomalies", "An anomaly is what the neighbour does while the function is measured."),
    "instrument": ("Instruments", "An instrument loads and measures."),
    "meter": ("Meters", "A meter watches while an instrument measures."),
    "scenario": ("Scenarios", "A scenario is the procedure of a trial. A study has one."),
}


# Hooks of MkDocs


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and files that do not lie in docs/."""
    from mkdocs.structure.files import File

    files.remove(files.get_file_from_path("README.md"))
    for origin, page in MOVED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / origin)))
    for kind, package in registry.KINDS.items():
        files.append(File.generated(config, f"parts/{package}.md", content=kind_page(kind)))
    files.append(File.generated(config, "papers.md", content=paper_notes.page(table)))
    for file in [*files.documentation_pages()]:
        if not file.src_uri.startswith("parts/"):
            for origin in linked_files(file.content_string, _origin(file.src_uri)):
                uri = _place(origin)
                if uri not in files.src_uris:
                    files.append(File.generated(config, uri, abs_src_path=str(ROOT / origin)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    if uri.startswith(("index.", "tutorial.")):  # alone under its tab, so that a list of pages would hold nothing
        page.meta["hide"] = ["navigation"]
    return markdown if uri.startswith("parts/") else with_site_links(markdown, uri)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Name the language of translated pages, and refuse whatever a reader's browser would fetch from elsewhere."""
    from mkdocs.exceptions import PluginError

    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from another server: {found[0]}")
    return output.replace('<html lang="en"', '<html lang="pt-BR"') if ".pt-BR." in page.file.src_uri else output


# Links


def _origin(uri: str) -> str:
    """Where in the repository a page of the site comes from."""
    return _ORIGINS.get(uri, f"docs/{uri}")


def _place(origin: str) -> str:
    """Where in the site a file of the repository is."""
    return MOVED.get(origin) or (origin.removeprefix("docs/") if origin.startswith("docs/") else f"files/{origin}")


def _targets(text: str, origin: str) -> Iterator[str]:
    for part in _FENCED.split(text)[::2]:
        for _, target, _ in _LINK.findall(part):
            if not re.match(r"\w+:|#", target):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(origin), target.partition("#")[0]))


def linked_files(text: str, origin: str) -> list[str]:
    """Files outside docs/ that a page links to and that are not pages."""
    return sorted({file for file in _targets(text, origin) if _place(file).startswith("files/")})


def with_site_links(text: str, uri: str) -> str:
    origin = _origin(uri)

    def turned(match: re.Match[str]) -> str:
        target, hash_, anchor = match[2].partition("#")
        if not target or re.match(r"\w+:", target):
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        link = posixpath.relpath(_place(file), posixpath.dirname(uri) or ".")
        return f"{match[1]}{link}{hash_}{anchor}{match[3]}"

    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(turned, part) for part in parts[::2]]
    return "".join(parts)


# Tables


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heads = tuple(heads)
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def unit(setting: Setting) -> str:
    by_check = {"rate_bps": "bit/s, with prefix", "size_bytes": "byte, with prefix"}
    if setting.check is not None:
        name = setting.check.__name__  # type: ignore[attr-defined]
        return next((words for ending, words in by_check.items() if name.endswith(ending)), "")
    by_ending = {"_bytes": "byte", "_s": "s", "_ms": "ms", "_percent": "%", ".loss": "%", "_cpus": "CPU"}
    return next((name for ending, name in by_ending.items() if setting.name.endswith(ending)), "")


def bounds(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f'`"{choice}"`' for choice in setting.choices)
    return " to ".join(f"{bound:,.12g}" for bound in (setting.minimum, setting.maximum) if bound is not None)


def settings_table(settings: Iterable[Setting], head: str = "setting") -> str:
    rows = [(f"`{s.name}`", f"`{toml(s.default)}`", unit(s), bounds(s), s.summary) for s in settings]
    return table((head, "default", "unit", "bounds", "meaning"), rows)


def metrics_table(metrics: Iterable[Any]) -> str:
    rows = [(f"`{m.name}`", m.unit, m.better, m.summary) for m in metrics]
    return table(("metric", "unit", "better", "meaning"), rows)


# Pages of parts


def kind_page(kind: str) -> str:
    """The page of a kind, from what its parts say of themselves. Parts from outside Lastro are left out."""
    title, text = TITLES[kind]
    infos = [info for info in registry.parts(kind).values() if info.origin.startswith("lastro.")]
    rows = [(f"[`{info.name}`](#{info.name})", info.summary) for info in infos]
    head = f"# {title}\n\n{text} This page is made from the parts; `lastro parts {kind}` lists them in a terminal.\n"
    return "\n".join([head, table((kind, "what it is"), rows), *(_part(kind, info) for info in infos)])


def _part(kind: str, info: PartInfo) -> str:
    cls = info.cls
    begins_with_name = info.summary.startswith(info.name.split("-")[0])
    summary = info.summary if begins_with_name else f"{info.summary[:1].upper()}{info.summary[1:]}"
    lines = [f"## {info.name}\n", f"{summary}.\n"]
    facts = [f"- {fact}" for fact in _facts(kind, cls)]
    lines += ["\n".join(facts) + "\n"] if facts else []
    if options := getattr(cls, "options", ()):
        lines += [f"Options, as in `{info.name}:{options[0].name}={options[0].default}`:\n"]
        lines += [_without_empty_columns(settings_table(options, "option"))]
    if settings := getattr(cls, "settings", ()):
        lines += [f"### Settings {{ #{info.name}-settings }}\n", _without_empty_columns(settings_table(settings))]
    if metrics := getattr(cls, "metrics", ()):
        lines += [f"### Metrics {{ #{info.name}-metrics }}\n" if kind == "scenario" else "Metrics:\n"]
        lines += [metrics_table(metrics)]
    return "\n".join(lines)


def _without_empty_columns(text: str) -> str:
    rows = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in text.splitlines()]
    kept = [column for column in range(len(rows[0])) if any(row[column] for row in rows[2:])]
    return "".join(f"| {' | '.join(row[column] for column in kept)} |\n" for row in rows)


def _facts(kind: str, cls: Any) -> Iterator[str]:
    """Requirements and limits, as far as the class holds them as data."""
    if kind == "scenario":
        kinds = [f"[`{part}`]({registry.KINDS[part]}.md)" for part in cls.parts]
        yield f"Kinds of part that a study may choose: {', '.join(kinds)}"
        yield f"Roles: {', '.join(f'`{role}`' for role in cls.roles)}"
    users = [name for name, each in registry.parts("scenario").items() if kind in each.cls.parts]
    if users := [name for name in users if cls.name in registry.get("scenario", name).part_names(kind)]:
        yield f"Scenarios: {', '.join(f'[`{name}`](scenarios.md#{name})' for name in users)}"
    if packages := getattr(cls, "packages", ()):
        yield f"Debian packages in the root filesystem: {', '.join(f'`{name}`' for name in packages)}"
    argv = getattr(cls, "version_argv", ())
    if kind == "platform" and argv:
        program = getattr(cls, "program", argv[0])
        yield f"Program on the host: `{cls.name if program == 'sh' else program}`"
    confines = inspect.getattr_static(cls, "confines", None)
    if kind == "platform" and isinstance(confines, frozenset):
        names = sorted(name.removeprefix("drop_").replace("_", "-") for name in confines)
        yield f"Isolations that it applies itself: {', '.join(f'`{name}`' for name in names) or 'none'}"
    if getattr(cls, "over_ssh", True) is False:
        yield "Runs only on the machine where Lastro runs, not over SSH"
    if text := getattr(cls, "no_transit", None):
        yield f"In a chain it is unavailable: {text}"
    if text := getattr(cls, "remedy", None) or getattr(getattr(cls, "flavour", None), "remedy", None):
        yield f"Where it is unavailable: {text}"
