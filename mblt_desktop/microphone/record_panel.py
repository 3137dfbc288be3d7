"""Record: which microphone, how loud, start and stop; and what the speech runs on."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.microphone.level_meter import LevelMeter
from mblt_desktop.microphone.recorder import Recorder
from mblt_desktop.microphone.speech_models import SpeechModels, row_title
from mblt_desktop.theme import font
from mblt_desktop.widgets import Button, IconButton, Label, PrimaryButton, plain_tip
from runtime.audio.times import clock

_LANGUAGE = "audio.language"
_DETECT = "Find out"


class RecordPanel(QWidget):
    """The top of the left panel."""

    models_requested = Signal()
    """No speech model is installed and the user wants to change that."""

    def __init__(self, context: AppContext, recorder: Recorder, models: SpeechModels) -> None:
        super().__init__()
        self._context = context
        self._recorder = recorder
        self._models = models
        self.devices = QComboBox()
        self.devices.setAccessibleName("Microphone")
        self.refresh = IconButton("regenerate", "Look for microphones again", size=16)
        self.meter = LevelMeter()
        self.button = PrimaryButton("Record", "record")
        self.note = Label("", "muted", "small", wrap=True)
        self.engine = QComboBox()
        self.engine.setAccessibleName("Run on")
        self.install = Button("Get a speech model…", "models")
        self.install.setToolTip("Go to the Models pane, which installs one")
        self.language = QComboBox()
        self.language.setAccessibleName("Language")
        self._language_label = Label("Language", "muted", "small")
        self._build()
        self._connect()
        self._show_devices()
        self._show_models()
        self._show_state()

    def _build(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self.devices, 1)
        row.addWidget(self.refresh)
        column.addLayout(row)
        column.addWidget(self.meter)
        column.addWidget(self.button)
        column.addWidget(self.note)
        run_on = Label("Run on", "muted", "small")
        run_on.setBuddy(self.engine)
        self._language_label.setBuddy(self.language)
        for widget in (run_on, self.engine, self.install, self._language_label, self.language):
            widget.setFont(font("small"))
            column.addWidget(widget)
        for combo in (self.devices, self.engine, self.language):
            # Long names must not widen the panel.
            combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            combo.setMinimumContentsLength(8)

    def _connect(self) -> None:
        self._recorder.devices_changed.connect(self._show_devices)
        self._recorder.state_changed.connect(self._show_state)
        self._recorder.level_changed.connect(self._on_level_changed)
        self._models.changed.connect(self._show_models)
        self.devices.activated.connect(self._on_device_chosen)
        self.refresh.clicked.connect(self._recorder.refresh)
        self.button.clicked.connect(self._on_button_clicked)
        self.engine.activated.connect(self._on_engine_chosen)
        self.install.clicked.connect(self.models_requested)
        self.language.activated.connect(self._on_language_chosen)

    # -- microphone ------------------------------------------------------------------------------

    @Slot()
    def _show_devices(self) -> None:
        self.devices.clear()
        found = self._recorder.devices
        if not found:
            self.devices.addItem("No microphone" if self._recorder.listed else "Looking for microphones…")
        else:
            self.devices.addItem("System default", None)
            for device in found:
                self.devices.addItem(device.name, device.key)
            self.devices.setCurrentIndex(max(0, self.devices.findData(self._recorder.chosen)))
        problem = self._recorder.problem
        self.note.setText("" if problem is None else f"{problem.summary} {problem.remedy}")
        self._show_state()

    @Slot()
    def _show_state(self) -> None:
        state = self._recorder.state
        words = {
            "idle": "Record",
            "opening": "Opening…",
            "recording": "Stop · 0:00",
            "stopping": "Finishing…",
        }
        self.button.setText(words[state])
        self.button.set_icon("record" if state == "idle" else "stop")
        self.button.setEnabled(state in ("opening", "recording") or (state == "idle" and self._can_record))
        self.devices.setEnabled(state == "idle" and bool(self._recorder.devices))
        self.refresh.setEnabled(state == "idle")
        self.note.setVisible(bool(self.note.text()))
        if state == "idle":
            self.meter.clear()

    @property
    def _can_record(self) -> bool:
        return bool(self._recorder.devices)

    @Slot(float, float)
    def _on_level_changed(self, seconds: float, peak: float) -> None:
        self.meter.set_peak(peak)
        if self._recorder.state == "recording":
            self.button.setText(f"Stop · {clock(seconds)}")

    @Slot(int)
    def _on_device_chosen(self, index: int) -> None:
        self._recorder.choose(self.devices.itemData(index))

    @Slot()
    def _on_button_clicked(self) -> None:
        if self._recorder.state == "idle":
            self._recorder.start()
        else:
            self._recorder.stop()

    # -- speech model ----------------------------------------------------------------------------

    @Slot()
    def _show_models(self) -> None:
        self.engine.clear()
        for row in self._models.rows:
            self.engine.addItem(row_title(row), row.model_id)
        chosen = self._models.chosen
        if chosen is None:
            looking = self._models.state == "unknown"
            self.engine.addItem("Looking for models…" if looking else "No speech model installed")
        else:
            self.engine.setCurrentIndex(self.engine.findData(chosen.model_id))
        self.engine.setEnabled(chosen is not None)
        self.install.setVisible(self._models.state == "none")
        self.engine.setToolTip(plain_tip(self.engine.currentText()))
        self._show_languages()

    def _show_languages(self) -> None:
        """Only for a model that knows several: an English one has nothing to choose."""
        info = self._models.loaded
        codes = info.languages if info is not None else ()
        self.language.clear()
        self.language.addItem(_DETECT, None)
        for code in codes:
            self.language.addItem(code, code)
        wanted = self._context.preferences.text(_LANGUAGE)
        self.language.setCurrentIndex(max(0, self.language.findData(wanted or None)))
        several = len(codes) > 1
        self.language.setVisible(several)
        self._language_label.setVisible(several)

    @Slot(int)
    def _on_engine_chosen(self, index: int) -> None:
        self._models.choose(self.engine.itemData(index))

    @Slot(int)
    def _on_language_chosen(self, index: int) -> None:
        self._context.preferences.set(_LANGUAGE, self.language.itemData(index))
