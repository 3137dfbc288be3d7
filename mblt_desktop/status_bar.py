"""The line at the bottom: device, layout, readings, models, what is loading, and Record."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.devices.monitor import say_readings
from mblt_desktop.widgets import Chip, ElidedLabel, Label, plain_tip
from runtime.device.active import ActiveDevice
from runtime.device.readings import Readings
from runtime.errors import ErrorInfo
from runtime.layout.request import EffectiveLayout
from runtime.messages import ModelFailed, ModelInfo, ModelLoaded, ModelLoading, ModelsListed, ModelUnloaded

HEIGHT = 34
KIND_ORDER = ("chat", "image", "speech")


class StatusBar(QFrame):
    """Mirrors events; owns nothing."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.setProperty("role", "status")
        self.setFixedHeight(HEIGHT)
        self._loaded: dict[str, ModelInfo] = {}
        self._titles: dict[str, str] = {}
        self._simulated = False
        self.device = Chip("Looking for a device…", "muted")
        self.layout_words = Label("", "muted", "small")
        self.readings = Label("", "muted", "small", tabular=True)
        self.models = ElidedLabel("No model loaded", "muted", "small")
        self.loading = ElidedLabel("", "muted", "small")
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setFixedWidth(96)
        self.progress.setAccessibleName("Progress of loading a model")
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(12, 0, 12, 0)
        self._row.setSpacing(16)
        for widget in (self.device, self.layout_words, self.readings):
            self._row.addWidget(widget)
        self._row.addWidget(self.models, 1)
        self._row.addWidget(self.loading)
        self._row.addWidget(self.progress)
        self._show_readings(None)
        self._show_loading(None)
        self._connect(context)

    def _connect(self, context: AppContext) -> None:
        dispatcher, devices = context.dispatcher, context.devices
        dispatcher.model_loading.connect(self._on_loading)
        dispatcher.model_loaded.connect(self._on_loaded)
        dispatcher.model_unloaded.connect(self._on_unloaded)
        dispatcher.model_failed.connect(self._on_failed)
        dispatcher.models_listed.connect(self._on_listed)
        devices.device_known.connect(self._on_device_known)
        devices.device_failed.connect(self._on_device_failed)
        devices.readings_changed.connect(self._on_readings_changed)

    def add_right(self, widget: QWidget) -> None:
        """Put a widget at the right end."""
        self._row.addWidget(widget)

    # -- events -----------------------------------------------------------------------------------

    @Slot(object)
    def _on_device_known(self, device: ActiveDevice) -> None:
        self._simulated = device.simulated
        self.device.set_text(device.title, "ok")
        self.device.setToolTip(_device_tip(device))
        self._show_readings(None)

    @Slot(object)
    def _on_device_failed(self, error: ErrorInfo) -> None:
        self.device.set_text("No device", "bad")
        self.device.setToolTip(plain_tip(error.sentence()))

    @Slot(object)
    def _on_readings_changed(self, readings: Readings) -> None:
        self._show_readings(readings)

    @Slot(object)
    def _on_loading(self, event: ModelLoading) -> None:
        self._show_loading(event)

    @Slot(object)
    def _on_loaded(self, event: ModelLoaded) -> None:
        info: ModelInfo = event.info
        self._loaded[info.model_id] = info
        self._show_loading(None)
        self._show_models()

    @Slot(object)
    def _on_unloaded(self, event: ModelUnloaded) -> None:
        if event.cancelled:
            self._show_loading(None)
        self._forget(event.model_id)

    @Slot(object)
    def _on_failed(self, event: ModelFailed) -> None:
        self._show_loading(None)
        self._forget(event.model_id)

    @Slot(object)
    def _on_listed(self, event: ModelsListed) -> None:
        self._titles = {row.model_id: row.title for row in event.rows}
        self._show_models()

    # -- words ------------------------------------------------------------------------------------

    def _forget(self, model_id: str) -> None:
        self._loaded.pop(model_id, None)
        self._show_models()

    def _show_models(self) -> None:
        loaded = sorted(self._loaded.values(), key=lambda info: KIND_ORDER.index(info.kind))
        titles = {info.model_id: self._titles.get(info.model_id, info.title) for info in loaded}
        self.models.setText(" · ".join(titles.values()) or "No model loaded")
        layouts = {info.model_id: say_layout(info.layout) for info in loaded if info.layout is not None}
        self.layout_words.setText("  +  ".join(dict.fromkeys(layouts.values())))
        self.layout_words.setVisible(bool(layouts))
        self.layout_words.setToolTip("\n".join(f"{titles[key]}: {words}" for key, words in layouts.items()))

    def _show_loading(self, event: ModelLoading | None) -> None:
        self.loading.setVisible(event is not None)
        self.progress.setVisible(event is not None)
        if event is None:
            return
        title = self._titles.get(event.model_id, event.model_id)
        self.loading.setText(f"Loading {title}: {event.stage.rstrip('.…').lower()}…")
        if event.fraction is None:
            self.progress.setRange(0, 0)
        else:
            self.progress.setRange(0, 1000)
            self.progress.setValue(round(1000 * event.fraction))

    def _show_readings(self, readings: Readings | None) -> None:
        values = say_readings(readings)
        self.readings.setText("   ".join(f"{name} {value}" for name, value in values))
        if self._simulated:
            self.readings.setToolTip("The simulated device has no sensors.")
        elif readings is None:
            self.readings.setToolTip("The device has not told any readings.")
        else:
            self.readings.setToolTip("As the board tells them; — means that it does not.")


def say_layout(layout: EffectiveLayout) -> str:
    """Core mode and what it runs on, e.g. "global4 · cluster 0:0"."""
    if layout.core_mode == "single" and layout.cores:
        count = len(layout.cores)
        return f"single · {count} core{'s' if count > 1 else ''}"
    places = ", ".join(layout.clusters)
    return f"{layout.core_mode} · cluster {places}" if places else layout.core_mode


def _device_tip(device: ActiveDevice) -> str:
    if device.simulated:
        return "No board is used: the same program code runs on this computer's processor."
    boards = "board" if device.devices == 1 else "boards"
    return f"{device.devices} {boards} ({device.board})"
