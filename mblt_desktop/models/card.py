"""One model of the Models pane: what it is, how it stands, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from mblt_desktop.models import words
from mblt_desktop.models.state import ModelsState
from mblt_desktop.theme import current_theme, pixmap, theme_manager
from mblt_desktop.widgets import (
    Button,
    Chip,
    ErrorBanner,
    IconButton,
    Label,
    PrimaryButton,
    ProgressRow,
    restyle,
)
from runtime.messages import CatalogRow

_INDENT = 36
"""Under the words, not under the picture."""
_JOB_WORDS = {"install": "Installing", "verify": "Verifying", "remove": "Removing"}
_RETRY_WORDS = {"install": "Try again", "verify": "Verify again", "remove": "Try again", "load": "Load again"}


class ModelCard(QFrame):
    """Shows one row of the catalogue and offers what its state allows."""

    install_clicked = Signal(str)
    verify_clicked = Signal(str)
    remove_confirmed = Signal(str)
    load_clicked = Signal(str)
    unload_clicked = Signal(str)
    cancel_clicked = Signal(str)
    retry_clicked = Signal(str)
    error_dismissed = Signal(str)

    def __init__(self, row: CatalogRow, state: ModelsState) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.row = row
        self._state = state
        self._build()
        self._connect()
        self.refresh(row)

    # -- building -----------------------------------------------------------------------------

    def _build(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 12, 12)
        column.setSpacing(8)
        top = QHBoxLayout()
        top.setSpacing(12)
        self._picture = QLabel()
        self._picture.setFixedSize(24, 24)
        top.addWidget(self._picture)
        top.addLayout(self._build_words(), 1)
        top.addLayout(self._build_actions())
        column.addLayout(top)
        self.progress = ProgressRow()
        self.confirm = _Confirm()
        self.banner = ErrorBanner()
        for widget in (self.progress, self.confirm, self.banner):
            widget.hide()
            row = QHBoxLayout()
            row.setContentsMargins(_INDENT, 0, 0, 0)
            row.addWidget(widget)
            column.addLayout(row)

    def _build_words(self) -> QVBoxLayout:
        self._title = Label(bold=True)
        self._kind, self._device, self.state_chip = Chip(), Chip(), Chip()
        heading = QHBoxLayout()
        heading.setSpacing(8)
        for widget in (self._title, self._kind, self._device, self.state_chip):
            heading.addWidget(widget)
        heading.addStretch(1)
        self._note = Label("", "muted", wrap=True)
        self._facts = Label("", "muted", "small", tabular=True, wrap=True)
        column = QVBoxLayout()
        column.setSpacing(4)
        column.addLayout(heading)
        column.addWidget(self._note)
        column.addWidget(self._facts)
        return column

    def _build_actions(self) -> QHBoxLayout:
        self.install = PrimaryButton("Install", "download")
        self.load = Button("Load", "play")
        self.unload = Button("Unload", "eject")
        self.verify = Button("Verify", "check", "flat")
        self.remove = IconButton("trash", "Remove")
        row = QHBoxLayout()
        row.setSpacing(4)
        for button in (self.verify, self.install, self.load, self.unload, self.remove):
            row.addWidget(button)
        return row

    def _connect(self) -> None:
        self.install.clicked.connect(self._on_install_clicked)
        self.load.clicked.connect(self._on_load_clicked)
        self.unload.clicked.connect(self._on_unload_clicked)
        self.verify.clicked.connect(self._on_verify_clicked)
        self.remove.clicked.connect(self._on_remove_clicked)
        self.confirm.confirmed.connect(self._on_remove_confirmed)
        self.confirm.refused.connect(self._on_remove_refused)
        self.progress.cancel_clicked.connect(self._on_cancel_clicked)
        self.banner.action_clicked.connect(self._on_retry_clicked)
        self.banner.dismissed.connect(self._on_error_dismissed)
        theme_manager().changed.connect(self._draw)

    # -- showing ------------------------------------------------------------------------------

    def refresh(self, row: CatalogRow) -> None:
        """Show the row and everything the state knows about its model."""
        self.row = row
        self._title.setText(row.title)
        self._kind.set_text(words.KIND[row.kind])
        self._device.set_text(words.DEVICE[row.device])
        for chip in (self._kind, self._device):
            chip.setVisible(not words.is_unreadable(row))
        self._note.setText(row.note)
        self._note.setVisible(bool(row.note))
        self.install.setText(words.install_words(row))
        for button, verb in (
            (self.install, "Install"),
            (self.load, "Load"),
            (self.unload, "Unload"),
            (self.verify, "Verify"),
        ):
            button.setAccessibleName(f"{verb} {row.title} for the {words.DEVICE[row.device]}")
        self.remove.set_name(f"Remove {row.title}")
        self.setAccessibleName(f"{row.title}, {words.DEVICE[row.device]}")
        self._show_state()
        self._show_work()
        self._draw()

    def _show_state(self) -> None:
        row, loaded = self.row, self._state.loaded.get(self.row.model_id)
        if loaded is not None:
            self.state_chip.set_text("Loaded", "accent")
        elif row.state == "partial":
            self.state_chip.set_text("Incomplete", "warn")
        else:
            self.state_chip.set_text("Installed", "ok")
        self.state_chip.setVisible(row.state != "available" or loaded is not None)
        self._facts.setText(words.loaded_words(loaded) if loaded is not None else words.facts(row))
        restyle(self, current="true" if loaded is not None else "false")

    def _show_work(self) -> None:
        """Buttons, progress and failures: what can be done now, and what is being done."""
        model_id, state = self.row.model_id, self._state
        job, loading, trouble = (
            state.jobs.get(model_id),
            state.loading.get(model_id),
            state.troubles.get(model_id),
        )
        loaded, busy = model_id in state.loaded, job is not None or loading is not None
        installed = self.row.state == "installed"
        self.install.setVisible(not installed and not busy and not words.is_unreadable(self.row))
        self.load.setVisible(installed and not loaded and not busy and self.row.kind != "other")
        self.unload.setVisible(loaded and not busy)
        self.verify.setVisible(installed and not busy)
        self.remove.setVisible(self.row.state != "available" and not busy)
        self.remove.setEnabled(not loaded)
        self.remove.setToolTip("It is loaded; unload it first." if loaded else self.remove.accessibleName())
        if busy or not self.remove.isVisibleTo(self):
            self.confirm.hide()
        self._show_progress()
        if trouble is None:
            self.banner.hide()
        elif self.banner.error is not trouble.error or self.banner.isHidden():
            self.banner.show_error(trouble.error, _RETRY_WORDS[trouble.retry])

    def _show_progress(self) -> None:
        job = self._state.jobs.get(self.row.model_id)
        loading = self._state.loading.get(self.row.model_id)
        self.progress.setVisible(job is not None or loading is not None)
        if job is not None:
            waiting = f"{_JOB_WORDS[job.kind]}: waiting for its turn"
            title = words.job_title(job.progress) if job.progress else waiting
            self.progress.set_title("Stopping…" if job.cancelling else title)
            facts = words.job_facts(job.progress) if job.progress else ""
            self.progress.set_progress(words.job_fraction(job.progress), facts)
            self.progress.cancel.setVisible(not job.cancelling)
            self.progress.cancel.set_name(f"Cancel {_JOB_WORDS[job.kind].lower()} {self.row.title}")
        elif loading is not None:
            self.progress.set_title(f"Loading: {loading.stage}")
            self.progress.set_progress(loading.fraction)
            self.progress.cancel.show()
            self.progress.cancel.set_name(f"Cancel loading {self.row.title}")

    @Slot()
    def _draw(self) -> None:
        name = "folder" if words.is_unreadable(self.row) else words.KIND_ICON[self.row.kind]
        self._picture.setPixmap(pixmap(name, current_theme().muted, 24))

    # -- clicks -------------------------------------------------------------------------------

    @Slot()
    def _on_install_clicked(self) -> None:
        self.install_clicked.emit(self.row.model_id)

    @Slot()
    def _on_load_clicked(self) -> None:
        self.load_clicked.emit(self.row.model_id)

    @Slot()
    def _on_unload_clicked(self) -> None:
        self.unload_clicked.emit(self.row.model_id)

    @Slot()
    def _on_verify_clicked(self) -> None:
        self.verify_clicked.emit(self.row.model_id)

    @Slot()
    def _on_remove_clicked(self) -> None:
        freed = words.size(self.row.disk_bytes) if self.row.state == "installed" else "what was downloaded"
        self.confirm.ask(f"Remove {self.row.title} from the disk? It frees {freed}.")

    @Slot()
    def _on_remove_confirmed(self) -> None:
        self.confirm.hide()
        self.remove_confirmed.emit(self.row.model_id)

    @Slot()
    def _on_remove_refused(self) -> None:
        self.confirm.hide()
        self.remove.setFocus()

    @Slot()
    def _on_cancel_clicked(self) -> None:
        self.cancel_clicked.emit(self.row.model_id)

    @Slot()
    def _on_retry_clicked(self) -> None:
        self.retry_clicked.emit(self.row.model_id)

    @Slot()
    def _on_error_dismissed(self) -> None:
        self.error_dismissed.emit(self.row.model_id)


class _Confirm(QWidget):
    """A question inside the card: nothing is deleted by one click."""

    confirmed = Signal()
    refused = Signal()

    def __init__(self) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self._question = Label(wrap=True)
        self.yes = Button("Remove", "trash", "danger")
        self.no = Button("Keep")
        row.addWidget(self._question, 1)
        row.addWidget(self.no)
        row.addWidget(self.yes)
        self.yes.clicked.connect(self.confirmed)
        self.no.clicked.connect(self.refused)

    def ask(self, question: str) -> None:
        """Show the question; the harmless answer has the focus."""
        self._question.setText(question)
        self.setAccessibleName(question)
        self.show()
        self.no.setFocus()
