"""The files for shells and for man(1) that Lastro brings along. `make shell-files` writes them from the commands' help.

They are files of the package and not made when they are asked for: printing one takes no library and no import of a
command, and a distribution can install them as they are."""

from __future__ import annotations

from pathlib import Path

HOME = Path(__file__).parent / "shell"
MANUAL = HOME / "lastro.1"
COMPLETIONS = {"bash": HOME / "lastro.bash", "zsh": HOME / "_lastro", "fish": HOME / "lastro.fish"}
