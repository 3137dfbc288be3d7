"""In which order the speech lane takes what waits: seen without a model, by the order of its refusals."""

from __future__ import annotations

from pathlib import Path

from runtime.config import RuntimeConfig
from runtime.lane import CancelMarks
from runtime.messages import Event, Failed, Queued, Transcribe, UnloadSpeech
from runtime.messages.chat import Priority
from runtime.speech.service import SpeechService


def transcribe(name: str, priority: Priority) -> Transcribe:
    return Transcribe(name, f"{name}.wav", None, word_times=False, submitted_ns=1, priority=priority)


def test_what_was_just_said_goes_before_files_that_wait_but_not_before_a_change_of_model(
    tmp_path: Path,
) -> None:
    events: list[Event] = []
    service = SpeechService(RuntimeConfig(tmp_path), events.append, CancelMarks())
    for name in ("a", "b"):
        service.handle(transcribe(name, "background"))
    service.handle(transcribe("take", "interactive"))
    service.handle(transcribe("second take", "interactive"))
    places = {event.request_id: event.position for event in events if isinstance(event, Queued)}
    assert places == {"take": 0, "second take": 1, "a": 2, "b": 3}
    service.handle(UnloadSpeech())
    service.handle(transcribe("c", "background"))
    service.handle(transcribe("third take", "interactive"))
    while service.step():
        pass
    order = [event.request_id for event in events if isinstance(event, Failed)]
    assert order == ["take", "second take", "a", "b", "third take", "c"]
