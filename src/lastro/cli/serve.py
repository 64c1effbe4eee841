"""A page in your browser that shows the campaigns of a directory while they run: the trial, the latest values, what was
invalid and why, the time to the end, and each report. It reads, and changes nothing.

  lastro serve                          the campaigns in ./campaigns; Ctrl-C ends it
  lastro serve DIR --open               opens the browser, too
  lastro serve --history FILE           with the page of this history, by default DIR/lastro-history.db
  lastro serve DIR --port 8800          for `ssh -L 8800:127.0.0.1:8800 HOST`, which shows it on another machine

The printed address has a token: whoever has it can read the campaigns. Only this machine is served, at 127.0.0.1. Needs
no root, and the packages of the extra `serve`: pip install 'lastro[serve]'"""

from __future__ import annotations

import argparse
import html
import sys
import threading
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory

from lastro.cli._common import language_argument
from lastro.errors import HostError, InputError
from lastro.results.history_points import DEFAULT_FILE
from lastro.words.language import language


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "dir", type=Path, nargs="?", default=Path("campaigns"), metavar="DIR",
        help="a directory of campaigns, or one campaign (default: campaigns)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=0, metavar="N", help="a port of 127.0.0.1 (default: a free one)")
    parser.add_argument(
        "--history", type=Path, metavar="FILE",
        help=f"the history to show, as `lastro history add` writes it (default: {DEFAULT_FILE} in DIR, if it exists)",
    )  # fmt: skip
    parser.add_argument("--open", action="store_true", help="open the address in the browser")
    language_argument(parser, "pages")


def run(args: argparse.Namespace) -> None:
    if not args.dir.is_dir():
        raise InputError(f"{args.dir} is not a directory", "name the directory in which your campaigns are")
    if not 0 <= args.port < 2**16:
        raise InputError(f"--port {args.port} is not a port", "choose one from 1024 to 65535, or none for a free one")
    try:
        from lastro.app.server import serve
    except ImportError as error:
        raise HostError(
            "`lastro serve` needs the packages starlette and uvicorn, which are not installed",
            "pip install 'lastro[serve]'",
        ) from error
    from lastro.app.served import Campaigns
    from lastro.results.history import read_history

    if args.history is not None:
        read_history(args.history)
    with TemporaryDirectory(prefix="lastro-serve-") as private:
        page = Path(private, "open.html")

        def ready(address: str) -> None:
            print(address, flush=True)
            if args.open:
                # The browser gets a file that redirects to the address: it has a token, and other users can read the
                # arguments of processes.
                text = f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">'
                page.write_text(text, encoding="utf-8")
                threading.Thread(target=start_browser, daemon=True).start()

        def start_browser() -> None:
            if not webbrowser.open(page.as_uri()):
                print("no browser could be started: open the address above", file=sys.stderr)

        serve(Campaigns(args.dir, language(args.lang), args.history), args.port, ready)
