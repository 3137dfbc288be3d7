"""One part of a model: its core mode, the cores it may use as a picture, and the same in writing."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QSignalBlocker, Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from mblt_desktop.settings.core_map import GRAINS, CoreMap
from mblt_desktop.settings.editors import ComboEditor
from mblt_desktop.widgets import Label
from runtime.layout.parts import Part
from runtime.layout.request import CoreMode
from runtime.settings.table import SETTINGS

_EXAMPLES = {"none": "the model picks them", "core": "e.g. 0:0:0, 0:0:1", "cluster": "e.g. 0:0, 0:1"}


class PartEditor(QWidget):
    """Reports every change at once, also half-typed ones: the rules answer while somebody types."""

    edited = Signal()

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.part = part
        self.mode = ComboEditor(SETTINGS["layout.core_mode"])
        self.mode.buddy.setAccessibleName(f"Core mode of the part {part.title}")
        self.line = QLineEdit()
        self.map = CoreMap()
        self.map.setAccessibleName(f"Map of the cores for the part {part.title}")
        self._build()
        self.mode.edited.connect(self._on_mode_edited)
        self.line.textEdited.connect(self._on_typed)
        self.map.chosen_changed.connect(self._on_map_changed)
        self.show_layout("auto", ())

    def _build(self) -> None:
        left = QVBoxLayout()
        left.setSpacing(8)
        left.addWidget(Label(self.part.title, bold=True))
        left.addWidget(self.mode)
        left.addWidget(self.line)
        left.addStretch(1)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 12, 16, 12)
        row.setSpacing(24)
        row.addLayout(left, 1)
        row.addWidget(self.map, 0, Qt.AlignmentFlag.AlignTop)

    @property
    def core_mode(self) -> CoreMode:
        """The chosen mode."""
        return cast("CoreMode", self.mode.box.currentData())

    @property
    def targets(self) -> tuple[str, ...]:
        """What is written: cores in single mode, clusters in the others, nothing in automatic mode."""
        return () if self.core_mode == "auto" else self._written()

    def _written(self) -> tuple[str, ...]:
        return tuple(item.strip() for item in self.line.text().split(",") if item.strip())

    def show_layout(self, mode: CoreMode, targets: tuple[str, ...]) -> None:
        """Show a layout without reporting it; text that says the same stays as it was typed."""
        grain = GRAINS[mode]
        self.mode.show_value(mode)
        if targets != self._written():
            with QSignalBlocker(self.line):
                self.line.setText(", ".join(targets))
        self.line.setEnabled(grain != "none")
        self.line.setPlaceholderText(_EXAMPLES[grain])
        what = "Cores" if grain == "core" else "Clusters"
        self.line.setAccessibleName(f"{what} for the part {self.part.title}")
        self.map.set_grain(grain)
        self.map.set_chosen(targets)

    @Slot(object)
    def _on_mode_edited(self, mode: CoreMode) -> None:
        """Cores are no clusters, so what was chosen of the other kind goes."""
        kept = self.targets if GRAINS[mode] == self.map.grain else ()
        self.show_layout(mode, kept)
        self.edited.emit()

    @Slot(str)
    def _on_typed(self, _text: str) -> None:
        self.map.set_chosen(self.targets)
        self.edited.emit()

    @Slot(object)
    def _on_map_changed(self, chosen: tuple[str, ...]) -> None:
        self.line.setText(", ".join(chosen))
        self.edited.emit()
