"""What is known of the selected answer: where its time went, what was reused, and how it was made."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QVBoxLayout

from mblt_desktop.chat.candidates import CandidateTable
from mblt_desktop.chat.sampling import short_title, used_words
from mblt_desktop.result_words import plural, seconds
from mblt_desktop.reuse_words import reuse_words
from mblt_desktop.store.records import Message
from mblt_desktop.widgets import Bar, Dot, Label, Section
from runtime.messages import CandidatesReported, Reuse, Speculation, Timings, Usage
from runtime.sampling.params import UsedValue, ignored_penalties

Candidates = Callable[[str], "CandidatesReported | None"]
"""The report of an answer's candidates, by message id."""


class AnswerFacts(QFrame):
    """The facts of one answer, as they were saved with it."""

    def __init__(self, candidates_of: Candidates) -> None:
        super().__init__()
        self._candidates_of = candidates_of
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(Section("Selected answer"))
        self.time = Bar("Time of the answer")
        column.addWidget(self.time)
        grid = QGridLayout()
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        self.values: dict[str, Label] = {}
        phases = (("Queue", "track3"), ("Tokenise", "track4"), ("Prefill", "track2"), ("Decode", "track0"))
        for row, (name, colour) in enumerate(phases):
            value = self.values[name] = Label("", "text", "small", tabular=True)
            grid.addWidget(Dot(colour), row, 0)
            grid.addWidget(Label(name, "text", "small"), row, 1)
            grid.addWidget(value, row, 2, Qt.AlignmentFlag.AlignRight)
        column.addLayout(grid)
        column.addSpacing(8)
        column.addWidget(Section("Prefix cache"))
        self.cache = Bar("Reused part of the prompt")
        self.words = Label("", "muted", "small", wrap=True)
        column.addWidget(self.cache)
        column.addWidget(self.words)
        column.addSpacing(8)
        self.draft = Label("", "text", "small", wrap=True)
        column.addWidget(self.draft)
        self.made = MadeWith()
        column.addWidget(self.made)
        self.candidates = CandidateTable()
        column.addWidget(self.candidates)
        self.show_message(None)

    def show_message(self, message: Message | None) -> None:
        """Show an answer that has facts; anything else hides the panel."""
        result = message.result if message is not None else None
        if result is None or result.timings is None or result.usage is None:
            self.hide()
            return
        self._show_time(result.timings)
        self._show_cache(result.usage, result.reuse)
        self._show_draft(result.speculation)
        self.made.show_values(result.sampling)
        self.candidates.show_report(self._candidates_of(message.id) if message is not None else None)
        self.show()

    def _show_time(self, timings: Timings) -> None:
        prepare = timings.template + timings.tokenise
        parts = {
            "Queue": timings.queue,
            "Tokenise": prepare,
            "Prefill": timings.prefill,
            "Decode": timings.decode,
        }
        for name, value in parts.items():
            self.values[name].setText(seconds(value))
        colours = ("track3", "track4", "track2", "track0")
        self.time.set_parts(list(zip(parts.values(), colours, strict=True)))

    def _show_cache(self, usage: Usage, reuse: Reuse | None) -> None:
        self.cache.set_parts([(usage.cached, "track1"), (usage.new, "track2")])
        self.words.setText(reuse_words(usage, reuse))

    def _show_draft(self, speculation: Speculation | None) -> None:
        self.draft.setVisible(speculation is not None)
        if speculation is not None:
            share = speculation.accepted / max(1, speculation.drafted)
            self.draft.setText(
                f"Draft: {speculation.accepted} of {speculation.drafted} drafted tokens were right "
                f"({share:.0%}), in {plural(speculation.rounds, 'round')}."
            )


class MadeWith(QFrame):
    """The sampling values that one answer was made with, and who set each."""

    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(Section("Made with"))
        self.ignored = Label("", "warn", "small", wrap=True)
        column.addWidget(self.ignored)
        self._grid = QGridLayout()
        self._grid.setVerticalSpacing(4)
        self._grid.setHorizontalSpacing(8)
        self._grid.setColumnStretch(0, 1)
        column.addLayout(self._grid)
        self.rows: dict[str, tuple[Label, Label, Label]] = {}
        """Name, value and source by the value's name."""

    def show_values(self, used: tuple[UsedValue, ...]) -> None:
        """Show the values of another answer; an old one has none."""
        self.setVisible(bool(used))
        names = {one.name for one in used}
        for name, labels in self.rows.items():  # a model with a draft does not know all of them
            for label in labels:
                label.setVisible(name in names)
        for one in used:
            _, value, source = self.rows.get(one.name) or self._add_row(one)
            words = used_words(one)
            value.setText(words.text)
            source.setText(words.source)
        ignored = {
            "Penalties were off. Not applied": ignored_penalties(used),
            "Not applied, because the model answers by speculation": [one for one in used if not one.applied],
        }
        lines = [
            f"{why}: {', '.join(f'{_title(one)} {used_words(one).text}' for one in values)}."
            for why, values in ignored.items()
            if values
        ]
        self.ignored.setText("\n".join(lines))
        self.ignored.setVisible(bool(lines))

    def _add_row(self, used: UsedValue) -> tuple[Label, Label, Label]:
        row = len(self.rows)
        name = Label(_title(used), "text", "small")
        value, source = Label("", "text", "small", tabular=True), Label("", "muted", "small")
        self._grid.addWidget(name, row, 0)
        self._grid.addWidget(value, row, 1, Qt.AlignmentFlag.AlignRight)
        self._grid.addWidget(source, row, 2, Qt.AlignmentFlag.AlignRight)
        self.rows[used.name] = name, value, source
        return name, value, source


def _title(used: UsedValue) -> str:
    return short_title(f"sampling.{used.name}")
