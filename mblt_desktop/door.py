"""One window per user and data folder: a second start gives its files to the window that is open.

Two programs on one library would each hold a copy of the conversations in memory and write over the other's.
The address is an abstract Unix socket: it is gone with the process, however that ends, so none is ever stale.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import struct
from pathlib import Path

from PySide6.QtCore import QObject, QSocketNotifier, Signal, Slot

ANSWER_SECONDS = 3.0
"""How long a second start waits for a window that may be busy, before it opens its own."""
_OK = b"ok"
_MOST = 1 << 20


def hand_over(data: Path, files: list[Path]) -> bool:
    """Give files to the window that is open on this data folder; False when none is or answers."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(ANSWER_SECONDS)
        caller.connect(_address(data))
        if _is_own(caller):
            caller.sendall(json.dumps([str(path) for path in files]).encode())
            caller.shutdown(socket.SHUT_WR)
            return caller.recv(len(_OK)) == _OK
    return False


class Door(QObject):
    """The open window's side. Nothing here ever waits."""

    files_received = Signal(list)
    """Paths a second start was given; an empty list only asks for the window."""

    def __init__(self, data: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._callers: dict[QSocketNotifier, tuple[socket.socket, bytearray]] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._notifier = QSocketNotifier(self._listener.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_knock)
        try:
            self._listener.bind(_address(data))
            self._listener.listen()
        except OSError:
            # Another window has the address but did not answer: this one goes without.
            self._notifier.setEnabled(False)

    def close(self) -> None:
        """Give the address back."""
        self._notifier.setEnabled(False)
        self._listener.close()
        for notifier in list(self._callers):
            self._end(notifier)

    @Slot()
    def _on_knock(self) -> None:
        with contextlib.suppress(OSError):
            caller, _ = self._listener.accept()
            if not _is_own(caller):
                caller.close()
                return
            caller.setblocking(False)
            notifier = QSocketNotifier(caller.fileno(), QSocketNotifier.Type.Read, self)
            notifier.activated.connect(self._on_readable)
            self._callers[notifier] = (caller, bytearray())

    @Slot()
    def _on_readable(self) -> None:
        for notifier, (caller, text) in list(self._callers.items()):
            try:
                part = caller.recv(1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                self._end(notifier)
                continue
            text += part
            if not part:
                self._answer(caller, bytes(text))
            if not part or len(text) > _MOST:
                self._end(notifier)

    def _answer(self, caller: socket.socket, text: bytes) -> None:
        try:
            names = json.loads(text)
        except ValueError:
            return
        if isinstance(names, list):
            with contextlib.suppress(OSError):
                caller.send(_OK)
            self.files_received.emit([Path(name) for name in names if isinstance(name, str)])

    def _end(self, notifier: QSocketNotifier) -> None:
        caller, _ = self._callers.pop(notifier)
        notifier.setEnabled(False)
        notifier.deleteLater()
        caller.close()


def _address(data: Path) -> str:
    folder = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:24]
    return f"\0mblt-desktop-{os.getuid()}-{folder}"


def _is_own(other: socket.socket) -> bool:
    """Whether the other end belongs to the same user: everybody can reach an abstract address."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.getuid())
