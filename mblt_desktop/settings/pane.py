"""The Settings pane: pages on the left, the settings of one page on the right, and a search through all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize, Slot
from PySide6.QtWidgets import QHBoxLayout, QListWidget, QListWidgetItem, QStackedWidget, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.settings.advanced_page import AdvancedPage
from mblt_desktop.settings.audio_page import AudioPage
from mblt_desktop.settings.layout_page import LayoutPage
from mblt_desktop.settings.loaded_model import LoadedModel
from mblt_desktop.settings.page import SettingsPage, SimplePage
from mblt_desktop.settings.sampling_page import SamplingPage
from mblt_desktop.settings.storage_page import StoragePage
from mblt_desktop.theme import icon, theme_manager
from mblt_desktop.widgets import EmptyState, Label, Page, Scrolled, SearchField, SidePanel

_ITEM_HEIGHT = 36


@dataclass(slots=True)
class _Entry:
    """A page, made when it is first needed: the window opens without waiting for a hundred editors."""

    key: str
    title: str
    icon: str
    make: Callable[[], SettingsPage]
    page: SettingsPage | None = None
    holder: Scrolled | None = None


class SettingsPane(QWidget):
    """Everything that can be set, found by page or by search."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._entries = self._declare(context, LoadedModel(context.dispatcher, self))
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

    def _declare(self, context: AppContext, model: LoadedModel) -> list[_Entry]:
        preferences = context.preferences
        return [
            _Entry("layout", "Device & layout", "chip", lambda: LayoutPage(context, model)),
            _Entry("sampling", "Sampling & penalties", "chat", lambda: SamplingPage(preferences, model)),
            _Entry("audio", "Audio", "mic", lambda: AudioPage(context)),
            _Entry(
                "tracing", "Tracing", "tracing",
                lambda: SimplePage("tracing", "How long a recording may grow before it stops.", preferences),
            ),
            _Entry("storage", "Storage & privacy", "folder", lambda: StoragePage(context)),
            _Entry(
                "appearance", "Appearance", "sun",
                lambda: SimplePage("appearance", "How the window looks.", preferences),
            ),
            _Entry("advanced", "Advanced", "settings", lambda: AdvancedPage(preferences)),
        ]  # fmt: skip

    def _build(self) -> None:
        panel = SidePanel(232, title="Settings")
        panel.column.addWidget(self.search)
        panel.column.addWidget(self.names, 1)
        panel.column.addWidget(Label("Changes are saved at once.", "muted", "small", wrap=True))
        for entry in self._entries:
            item = QListWidgetItem(entry.title)
            item.setSizeHint(QSize(0, _ITEM_HEIGHT))
            self.names.addItem(item)
        self._stack.addWidget(self.nothing)
        self._draw_icons()
        self.page.set_body(self._stack)
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
        if self.names.currentRow() < 0:
            self.names.setCurrentRow(0)
        else:
            self._page_at(self.names.currentRow()).activated()
        self.names.setFocus()

    def show_page(self, key: str) -> None:
        """Bring a page to the front by its key, e.g. "layout"."""
        self.search.clear()
        self.names.setCurrentRow([entry.key for entry in self._entries].index(key))

    # -- pages and search ---------------------------------------------------------------------

    @property
    def pages(self) -> list[SettingsPage]:
        """All pages; makes those that were not needed before."""
        return [self._page_at(index) for index in range(len(self._entries))]

    def _page_at(self, index: int) -> SettingsPage:
        entry = self._entries[index]
        if entry.page is None:
            entry.page = entry.make()
            entry.holder = Scrolled(entry.page)
            self._stack.addWidget(entry.holder)
            if entry.page.footer is not None:
                entry.page.footer.hide()
                self.page.add_footer(entry.page.footer)
        return entry.page

    @Slot(int)
    def _on_page_chosen(self, index: int) -> None:
        if index < 0:
            return
        page, entry = self._page_at(index), self._entries[index]
        self._show_footer_of(page)
        if entry.holder is not None:
            self._stack.setCurrentWidget(entry.holder)
        self.page.header.set_title(entry.title)
        page.activated()

    def _show_footer_of(self, page: SettingsPage | None) -> None:
        for entry in self._entries:
            if entry.page is not None and entry.page.footer is not None:
                entry.page.footer.setVisible(entry.page is page)

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
            self._show_footer_of(None)
            return
        current = max(0, self.names.currentRow())
        index = current if found[current] else next(i for i, count in enumerate(found) if count)
        if index == self.names.currentRow():
            self._on_page_chosen(index)
        else:
            self.names.setCurrentRow(index)

    @Slot()
    def _draw_icons(self) -> None:
        for index, entry in enumerate(self._entries):
            self.names.item(index).setIcon(icon(entry.icon, "muted"))
