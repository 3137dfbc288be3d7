"""Sampling and penalties: the rows, with what the loaded model brings along."""

from __future__ import annotations

from PySide6.QtCore import Slot

from mblt_desktop.settings.loaded_model import LoadedModel
from mblt_desktop.settings.page import SettingsPage
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.widgets import Label
from runtime.sampling.params import by_speculation

GREEDY_BELOW = 1e-5
"""Temperatures below this always take the likeliest token, as the runtime does."""

_PENALTIES = [
    "sampling.apply_penalties",
    "sampling.repetition_penalty",
    "sampling.presence_penalty",
    "sampling.frequency_penalty",
]
_LENGTH = ["sampling.min_tokens", "sampling.max_tokens", "sampling.stop", "sampling.context_policy"]
_ONLY_WHEN_RANDOM = ("sampling.top_p", "sampling.min_p", "sampling.seed")


class SamplingPage(SettingsPage):
    """Values for every conversation that does not bring its own."""

    def __init__(self, preferences: Preferences, model: LoadedModel) -> None:
        super().__init__(
            "sampling",
            "How the next word is chosen. These hold for every conversation that does not set its own, and "
            "apply with the next answer.",
            preferences,
        )
        self._preferences = preferences
        self._model = model
        self.greedy = Label("", "accent", "small", wrap=True)
        self.greedy.setContentsMargins(16, 0, 16, 8)
        choosing = [key for key in self.rows if key not in (*_PENALTIES, *_LENGTH)]
        self.not_taken = Label("", "accent", "small", wrap=True)
        self.not_taken.setContentsMargins(16, 0, 16, 8)
        card = self.add_card(choosing, "Choosing words")
        card.column.insertWidget(1, self.greedy)
        card.column.insertWidget(1, self.not_taken)
        self.add_card(_PENALTIES, "Penalties")
        self.add_card(_LENGTH, "Length")
        preferences.changed.connect(self._on_changed)
        model.changed.connect(self._on_model_changed)
        self._on_model_changed()

    @Slot(str)
    def _on_changed(self, key: str) -> None:
        if key.startswith("sampling."):
            self._refresh()

    @Slot()
    def _on_model_changed(self) -> None:
        own = {} if self._model.info is None else self._model.info.sampling_defaults
        for key, row in self.rows.items():
            row.set_model_value(own.get(key.partition(".")[2]))
        self._refresh()

    def _refresh(self) -> None:
        """Say and show which values have no effect now."""
        dimmed: set[str] = set()
        greedy, info = self._is_greedy(), self._model.info
        self.greedy.setText(
            "Greedy: the likeliest word is always taken, so top-p, min-p and seed have no effect."
        )
        self.greedy.setVisible(greedy)
        if greedy:
            dimmed.update(_ONLY_WHEN_RANDOM)
        if not self._preferences.flag("sampling.apply_penalties"):
            dimmed.update(_PENALTIES[1:])
        if info is not None and info.sampling_not_taken:
            dimmed.update(f"sampling.{name}" for name in info.sampling_not_taken)
            self.not_taken.setText(
                f"{by_speculation(info.title)}. An answer that is to follow other values is refused."
            )
        self.not_taken.setVisible(info is not None and bool(info.sampling_not_taken))
        for key, row in self.rows.items():
            row.set_dimmed(key in dimmed)

    def _is_greedy(self) -> bool:
        temperature = self.rows["sampling.temperature"].value_that_counts()
        top_k = self.rows["sampling.top_k"].value_that_counts()
        return (isinstance(temperature, (int, float)) and temperature < GREEDY_BELOW) or top_k == 1
