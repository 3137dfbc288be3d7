"""The right side of the Models pane: how much room there is, and where models come from."""

from __future__ import annotations

import shutil
from pathlib import Path

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout

from mblt_desktop.models.words import size
from mblt_desktop.widgets import Bar, Button, Dot, ElidedLabel, Label, Section, SidePanel

_OWN_MODELS = (
    "Drop a model folder here, or choose Add folder. A compiled model is copied; a Hugging Face checkpoint "
    "(Llama, Qwen, EXAONE, Cohere, Whisper and more) is compiled for the simulated NPU. Code and pickled "
    "weights in it are left out."
)
_SOURCES = (
    "Demo models come from your Python package index, with fixed hashes. With a board in this computer, "
    "Mobilint's published models are offered, too."
)


class DiskPanel(SidePanel):
    """Free space is one system call on a folder of this machine, made when the pane is shown."""

    open_clicked = Signal(str)
    """The models folder, or the nearest folder above it that exists."""

    def __init__(self, models_dir: Path) -> None:
        super().__init__(288, "right", "Storage")
        self._models_dir = models_dir
        self._taken: int | None = None
        """None until the catalogue has answered."""
        self.bar = Bar("Share of the disk", height=8)
        self.models, self.other, self.free = _Share("accent"), _Share("faint"), _Share("hover")
        self._path = ElidedLabel(str(models_dir), "muted", "small", mode=Qt.TextElideMode.ElideMiddle)
        self.open = Button("Open folder", "folder")
        self.open.clicked.connect(self._on_open_clicked)
        self.column.addWidget(self.bar)
        for share in (self.models, self.other, self.free):
            self.column.addLayout(share)
        self.column.addWidget(self._path)
        self.column.addWidget(self.open, 0, Qt.AlignmentFlag.AlignLeft)
        for title, text in (("Where they come from", _SOURCES), ("Your own models", _OWN_MODELS)):
            self.column.addSpacing(12)
            self.column.addWidget(Section(title))
            self.column.addWidget(Label(text, "muted", "small", wrap=True))
        self.column.addStretch(1)

    def show_models(self, taken: int) -> None:
        """What the installed models take, in bytes."""
        self._taken = taken
        self.look()

    def look(self) -> None:
        """Ask the disk again."""
        try:
            usage = shutil.disk_usage(self._existing())
        except OSError:
            self.bar.hide()
            self.free.show("Free", "—")
            return
        taken = self._taken or 0
        other = max(0, usage.total - usage.free - taken)
        self.bar.show()
        self.bar.set_parts([(taken, "accent"), (other, "faint"), (usage.free, "hover")])
        self.models.show("Models", "—" if self._taken is None else size(taken))
        self.other.show("Everything else", size(other))
        self.free.show("Free", size(usage.free))

    def _existing(self) -> Path:
        folders = (self._models_dir, *self._models_dir.parents)
        return next(folder for folder in folders if folder.is_dir())

    @Slot()
    def _on_open_clicked(self) -> None:
        self.open_clicked.emit(str(self._existing()))


class _Share(QHBoxLayout):
    """One line under the bar: colour, name, amount."""

    def __init__(self, colour: str) -> None:
        super().__init__()
        self.setSpacing(8)
        self._name = Label()
        self.amount = Label("—", tabular=True)
        self.addWidget(Dot(colour))
        self.addWidget(self._name, 1)
        self.addWidget(self.amount)

    def show(self, name: str, amount: str) -> None:
        """Say how much."""
        self._name.setText(name)
        self.amount.setText(amount)
