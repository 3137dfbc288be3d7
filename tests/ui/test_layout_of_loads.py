"""A layout chosen in the settings is what every pane asks for when it loads a model next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mblt_desktop.chat.models import ChatModels
from mblt_desktop.context import AppContext
from mblt_desktop.image.models import ImageModels
from mblt_desktop.microphone.speech_models import SpeechModels
from mblt_desktop.models.state import ModelsState
from runtime.layout.request import LayoutRequest, PartLayout
from runtime.messages import CatalogRow, LoadModel, LoadSpeech, ModelKind, ModelsListed
from tests.ui.conftest import Post, ScriptedBridge


def row(kind: ModelKind) -> CatalogRow:
    return CatalogRow("tiny", "Tiny", kind, "llama", "simulated", "installed", "/models/tiny", 1, 1, "MIT")


def by_chat(context: AppContext, post: Post) -> None:
    ChatModels(context).load(row("chat"))


def by_image(context: AppContext, post: Post) -> None:
    ImageModels(context).load(row("image"))


def by_microphone(context: AppContext, post: Post) -> None:
    models = SpeechModels(context)
    post(ModelsListed((row("speech"),)))
    assert models.ensure_loaded()


def by_models(context: AppContext, post: Post) -> None:
    ModelsState(context).load(row("chat"))


@pytest.mark.parametrize("load", [by_chat, by_image, by_microphone, by_models])
def test_the_settings_layout_is_asked_for_with_the_next_load(
    load: Callable[[AppContext, Post], None], context: AppContext, bridge: ScriptedBridge, post: Post
) -> None:
    load(context, post)
    context.preferences.set("layout.core_mode", "single")
    context.preferences.set("layout.cores", ("0:1:2", "0:1:3"))
    context.preferences.set("layout.max_batch_size", 2)
    assert not [
        command for command in bridge.host.commands if _layout(command) not in (None, LayoutRequest())
    ]
    load(context, post)
    assert _layout(bridge.host.commands[-1]) == LayoutRequest("single", ("0:1:2", "0:1:3"), (), (0,), 2)


@pytest.mark.parametrize("load", [by_chat, by_image, by_microphone, by_models])
def test_a_models_own_parts_are_asked_for_with_it(
    load: Callable[[AppContext, Post], None], context: AppContext, bridge: ScriptedBridge, post: Post
) -> None:
    context.preferences.set(
        "layout.parts", ["other/text=multi", "tiny/vision=global4@0:1", "tiny/text=single"]
    )
    load(context, post)
    parts = (
        PartLayout("vision", LayoutRequest("global4", (), ("0:1",))),
        PartLayout("text", LayoutRequest("single")),
    )
    assert _layout(bridge.host.commands[-1]) == LayoutRequest(parts=parts)


def _layout(command: object) -> LayoutRequest | None:
    return command.layout if isinstance(command, LoadModel | LoadSpeech) else None
