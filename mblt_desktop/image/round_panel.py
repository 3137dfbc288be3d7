"""The round in the pane: what to do about known answers, how far it is, why it waits, and what stopped it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.image.models import ImageModels
from mblt_desktop.image.round_table import RoundDialog, count_words, one_line
from mblt_desktop.image.rounds import Rounds
from mblt_desktop.models.words import duration
from mblt_desktop.store.records import ImageRecord
from mblt_desktop.widgets import Button, IconButton, Label, PrimaryButton, ProgressRow, plain_tip
from runtime.messages import ModelInfo

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """A round that somebody asked for, while they decide about answers that exist."""

    model: ModelInfo
    records: tuple[ImageRecord, ...]
    question: str
    known: tuple[ImageRecord, ...]


class RoundPanel(QWidget):
    """Hidden while there is neither a round nor a decision to make."""

    shown_changed = Signal()
    """What can be asked may be another now."""

    def __init__(self, context: AppContext, models: ImageModels) -> None:
        super().__init__()
        self._context = context
        self._models = models
        self.rounds = Rounds(context, self)
        self.dialog: RoundDialog | None = None
        self._wish: Wish | None = None
        self.choice = _ChoiceCard()
        self.card = _RoundCard()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 0)
        column.setSpacing(8)
        column.addWidget(self.choice)
        column.addWidget(self.card)
        self._connect()
        self.refresh()

    def _connect(self) -> None:
        self.rounds.changed.connect(self.refresh)
        self._models.changed.connect(self._on_models_changed)
        self.choice.skip.clicked.connect(self._on_skip_clicked)
        self.choice.again.clicked.connect(self._on_again_clicked)
        self.choice.cancel.clicked.connect(self._on_choice_cancelled)
        self.card.stop.clicked.connect(self.rounds.stop_all)
        self.card.go_on.clicked.connect(self._on_go_on_clicked)
        self.card.table.clicked.connect(self.show_table)
        self.card.dismiss.clicked.connect(self.rounds.dismiss)

    def ask(self, model: ModelInfo, records: list[ImageRecord], question: str) -> None:
        """Ask about each picture; first what to do about those that have an answer already."""
        known = tuple(self.rounds.known(model, records, question))
        if known:
            self._wish = Wish(model, tuple(records), question, known)
            self.refresh()
            self.choice.skip.setFocus()
        else:
            self.rounds.start(model, records, question, again=False)

    @property
    def blocked(self) -> str:
        """Why no round can be begun now; empty when one can."""
        if self.rounds.running:
            return "Several pictures are being asked about already: wait for them, or stop them above."
        return "Decide above what to do about the pictures that have an answer." if self._wish else ""

    @Slot()
    def refresh(self) -> None:
        """Say what holds now."""
        self.choice.setVisible(self._wish is not None)
        if self._wish is not None:
            self.choice.show_wish(self._wish)
        shown = self._wish is None and self.rounds.asked is not None and bool(self.rounds.items)
        self.card.setVisible(shown)
        if shown:
            self.card.show_round(self.rounds, self._cannot_go_on())
        self.setVisible(shown or self._wish is not None)
        self.shown_changed.emit()

    def _cannot_go_on(self) -> str:
        model, asked = self._models.loaded, self.rounds.asked
        if model is None:
            return "Load an image model first."
        if asked is not None and model.only_describes and not asked.describes:
            return f"{model.title} takes no question: load a model that does."
        return ""

    # -- what is pressed ---------------------------------------------------------------------------

    @Slot()
    def show_table(self) -> None:
        """Open all answers in a window of their own, or bring it to the front."""
        if self.dialog is None:
            self.dialog = RoundDialog(self.rounds, self)
            self.dialog.saved.connect(self._on_saved)
        self.dialog.show()
        self.dialog.activateWindow()

    @Slot()
    def _on_skip_clicked(self) -> None:
        self._begin(again=False)

    @Slot()
    def _on_again_clicked(self) -> None:
        self._begin(again=True)

    def _begin(self, *, again: bool) -> None:
        wish, self._wish = self._wish, None
        if wish is not None:
            self.rounds.start(wish.model, wish.records, wish.question, again=again)
            if not self.rounds.running:
                self.show_table()
        self.refresh()

    @Slot()
    def _on_models_changed(self) -> None:
        """What was to be decided was about another model's answers, or cannot be asked any more."""
        if self._wish is not None and self._models.loaded != self._wish.model:
            self._wish = None
            self._context.toast("The model has changed, so nothing was asked. Ask again.")
        self.refresh()

    @Slot()
    def _on_choice_cancelled(self) -> None:
        self._wish = None
        self.refresh()

    @Slot()
    def _on_go_on_clicked(self) -> None:
        if self._models.loaded is not None:
            self.rounds.go_on(self._models.loaded)

    @Slot(str)
    def _on_saved(self, path: str) -> None:
        self._context.toast(f"Saved {path}")


