"""Events reach the window in order, once, and only in the GUI thread's turn."""

from __future__ import annotations

from mblt_desktop.dispatcher import Dispatcher, merge_deltas
from runtime.errors import ErrorInfo
from runtime.messages import (
    Failed,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelUnloaded,
    Queued,
    TextDelta,
)
from tests.ui.conftest import ScriptedBridge


def test_one_wake_delivers_everything(qtbot, bridge: ScriptedBridge, dispatcher: Dispatcher):
    seen = []
    dispatcher.event_received.connect(seen.append)
    events = [ModelLoading("m", "reading"), Queued("r", 0), TextDelta("r", "a")]
    bridge.host.post(*events)
    assert seen == []  # never inside the post: a submit must not call back into its caller
    qtbot.waitUntil(lambda: len(seen) == 3)
    assert seen == events


def test_a_watcher_sees_its_request_until_the_final_event(qtbot, bridge, dispatcher):
    mine = []
    dispatcher.watch("r1", mine.append)
    failed = Failed("r1", ErrorInfo("x", "It broke."))
    bridge.host.post(TextDelta("r1", "a"), TextDelta("r2", "b"), failed, TextDelta("r1", "late"))
    qtbot.waitUntil(lambda: len(mine) == 2)
    bridge.host.post(TextDelta("r1", "later"))
    qtbot.wait(10)
    assert mine == [TextDelta("r1", "a"), failed]


def test_a_failing_watcher_does_not_swallow_the_events_of_others(qtbot, bridge, dispatcher):
    def fail(_event):
        raise ValueError("a fault of this listener")

    mine = []
    dispatcher.watch("r1", fail)
    dispatcher.watch("r2", mine.append)
    with qtbot.captureExceptions() as caught:
        bridge.host.post(TextDelta("r1", "a"), TextDelta("r2", "b"))
        qtbot.waitUntil(lambda: len(mine) == 1)
    assert [kind for kind, _, _ in caught] == [ValueError]


def test_only_neighbouring_deltas_of_one_request_are_joined():
    events = [TextDelta("a", "1"), TextDelta("a", "2"), TextDelta("b", "x"), TextDelta("a", "3")]
    assert merge_deltas(events) == [TextDelta("a", "12"), TextDelta("b", "x"), TextDelta("a", "3")]


def test_what_is_loaded_is_known_to_panes_made_later(qtbot, bridge, dispatcher):
    bridge.host.post(ModelLoading("a", "Reading the weights"))
    qtbot.waitUntil(lambda: set(dispatcher.loading) == {"a"})

    def info(model_id: str, kind: str) -> ModelInfo:
        return ModelInfo(model_id, model_id, kind, "", "", "", True, None, 1, 1)

    bridge.host.post(ModelLoaded(info("a", "image")), ModelLoaded(info("w", "speech")))
    qtbot.waitUntil(lambda: len(dispatcher.loaded) == 2)
    assert dispatcher.loading == {}
    assert dispatcher.loaded_model("chat", "image").model_id == "a"
    assert dispatcher.loaded_model("speech").model_id == "w"
    bridge.host.post(ModelUnloaded("a"), ModelFailed("w", ErrorInfo("x", "Lost.")))
    qtbot.waitUntil(lambda: dispatcher.loaded == {})
    assert dispatcher.loaded_model("chat", "image", "speech") is None
