"""A small HTTP server that can be wrong, in a process of its own: it answers as origin, and as a proxy by itself.

    python tests/support/httpserver.py ADDRESS PORT FAULT EVERY

Every so many requests it commits its fault: `status` (500), `length` (a byte too few, told rightly), `short` (a body
that ends before its length), `hang` (no answer for a minute); or `content` (other bytes) from then on. `stall` lets
every request that comes in the first half of every EVERY seconds wait for the second half: a server that stands still.
`none` is right throughout. It prints `ready`, and for each request `URL`. It runs without lastro's environment."""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = bytes(range(256)) * 64


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # head and body are two segments, and the second would wait for the first one's answer
    )
    fault, every = "none", 1.0
    count, lock = 0, threading.Lock()

    def do_GET(self) -> None:
        with self.lock:
            type(self).count += 1
            wrong = self.count >= self.every if self.fault == "content" else self.count % self.every == 0
            print(self.path, flush=True)
        if self.fault == "stall":
            into_s = time.monotonic() % self.every
            time.sleep(max(0.0, self.every / 2 - into_s))
            wrong = False
        self.answer(self.fault if wrong else "none")

    def answer(self, fault: str) -> None:
        body = BODY[:-1] if fault == "length" else BODY[::-1] if fault == "content" else BODY
        if fault == "hang":
            time.sleep(60)
        self.send_response(500 if fault == "status" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "short" else body)
        if fault == "short":
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing: what counts is printed."""


if __name__ == "__main__":
    address, port, Handler.fault, every = sys.argv[1:]
    Handler.every = float(every)
    server = ThreadingHTTPServer((address, int(port)), Handler)
    server.daemon_threads = True
    print("ready", flush=True)
    server.serve_forever()
