"""The HTTP server behind the proxies, which serves one object and logs the clients: Apache httpd or nginx.

Both run with a minimal configuration, and otherwise with their defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lastro.host.base import Process
from lastro.instruments.answer import wait_for_answer
from lastro.instruments.http_load import RequestedPage
from lastro.platforms.base import Instance

APACHE, NGINX = "apache", "nginx"
VERSION_ARGV = {APACHE: ("apache2", "-v"), NGINX: ("nginx", "-v")}
PACKAGES = {APACHE: "apache2-bin", NGINX: "nginx-light"}
_PLACE = "/var/tmp/lastro-origin"
_CONFIG, _LOG, _FILES = f"{_PLACE}/server.conf", f"{_PLACE}/access.log", f"{_PLACE}/files"
_ARGV = {APACHE: ("apache2", "-D", "FOREGROUND", "-f", _CONFIG), NGINX: ("nginx", "-c", _CONFIG, "-p", _PLACE)}
_LINE = "One object, of which every byte is known, so that whoever receives it can tell that it is whole."
_MODULES = "/usr/lib/apache2/modules"
_ANSWER_S = 20.0
LoggedRequest = tuple[str, int, int]  # the client's address, the status of the answer, and the bytes of its body


@dataclass(frozen=True, slots=True)
class Origin:
    """A running HTTP server. `page` is the object that it serves."""

    instance: Instance
    page: RequestedPage
    process: Process

    def asked(self) -> Counter[LoggedRequest]:
        """Return the requests in the server's log, counted by (client address, status, bytes)."""
        done = self.instance.run(["sh", "-c", f"sort {_LOG} | uniq -c"])
        requests: Counter[LoggedRequest] = Counter()
        for line in done.text.splitlines():
            count, client, status, n_bytes = line.split()
            requests[client, int(status), int(n_bytes)] = int(count)
        return requests


@contextmanager
def serving(instance: Instance, server: str, address: str, n_bytes: int) -> Iterator[Origin]:
    """Run a server inside the block, for an object of `n_bytes`; the server accepts connections when the block begins.

    `server` is its kind. Raises: InstrumentError, with the server's last output, when it does not accept
    connections."""
    # The object is old: without an expiry time, a cache keeps for long what has not changed for long (RFC 9111, 4.2.2).
    make = (
        f"rm -rf {_PLACE}; mkdir -p {_FILES}; cat > {_CONFIG}; yes '{_LINE}' | head -c {n_bytes} > {_FILES}/object;"
        f" touch -d 2020-01-01 {_FILES}/object; chmod -R a+rX {_PLACE}"
    )
    instance.run(["sh", "-ec", make], stdin=configuration(server, address))
    process = instance.spawn(_ARGV[server])
    try:
        # The server only has to accept a connection: no request is sent, so its log stays empty.
        wait_for_answer(instance, process, ["nc", "-z", address, "80"], "the HTTP server", _ANSWER_S)
        yield Origin(instance, page(address, n_bytes), process)
    finally:
        process.stop()


def page(address: str, n_bytes: int) -> RequestedPage:
    """Return the object of `n_bytes` as clients must receive it: its URL, length and hash."""
    line = f"{_LINE}\n".encode()
    return RequestedPage.of(f"http://{address}/object", (line * (n_bytes // len(line) + 1))[:n_bytes])


def configuration(server: str, address: str) -> str:
    """Return the server's configuration file: connections stay open, and each request is logged immediately."""
    if server == NGINX:
        return f"""daemon off;
user www-data;
worker_processes auto;
pid {_PLACE}/pid;
error_log stderr warn;
events {{ }}
http {{
    log_format lastro '$remote_addr $status $body_bytes_sent';
    access_log {_LOG} lastro;
    keepalive_requests 1000000;
    server {{
        listen {address}:80;
        root {_FILES};
    }}
}}
"""
    return f"""LoadModule mpm_event_module {_MODULES}/mod_mpm_event.so
LoadModule authz_core_module {_MODULES}/mod_authz_core.so
ServerName {address}
Listen {address}:80
User www-data
Group www-data
ServerRoot {_PLACE}
DefaultRuntimeDir {_PLACE}
PidFile {_PLACE}/pid
DocumentRoot {_FILES}
ErrorLog /dev/stderr
LogFormat "%a %>s %B" lastro
CustomLog {_LOG} lastro
KeepAlive On
MaxKeepAliveRequests 0
"""
