"""A page of settings, made from their declarations."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.settings.row import Card, SettingRow
from mblt_desktop.widgets import Label
from runtime.settings.table import on_page

PAGE_WIDTH = 900


class SettingsPage(QWidget):
    """The rows of one page in cards. Subclasses add what is more than a row."""

    def __init__(self, key: str, intro: str, preferences: Preferences) -> None:
        super().__init__()
        self.key = key
        self.footer: QWidget | None = None
        """What stands below the page and does not scroll."""
        self.rows = {
            setting.key: SettingRow(setting, preferences) for setting in on_page(key) if setting.shown
        }
        self.cards: list[Card] = []
        self.extras: list[QWidget] = []
        """Widgets that are no settings; hidden while somebody searches."""
        inner = QWidget()
        inner.setMaximumWidth(PAGE_WIDTH)
        column = QVBoxLayout(inner)
        column.setContentsMargins(24, 20, 24, 24)
        self.intro = Label(intro, "muted", wrap=True)
        self._column = QVBoxLayout()
        self._column.setSpacing(16)
        self._column.addWidget(self.intro)
        column.addLayout(self._column)
        column.addStretch(1)
        # Side by side, because only a horizontal layout asks a narrower widget for its height at that width.
        outer = QHBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(inner, 1000)
        outer.addStretch(1)

    def add_card(self, keys: list[str], title: str = "") -> Card:
        """A box with these settings of the page."""
        card = Card(title)
        for key in keys:
            card.add(self.rows[key])
        self.cards.append(card)
        self._column.addWidget(card)
        return card

    def add_extra(self, widget: QWidget) -> None:
        """Something that is no setting."""
        self.extras.append(widget)
        self._column.addWidget(widget)

    def search(self, words: str) -> int:
        """Show only the settings that match; returns how many do."""
        wanted: set[QWidget] = {row for row in self.rows.values() if row.setting.matches(words)}
        for card in self.cards:
            card.show_only(wanted)
        for extra in self.extras:
            extra.setVisible(not words)
        self.intro.setVisible(not words)
        return len(wanted)

    def activated(self) -> None:
        """The page came to the front."""


class SimplePage(SettingsPage):
    """A page that is nothing but its rows."""

    def __init__(self, key: str, intro: str, preferences: Preferences) -> None:
        super().__init__(key, intro, preferences)
        self.add_card(list(self.rows))
