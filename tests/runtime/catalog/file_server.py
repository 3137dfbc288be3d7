"""A real HTTP server on the loopback whose misbehaviour a test can script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class FileServer:
    """Serves `files` by path; knows ranges unless told otherwise, and remembers every request."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.types: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []
        """Path and Range header of each request, in order."""
        self.status: dict[str, list[int]] = {}
        """Statuses to answer a path with, one per request; after them, and for a 200, it is served."""
        self.cuts: dict[str, list[int]] = {}
        """After how many body bytes to hang up, one per request; then whole answers again."""
        self.knows_ranges = True
        self.released = threading.Event()
        self.released.set()
        """Cleared by a test that wants answers to stop after the first half."""
        self.url = ""

    def ranges(self, path: str) -> list[str | None]:
        """The Range headers with which a path was asked for."""
        return [header for asked, header in self.requests if asked == path]


@contextmanager
def serving() -> Iterator[FileServer]:
    """A running server; every thread of it has ended when the block is left."""
    state = FileServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="file-server")
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(state: FileServer) -> type[_Handler]:
    return type("Handler", (_Handler,), {"state": state})


class _Handler(BaseHTTPRequestHandler):
    state: FileServer

    def log_message(self, *_args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = urlsplit(self.path).path
        self.state.requests.append((path, self.headers.get("Range")))
        statuses = self.state.status.get(path)
        status = statuses.pop(0) if statuses else 200
        if status != 200:
            self._refuse(status)
        elif path in self.state.files:
            self._serve(path, with_body)
        else:
            self._refuse(404)

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _serve(self, path: str, with_body: bool) -> None:
        body, start = self.state.files[path], self._start()
        if start >= len(body) > 0:
            self._refuse(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", self.state.types.get(path, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        if with_body:
            with suppress(ConnectionError):  # the client may hang up
                self._send(path, body[start:])

    def _start(self) -> int:
        header = self.headers.get("Range")
        if header is None or not self.state.knows_ranges:
            return 0
        return int(header.removeprefix("bytes=").split("-")[0])

    def _send(self, path: str, body: bytes) -> None:
        if cuts := self.state.cuts.get(path):
            self.wfile.write(body[: cuts.pop(0)])
            self.close_connection = True
            return
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        self.state.released.wait()
        self.wfile.write(body[half:])
