"""The completion script of a shell, made by shtab from the help of the commands.

The script starts no Python when a user presses Tab, and answers in about 4 ms. The alternative, argcomplete, starts
Lastro at every Tab, and importing a command takes about 200 ms."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator, Sequence

import shtab

from lastro import __version__, papers, registry
from lastro.cli import COMMANDS, command_parser
from lastro.cli._shell import HOME

# {completer: the arguments, or (command, argument), that it completes}. A completer is a function of the shell, or a
# kind of part, whose names it proposes. A test asserts that no argument is missing.
_ARGUMENTS: dict[str, Sequence[str | tuple[str, str]]] = {
    "_lastro_studies": ("study", "source"),
    "_lastro_campaigns": ("dir", "dirs", "a", "b", "names", "pilot", ("noise-floor", "output")),
    "_lastro_campaigns_and_studies": (("noise-floor", "study"), ("ab", "study")),
    "_lastro_directories": (("ab", "output"), ("run", "output"), ("setup", "source"), ("serve", "dir")),
    "_lastro_paths": (
        "csv", "history", "parquet", "junit", "bundle",
        *((command, "output") for command in ("bundle", "decide", "history", "report", "pool", "show")),
    ),
    "_lastro_toml": ("file", "testbed", "fleet", "claims"),
    "_lastro_profiles": ("profile",),
    "_lastro_only": ("only",),
    "_lastro_settings": ("settings",),
    "part": ("part",),
    "platform": ("platform",),
    "scenario": ("scenario",),
    # There is nothing to propose for numbers, names of one's own, and sentences.
    "": (
        "at", "attempt", "authors", "blocks", "campaigns", "confidence", "cost", "decimal", "fail_invalid", "fail_over",
        "gate", "label", "license", "margin", "may_differ", "metric", "name", "note", "of_a", "of_b", "port",
        "precision", "prices", "prune", "replicates", "require", "sentinel", "separator", "service_levels", "snapshot",
        "sort", "top", "trial", "under", "weights", "where", "wish", "within",
    ),
}  # fmt: skip
COMPLETERS = {argument: completer for completer, arguments in _ARGUMENTS.items() for argument in arguments}
# zsh and fish have these built in.
NATIVE = {
    ("zsh", "_lastro_directories"): "_files -/",
    ("zsh", "_lastro_paths"): "_files",
    ("fish", "_lastro_directories"): "(__fish_complete_directories (commandline -ct))",
    ("fish", "_lastro_paths"): "(__fish_complete_path (commandline -ct))",
}
# Selects the lines of `published` that belong to a study or a suite, and prints one level on each line.
_PUBLISHED_AWK = (
    'BEGIN { FS = "\\t" } $1 == study || index($1, study "/") == 1 { for (i = 3; i <= NF; i++) print $2, $i }'
)
INSTALL = {
    "bash": "lastro completion bash > ~/.local/share/bash-completion/completions/lastro\n"
    '#       or, without the package bash-completion, in ~/.bashrc: eval "$(lastro completion bash)"',
    "zsh": "lastro completion zsh > ~/.zfunc/_lastro\n"
    "#       and in ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit",
    "fish": "lastro completion fish > ~/.config/fish/completions/lastro.fish",
}


def completion(shell: str) -> str:
    """Return the completion script of a shell."""
    values = (HOME / f"values.{shell}").read_text(encoding="utf-8")
    for name, text in (
        ("STUDIES", " ".join(studies())),
        ("PUBLISHED", "\n".join(published())),
        ("PUBLISHED_AWK", _PUBLISHED_AWK),
        ("AWK", (HOME / "values.awk").read_text(encoding="utf-8").rstrip()),
    ):
        values = values.replace(f"@{name}@", text)
    script = shtab.complete(_whole_parser(shell), shell, preamble=values)
    generated = f"# Completion of Lastro's commands for {shell}, made by shtab."
    head, lines = "", script.splitlines()
    if shell == "zsh":  # the first line says what the file is for
        head = lines.pop(0) + "\n"
        lines = [_with_equals_sign(line) for line in lines]
    while lines[0].startswith("#") or not lines[0]:  # shtab's own installation instructions
        del lines[0]
    if shell == "bash":
        assert lines[-1] == "complete -o bashdefault -F _shtab_lastro lastro"
        lines[-1] = "complete -o bashdefault -F _lastro lastro"
    body = "\n".join(line.rstrip() for line in lines)
    return f"{head}{generated}\n# Install: {INSTALL[shell]}\n\n{body}\n"


def _with_equals_sign(line: str) -> str:
    """Return an option's line of the zsh script, changed so that zsh also completes --option=VALUE."""
    help_ = r"\[(?:[^\]\\]|\\.)*\]:"
    line = re.sub(rf'^(  "\*?--[\w-]+)(?={help_})', r"\1=", line)
    return re.sub(rf'^(  \{{-\w),(--[\w-]+)(?=\}}"{help_})', r"\1+,\2=", line)


def studies() -> list[str]:
    """Return the names of all built-in studies and suites."""
    names = papers.names()
    suites = {name.partition("/")[0] for name in names}
    return sorted({*names, *suites})


def published() -> Iterator[str]:
    """Yield lines with the levels of each factor of each built-in study, and with the constants of each study.

    They are STUDY, FACTOR, LEVEL … and STUDY, --set, NAME …, separated by tabs, since a level may contain a space."""
    for name in papers.names():
        document = tomllib.loads(papers.find(name).read_text(encoding="utf-8"))
        for factor, levels in document["factors"].items():
            typed = [str(level).lower() if isinstance(level, bool) else str(level) for level in levels]
            yield "\t".join([name, factor, *typed])
        yield "\t".join([name, "--set", *document.get("settings", ())])


def _whole_parser(shell: str) -> argparse.ArgumentParser:
    """Return a parser of all commands, for shtab; to run a command, Lastro builds only the parser of that command."""
    parser = argparse.ArgumentParser(prog="lastro", description="What virtualization costs a network function.")
    parser.add_argument("-V", "--version", action="version", version=__version__, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND")
    for group in COMMANDS.values():
        for name, summary in group.items():
            inner = commands.add_parser(name, description=summary, help=summary)
            for action in command_parser(name)[0]._actions:
                if not isinstance(action, argparse._HelpAction):
                    _complete(name, action, shell)
                    inner._add_action(action)
    return parser


def _complete(command: str, action: argparse.Action, shell: str) -> None:
    """Set how shtab completes the value of an argument: by choices, or by a shell function, as `COMPLETERS` says."""
    if action.choices or action.nargs == 0:
        return
    key = (command, action.dest)
    completer = COMPLETERS[key] if key in COMPLETERS else COMPLETERS[action.dest]
    if completer == "part" or completer in registry.KINDS:
        kinds = registry.KINDS if completer == "part" else (completer,)
        infos = [info for kind in kinds for info in registry.parts(kind).values()]
        action.choices = sorted({info.name for info in infos if info.origin.startswith("lastro.")})
    elif completer:
        call = f"({completer})" if shell == "fish" else completer
        action.complete = {shell: NATIVE.get((shell, completer), call)}  # type: ignore[attr-defined]
