"""The Record button: a red dot and what a press does now."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QHBoxLayout, QWidget

from mblt_desktop.tracing import words
from mblt_desktop.tracing.controller import RecordingController
from mblt_desktop.widgets import Button, Dot, Label

_TEXT = {"idle": "Record trace", "starting": "Starting…", "recording": "Stop", "stopping": "Writing…"}
_TIP = {
    "idle": "Record what the program and the device do (Ctrl+R)",
    "starting": "The recording is being started",
    "recording": "Stop the recording (Ctrl+R)",
    "stopping": "The recording is being written and checked",
}


class RecordButton(QWidget):
    """For the status bar: usable from every pane."""

    def __init__(self, controller: RecordingController) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self._dot = Dot("bad")
        self.facts = Label("", "muted", "small", tabular=True)
        self.facts.hide()
        self.button = Button("Record trace", "record", "plain", tone="bad")
        self.button.clicked.connect(controller.toggle)
        row.addWidget(self.facts)
        row.addWidget(self._dot)
        row.addWidget(self.button)
        controller.state_changed.connect(self._on_state_changed)
        controller.ticked.connect(self._on_ticked)
        self._on_state_changed(controller.state)

    @Slot(str)
    def _on_state_changed(self, state: str) -> None:
        self.button.setText(_TEXT[state])
        self.button.setToolTip(_TIP[state])
        self.button.setAccessibleName(_TIP[state])
        self.button.setEnabled(state in ("idle", "recording"))
        self.button.set_icon("stop" if state == "recording" else "record")
        self._dot.setVisible(state == "recording")
        self.facts.setVisible(state == "recording")
        if state == "recording":
            self._on_ticked(0.0, 0)

    @Slot(float, int)
    def _on_ticked(self, seconds: float, count: int) -> None:
        self.facts.setText(f"{words.clock(seconds)} · {words.events(count)}")
