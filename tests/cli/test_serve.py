"""`lastro serve`: what it shows, to whom, and in a real browser, while a campaign is killed and resumed."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ..support.browser import Browser
from ..support.histories import SLOWER, write_history
from .conftest import (
    PYTHON,
    Bench,
    Finished,
    Process,
    _started,
    finish,
    interrupt,
    is_error,
    lastro,
    n_done,
    start,
    until,
)
from .suites import write_folder

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{40,})\n")
READ_ONLY = ("HEAD", "GET")
OTHERS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


@dataclass
class Served:
    """A server at work, and the directory that it shows."""

    process: Process
    link: str
    directory: Path

    @property
    def port(self) -> int:
        return int(LINK.fullmatch(self.link)[1])

    @property
    def token(self) -> str:
        return LINK.fullmatch(self.link)[2]

    @property
    def cookie(self) -> dict[str, str]:
        return {"Cookie": f"lastro-{self.port}={self.token}"}

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> tuple[http.client.HTTPResponse, str]:
        """The answer to a request, with the cookie unless other headers are given; the path is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, headers=self.cookie if headers is None else headers)
        answer = connection.getresponse()
        try:
            return answer, answer.read().decode()
        finally:
            connection.close()


def serving(directory: Path, *words: object, env: Mapping[str, str] | None = None) -> Served:
    process: Any = start("serve", directory, *words, env=env, program=PYTHON)
    return Served(process, process.stdout.readline(), directory)


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished campaign with its report, a suite, a damaged campaign, a history, and links that lead elsewhere."""
    home = tmp_path_factory.mktemp("served")
    place, bench = home / "campaigns", Bench(home)
    study = bench.write(replicates=2)
    assert lastro("run", study, "-o", place / "c 1<b>").code == 0
    assert lastro("run", study, "-o", home / "elsewhere", drawn=False).code == 0
    assert lastro("run", write_folder(home / "studies"), "-o", place / "suite", drawn=False).code == 0
    (place / "damaged").mkdir()
    (place / "damaged" / "campaign.db").write_text("not a database")
    (place / "linked").symlink_to(home / "elsewhere")
    shutil.copytree(home / "elsewhere", place / "leaky")
    (place / "leaky" / "report.html").unlink()
    (place / "leaky" / "report.html").symlink_to(home / "elsewhere" / "report.html")
    shutil.copytree(place / "suite", place / "odd")
    (place / "odd" / "cpu").rename(home / "cpu")
    (place / "odd" / "cpu").symlink_to(home / "cpu")
    (place / "notes.txt").write_text("a secret")
    write_history(place / "lastro-history.db")
    return place


@pytest.fixture(scope="module")
def served(campaigns: Path) -> Iterator[Served]:
    server = serving(campaigns)
    _started.remove(server.process)  # it serves all tests of this module
    try:
        yield server
    finally:
        interrupt(server.process)
        done = finish(server.process)
    assert done.code == 130 and done.out == "", "only the link is printed"
    assert [line for line in done.err.splitlines() if line] == ["lastro: interrupted"]


# To whom


@pytest.mark.parametrize("path", ["/", "/c/suite/", "/c/c%201%3Cb%3E/report.html", "/history/", "/style.css", "/none"])
@pytest.mark.parametrize("method", [*READ_ONLY, *OTHERS])
def test_without_the_token_there_is_nothing(served: Served, path: str, method: str) -> None:
    for headers in ({}, {"Cookie": f"lastro-{served.port}=x"}, {"Cookie": f"other={served.token}"}):
        answer, text = served.ask(path, headers, method)
        assert answer.status == 403 and text == "" and answer.headers["Set-Cookie"] is None
    assert served.ask(f"{path}?token={served.token[:-1]}", {}, method)[0].status == 403
    assert served.ask(f"{path}?token=%C3%A9", {}, method)[0].status == 403


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1.example.org", "127.0.0.1@example.org", "", "[::1]"])
def test_another_host_is_refused_even_with_the_token(served: Served, host: str) -> None:
    """As after DNS rebinding: the site's name leads here, and the browser sends what it has."""
    for name in (host, f"{host}:{served.port}"):
        answer, text = served.ask(f"/?token={served.token}", {"Host": name, **served.cookie})
        assert answer.status == 403 and text == "" and answer.headers["Set-Cookie"] is None


def test_the_token_of_the_address_becomes_a_cookie(served: Served) -> None:
    answer, text = served.ask(f"/?token={served.token}", {"Host": f"localhost:{served.port}"})
    assert answer.status == 200 and "suite" in text and served.token not in text
    cookie = answer.headers["Set-Cookie"]
    assert cookie == f"lastro-{served.port}={served.token}; Path=/; HttpOnly; SameSite=Strict"
    again, _ = served.ask("/")
    assert again.status == 200 and again.headers["Set-Cookie"] is None


