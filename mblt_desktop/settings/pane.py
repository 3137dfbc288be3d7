"""The Settings pane: pages on the left, the settings of one page on the right, and a search through all."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Slot
from PySide6.QtWidgets import QHBoxLayout, QListWidget, QListWidgetItem, QStackedWidget, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.settings.audio_page import AudioPage
from mblt_desktop.settings.layout_page import LayoutPage
from mblt_desktop.settings.page import SettingsPage, SimplePage
from mblt_desktop.settings.sampling_page import SamplingPage
from mblt_desktop.settings.storage_page import StoragePage
from mblt_desktop.theme import ThemeMode, icon, theme_manager
from mblt_desktop.widgets import EmptyState, Label, Page, Scrolled, SearchField, SidePanel

_ITEM_HEIGHT = 36


class SettingsPane(QWidget):
    """Everything that can be set, found by page or by search."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        layout = LayoutPage(context)
        self.pages: list[SettingsPage] = [
            layout,
            SamplingPage(context),
            AudioPage(context),
            SimplePage(
                "tracing", "Tracing", "tracing", "How long a recording may grow before it stops by itself.",
                context.preferences,
            ),
            StoragePage(context),
            SimplePage("appearance", "Appearance", "sun", "How the window looks.", context.preferences),
        ]  # fmt: skip
        self._outcome = layout.outcome
        self.search = SearchField("Search settings")
        self.names = QListWidget()
        self.names.setAccessibleName("Pages of settings")
        self.names.setIconSize(QSize(18, 18))
        self.page = Page("Settings")
        self._stack = QStackedWidget()
        self.nothing = EmptyState("search", "No setting matches", "", "")
        self._build()
        self.search.textChanged.connect(self._on_search)
        self.names.currentRowChanged.connect(self._on_page_chosen)
        theme_manager().changed.connect(self._draw_icons)
        context.preferences.changed.connect(self._on_changed)
        self._theme = context.theme
        self._preferences = context.preferences
        self.names.setCurrentRow(0)

    def _build(self) -> None:
        panel = SidePanel(232, title="Settings")
        panel.column.addWidget(self.search)
        panel.column.addWidget(self.names, 1)
        where = Label("Changes are saved at once.", "muted", "small", wrap=True)
        panel.column.addWidget(where)
        for page in self.pages:
            item = QListWidgetItem(page.title)
            item.setSizeHint(QSize(0, _ITEM_HEIGHT))
            self.names.addItem(item)
            self._stack.addWidget(Scrolled(page))
        self._stack.addWidget(self.nothing)
        self._draw_icons()
        self.page.set_body(self._stack)
        self.page.add_footer(self._outcome)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(panel)
        row.addWidget(self.page, 1)

    # -- what the window calls ----------------------------------------------------------------

    def accepts_drop(self, _paths: list[Path]) -> bool:
        """No file belongs here."""
        return False

    def open_files(self, _paths: list[Path]) -> None:
        """No file belongs here."""

    def activated(self) -> None:
        """The pane came to the front."""
        self._current().activated()
        self.names.setFocus()

    def show_page(self, key: str) -> None:
        """Bring a page to the front by its key, e.g. "layout"."""
        self.search.clear()
        self.names.setCurrentRow(next(index for index, page in enumerate(self.pages) if page.key == key))

    # -- pages and search ---------------------------------------------------------------------

    def _current(self) -> SettingsPage:
        return self.pages[max(0, self.names.currentRow())]

    @Slot(int)
    def _on_page_chosen(self, index: int) -> None:
        if index < 0:
            return
        page = self.pages[index]
        self._stack.setCurrentIndex(index)
        self.page.header.set_title(page.title)
        self._outcome.setVisible(page.key == "layout")
        page.activated()

    @Slot(str)
    def _on_search(self, text: str) -> None:
        words = text.strip()
        found = [page.search(words) for page in self.pages]
        for index, count in enumerate(found):
            self.names.item(index).setHidden(not count)
        if not any(found):
            self.nothing.title.setText(f"No setting matches “{words}”")
            self.nothing.text.setText("Try another word, or empty the search with Esc.")
            self._stack.setCurrentWidget(self.nothing)
            self.page.header.set_title("Settings")
            self._outcome.hide()
            return
        current = max(0, self.names.currentRow())
        index = current if found[current] else next(i for i, count in enumerate(found) if count)
        self.names.setCurrentRow(index)
        self._on_page_chosen(index)

    @Slot()
    def _draw_icons(self) -> None:
        for index, page in enumerate(self.pages):
            self.names.item(index).setIcon(icon(page.icon, "muted"))

    @Slot(str)
    def _on_changed(self, key: str) -> None:
        """The theme is the window's, but it is changed here, so it changes at once."""
        if key == "appearance.theme":
            modes: dict[str, ThemeMode] = {"light": "light", "dark": "dark"}
            self._theme.set_mode(modes.get(self._preferences.text(key), "system"))
