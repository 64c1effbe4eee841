"""To install it for yourself, and then start a new shell:

  lastro completion bash > ~/.local/share/bash-completion/completions/lastro
  lastro completion zsh > ~/.zfunc/_lastro
  lastro completion fish > ~/.config/fish/completions/lastro.fish

bash needs the package bash-completion for that; without it, put this line into ~/.bashrc:

  eval "$(lastro completion bash)"

zsh needs these lines in ~/.zshrc: fpath+=~/.zfunc, then autoload -Uz compinit, then compinit.

Completed are commands, options, choices, paper:NAME, study files, the profiles of the study, campaigns and platforms."""

from __future__ import annotations

import argparse

from lastro.cli._shell import COMPLETIONS


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(COMPLETIONS), metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    print(COMPLETIONS[args.shell].read_text(encoding="utf-8"), end="")
    return 0
