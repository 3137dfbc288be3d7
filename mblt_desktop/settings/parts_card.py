"""Where each part of a model runs: one place for all of them, or each by itself. Kept for every model."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QSignalBlocker, Slot
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QRadioButton, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.settings.editor_base import Combo
from mblt_desktop.settings.part_editor import PartEditor
from mblt_desktop.settings.row import Card
from mblt_desktop.widgets import Label, Line, PrimaryButton
from runtime.device.active import ActiveDevice
from runtime.errors import ErrorInfo, SettingError
from runtime.layout.from_settings import layout_request, with_parts
from runtime.layout.parts import parts_of
from runtime.layout.request import LayoutRequest, NormalisedLayout
from runtime.layout.rules import CLUSTERS, CORES_PER_CLUSTER
from runtime.messages import CatalogRow, ListModels, LoadSpeech, ModelsListed

_KEY = "layout.parts"


class PartsCard(QWidget):
    """Chooses an installed model that has parts and shows the layout of each; hidden without such a one."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._rows: list[CatalogRow] = []
        self._asked: tuple[LayoutRequest, str] | None = None
        self._allowed = False
        self.models = Combo()
        self.together = QRadioButton("The same for all parts")
        self.apart = QRadioButton("Each part by itself")
        self.editors: dict[str, PartEditor] = {}
        self.verdict = Label("", size="small", wrap=True)
        self.apply = PrimaryButton("Apply (reload model)", "regenerate")
        """For a speech model; of chat and image models, the one loaded last is reloaded below the page."""
        self.card = Card("Parts of a model")
        self._build()
        self.models.activated.connect(self._on_model_chosen)
        self._choice.buttonClicked.connect(self._on_choice_clicked)
        self.apply.clicked.connect(self._on_apply_clicked)
        context.preferences.changed.connect(self._on_setting_changed)
        context.dispatcher.models_listed.connect(self._on_listed)
        context.dispatcher.model_loaded.connect(self._on_loads_changed)
        context.dispatcher.model_unloaded.connect(self._on_loads_changed)
        context.dispatcher.model_failed.connect(self._on_loads_changed)
        context.devices.device_known.connect(self._on_device_known)
        context.devices.layout_checked.connect(self._on_checked)
        self.card.hide()

    def _build(self) -> None:
        self.models.setAccessibleName("Model whose parts are placed")
        head = QWidget()
        column = QVBoxLayout(head)
        column.setContentsMargins(16, 8, 16, 12)
        column.setSpacing(8)
        column.addWidget(
            Label(
                "A model of several networks can run each of them on cores of its own, for example the "
                "encoder on one cluster and the decoder on the other.",
                "muted",
                "small",
                wrap=True,
            )
        )
        row = QHBoxLayout()
        row.setSpacing(24)
        self._choice = QButtonGroup(self)
        for widget in (self.models, self.together, self.apart):
            row.addWidget(widget)
        for button in (self.together, self.apart):
            self._choice.addButton(button)
        row.addStretch(1)
        column.addLayout(row)
        self.card.column.addWidget(head)
        self._parts = QVBoxLayout()
        self._parts.setSpacing(0)
        self.card.column.addLayout(self._parts)
        foot = QHBoxLayout()
        foot.setContentsMargins(16, 0, 16, 12)
        foot.setSpacing(24)
        foot.addWidget(self.verdict, 1)
        foot.addWidget(self.apply)
        self.card.column.addLayout(foot)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self.card)

    def activated(self) -> None:
        """The page came to the front: find out which models there are."""
        self._context.submit(ListModels())

    @property
    def chosen(self) -> CatalogRow | None:
        """The model whose parts are shown."""
        return next((row for row in self._rows if row.model_id == self.models.currentData()), None)

    # -- what there is ---------------------------------------------------------------------------

    @Slot(object)
    def _on_listed(self, event: ModelsListed) -> None:
        rows = [row for row in event.rows if row.state == "installed" and row.device != "cpu"]
        rows = [row for row in rows if parts_of(row.family)]
        if rows == self._rows:
            return
        before = self.models.currentData()
        self._rows = rows
        loaded = [row.model_id for row in rows if row.model_id in self._context.dispatcher.loaded]
        with QSignalBlocker(self.models):
            self.models.clear()
            for row in rows:
                self.models.addItem(row.title, row.model_id)
            wanted = before or (loaded[0] if loaded else None)
            self.models.setCurrentIndex(max(0, self.models.findData(wanted)))
        self.card.setVisible(bool(rows))
        self._show_model()

    @Slot(int)
    def _on_model_chosen(self, _index: int) -> None:
        self._show_model()

    @Slot(object)
    def _on_device_known(self, device: ActiveDevice) -> None:
        for editor in self.editors.values():
            _set_board(editor, device)

    @Slot(object)
    def _on_loads_changed(self, _event: object) -> None:
        self._show_running()
        self.apply.setEnabled(self._allowed)

    # -- showing ---------------------------------------------------------------------------------

    def _show_model(self) -> None:
        """Make an editor for each part of the chosen model."""
        for editor in self.editors.values():
            editor.deleteLater()
        self.editors.clear()
        while self._parts.count():
            item = self._parts.takeAt(0)
            widget = None if item is None else item.widget()
            if widget is not None:
                widget.deleteLater()
        row = self.chosen
        for part in parts_of(row.family) if row is not None else ():
            editor = self.editors[part.name] = PartEditor(part)
            editor.edited.connect(self._on_edited)
            if self._context.devices.device is not None:
                _set_board(editor, self._context.devices.device)
            self._parts.addWidget(Line())
            self._parts.addWidget(editor)
        self._show_layouts()
        self._show_running()

    def _show_layouts(self) -> None:
        """What the settings say about the chosen model."""
        request = self._request()
        placed = {part.part: part.layout for part in request.parts}
        (self.apart if placed else self.together).setChecked(True)
        for name, editor in self.editors.items():
            layout = placed.get(name, request)
            editor.show_layout(layout.core_mode, _targets(layout))
        for index in range(self._parts.count()):
            item = self._parts.itemAt(index)
            widget = None if item is None else item.widget()
            if widget is not None:
                widget.setVisible(bool(placed))
        self._check(request)

    def _show_running(self) -> None:
        row = self.chosen
        info = None if row is None else self._context.dispatcher.loaded.get(row.model_id)
        parts = info.layout.parts if info is not None and info.layout is not None else ()
        running = {part.part: part.cores for part in parts}
        for name, editor in self.editors.items():
            editor.map.set_running(running.get(name, ()))
        self.apply.setVisible(info is not None and info.kind == "speech")

    def _request(self) -> LayoutRequest:
        row = self.chosen
        return layout_request(self._context.preferences.get, "" if row is None else row.model_id)

    def _check(self, request: LayoutRequest) -> None:
        row = self.chosen
        self.verdict.setVisible(bool(request.parts))
        if row is None or not request.parts:
            self._asked = None
            self._allow(True)
        elif self._asked != (request, row.folder):
            self._asked = (request, row.folder)
            self._allow(False)
            self._say("muted", "Checking…")
            self._context.devices.check_layout(request, row.folder)

    @Slot(object, str, object)
    def _on_checked(self, request: LayoutRequest, folder: str, answer: NormalisedLayout | ErrorInfo) -> None:
        """An answer to an older question is of no interest."""
        if self._asked != (request, folder):
            return
        self._allow(isinstance(answer, NormalisedLayout))
        if isinstance(answer, ErrorInfo):
            self._say("bad", answer.sentence())
        else:
            words = " ".join(answer.notes) or "Allowed on this board."
            self._say("warn" if answer.notes else "ok", f"{words} The model takes it when it is loaded next.")

    def _allow(self, allowed: bool) -> None:
        self._allowed = allowed
        self.apply.setEnabled(allowed)

    def _say(self, tone: str, words: str) -> None:
        self.verdict.set_tone(tone)  # type: ignore[arg-type]
        self.verdict.setText(words)

    # -- changing --------------------------------------------------------------------------------

    @Slot(str)
    def _on_setting_changed(self, key: str) -> None:
        if key.startswith("layout.") and self._rows:
            self._show_layouts()

    @Slot(object)
    def _on_choice_clicked(self, button: QRadioButton) -> None:
        self._save(apart=button is self.apart)

    @Slot()
    def _on_edited(self) -> None:
        self._save(apart=True)

    @Slot()
    def _on_apply_clicked(self) -> None:
        row = self.chosen
        if row is not None:
            self.apply.setEnabled(False)  # until it is loaded again
            self._context.submit(LoadSpeech(row.model_id, row.folder, self._request()))

    def _save(self, *, apart: bool) -> None:
        row = self.chosen
        if row is None:
            return
        items = cast("tuple[str, ...]", self._context.preferences.get(_KEY))
        parts = [(name, editor.core_mode, editor.targets) for name, editor in self.editors.items()]
        try:
            self._context.preferences.set(_KEY, with_parts(items, row.model_id, parts if apart else ()))
        except SettingError as error:
            self._asked = None
            self._allow(False)
            self._say("bad", error.info.sentence())


def _targets(layout: LayoutRequest) -> tuple[str, ...]:
    return layout.target_cores if layout.core_mode == "single" else layout.target_clusters


def _set_board(editor: PartEditor, device: ActiveDevice) -> None:
    regulus = device.board.startswith("regulus")
    editor.map.set_board(device.devices, 1 if regulus else CLUSTERS, 1 if regulus else CORES_PER_CLUSTER)
