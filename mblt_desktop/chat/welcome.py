"""What stands in place of a transcript: how to get a model, or what to ask first."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from mblt_desktop.chat.models import ChatModels
from mblt_desktop.models.words import job_facts, job_fraction, job_title
from mblt_desktop.widgets import Button, EmptyState, ProgressRow
from runtime.messages import CatalogRow, JobProgress

SAMPLES = (
    "Give me three names for a small robot.",
    "Why is the sky blue?",
    "Write a two-line poem about the sea.",
)


class Welcome(QWidget):
    """Follows the models: none installed → fetch; loading → say so; ready → samples to try."""

    sample_chosen = Signal(str)

    def __init__(self, models: ChatModels) -> None:
        super().__init__()
        self._models = models
        self._jobs: dict[str, ProgressRow] = {}
        self.state = EmptyState("chat", "", "")
        self.state.action_clicked.connect(self._on_action)
        self._more = QWidget()
        others = QVBoxLayout(self._more)
        others.setContentsMargins(0, 0, 0, 0)
        others.setSpacing(4)
        for sample in SAMPLES[1:]:
            button = Button(sample, kind="link")
            button.clicked.connect(self._on_other_sample)
            others.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        self.state.extra.addWidget(self._more)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.state)
        models.changed.connect(self.refresh)
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Say what holds now."""
        models = self._models
        ready = bool(models.installed)
        self._more.setVisible(ready)
        if ready:
            self._show(
                "Ask the model something",
                "Write below and press Enter. Everything stays on this computer. Or start with a sample:",
                SAMPLES[0],
            )
        elif models.rows is None:
            self._show("Chat", "Looking at the installed models…", "")
        elif models.fetching:
            self._show("Getting the models", "You can go on looking around; this goes on by itself.", "")
        elif models.missing:
            titles = " and ".join(row.title for row in models.missing)
            size = sum(row.download_bytes for row in models.missing)
            words = f"{titles} can be fetched now ({megabytes(size)}). They run on this computer."
            self._show("No model is installed yet", words, "Get the demo models")
        else:
            self._show("No model is installed yet", "Open Models to add one.", "")
        self._show_jobs()

    def _show(self, title: str, text: str, action: str) -> None:
        self.state.title.setText(title)
        self.state.text.setText(text)
        self.state.set_action(action)

    def _show_jobs(self) -> None:
        fetching = self._models.fetching
        for model_id in [known for known in self._jobs if known not in fetching]:
            self._jobs.pop(model_id).deleteLater()
        for model_id, progress in fetching.items():
            row = self._jobs.get(model_id)
            if row is None:
                row = self._jobs[model_id] = _JobRow(self._models, model_id)
                self.state.extra.addWidget(row)
            row.set_progress(*_progress(progress))

    @Slot()
    def _on_other_sample(self) -> None:
        button = self.sender()
        if isinstance(button, Button):
            self.sample_chosen.emit(button.text())

    @Slot()
    def _on_action(self) -> None:
        if self._models.installed:
            self.sample_chosen.emit(SAMPLES[0])
        else:
            self._models.fetch_missing()


class _JobRow(ProgressRow):
    def __init__(self, models: ChatModels, model_id: str) -> None:
        super().__init__(models.title(model_id))
        self._models = models
        self._model_id = model_id
        self.cancel_clicked.connect(self._on_cancel)

    @Slot()
    def _on_cancel(self) -> None:
        self._models.cancel_fetch(self._model_id)


def _progress(progress: JobProgress | None) -> tuple[float | None, str]:
    if progress is None:
        return None, "Waiting…"
    facts = job_facts(progress)
    return job_fraction(progress), f"{job_title(progress)}{'  ·  ' if facts else ''}{facts}"


def megabytes(size: int) -> str:
    """A size in the unit people know from downloads."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def model_words(row: CatalogRow) -> str:
    """A model and where it runs, as it stands in a menu."""
    devices = {"simulated": "Simulated ARIES (CPU)", "npu": "NPU", "cpu": "host CPU"}
    return f"{row.title} · {devices[row.device]}"
