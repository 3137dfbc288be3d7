"""The settings pane on a scripted runtime and the real layout rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.settings.pane import SettingsPane
from mblt_desktop.settings.storage_page import StoragePage
from runtime.errors import ErrorInfo
from runtime.layout.request import EffectiveLayout
from runtime.messages import ModelInfo


@dataclass
class Remembered:
    """The window's services, remembered."""

    errors: list[ErrorInfo] = field(default_factory=list)
    toasts: list[str] = field(default_factory=list)

    def show_error(self, error: ErrorInfo) -> None:
        self.errors.append(error)

    def navigate(self, pane: str) -> None:
        raise AssertionError(f"the settings send nobody to {pane}")

    def toast(self, text: str, undo: Callable[[], None] | None = None) -> None:
        self.toasts.append(text)


@pytest.fixture
def shell() -> Remembered:
    return Remembered()


@pytest.fixture
def pane(qtbot: QtBot, context: AppContext) -> Iterator[SettingsPane]:
    pane = SettingsPane(context)
    qtbot.addWidget(pane)
    pane.resize(1376, 868)
    pane.show()
    pane.activated()
    yield pane
    for page in pane.pages:
        if isinstance(page, StoragePage):
            page.close_jobs()


@pytest.fixture
def chat_model() -> ModelInfo:
    return ModelInfo(
        model_id="smol",
        title="SmolLM2-135M-Instruct",
        kind="chat",
        family="llama",
        folder="/models/smol",
        device="Simulated ARIES (CPU)",
        simulated=True,
        layout=EffectiveLayout("aries-rb", "single", ("0:0:0",), ("0:0",), (0,), 1, 1),
        context_length=2048,
        prefill_chunk=128,
        sampling_defaults={"temperature": 0.2, "repetition_penalty": 1.1},
    )
