"""Requested → effective: what the layout of the settings means, whether it is allowed, and Apply."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from mblt_desktop.context import AppContext
from mblt_desktop.widgets import Label, PrimaryButton
from runtime.errors import ErrorInfo
from runtime.layout import LayoutRequest, NormalisedLayout, say_effective, say_request
from runtime.messages import LoadModel, ModelFailed, ModelInfo, ModelLoaded, ModelLoading, ModelUnloaded
from runtime.settings import layout_request


class Outcome(QFrame):
    """Asks the vendor's rules about every change, in the background, and shows the answer in words."""

    model_changed = Signal()
    """Another chat or image model is loaded, or none."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.setProperty("role", "footer")
        self._context = context
        self.model: ModelInfo | None = None
        self._loading = ""
        """The stage of a load that runs now."""
        self._request: LayoutRequest | None = None
        self._answer: NormalisedLayout | ErrorInfo | None = None
        self._failure: ErrorInfo | None = None
        """Why the last load did not work."""
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
        dispatcher = context.dispatcher
        dispatcher.model_loaded.connect(self._on_loaded)
        dispatcher.model_loading.connect(self._on_loading)
        dispatcher.model_unloaded.connect(self._on_unloaded)
        dispatcher.model_failed.connect(self._on_failed)
        self._show()

    def check(self) -> None:
        """Ask about the layout of the settings, unless its answer is known."""
        request = layout_request(self._context.preferences.get)
        if request != self._request or self._answer is None:
            self._request, self._answer, self._failure = request, None, None
            self._context.devices.check_layout(request)
        self._show()

    def _show(self) -> None:
        request = self._request or LayoutRequest()
        running = self.model.layout if self.model is not None else None
        effective = "nothing is loaded" if running is None else say_effective(running)
        self.requested.setText(f"{say_request(request)} → {effective}")
        self.requested.setAccessibleName(f"Requested: {say_request(request)}. In effect: {effective}.")
        self._show_verdict()
        allowed = isinstance(self._answer, NormalisedLayout)
        self.apply.setEnabled(allowed and self.model is not None and not self._loading)
        self.apply.setToolTip(
            "" if self.model is not None else "No model is loaded; the next one takes this layout."
        )

    def _show_verdict(self) -> None:
        answer = self._failure or self._answer
        self.vendor.hide()
        if self._loading:
            self.verdict.set_tone("muted")
            self.verdict.setText(f"Reloading: {self._loading}…")
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
        if self.model is not None and self._request is not None:
            self._failure = None
            self._loading = "starting"
            self._context.submit(LoadModel(self.model.model_id, self.model.folder, self._request))
            self._show()

    @Slot(object, object)
    def _on_checked(self, request: LayoutRequest, answer: NormalisedLayout | ErrorInfo) -> None:
        """An answer to an older question is of no interest."""
        if request == self._request:
            self._answer = answer
            self._show()

    @Slot(object)
    def _on_loaded(self, event: ModelLoaded) -> None:
        if event.info.kind != "speech":
            self._set_model(event.info)

    @Slot(object)
    def _on_loading(self, event: ModelLoading) -> None:
        if self.model is not None and event.model_id == self.model.model_id:
            self._loading = event.stage
            self._show()

    @Slot(object)
    def _on_unloaded(self, event: ModelUnloaded) -> None:
        """A reload unloads first; the model counts as ours until the load has ended."""
        if self.model is not None and event.model_id == self.model.model_id and not self._loading:
            self._set_model(None)

    @Slot(object)
    def _on_failed(self, event: ModelFailed) -> None:
        if self.model is not None and event.model_id == self.model.model_id:
            self._failure = event.error
            self._set_model(None)

    def _set_model(self, info: ModelInfo | None) -> None:
        self.model = info
        self._loading = ""
        self.model_changed.emit()
        self._show()
