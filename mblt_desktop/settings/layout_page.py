"""Device and layout: what runs the models, on which cores, and what came of it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.settings.core_map import GRAINS, CoreMap, Grain
from mblt_desktop.settings.loaded_model import LoadedModel
from mblt_desktop.settings.outcome import Outcome
from mblt_desktop.settings.page import SettingsPage
from mblt_desktop.settings.parts_card import PartsCard
from mblt_desktop.widgets import Button, Label, Line
from runtime.device.active import ActiveDevice
from runtime.errors import ErrorInfo
from runtime.layout.from_settings import layout_request
from runtime.layout.rules import CLUSTERS, CORES_PER_CLUSTER
from runtime.settings.table import SETTINGS

_KEYS = "or go there with the arrow keys and press Space."
_LEGENDS: dict[Grain, str] = {
    "none": "In automatic mode the NPU software picks the cores that the model was compiled for.",
    "core": f"Click the cores that the model may use, {_KEYS}",
    "cluster": f"Click the clusters that the model may use, {_KEYS}",
}


class LayoutPage(SettingsPage):
    """The layout's rows with a map of the cores; `outcome` stands below the page and is always in sight."""

    def __init__(self, context: AppContext, model: LoadedModel) -> None:
        super().__init__(
            "layout",
            "Which device runs the models, and which of its cores. A model takes a changed layout when it is "
            "loaded next.",
            context.preferences,
        )
        self._model = model
        self._devices = context.devices
        self._preferences = context.preferences
        self.running_on = Label("Looking for boards…", bold=True, wrap=True)
        self.map = CoreMap()
        self.legend = Label("", "muted", "small", wrap=True)
        self.everything = Button("Choose nothing (all may be used)", kind="link")
        self.parts = PartsCard(context)
        self.outcome = self.footer = Outcome(context, model)
        device = self.add_card(["layout.device"])
        self.running_on.setContentsMargins(16, 12, 16, 0)
        device.column.insertWidget(0, self.running_on)
        self._build_cores()
        self.map.chosen_changed.connect(self._on_map_changed)
        self.everything.clicked.connect(self._on_everything_clicked)
        self._preferences.changed.connect(self._on_changed)
        context.devices.device_known.connect(self._on_device_known)
        context.devices.device_failed.connect(self._on_device_failed)
        model.changed.connect(self._on_model_changed)
        if context.devices.device is not None:
            self._on_device_known(context.devices.device)
        elif context.devices.error is not None:
            self._on_device_failed(context.devices.error)
        self._on_model_changed()

    def _build_cores(self) -> None:
        card = self.add_card(["layout.core_mode"], "Cores")
        picture = QWidget()
        column = QVBoxLayout(picture)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(8)
        column.addWidget(self.legend)
        column.addWidget(self.map, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.everything, 0, Qt.AlignmentFlag.AlignLeft)
        card.column.addWidget(Line())
        card.column.addWidget(picture)
        self.extras.append(picture)
        self.add_card(
            ["layout.cores", "layout.clusters", "layout.dev_no", "layout.max_batch_size"],
            "The same in writing",
        )
        self.add_extra(self.parts)

    def activated(self) -> None:
        """Find out about the device, if nobody has yet."""
        self._devices.start()
        self.parts.activated()
        self.outcome.check()

    def search(self, words: str) -> int:
        """Show only the settings that match, the parts of a model among them; returns how many do."""
        found = super().search(words)
        wanted = SETTINGS["layout.parts"].matches(words)
        self.parts.setVisible(wanted)
        return found + (bool(words) and wanted and not self.parts.card.isHidden())

    # -- the device ------------------------------------------------------------------------------

    @Slot(object)
    def _on_device_known(self, device: ActiveDevice) -> None:
        self.running_on.setText(f"Models run on: {device.title}")
        self.running_on.set_tone("text")
        regulus = device.board.startswith("regulus")
        self.map.set_board(device.devices, 1 if regulus else CLUSTERS, 1 if regulus else CORES_PER_CLUSTER)
        self.outcome.check()

    @Slot(object)
    def _on_device_failed(self, error: ErrorInfo) -> None:
        self.running_on.setText(f"{error.summary} {error.remedy}")
        self.running_on.set_tone("bad")

    # -- the cores -------------------------------------------------------------------------------

    @Slot(str)
    def _on_changed(self, key: str) -> None:
        if key.startswith("layout."):
            self._refresh()

    def _refresh(self) -> None:
        request = layout_request(self._preferences.get)
        grain = GRAINS[request.core_mode]
        self.map.set_grain(grain)
        self.map.set_chosen(request.target_cores if grain == "core" else request.target_clusters)
        dot = " A green dot marks the cores in use now." if self._model.info is not None else ""
        self.legend.setText(_LEGENDS[grain] + dot)
        self.everything.setVisible(bool(self.map.chosen) and grain != "none")
        self.outcome.check()

    @Slot(object)
    def _on_map_changed(self, chosen: tuple[str, ...]) -> None:
        """The other list would only be dropped, so it is emptied."""
        single = self._preferences.get("layout.core_mode") == "single"
        self._preferences.set("layout.clusters" if single else "layout.cores", ())
        self._preferences.set("layout.cores" if single else "layout.clusters", chosen)

    @Slot()
    def _on_everything_clicked(self) -> None:
        self._preferences.reset("layout.cores")
        self._preferences.reset("layout.clusters")
        self.map.setFocus()

    @Slot()
    def _on_model_changed(self) -> None:
        layout = None if self._model.info is None else self._model.info.layout
        self.map.set_running(() if layout is None else layout.cores)
        self._refresh()
