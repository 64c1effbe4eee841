"""The files for shells and for man(1) that come with Lastro.

`make manual` writes the manual page from the help of the commands. The page is a file of the package, so that a
distribution can install it."""

from __future__ import annotations

from pathlib import Path

HOME = Path(__file__).parent / "shell"
MANUAL = HOME / "lastro.1"
SHELLS = ("bash", "zsh", "fish")
