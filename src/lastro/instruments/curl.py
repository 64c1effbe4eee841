"""A closed load by curl: one process per client, which repeats its request over one connection after each response.

Source: curl(1). A URL may end in a fragment, which is never sent. A range in the fragment, such as #[1-1000], makes one
process repeat the request."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from lastro.errors import InstrumentError
from lastro.host.base import Host
from lastro.instruments import http_load
from lastro.requirements import Requirements
from lastro.results.samples import Reading

_FORMAT = "%{http_code} %{size_download} %{time_total} %{exitcode}\\n"
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)


class Curl(http_load.HttpLoad):
    name = "curl"
    summary = "curl, closed loop: a process for each client, one request after the other over one connection"
    metrics = http_load.metrics("", "closed loop")
    requirements = Requirements(packages=("curl",))

    @classmethod
    def require(cls, host: Host) -> str:
        return host.run(["curl", "--version"]).text.splitlines()[0]

    def script(self, directory: str, load: http_load.ClosedLoad) -> str:
        """Return a shell script that runs all clients at the same time, and reports their responses.

        The script prints a line for each response, then a line with its own start and end, as Unix times in seconds.
        `directory` must be empty: each client writes a file in it."""
        lines = [f"cd {shlex.quote(directory)} || exit", "began=$(date +%s.%N)"]
        kept = "" if load.keep_alive else " --no-keepalive --header 'Connection: close'"
        for client in range(load.clients):
            through = f"http://{load.proxies[client % len(load.proxies)]}" if load.proxies else "''"
            pages = shlex.quote(f"{load.page.url}#[1-{load.requests}]")
            lines.append(
                f"curl --disable --silent --max-time {load.timeout_s:g} --proxy {through}{kept} --output /dev/null"
                f" --write-out '{client} {_FORMAT}' {pages} > {client} &"
            )
        return "\n".join([*lines, "wait", "ended=$(date +%s.%N)", "cat *", "echo $began $ended", ""])

    def measure(self, origin: http_load.LoadOrigin, load: http_load.ClosedLoad) -> Reading:
        origin.host.run(["rm", "-rf", origin.directory])
        origin.host.run(["mkdir", "-p", origin.directory])
        done = origin.measure(["sh"], stdin=self.script(origin.directory, load), timeout_s=load.limit_s)
        return self.read(load, done.text)

    def read(self, load: http_load.ClosedLoad, text: str) -> Reading:
        """Parse the script's output. A pure function. Raises: InstrumentError, and nothing else."""
        *lines, last = text.splitlines() or [""]
        try:
            began_s, ended_s = map(_seconds, last.split())
            samples = _samples(load, lines)
        except (KeyError, ValueError) as error:
            raise InstrumentError(f"curl printed an invalid result: {text[-120:]!r}") from error
        n_requests = load.clients * load.requests
        missing = [http_load.Request(0.0, 0.0, "", "no answer at all")] * (n_requests - len(samples))
        if len(samples) > n_requests or not ended_s > began_s:
            message = f"curl reports {len(samples)} answers to {n_requests} requests in {ended_s - began_s:g} s"
            raise InstrumentError(message)
        requests_per_proxy = [clients * load.requests for clients in http_load.clients_per_proxy(load)]
        reading = http_load.read("", [*samples, *missing], load.page)
        measured = reading.measurements
        if "requests_per_s" in measured:  # by the script's clock: curl itself takes some time between two responses
            measured = {**measured, "requests_per_s": len(samples) / (ended_s - began_s)}
        notes = {**reading.notes, "http": http_load.request_notes(requests_per_proxy)}
        return replace(reading, measurements=measured, notes=notes)


def _samples(load: http_load.ClosedLoad, lines: list[str]) -> list[http_load.Request]:
    """Parse the script's lines, one for each response; the lines of each client are in the order of its requests.

    The times of a client are relative to its first request: each request begins when the response before it has ended.

    Raises: ValueError, KeyError for lines in another format."""
    requests, client_ms = [], dict.fromkeys(range(load.clients), 0.0)
    for line in lines:
        client, status, n_bytes, time_s, code = line.split()
        time_ms, began_ms = 1000 * _seconds(time_s), client_ms[int(client)]
        client_ms[int(client)] += time_ms
        requests.append(http_load.Request(began_ms, time_ms, client, _fault(load, int(status), int(n_bytes), code)))
    return requests


def _seconds(word: str) -> float:
    """Parse a time. Raises: ValueError for other text that Python reads as a number, such as `inf`."""
    if not _SECONDS.fullmatch(word):
        raise ValueError(f"not a time: {word[:40]!r}")
    return float(word)


def _fault(load: http_load.ClosedLoad, status: int, n_bytes: int, code: str) -> str:
    """Return the fault of a response; empty for a correct one. `code` is the exit code of curl for this request."""
    if code != "0":
        return f"curl error {code}"
    if status != 200:
        return f"status {status}"
    return "" if n_bytes == load.page.length_bytes else f"{n_bytes} bytes"
