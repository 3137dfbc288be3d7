"""Handing a recording to a browser: only to the one that knows the address, and nothing else of the disk."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.errors import TraceError
from runtime.tracing import serve
from runtime.tracing.serve import HOST, ONLINE, ONLINE_PORT, TraceServer, bundled_ui


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "a recording.pftrace"
    path.write_bytes(b"\x0a\x00" * 1000)
    (tmp_path / "secret.txt").write_text("secret")
    return path


@pytest.fixture
def local(trace: Path) -> Iterator[TraceServer]:
    server = TraceServer(trace, bundled_ui())
    yield server
    server.close()


def get(
    server: TraceServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    port = int(server.source.split(":")[2].split("/")[0])
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def path_of(server: TraceServer) -> str:
    return "/" + server.source.split("/", 3)[3]


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within a moment: the answer is here before the server's thread goes on."""
    deadline = time.monotonic() + 5.0
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def test_the_bundled_window_and_the_recording_come_from_here(local: TraceServer, trace: Path) -> None:
    assert local.url.startswith(f"http://{HOST}:")
    assert "?url=" + local.source in local.url
    status, headers, body = get(local, "/")
    assert (status, b"Perfetto UI" in body) == (200, True)
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    assert not local.fetched
    status, headers, body = get(local, path_of(local))
    assert (status, body) == (200, trace.read_bytes())
    assert headers["Cache-Control"] == "no-store"
    assert soon(lambda: local.fetched)


def test_the_engine_is_served_as_the_browser_wants_it(local: TraceServer) -> None:
    ui = bundled_ui()
    assert ui is not None
    (wasm,) = ui.glob("v*/trace_processor.wasm")
    status, headers, _body = get(local, f"/{wasm.parent.name}/{wasm.name}")
    assert (status, headers["Content-Type"]) == (200, "application/wasm")


@pytest.mark.parametrize(
    "path",
    [
        "/recording.pftrace",
        "/wrongtoken/recording.pftrace",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "//etc/passwd",
        "/etc/passwd",
        "/v52.0/../../secret.txt",
    ],
)
def test_nothing_else_is_served(local: TraceServer, path: str) -> None:
    status, _headers, body = get(local, path)
    assert (status, b"secret" in body) == (404, False)


def test_the_token_does_not_open_its_folder(local: TraceServer) -> None:
    token = path_of(local).split("/")[1]
    assert get(local, f"/{token}/secret.txt")[0] == 404
    assert get(local, f"/{token}/")[0] == 404


def test_another_name_for_this_computer_is_not_answered(local: TraceServer) -> None:
    assert get(local, path_of(local), Host="evil.example:80")[0] == 404
    assert not local.fetched


def test_without_the_bundle_the_online_page_may_read_it(trace: Path) -> None:
    server = TraceServer(trace, None)
    try:
        assert server.url == f"{ONLINE}/#!/?url={server.source}"
        assert f"{HOST}:{ONLINE_PORT}/" in server.source
        status, headers, body = get(server, path_of(server), Origin=ONLINE)
        assert (status, body) == (200, trace.read_bytes())
        assert headers["Access-Control-Allow-Origin"] == ONLINE
        status, headers, _body = get(server, path_of(server), "OPTIONS", Origin=ONLINE)
        assert (status, headers["Access-Control-Allow-Private-Network"]) == (204, "true")
        assert get(server, "/")[0] == 404
        assert get(server, path_of(server), "HEAD")[2] == b""
    finally:
        server.close()


def test_a_taken_port_is_said(trace: Path) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, ONLINE_PORT))
        other.listen()
        with pytest.raises(TraceError, match="9001"):
            TraceServer(trace, None)


def test_a_recording_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not there any more"):
        TraceServer(tmp_path / "gone.pftrace", None)


def test_the_bundle_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda _name: None)
    assert bundled_ui() is None
