"""Audio: the rows, with the inputs that are plugged in now."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QHBoxLayout

from mblt_desktop.context import AppContext
from mblt_desktop.settings.editors import ComboEditor
from mblt_desktop.settings.page import SettingsPage
from mblt_desktop.widgets import Button, Label
from runtime.messages import Event, ListMicrophones, MicrophonesListed


class AudioPage(SettingsPage):
    """Asks for the inputs each time it comes to the front."""

    def __init__(self, context: AppContext) -> None:
        super().__init__(
            "audio",
            "Recording and transcribing. Sound never leaves this computer.",
            context.preferences,
        )
        self._context = context
        self.problem = Label("", "warn", "small", wrap=True)
        self.problem.setContentsMargins(16, 0, 16, 8)
        self.problem.hide()
        card = self.add_card(list(self.rows))
        card.column.insertWidget(1, self.problem)
        self.again = Button("Refresh", "regenerate")
        self.again.hide()
        self.again.clicked.connect(self.activated)
        row = QHBoxLayout()
        row.setContentsMargins(16, 0, 16, 12)
        row.addWidget(self.again)
        row.addStretch(1)
        card.column.insertLayout(2, row)
        context.dispatcher.event_received.connect(self._on_event)

    @Slot()
    def activated(self) -> None:
        """Look at what is plugged in."""
        self._context.submit(ListMicrophones())

    @Slot(object)
    def _on_event(self, event: Event) -> None:
        if not isinstance(event, MicrophonesListed):
            return
        row = self.rows["audio.device"]
        if isinstance(row.editor, ComboEditor):
            row.editor.set_options([(item.key, item.name) for item in event.microphones])
            row.refresh()
        self.problem.setText("" if event.error is None else event.error.sentence())
        self.problem.setVisible(event.error is not None)
        self.again.setVisible(event.error is not None)
