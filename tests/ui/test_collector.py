"""Objects of Qt that nobody holds any more are destroyed by the window's thread, whoever finds them."""

from __future__ import annotations

import gc
import threading

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDialog

from mblt_desktop.collector import Collector


def test_a_dialog_that_a_models_thread_would_find_is_destroyed_by_the_windows(qtbot) -> None:
    owner = QObject()
    collector = Collector(owner)
    collector.start()
    destroyed_in: list[int] = []
    try:
        dialog = QDialog()
        dialog.destroyed.connect(lambda: destroyed_in.append(threading.get_ident()))
        dialog.itself = dialog
        del dialog

        def compute() -> None:
            gc.collect()
            _ = [[] for _ in range(100_000)]

        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()
        assert destroyed_in == []
        qtbot.waitUntil(lambda: bool(destroyed_in))
    finally:
        collector.stop()
    assert destroyed_in == [threading.get_ident()]
