"""One file on its way to a transcript, a window of speech at a time.

Between two windows it can be left alone while others are dealt with: all that it needs to go on is its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from runtime.audio.decode import AudioFile
from runtime.audio.pcm import SAMPLE_RATE, Samples
from runtime.audio.vad import SileroVad
from runtime.audio.windows import Window, Windower
from runtime.errors import RequestError
from runtime.lanes.lane import Post
from runtime.messages import Segment, SegmentReady, Transcribe, Transcribed, TranscribeProgress
from runtime.speech.engine import SpeechEngine, Task
from runtime.speech.guards import doubt
from runtime.tracing.recorder import RECORDER

NO_SPEECH = "No speech detected."
SILENT_END = 1.0
"""Seconds at the end of a model's window that no speech is put into."""
_SURE_AFTER = 3.0
"""Seconds of speech that a guess of the language needs."""
_SURE = 0.5


class TranscribeJob:
    """Opens the file at once; raises AudioError or RequestError when it cannot be transcribed."""

    def __init__(
        self,
        command: Transcribe,
        engine: SpeechEngine,
        vad: SileroVad,
        post: Post,
        cancelled: Callable[[], bool],
    ) -> None:
        self.command = command
        self._engine = engine
        self._post = post
        self._cancelled = cancelled
        self._seconds = 0.0
        self._language = _known_language(command.language, engine)
        self._last_guess = ""
        self._file = AudioFile(Path(command.source))
        self._blocks = self._file.blocks()
        # The model's window, of which the end stays silent so that the last word is complete.
        self._windower = Windower(vad, longest=engine.info.context_length - SILENT_END)
        self._windows: deque[Window] = deque()
        self._ended = False
        self._position = 0.0
        """Seconds dealt with: all that was said up to there is in the transcript."""
        self._segments: list[Segment] = []
        self._doubts: list[str] = []

    def advance(self) -> bool:
        """Deal with the next block, and with one window at most; False when the file is done."""
        started = time.perf_counter()
        if not self._windows:
            self._listen()
        if self._windows:
            self._transcribe(self._windows.popleft())
        if not self._windows and not self._ended:
            self._say_progress(self._windower.given_away / SAMPLE_RATE)
        self._seconds += time.perf_counter() - started
        return bool(self._windows) or not self._ended

    def result(self) -> Transcribed:
        """The transcript, once `advance` has said that the file is done."""
        warnings = (*self._file.warnings, *self._doubts)
        return Transcribed(
            request_id=self.command.request_id,
            source=self.command.source,
            duration=self._file.position,
            language=(self._language or self._last_guess) if self._segments else "",
            segments=tuple(self._segments),
            engine=self._engine.title,
            elapsed=self._seconds,
            warnings=warnings if self._segments else (NO_SPEECH, *warnings),
        )

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _listen(self) -> None:
        """Take the next block, and the windows that it completes."""
        block = self._decode()
        if block is None:
            self._ended = True
            self._windows.extend(self._windower.finish())
            return
        with RECORDER.span("voice activity", request=self.command.request_id):
            self._windows.extend(self._windower.feed(block))

    def _decode(self) -> Samples | None:
        with RECORDER.span("decode audio", request=self.command.request_id):
            return next(self._blocks, None)

    def _say_progress(self, position: float) -> None:
        """Reading runs ahead of what is heard by up to a window, so it is no measure."""
        self._position = max(self._position, position)
        duration = self._file.duration
        if duration is not None and self._file.position > duration:
            duration = None
        self._post(TranscribeProgress(self.command.request_id, self._position, duration))

    def _transcribe(self, window: Window) -> None:
        if self._cancelled():
            return
        language = self._language or self._guess(window)
        if self._cancelled():
            return
        task = Task(self.command.request_id, language, self.command.word_times, self._cancelled)
        for segment in self._engine.transcribe(window, task):
            self._keep(segment)

    def _keep(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._post(SegmentReady(self.command.request_id, segment))
        self._say_progress(segment.end)
        reason = doubt(segment)
        if reason:
            self._doubts.append(reason)

    def _guess(self, window: Window) -> str:
        """The window's language; settled for the whole file once there is enough speech to be sure."""
        guess = self._engine.guess_language(window, self._cancelled)
        self._last_guess = guess.code or self._last_guess
        if window.speech_seconds >= _SURE_AFTER and guess.probability >= _SURE:
            self._language = guess.code
        return guess.code


def _known_language(asked: str | None, engine: SpeechEngine) -> str:
    """The language to use for the whole file; empty when it has to be found out."""
    if asked is None:
        return engine.languages[0] if len(engine.languages) == 1 else ""
    if asked not in engine.languages:
        known = ", ".join(engine.languages[:12]) + (" …" if len(engine.languages) > 12 else "")
        raise RequestError(
            f"{engine.info.title} does not understand the language “{asked}”.",
            remedy=f"Choose one of {known}, or another speech model.",
            unharmed="The file was not changed.",
        )
    return asked
