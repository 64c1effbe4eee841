"""The server of `lastro serve`: pages for one user of this machine, who reads and changes nothing.

Other users, and pages of other sites in the same browser, must not read anything. So it listens on 127.0.0.1; it
answers only requests with its token, in the address or in a cookie; and it checks the host name of each request, since
a site could point its own name to 127.0.0.1 (DNS rebinding). Source: the Content Security Policy, level 3, of the
W3C."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lastro.app.served import HISTORY, REPORT, Campaigns
from lastro.errors import HostError
from lastro.host.activity import name_server

HOST = "127.0.0.1"
_HOSTS = (HOST, "localhost")  # the second one is usual with `ssh -L`
_POLL_S = 1.0
_MOST_NICE = 19  # trials come first
_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_POLICY = f"{_NOTHING}; script-src 'self'; style-src 'self'; connect-src 'self'"
_REPORT_POLICY = f"{_NOTHING}; style-src 'unsafe-inline'; img-src data:; sandbox allow-same-origin"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _NOTHING,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_FILES = {"style.css": "text/css", "served.js": "text/javascript"}


def serve(campaigns: Campaigns, port: int, ready: Callable[[str], None]) -> None:
    """Serve campaigns until a signal arrives; port 0 means any free port. `ready` is called with the address to open.

    Raises: HostError when the port is taken or not allowed."""
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        hint = "choose another --port, or none for a free one"
        raise HostError(f"port {port} of {HOST} cannot be used: {error.strerror}", hint) from error
    token, port = secrets.token_urlsafe(32), listener.getsockname()[1]
    app = application(campaigns, token, f"lastro-{port}", lambda: server.should_exit)
    server = _CalmServer(
        uvicorn.Config(
            app, lifespan="off", ws="none", loop="asyncio", http="h11", log_config=None, access_log=False,
            server_header=False, timeout_graceful_shutdown=5,
        )
    )  # fmt: skip
    name_server()
    os.nice(_MOST_NICE)
    ready(f"http://{HOST}:{port}/?token={token}")
    server.run(sockets=[listener])


class _CalmServer(uvicorn.Server):
    """A server that wakes up once a second while it is idle, instead of ten times as its base class does."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(_POLL_S)


def application(campaigns: Campaigns, token: str, cookie: str, ends: Callable[[], bool]) -> ASGIApp:
    """Return the application that serves campaigns to clients that send the token.

    A client sends it as an argument in the address, or in the cookie named `cookie`. `ends` returns whether the server
    is about to end, so that responses that would never end by themselves are ended."""

    def chosen(request: Request) -> Path | None:
        """Return the directory of the campaign or suite that the address names; None if it names none, for all."""
        path = request.path_params.get("path")
        place = None if path is None else campaigns.find(path)
        if path is not None and place is None:
            raise HTTPException(404)
        return place

    def page(request: Request) -> Response:
        return _html(campaigns.page(chosen(request)), _PAGE_POLICY)

    def report(request: Request) -> Response:
        place = chosen(request)
        if place is None or (content := campaigns.report(place)) is None:
            raise HTTPException(404)
        return _html(content, _REPORT_POLICY)

    def history(request: Request) -> Response:
        return _html(campaigns.history.page(), _PAGE_POLICY)

    def file(request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        return Response((resources.files("lastro.render") / "templates" / name).read_bytes(), media_type=_FILES[name])

    async def events(request: Request) -> Response:
        place = await asyncio.to_thread(chosen, request)
        return stream(request, lambda: (campaigns.readings(place), place is None and campaigns.history.exists))

    async def history_events(request: Request) -> Response:
        return stream(request, campaigns.history.reading)

    def stream(request: Request, read: Callable[[], object]) -> Response:
        async def changes() -> AsyncIterator[str]:
            """Yield a message for each change of the page, and one at first: it may have changed since it was sent."""
            seen = None
            while request.method == "GET" and not ends():
                now = await asyncio.to_thread(read)
                if now != seen:
                    yield "data: changed\n\n"
                seen = now
                await asyncio.sleep(_POLL_S)

        return StreamingResponse(changes(), media_type="text/event-stream")

    below = "/c/{path:path}"
    routes = [
        Route("/", page), Route("/events", events), *(Route(f"/{name}", file) for name in _FILES),
        Route(HISTORY, history), Route(f"{HISTORY}events", history_events),
        Route(HISTORY.rstrip("/"), lambda request: RedirectResponse(HISTORY)),
        Route(f"{below}/events", events), Route(f"{below}/{REPORT}", report), Route(f"{below}/", page),
    ]  # fmt: skip
    served = Starlette(routes=routes)
    served.router.redirect_slashes = False
    return _Guard(served, token, cookie)


def _html(content: str | bytes, policy: str) -> Response:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    return Response(data, media_type="text/html", headers={"Content-Security-Policy": policy})


class _Guard:
    """Middleware that refuses forbidden requests, and adds security headers to all answers.

    It answers 403 without the token or for another host name, and 405 for a method other than GET and HEAD."""

    def __init__(self, inner: ASGIApp, token: str, cookie: str) -> None:
        self._inner, self._token, self._cookie = inner, token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        opened = self._is_token(request.query_params.get("token", ""))
        known = opened or self._is_token(request.cookies.get(self._cookie, ""))
        inner = self._inner
        if not known or request.headers.get("host", "").partition(":")[0] not in _HOSTS:
            inner, opened = Response(status_code=403), False
        elif request.method not in ("GET", "HEAD"):
            inner = Response(status_code=405, headers={"Allow": "GET, HEAD"})

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if opened:
                    headers.append("Set-Cookie", f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        await inner(scope, receive, secured)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "replace"), self._token.encode())
