"""Speech cut and merged into windows a speech model takes whole, while the audio streams by.

A window never exceeds `longest` seconds: neighbouring spans share one while they fit and the pause between
them is short; a full window ends at its longest late pause; a span that is too long by itself is cut at its
quietest tenth of a second. Only the audio of the window being built is held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from runtime.audio.pcm import SAMPLE_RATE, Samples
from runtime.audio.vad import FRAME, SileroVad, Span, SpeechFinder

LONGEST_WINDOW = 29.0
"""Seconds: the encoder takes 30, of which the end stays silent so that the last word is complete."""
LONGEST_PAUSE = 3.0
"""Seconds of silence kept inside a window; speech models invent words in longer ones."""
_CUT_SEARCH = 10.0
_QUIET_LENGTH = 0.1


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of audio with speech in it. Times in seconds from the start of the audio."""

    start: float
    samples: Samples
    speech: tuple[tuple[float, float], ...]
    """Where the speech is, padding included."""

    @property
    def end(self) -> float:
        """Where the window ends."""
        return self.start + len(self.samples) / SAMPLE_RATE

    @property
    def speech_seconds(self) -> float:
        """How much of it is speech."""
        return sum(end - start for start, end in self.speech)


class Windower:
    """Feed blocks of a stream, take the windows that are complete."""

    def __init__(
        self,
        vad: SileroVad,
        finder: SpeechFinder | None = None,
        longest: float = LONGEST_WINDOW,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        vad.reset()
        self._vad = vad
        self._finder = finder or SpeechFinder()
        self._longest = int(longest * SAMPLE_RATE)
        self._longest_pause = int(longest_pause * SAMPLE_RATE)
        self._held = np.zeros(0, np.float32)
        """Audio not given away yet; begins at sample `_held_from`."""
        self._held_from = 0
        self._analysed = 0
        self._spans: list[Span] = []

    @property
    def length(self) -> int:
        """Samples fed so far."""
        return self._held_from + len(self._held)

    @property
    def given_away(self) -> int:
        """Samples up to the first speech that waits for the end of its window; all when none does."""
        open_start = self._open_start()
        starts = [span.start for span in self._spans[:1]] + ([] if open_start is None else [open_start])
        return min(starts, default=self.length)

    def feed(self, block: Samples) -> list[Window]:
        """Take more audio; returns the windows that are now complete, in order."""
        self._held = np.concatenate((self._held, block))
        whole = self.length - (self.length - self._analysed) % FRAME
        fresh = self._held[self._analysed - self._held_from : whole - self._held_from]
        self._analysed = whole
        windows: list[Window] = []
        for span in self._finder.feed(self._vad.probabilities(fresh)):
            windows += self._add(span)
        windows += self._cut_open_span()
        windows += self._close_after_pause()
        self._forget()
        return windows

    def finish(self) -> list[Window]:
        """The rest, when the audio has ended."""
        rest = self._held[self._analysed - self._held_from :]
        windows: list[Window] = []
        if len(rest):
            padded = np.pad(rest, (0, FRAME - len(rest)))
            for span in self._finder.feed(self._vad.probabilities(padded)):
                windows += self._add(span)
        last = self._finder.finish(self.length)
        if last is not None:
            windows += self._add(last)
        return windows + self._emit()

    def _add(self, span: Span) -> list[Window]:
        """Put a finished span into the window being built, or into a new one."""
        span = Span(max(span.start, self._held_from), min(span.end, self.length))
        windows: list[Window] = []
        while self._spans and not self._fits(span):
            windows.append(self._emit_at_pause(span.start))
        while span.end - span.start > self._longest:
            windows.append(self._cut(span.start))
            span = Span(self._held_from, span.end)
        if span.end > span.start:
            self._spans.append(span)
        return windows

    def _fits(self, span: Span) -> bool:
        pause = span.start - self._spans[-1].end
        return pause <= self._longest_pause and span.end - self._spans[0].start <= self._longest

    def _cut_open_span(self) -> list[Window]:
        """Somebody who talks without a pause longer than a window does not make us hold all of it."""
        windows: list[Window] = []
        start = self._open_start()
        if start is None:
            return windows
        while self._spans and self._analysed - self._spans[0].start > self._longest:
            windows.append(self._emit_at_pause(start))
        while self._analysed - start > self._longest:
            windows.append(self._cut(start))
            start = self._held_from
        return windows

    def _close_after_pause(self) -> list[Window]:
        """In a long silence the window is complete; do not wait for the next word."""
        if not self._spans or self._open_start() is not None:
            return []
        return self._emit() if self._analysed - self._spans[-1].end > self._longest_pause else []

    def _open_start(self) -> int | None:
        start = self._finder.open_since
        return None if start is None else max(start, self._held_from)

    def _cut(self, start: int) -> Window:
        """A window from `start` to the quietest place before the limit; what follows stays held."""
        limit = start + self._longest
        search = max(start + self._longest // 2, limit - int(_CUT_SEARCH * SAMPLE_RATE))
        end = search + _quietest(self._held[search - self._held_from : limit - self._held_from])
        return self._give(start, end, [Span(start, end)])

    def _emit_at_pause(self, next_start: int) -> Window:
        """A window that ends at the longest pause of its second half: there, a sentence ends most likely."""
        spans = self._spans
        starts = [span.start for span in spans[1:]] + [next_start]
        middle = spans[0].start + self._longest // 2
        pauses = [
            (start - span.end, index)
            for index, (span, start) in enumerate(zip(spans, starts, strict=True), start=1)
            if span.end >= middle or start == next_start
        ]
        count = max(pauses)[1]
        self._spans = spans[count:]
        return self._give(spans[0].start, spans[count - 1].end, spans[:count])

    def _emit(self) -> list[Window]:
        spans, self._spans = self._spans, []
        return [self._give(spans[0].start, spans[-1].end, spans)] if spans else []

    def _give(self, start: int, end: int, spans: list[Span]) -> Window:
        samples = self._held[start - self._held_from : end - self._held_from].copy()
        self._drop_before(end)
        seconds = tuple((span.start / SAMPLE_RATE, span.end / SAMPLE_RATE) for span in spans)
        return Window(start / SAMPLE_RATE, samples, seconds)

    def _forget(self) -> None:
        """Drop the silence before the window being built, but for what padding may still ask for."""
        start = self._open_start()
        if self._spans:
            self._drop_before(self._spans[0].start)
        elif start is not None:
            self._drop_before(start)
        else:
            self._drop_before(self._analysed - SAMPLE_RATE)

    def _drop_before(self, sample: int) -> None:
        count = sample - self._held_from
        if count > 0:
            self._held = self._held[count:]
            self._held_from += count


def _quietest(samples: Samples) -> int:
    """Middle of the quietest tenth of a second, in samples from the start of `samples`."""
    size = int(_QUIET_LENGTH * SAMPLE_RATE)
    count = len(samples) // size
    if count == 0:
        return len(samples)
    energy = np.square(samples[: count * size].reshape(count, size)).sum(axis=1)
    return int(np.argmin(energy)) * size + size // 2
