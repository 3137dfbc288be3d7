"""Requested → effective: what the layout of the settings means, whether it is allowed, and Apply."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from mblt_desktop.context import AppContext
from mblt_desktop.settings.loaded_model import LoadedModel
from mblt_desktop.widgets import Label, PrimaryButton
from runtime.errors import ErrorInfo
from runtime.layout.from_settings import layout_request
from runtime.layout.outcome import say_effective, say_request
from runtime.layout.request import LayoutRequest, NormalisedLayout
from runtime.messages import LoadModel


class Outcome(QFrame):
    """Asks the vendor's rules about every change, in the background, and shows the answer in words."""

    def __init__(self, context: AppContext, model: LoadedModel) -> None:
        super().__init__()
        self.setProperty("role", "footer")
        self._context = context
        self._model = model
        self._request: LayoutRequest | None = None
        self._folder = ""
        self._about = ("", "")
        """Id and folder of the loaded model, or of the one that was not taken with its layout."""
        self._answer: NormalisedLayout | ErrorInfo | None = None
        self.requested = Label(bold=True, wrap=True)
        self.verdict = Label(size="small", wrap=True)
        self.vendor = Label("", "muted", "small", wrap=True)
        self.apply = PrimaryButton("Apply (reload model)", "regenerate")
        words = QVBoxLayout()
        words.setSpacing(2)
        for label in (self.requested, self.verdict, self.vendor):
            words.addWidget(label)
        row = QHBoxLayout(self)
        row.setContentsMargins(24, 12, 24, 12)
        row.setSpacing(24)
        row.addLayout(words, 1)
        row.addWidget(self.apply, 0, Qt.AlignmentFlag.AlignVCenter)
        self.apply.clicked.connect(self._on_apply_clicked)
        context.devices.layout_checked.connect(self._on_checked)
        model.changed.connect(self.show_state)
        model.progressed.connect(self.show_state)
        self.show_state()

    def check(self) -> None:
        """Ask about the layout of the settings, unless its answer is known."""
        if self._model.info is not None:
            self._about = (self._model.info.model_id, self._model.info.folder)
        elif self._model.failure is None:
            self._about = ("", "")
        model_id, folder = self._about
        request = layout_request(self._context.preferences.get, model_id)
        if (request, folder) != (self._request, self._folder) or self._answer is None:
            self._request, self._folder, self._answer = request, folder, None
            self._model.forget_failure()
            self._context.devices.check_layout(request, folder)
        self.show_state()

    @Slot()
    def show_state(self) -> None:
        """Say what is asked for, what is in effect and what the rules say."""
        info = self._model.info
        request = self._request or LayoutRequest()
        running = info.layout if info is not None else None
        effective = "nothing is loaded" if running is None else say_effective(running)
        self.requested.setText(f"{say_request(request)} → {effective}")
        self.requested.setAccessibleName(f"Requested: {say_request(request)}. In effect: {effective}.")
        self._show_verdict()
        allowed = isinstance(self._answer, NormalisedLayout)
        self.apply.setEnabled(allowed and info is not None and not self._model.stage)
        self.apply.setToolTip(
            "" if info is not None else "No model is loaded; the next one takes this layout."
        )

    def _show_verdict(self) -> None:
        answer = self._model.failure or self._answer
        self.vendor.hide()
        if self._model.stage:
            self.verdict.set_tone("muted")
            self.verdict.setText(f"Reloading: {self._model.stage}…")
        elif answer is None:
            self.verdict.set_tone("muted")
            self.verdict.setText("Checking…")
        elif isinstance(answer, ErrorInfo):
            self.verdict.set_tone("bad")
            self.verdict.setText(answer.sentence())
            first = answer.detail.strip().splitlines()[-1:] if answer.detail else []
            self.vendor.setText(f"The NPU software says: {first[0]}" if first else "")
            self.vendor.setVisible(bool(first))
        else:
            self.verdict.set_tone("warn" if answer.notes else "ok")
            self.verdict.setText(" ".join(answer.notes) or "Allowed on this board.")

    @Slot()
    def _on_apply_clicked(self) -> None:
        info = self._model.info
        if info is not None and self._request is not None:
            self._model.begin_reload()
            self._context.submit(LoadModel(info.model_id, info.folder, self._request))

    @Slot(object, str, object)
    def _on_checked(self, request: LayoutRequest, folder: str, answer: NormalisedLayout | ErrorInfo) -> None:
        """An answer to an older question is of no interest."""
        if (request, folder) == (self._request, self._folder):
            self._answer = answer
            self.show_state()
