"""A real browser: Chromium without a window, which a test steers by its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

TIMEOUT_S = 60.0


class Navigated(Exception):
    """The page was left before it answered."""


class Browser:
    """One page in a browser with a profile of its own. It says what the page logged, such as what a policy refused.

    Source: https://chromedevtools.github.io/devtools-protocol, with `--remote-debugging-pipe`."""

    def __init__(self, home: Path) -> None:
        (theirs_in, self._to), (self._from, theirs_out) = os.pipe(), os.pipe()
        argv = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
            f"--user-data-dir={home}", "about:blank",
        ]  # fmt: skip
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'  # the descriptors that it reads and writes
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *argv], pass_fds=[theirs_in, theirs_out], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers, self._rest, self._session = itertools.count(1), b"", ""
        self.logged: list[str] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT_S)
        os.close(self._to)
        os.close(self._from)

    def __call__(self, method: str, **params: Any) -> Any:
        """Send a command, and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != number:
            if answer.get("method") == "Log.entryAdded":
                self.logged.append(answer["params"]["entry"]["text"])
        if "navigated" in answer.get("error", {}).get("message", ""):
            raise Navigated
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _read(self) -> Any:
        while b"\0" not in self._rest:
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, address: str) -> None:
        self("Page.navigate", url=address)
        self.until(lambda: self.value("document.readyState") == "complete", f"{address} to load")

    def value(self, script: str) -> Any:
        """The value of an expression in the page, or what its promise yields."""
        answer = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    @property
    def text(self) -> str:
        """The text that the page shows."""
        return str(self.value("document.body.innerText"))

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s

        def holds() -> object:
            try:
                return condition()
            except Navigated:
                return False

        while not holds():
            assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain for {what}: {self.text}"
            time.sleep(0.1)

    def resize(self, width: int, *, dark: bool = False) -> None:
        """Show the page in a window of this width, that of a telephone below 600, in light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self("Emulation.setEmulatedMedia", features=features)
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)

    def picture(self, file: Path, width: int, *, dark: bool = False) -> None:
        """Write what the page looks like in a window of this width."""
        self.resize(width, dark=dark)
        file.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png")["data"]))