class _ChoiceCard(QFrame):
    """Skip the pictures that have an answer to the question, or ask about them again?"""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "banner-info")
        self.words = Label("", wrap=True)
        self.skip = PrimaryButton("")
        self.again = Button("Ask about all again")
        self.cancel = Button("Cancel")
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 12)
        column.setSpacing(8)
        column.addWidget(self.words)
        for button in (self.skip, self.again, self.cancel):
            column.addWidget(button)

    def show_wish(self, wish: Wish) -> None:
        """Name the pictures in question."""
        count, others = len(wish.known), len(wish.records) - len(wish.known)
        names = ", ".join(record.name for record in wish.known[:MOST_NAMED])
        more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
        have = "has" if count == 1 else "have"
        self.words.setText(
            f"{count} of {len(wish.records)} pictures {have} an answer to this already: {names}{more}."
        )
        rest = "the other picture" if others == 1 else f"the other {others}"
        self.skip.setText(f"Ask about {rest} only" if others else "Show these answers")


class _RoundCard(QFrame):
    """How far a round is."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "card")
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 8, 10)
        column.setSpacing(6)
        top = QHBoxLayout()
        self.progress = ProgressRow(cancellable=False)
        self.dismiss = IconButton("close", "Show this round no more; its answers stay", size=14)
        top.addWidget(self.progress, 1)
        top.addWidget(self.dismiss, 0, Qt.AlignmentFlag.AlignTop)
        column.addLayout(top)
        self.problem = Label("", "bad", "small", wrap=True)
        column.addWidget(self.problem)
        row = QHBoxLayout()
        row.setSpacing(8)
        self.table = Button("All answers")
        self.stop = Button("Stop all", "stop")
        self.go_on = PrimaryButton("")
        for button in (self.stop, self.go_on, self.table):
            row.addWidget(button)
        row.addStretch(1)
        column.addLayout(row)

    def show_round(self, rounds: Rounds, cannot_go_on: str) -> None:
        """Say how far it is; `cannot_go_on` is why Continue is disabled."""
        assert rounds.asked is not None
        done = rounds.count("answered", "failed")
        self.progress.set_title(one_line(rounds.asked.question))
        self.progress.set_progress(
            done / len(rounds.items), round_words(rounds), value=f"{done} of {len(rounds.items)}"
        )
        self.problem.setText(rounds.problem.sentence() if rounds.problem is not None else "")
        self.problem.setVisible(rounds.problem is not None)
        left = rounds.count("left", "failed")
        self.stop.setVisible(rounds.running)
        self.stop.setEnabled(rounds.count("waiting", "writing") > 0)
        self.go_on.setVisible(not rounds.running and left > 0)
        self.go_on.setText(f"Continue: {left} left")
        self.go_on.setEnabled(not cannot_go_on)
        self.go_on.setToolTip(plain_tip(cannot_go_on))
        self.dismiss.setVisible(not rounds.running)


def round_words(rounds: Rounds) -> str:
    """What is being done, or why it waits, and how long it will take; at the end, what came of it."""
    if not rounds.running:
        return count_words(rounds)
    busy = [item for item in rounds.items if item.state in ("writing", "stopping")]
    names = ", ".join(item.record.name for item in busy[:MOST_NAMED])
    if len(busy) > MOST_NAMED:
        names += f" and {len(busy) - MOST_NAMED} more"
    first = next((item for item in rounds.items if item.state == "waiting" and item.words), None)
    waits = f"{first.record.name}: {first.words}" if first is not None else "Waiting for the model…"
    left = rounds.seconds_left
    ends = f"about {duration(left)} left" if left else ""
    return " · ".join(words for words in (f"Now: {names}" if names else waits, ends) if words)
