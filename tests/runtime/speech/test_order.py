"""In which order the speech lane takes what waits, and how a file gives way to what was just said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.audio.windows import Window
from runtime.config import RuntimeConfig
from runtime.errors import DeviceError, DeviceLostError, DeviceStalledError
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Cancelled,
    Command,
    Event,
    Failed,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelUnloaded,
    Queued,
    Segment,
    SegmentReady,
    Transcribe,
    Transcribed,
    TranscribeProgress,
    UnloadSpeech,
)
from runtime.messages.chat import Priority
from runtime.speech import service as service_module
from runtime.speech.engine import LanguageGuess, Task
from runtime.speech.service import SpeechService
from tests.runtime.audio.media import SAMPLE, clip, write_wav

CODES = ("en", "ko")


class Listener:
    """Says of each window how loud it is, and looks for a cancel as often as a model makes tokens."""

    title = "Listener"
    languages = CODES
    info = ModelInfo("l", "Listener", "speech", "l", "", "", True, None, 7, 0, languages=CODES)

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.inside: Callable[[Task], None] = lambda task: None
        self.closed = False

    def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
        del cancelled
        return LanguageGuess("ko" if window.start > 5 else "en", 0.4 if window.start < 5 else 0.9)

    def transcribe(self, window: Window, task: Task) -> Iterator[Segment]:
        self.heard.append(task.request_id)
        self.inside(task)
        if not task.cancelled():
            loud = float(np.abs(window.samples).mean())
            yield Segment(window.start, window.end, f"{task.language} {loud:.6f}")

    def close(self) -> None:
        self.closed = True


class Bench:
    """A speech lane's service with a model that is no work."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self.marks = CancelMarks()
        self.service = SpeechService(RuntimeConfig(folder), self.events.append, self.marks)

    def send(self, *commands: Command) -> None:
        for command in commands:
            self.service.handle(command)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        while not until() and self.service.step():
            pass

    def until_lines(self, request_id: str, count: int) -> None:
        self.run(lambda: len(self.lines(request_id)) == count)
        assert len(self.lines(request_id)) == count

    def of(self, kind: type, request_id: str) -> list:
        return [one for one in self.events if isinstance(one, kind) and one.request_id == request_id]

    def lines(self, request_id: str) -> list[Segment]:
        return [event.segment for event in self.of(SegmentReady, request_id)]

    def places(self, request_id: str) -> list[tuple[int, str, str]]:
        return [(one.position, one.cause, one.behind) for one in self.of(Queued, request_id)]

    def ended(self) -> list[tuple[type, str]]:
        final = (Transcribed, Cancelled, Failed)
        return [(type(one), one.request_id) for one in self.events if isinstance(one, final)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def listener(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Listener:
    """The loaded model."""
    made = Listener()
    monkeypatch.setattr(service_module, "load_engine", lambda *_: made)
    bench.send(LoadSpeech("l", "/l", LayoutRequest()))
    bench.run()
    return made


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample five times, louder each time: no two of its windows are alike."""
    sound = np.concatenate([clip() * level for level in (0.3, 0.4, 0.5, 0.6, 0.7)])
    return write_wav(tmp_path_factory.mktemp("long") / "long.wav", sound.astype(np.float32))


def transcribe(name: str, priority: Priority, source: Path | None = None) -> Transcribe:
    path = str(source or f"{name}.wav")
    return Transcribe(name, path, None, word_times=False, submitted_ns=1, priority=priority)


def test_what_was_just_said_goes_before_files_that_wait_but_not_before_a_change_of_model(
    bench: Bench,
) -> None:
    """Seen without a model, by the order of its refusals."""
    bench.send(transcribe("a", "background"), transcribe("b", "background"))
    bench.send(transcribe("take", "interactive"), transcribe("second take", "interactive"))
    places = {event.request_id: event.position for event in bench.events if isinstance(event, Queued)}
    assert places == {"take": 0, "second take": 1, "a": 2, "b": 3}
    bench.send(UnloadSpeech(), transcribe("c", "background"), transcribe("third take", "interactive"))
    bench.run()
    assert [name for _, name in bench.ended()] == ["take", "second take", "a", "b", "third take", "c"]


def test_a_file_gives_way_between_two_windows_and_goes_on_as_if_nothing_had_happened(
    bench: Bench, listener: Listener, long: Path
) -> None:
    bench.send(transcribe("undisturbed", "background", long))
    bench.run()
    expected = bench.of(Transcribed, "undisturbed")[0]
    assert len({segment.text for segment in expected.segments}) == len(expected.segments) >= 8
    for after in range(1, len(expected.segments)):
        name, take = f"file {after}", f"take {after}"
        bench.send(transcribe(name, "background", long))
        bench.until_lines(name, after)
        bench.send(transcribe(take, "interactive", SAMPLE))
        bench.run()
        (found,) = bench.of(Transcribed, name)
        assert (found.segments, found.duration, found.language, found.warnings) == (
            expected.segments,
            expected.duration,
            expected.language,
            expected.warnings,
        )
        assert bench.lines(name) == list(found.segments)
        positions = [event.position for event in bench.of(TranscribeProgress, name)]
        assert positions == sorted(positions)
        heard = [one for one in listener.heard if one in (name, take)]
        assert heard.index(take) == after, "it waits for no further window"
        assert len(bench.of(Transcribed, take)) == 1


def test_a_file_that_gave_way_knows_for_what_it_waits_and_when_it_goes_on(
    bench: Bench, listener: Listener, long: Path
) -> None:
    bench.send(transcribe("file", "background", long), transcribe("next", "background", SAMPLE))
    bench.until_lines("file", 2)
    bench.send(transcribe("take", "interactive", SAMPLE))
    bench.service.step()
    assert bench.places("file")[-1] == (1, "gave_way", "take")
    assert bench.places("next")[-1] == (2, "turn", "")
    bench.send(transcribe("second take", "interactive", SAMPLE))
    assert bench.places("second take")[-1] == (1, "turn", "")
    assert bench.places("file")[-1] == (2, "gave_way", "take")
    bench.run(lambda: bool(bench.of(Transcribed, "take")))
    bench.service.step()
    assert bench.places("file")[-1] == (1, "gave_way", "second take")
    bench.run(lambda: bool(bench.of(Transcribed, "second take")))
    bench.service.step()
    assert bench.places("file")[-1] == (0, "next", "")
    assert bench.places("next")[-1] == (1, "turn", "")
    bench.run()
    assert [name for _, name in bench.ended()] == ["take", "second take", "file", "next"]


def test_the_time_for_which_it_gave_way_is_not_counted_as_work(
    bench: Bench, listener: Listener, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("runtime.speech.job.time.perf_counter", lambda: now[0])

    def work(task: Task) -> None:
        now[0] += 1000.0 if task.request_id == "take" else 1.0

    listener.inside = work
    bench.send(transcribe("file", "background", long))
    bench.until_lines("file", 2)
    bench.send(transcribe("take", "interactive", SAMPLE))
    bench.run()
    file = bench.of(Transcribed, "file")[0]
    assert file.elapsed == len(file.segments)
    assert bench.of(Transcribed, "take")[0].elapsed >= 1000.0


def test_takes_give_way_to_nothing_and_a_change_of_model_waits_for_what_gave_way(
    bench: Bench, listener: Listener, long: Path
) -> None:
    bench.send(transcribe("file", "background", long))
    bench.until_lines("file", 1)
    bench.send(transcribe("take", "interactive", long), UnloadSpeech())
    bench.until_lines("take", 1)
    bench.send(transcribe("second take", "interactive", SAMPLE))
    bench.run()
    assert bench.ended() == [(Transcribed, "take"), (Transcribed, "file"), (Failed, "second take")]
    unloaded = next(one for one in bench.events if isinstance(one, ModelUnloaded))
    assert bench.events.index(unloaded) > bench.events.index(bench.of(Transcribed, "file")[0])


def test_a_file_that_gave_way_is_cancelled_while_the_take_is_being_heard(
    bench: Bench, listener: Listener, long: Path
) -> None:
    bench.send(transcribe("file", "background", long), transcribe("next", "background", SAMPLE))
    bench.until_lines("file", 2)

    def cancel(task: Task) -> None:
        if task.request_id == "take" and not bench.of(Cancelled, "file"):
            bench.marks.cancel("file")
            assert not task.cancelled()
            assert bench.of(Cancelled, "file"), "not before the window's next token"

    listener.inside = cancel
    bench.send(transcribe("take", "interactive", SAMPLE))
    bench.run()
    assert bench.ended() == [(Cancelled, "file"), (Transcribed, "take"), (Transcribed, "next")]
    assert len(bench.lines("file")) == 2
    assert not bench.marks.is_cancelled("file")
    assert bench.places("next")[-1] == (1, "turn", "")


def test_a_cancelled_take_or_one_that_fails_lets_the_file_go_on(
    bench: Bench, listener: Listener, long: Path, tmp_path: Path
) -> None:
    bench.send(transcribe("file", "background", long))
    bench.until_lines("file", 2)
    bench.send(transcribe("gone", "interactive", tmp_path / "gone.wav"))
    bench.until_lines("file", 3)
    bench.send(transcribe("take", "interactive", SAMPLE))
    bench.service.step()
    bench.marks.cancel("take")
    bench.run()
    assert bench.ended() == [(Failed, "gone"), (Cancelled, "take"), (Transcribed, "file")]


@pytest.mark.parametrize("failure", [DeviceLostError, DeviceStalledError])
def test_a_device_lost_during_the_take_ends_the_file_that_gave_way_with_it(
    bench: Bench, listener: Listener, long: Path, failure: type[DeviceError]
) -> None:
    bench.send(transcribe("file", "background", long))
    bench.until_lines("file", 2)

    def lose(task: Task) -> None:
        raise failure("The device is gone.", remedy="Connect it.", unharmed="All else is.")

    listener.inside = lose
    bench.send(transcribe("take", "interactive", SAMPLE), transcribe("next", "background", SAMPLE))
    bench.run()
    assert bench.ended() == [(Failed, "take"), (Failed, "file"), (Failed, "next")]
    assert bench.of(Failed, "file")[0].error.code == bench.of(Failed, "take")[0].error.code
    assert bench.of(Failed, "next")[0].error.code == "request.model_not_loaded"
    assert sum(isinstance(event, ModelFailed) for event in bench.events) == 1
    assert listener.closed, "what can be given back of the model is"


def test_what_gave_way_is_released_at_the_end(bench: Bench, listener: Listener, long: Path) -> None:
    bench.send(transcribe("file", "background", long))
    bench.until_lines("file", 1)
    bench.send(transcribe("take", "interactive", long))
    bench.until_lines("take", 1)
    opened = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
    assert opened.count(long) == 2
    bench.service.close()
    opened = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
    assert long not in opened
    assert listener.closed