@pytest.mark.parametrize("method", OTHERS)
@pytest.mark.parametrize("path", ["/", "/c/suite/", "/history/", "/events", "/none"])
def test_nothing_can_be_written(served: Served, method: str, path: str) -> None:
    answer, text = served.ask(path, method=method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD" and text == ""


def test_no_other_page_can_read_or_frame_it(served: Served) -> None:
    for path in ("/", "/c/suite/", "/c/c%201%3Cb%3E/report.html", "/history/", "/served.js", "/none"):
        answer, _ = served.ask(path, {**served.cookie, "Origin": "http://example.org"})
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert answer.headers["X-Frame-Options"] == "DENY" and answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Referrer-Policy"] == "no-referrer" and answer.headers["Server"] is None
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ") and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy or ("script" not in policy and "sandbox" in policy), "only the report has styles"


def test_it_listens_on_one_address_only(served: Served) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.port), timeout=10)
    with pytest.raises(OSError):
        socket.create_connection(("::1", served.port), timeout=10)


@pytest.mark.parametrize(
    "path",
    [
        "/c/../notes.txt", "/c/../../elsewhere/", "/c/%2e%2e/elsewhere/", "/c/..%2felsewhere/", "/c//etc/passwd",
        "/c/suite/../damaged/", "/c/suite/%2e%2e/", "/c/suite/none/", "/c/./", "/c/notes.txt/", "/c/linked/",
        "/c/linked/report.html", "/c/leaky/report.html", "/c/damaged/report.html", "/c/suite/campaign.db",
        "/c/odd/cpu/", "/c/odd/cpu/report.html", "/../../../etc/passwd", "/style.css/../../html.py",
        "/c/%00/", "/c/%ff/", "/c/" + "a/" * 500,
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_campaigns(served: Served, path: str) -> None:
    answer, text = served.ask(path)
    assert answer.status == 404 and text == "Not Found"


# What it shows


def test_the_list_has_every_campaign_with_its_state(served: Served) -> None:
    _, text = served.ask("/")
    assert "linked" not in text and "notes.txt" not in text
    for words in ('<a href="/c/c%201%3Cb%3E/">c 1&lt;b&gt;</a>', "4 of 4", "damaged", "is not a readable campaign"):
        assert words in text


def test_a_campaign_and_its_report_as_it_is(served: Served) -> None:
    page, text = served.ask("/c/c%201%3Cb%3E/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "4 of 4 trials (100\N{NO-BREAK SPACE}%)" in text and '<a href="report.html">The report</a>' in text
    assert "<style" not in text and " style=" not in text and "<script>" not in text, "the policy would refuse them"
    answer, report = served.ask("/c/c%201%3Cb%3E/report.html")
    assert report == (served.directory / "c 1<b>" / "report.html").read_text()
    assert "sandbox allow-same-origin" in answer.headers["Content-Security-Policy"]


def test_a_suite_leads_to_its_studies(served: Served) -> None:
    _, text = served.ask("/c/suite/")
    assert '<a href="cpu/">cpu</a>' in text and "finished" in text
    assert "12 of 12 trials (100\N{NO-BREAK SPACE}%)" in served.ask("/c/suite/cpu/")[1]
    report = served.ask("/c/suite/report.html")[1]
    assert 'href="cpu/report.html"' in report and served.ask("/c/suite/cpu/report.html")[0].status == 200


def test_a_campaign_that_cannot_be_read_says_why_and_what_to_do(served: Served) -> None:
    answer, text = served.ask("/c/damaged/")
    assert answer.status == 200 and "is not a readable campaign" in text and "restore it from a copy" in text


def test_the_history_has_its_changes_and_every_mean(served: Served) -> None:
    assert '<a href="/history/">The history</a>' in served.ask("/")[1]
    answer, _ = served.ask("/history")
    assert answer.status == 307 and answer.headers["Location"] == "/history/"
    page, text = served.ask("/history/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Content-Security-Policy"] == served.ask("/")[0].headers["Content-Security-Policy"]
    assert "the newest: throughput of runc, at v5" in text and "▼ worse" in text
    assert text.count("2026-10-") == 8 and "Made by Lastro" in text and "lastro-history.db." in text
    assert "<style" not in text and " style=" not in text and "<script>" not in text, "the policy would refuse them"


def test_another_history_is_shown_in_portuguese_as_it_grows(served: Served, tmp_path: Path) -> None:
    file = write_history(tmp_path / "h.db", SLOWER[:5])
    one = serving(tmp_path, "--history", file, "--lang", "pt-BR")
    assert '<a href="/history/">O histórico</a>' in one.ask("/")[1]
    assert "Nada pode ser decidido ainda" in one.ask("/history/")[1]
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=30)
    connection.request("GET", "/history/events", headers=one.cookie)
    answer = connection.getresponse()
    assert answer.readline() == b"data: changed\n" and answer.readline() == b"\n"
    write_history(file)
    assert answer.readline() == b"data: changed\n"
    connection.close()
    assert "▼ pior" in one.ask("/history/")[1]
    interrupt(one.process)
    assert finish(one.process).code == 130


def test_no_link_leads_to_a_report_that_is_a_link_itself(served: Served) -> None:
    assert "report.html" not in served.ask("/c/leaky/")[1]


def test_a_browser_opens_the_address_and_no_other_user_sees_the_token(served: Served, tmp_path: Path) -> None:
    """Any user can read the arguments of a process."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{tmp_path}/said\ncat "${{1#file://}}" >{tmp_path}/page\n')
    browser.chmod(0o755)
    one = serving(served.directory, "--open", env={"BROWSER": str(browser)})
    until(lambda: (tmp_path / "page").exists() and (tmp_path / "page").read_text(), "the browser")
    said = (tmp_path / "said").read_text().strip()
    assert said.startswith("file:///") and one.token not in said
    private = Path(said.removeprefix("file://")).parent
    assert f"url={one.link.strip()}" in (tmp_path / "page").read_text() and private.stat().st_mode & 0o77 == 0
    interrupt(one.process)
    assert finish(one.process).code == 130 and not private.exists()


def test_head_sends_no_body(served: Served) -> None:
    pages = ("/", "/c/suite/", "/c/suite/report.html", "/history/", "/served.js")
    for path in (*pages, "/events", "/c/suite/events", "/history/events"):
        answer, text = served.ask(path, method="HEAD")
        assert answer.status == 200 and text == ""


def test_a_message_follows_each_change(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("GET", "/events", headers=served.cookie)
    answer = connection.getresponse()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.readline() == b"data: changed\n" and answer.readline() == b"\n"
    new = served.directory / "late"
    shutil.copytree(served.directory / "damaged", new)
    try:
        assert answer.readline() == b"data: changed\n"
        assert '<a href="/c/late/">late</a>' in served.ask("/")[1]
    finally:
        shutil.rmtree(new)
    connection.close()


def test_one_campaign_in_portuguese(served: Served) -> None:
    one = serving(served.directory / "suite" / "disk", "--lang", "pt-BR", "--port", "0")
    text = one.ask("/c/disk/")[1]
    assert one.ask("/")[0].status == 200 and 'lang="pt-BR"' in text and "Todas as campanhas" in text
    interrupt(one.process)
    assert finish(one.process).code == 130


# How it fails


def refused(*words: object, env: Mapping[str, str] | None = None) -> Finished:
    return lastro("serve", *words, env=env)


def test_what_cannot_be_served(served: Served, tmp_path: Path) -> None:
    is_error(refused(tmp_path / "none"), 2, "none is not a directory")
    is_error(refused(tmp_path, "--port", "65536"), 2, "--port 65536 is not a port")
    is_error(refused(tmp_path, "--history", tmp_path / "h.db"), 2, "h.db does not exist", "lastro history add DIR")
    (tmp_path / "h.db").write_text("not a database")
    is_error(refused(tmp_path, "--history", tmp_path / "h.db"), 5, "h.db is not a readable history", "--file")
    is_error(refused(tmp_path, "--port", served.port), 3, f"port {served.port} of 127.0.0.1 cannot be used: ", "--port")


def test_without_its_packages_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ImportError")
    is_error(refused(tmp_path, env={"PYTHONPATH": str(tmp_path)}), 3, "pip install 'lastro[serve]'")


# In a browser

# A page that tries to read the pages of `origin`, and says of each way whether it did.
PROBES = """<!doctype html><title>another page</title><body>read me<script>
async function probe(origin) {
  const fetched = mode => fetch(origin + "/", { credentials: "include", mode })
    .then(answer => answer.text()).then(text => text ? "read" : "nothing", () => "refused");
  const added = (name, path, loaded) => new Promise(resolve => {
    const element = document.createElement(name);
    element.onload = () => { try { resolve(loaded(element) ? "read" : "nothing"); } catch { resolve("refused"); } };
    element.onerror = () => resolve("refused");
    element.src = origin + path;
    document.body.append(element);
  });
  const told = new Promise(resolve => {
    const events = new EventSource(origin + "/events", { withCredentials: true });
    events.onmessage = () => { events.close(); resolve("read"); };
    events.onerror = () => { events.close(); resolve("refused"); };
  });
  return {
    fetch: await fetched("cors"), opaque: await fetched("no-cors"),
    script: await added("script", "/served.js", _ => true),
    frame: await added("iframe", "/", frame => frame.contentDocument.body.innerText), events: await told,
  };
}
</script>"""


class AnotherPage(BaseHTTPRequestHandler):
    """A server of somebody else on the same machine."""

    FILES: ClassVar = {
        "/": ("text/html", PROBES),
        "/served.js": ("text/javascript", ""),
        "/events": ("text/event-stream", "data: x\n\n"),
    }

    def do_GET(self) -> None:
        kind, text = self.FILES.get(self.path, ("text/plain", ""))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def another_origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), AnotherPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_a_browser_shows_and_keeps_from_other_pages(served: Served, another_origin: str, tmp_path: Path) -> None:
    origin = served.link.partition("/?")[0]
    with Browser(tmp_path / "profile") as browser:
        browser.open(f"{origin}/")
        assert "403" in browser.text and "suite" not in browser.text, "without the token"
        browser.open(served.link)
        assert "suite" in browser.text
        browser.open(f"{another_origin}/")
        ways = ("fetch", "opaque", "script", "frame", "events")
        assert browser.value(f"probe('{another_origin}')") == dict.fromkeys(ways, "read")
        assert browser.value(f"probe('{origin}')") == dict.fromkeys(ways, "refused"), "though the cookie is sent"
        browser.logged.clear()
        browser.resize(390, dark=True)
        for path in ("/", "/c/suite/", "/c/c%201%3Cb%3E/", "/c/damaged/", "/history/", "/c/suite/report.html"):
            browser.open(f"{origin}{path}")
            assert browser.value("document.documentElement.scrollWidth") <= 390, path
            assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 27)", path
        one = serving(served.directory, "--lang", "pt-BR")
        browser.open(one.link)
        assert browser.value("document.documentElement.lang") == "pt-BR" and "Campanhas em" in browser.text
        browser.value("[...document.links].find(link => link.pathname == '/history/').click()")
        browser.until(lambda: "▼ pior" in browser.text, "the history")
        assert browser.logged == [], "no policy refused anything"
        interrupt(one.process)
        assert finish(one.process).code == 130


def test_a_campaign_is_watched_from_its_first_trial_to_its_last_and_killed_meanwhile(bench: Bench) -> None:
    bench.home.joinpath("c").mkdir()
    study = bench.write({"level": ["a", "b"], "fault": ["none", "invalid-once"]}, trial_s=0.8, replicates=2)
    directory = bench.home / "c" / "campaign"
    server = serving(bench.home / "c")
    with Browser(bench.home / "profile") as browser:
        browser.open(server.link)
        assert "There are no campaigns here yet" in browser.text
        running = start("run", study, "-o", directory)
        browser.until(lambda: "campaign" in browser.text and "running" in browser.text, "the campaign in the list")
        assert browser.value("location.search") == "", "the token has left the address"
        assert browser.value("document.cookie") == "", "no script can read it"
        browser.value("document.querySelector('td a, th a').click()")
        browser.until(lambda: "now: trial " in browser.text, "a trial")
        browser.until(lambda: "Latest valid trials" in browser.text, "a value")
        browser.until(lambda: "the host was disturbed (run 1)" in browser.text, "an invalid attempt")
        running.kill()
        running.communicate()
        browser.until(lambda: f"lastro resume {directory}" in browser.text, "the news of its end")
        assert n_done(directory) < 8 and "running: process" not in browser.text
        running = start("resume", directory)
        resumed = (
            "running: process",
            "8 of 8 trials (100\N{NO-BREAK SPACE}%)",
        )  # the rest may be done before the page is read
        browser.until(lambda: any(words in browser.text for words in resumed), "the resumed campaign")
        browser.until(lambda: "8 of 8 trials (100\N{NO-BREAK SPACE}%)" in browser.text, "the last trial")
        assert finish(running).code == 0
        browser.until(lambda: "The report" in browser.text, "the report")
        browser.value("[...document.links].find(link => link.pathname.endsWith('report.html')).click()")
        browser.until(lambda: "Every trial" in browser.text, "the report's text")
        assert browser.value("getComputedStyle(document.querySelector('.plate')).borderRadius") == "8px", "its style"
        assert browser.logged == [], "no policy refused anything"
        browser("Page.navigate", url=server.link.partition("?")[0])
        interrupt(server.process)
        assert finish(server.process).code == 130
        browser.until(lambda: browser.value("document.body.style.opacity") == "0.5", "the end of the server")
