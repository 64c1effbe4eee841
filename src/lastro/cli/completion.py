"""Install it for yourself, then start a new shell (create the directory first if it is missing):

  lastro completion bash > ~/.local/share/bash-completion/completions/lastro
  lastro completion zsh > ~/.zfunc/_lastro
  lastro completion fish > ~/.config/fish/completions/lastro.fish

bash needs its package bash-completion for that. Without the package, put this line into ~/.bashrc:

  eval "$(lastro completion bash)"

zsh needs this line in ~/.zshrc:

  fpath+=~/.zfunc; autoload -Uz compinit; compinit

The script completes commands, options, choices, built-in studies, study files and their profiles, campaigns and
platforms."""

from __future__ import annotations

import argparse

from lastro.cli._shell import SHELLS
from lastro.cli._terminal import print_document


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> None:
    from lastro.cli._completion import completion

    print_document(completion(args.shell))
