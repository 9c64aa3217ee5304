"""A real HTTP server on this machine that keeps the requests it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Received(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HttpServer:
    """Requests so far, and the address."""

    def __init__(self, codes: Sequence[int]) -> None:
        self.requests: list[Received] = []
        self._codes = list(codes)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                server.requests.append(Received(self.command, self.path, dict(self.headers), body))
                code = server.next_code()
                self.send_response(code)
                if 300 <= code < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(f"answer to {self.path}".encode())

            def log_message(self, *_: object) -> None:
                pass

        for method in ("GET", "PUT", "PATCH"):
            setattr(Handler, f"do_{method}", Handler.do_POST)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def next_code(self) -> int:
        """The code of the next answer; the last one stays."""
        return self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]


@contextmanager
def http_server(*codes: int) -> Iterator[HttpServer]:
    """Answers with these codes in turn, the last one for ever; default: 200."""
    server = HttpServer(codes or (200,))
    thread = threading.Thread(target=lambda: server.server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        thread.join()
        server.server.server_close()
