"""Questions about a picture and the answers: finished ones from the store, and the one being written."""

from __future__ import annotations

from urllib.parse import urlsplit

from PySide6.QtCore import QSize, Qt, QUrl, Signal, Slot
from PySide6.QtGui import (
    QDesktopServices,
    QGuiApplication,
    QTextCursor,
    QTextDocument,
    QTextTable,
    QTextTableFormat,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QTextBrowser, QVBoxLayout, QWidget

from mblt_desktop.result_words import result_facts
from mblt_desktop.reuse_words import reuse_words
from mblt_desktop.store.records import ImageAnswer
from mblt_desktop.theme import current_theme, font, theme_manager
from mblt_desktop.widgets import IconButton, Label

_MARKDOWN = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML


class AnswerText(QTextBrowser):
    """A model's text, as tall as it is. Plain while it is written, Markdown when it is done.

    The text is data: raw HTML stays text, nothing it names is loaded, links open only when clicked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "transcript")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setFont(font())
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setStyleSheet("background: transparent;")
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._on_size_changed)
        self.anchorClicked.connect(self._on_link_clicked)
        self.setAccessibleName("Answer")
        theme_manager().changed.connect(self._draw_tables)

    def append_text(self, text: str) -> None:
        """Add what has just arrived; costs what it adds."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text)

    def set_final(self, text: str) -> None:
        """Show the whole answer with its formatting."""
        self.document().setMarkdown(text, _MARKDOWN)
        self._draw_tables()

    @Slot()
    def _draw_tables(self) -> None:
        """Thin lines in the theme's colour; Qt's own are white in the dark."""
        for frame in self.document().rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                table = frame.format().toTableFormat()
                table.setBorderBrush(current_theme().colour("border"))
                table.setBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
                table.setBorderCollapse(True)
                table.setCellPadding(4)
                frame.setFormat(table)

    def loadResource(self, _type: int, _url: QUrl | str) -> object:
        """Nothing that a text names is fetched."""
        return None

    def sizeHint(self) -> QSize:
        """The height of the text."""
        height = self.document().size().height()
        if self.horizontalScrollBar().isVisible():
            height += self.horizontalScrollBar().height()
        return QSize(200, max(20, int(height) + 2))

    @Slot()
    def _on_size_changed(self) -> None:
        self.setFixedHeight(self.sizeHint().height())

    @Slot(QUrl)
    def _on_link_clicked(self, url: QUrl) -> None:
        if urlsplit(url.toString()).scheme in ("http", "https", "mailto"):
            QDesktopServices.openUrl(url)


class AnswerCard(QFrame):
    """One question, its answer and how it came about."""

    def __init__(self, answer: ImageAnswer) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._answer = answer
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 8, 8)
        column.setSpacing(6)
        top = QHBoxLayout()
        top.setSpacing(4)
        self._question = Label(answer.question, bold=True, wrap=True)
        self._question.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._copy = IconButton("copy", "Copy the answer", size=16)
        self._copy.clicked.connect(self._on_copy_clicked)
        top.addWidget(self._question, 1)
        top.addWidget(self._copy, 0, Qt.AlignmentFlag.AlignTop)
        column.addLayout(top)
        self.text = AnswerText()
        column.addWidget(self.text)
        self._status = Label("", "muted", "small", tabular=True, wrap=True)
        column.addWidget(self._status)
        self.show_answer(answer)

    @property
    def answer(self) -> ImageAnswer:
        """What is shown."""
        return self._answer

    @property
    def status(self) -> str:
        """The line under the answer."""
        return self._status.text()

    def append_text(self, text: str) -> None:
        """More of the answer."""
        self.text.show()
        self.text.append_text(text)

    def show_status(self, words: str) -> None:
        """What is going on while the answer is written."""
        self._status.set_tone("muted")
        self._status.setText(words)

    def show_answer(self, answer: ImageAnswer) -> None:
        """The answer as it is saved."""
        self._answer = answer
        self.text.set_final(answer.text)
        self.text.setVisible(bool(answer.text))
        self._copy.setVisible(bool(answer.text))
        self._status.set_tone("bad" if answer.result.error else "muted")
        self._status.setText(_status_words(answer))

    @Slot()
    def _on_copy_clicked(self) -> None:
        QGuiApplication.clipboard().setText(self._answer.text)


class AnswerList(QWidget):
    """The cards of one picture, oldest first; the newest grows while it is written."""

    grown = Signal()
    """The list got taller."""

    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._hint = Label("", "muted", wrap=True)
        self._column.addWidget(self._hint)
        self._column.addStretch(1)
        self._cards: dict[str, AnswerCard] = {}

    @property
    def cards(self) -> list[AnswerCard]:
        """In the order shown."""
        return list(self._cards.values())

    def show_answers(self, answers: list[ImageAnswer], hint: str) -> None:
        """Show these instead of what is shown; `hint` is said when there are none."""
        for card in self._cards.values():
            self._column.removeWidget(card)
            card.hide()
            card.deleteLater()
        self._cards.clear()
        self._hint.setText(hint)
        for answer in answers:
            self.add(answer)
        self._hint.setVisible(not answers)

    def add(self, answer: ImageAnswer) -> AnswerCard:
        """Show one more."""
        card = AnswerCard(answer)
        self._cards[answer.id] = card
        self._hint.hide()
        self._column.insertWidget(self._column.count() - 1, card)
        card.text.document().documentLayout().documentSizeChanged.connect(self.grown)
        return card

    def card(self, answer_id: str) -> AnswerCard | None:
        """The card of an answer, if it is one of this picture's."""
        return self._cards.get(answer_id)


def _status_words(answer: ImageAnswer) -> str:
    """The facts, and how the prompt met what was kept of the pictures; or the error."""
    result = answer.result
    if result.error is not None:
        return result.error.sentence()
    facts = " · ".join(result_facts(result, answer.model, answer.device))
    return facts if result.usage is None else f"{facts}\n{reuse_words(result.usage, result.reuse)}"
