"""A comparison of two campaigns as annotations for GitHub Actions: workflow commands, one per line.

GitHub shows ten errors per step (docs.github.com, "Workflow commands for GitHub Actions"). The worst nine have a line
each; the tenth line counts the remaining errors."""

from __future__ import annotations

from lastro.analysis.comparison import ComparedCell, Comparison
from lastro.builders.data.comparison import figures
from lastro.words.comparison import (
    changed_host_text,
    difference_lines,
    gate_conclusion,
    guest_notes,
    label,
    not_compared,
)
from lastro.words.language import ENGLISH

_MOST = 9


def workflow_commands(comparison: Comparison, *, fail_lost: bool = False) -> list[str]:
    """Return the workflow commands: an error for each regression, worst first, or a notice with the gate's conclusion.

    With `fail_lost`, a cell that A measured and B did not is an error, too. With --fail-changed-host, a changed host is
    an error; without it, a warning lists what else differs between A and B. Notices say which campaign ran in a guest.
    The list is empty if there are no errors and no gate."""
    failed = [cell for cell in comparison.cells if cell.regressed or (fail_lost and cell.lost)]
    changed = changed_host_text(comparison)
    most = _MOST - bool(changed)
    lines = [_failed(cell) for cell in failed[:most]]
    if changed:
        lines.append(_command("error", "lastro compare", f"{changed}: {'; '.join(difference_lines(comparison))}"))
    if len(failed) > most:
        lines.append(_command("error", "lastro compare", f"and {ENGLISH.count(len(failed) - most, 'more failure')}"))
    if not failed and (text := gate_conclusion(comparison)):
        lines.append(_command("notice", "lastro compare", text))
    if not changed and lines and (differing := "; ".join(difference_lines(comparison))):
        lines.append(_command("warning", "lastro compare", f"A and B differ: {differing}"))
    return [*lines, *(_command("notice", "lastro compare", note) for note in guest_notes(comparison) if lines)]


def _failed(cell: ComparedCell) -> str:
    title = f"{cell.metric.name} {'regressed' if cell.regressed else 'was lost'}: {label(cell)}"
    return _command("error", title, figures(cell) if cell.regressed else f"B has no value: {not_compared(cell)}")


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escaped(title).replace(':', '%3A').replace(',', '%2C')}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
