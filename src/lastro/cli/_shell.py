"""The files for shells and for man(1) that Lastro brings along.

`make manual` writes the manual page from the help of the commands. It is a file of the package and not made when it is
asked for, so that a distribution can install it as it is."""

from __future__ import annotations

from pathlib import Path

HOME = Path(__file__).parent / "shell"
MANUAL = HOME / "lastro.1"
SHELLS = ("bash", "zsh", "fish")
