"""Where somebody speaks: Silero's voice detector, fed as a stream.

The network is the one that ships inside faster-whisper (1.2 MB, run by the onnxruntime it needs anyway), so
no further package is needed. Each block is analysed in one call; state and context are carried over, so the
length of the blocks changes nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.audio.pcm import SAMPLE_RATE, Samples
from runtime.errors import InternalError

FRAME = 512
"""Samples per decision: 32 ms."""
_CONTEXT = 64
_STATE = (1, 1, 128)


@dataclass(frozen=True, slots=True)
class VadOptions:
    """How speech begins and ends. Seconds; thresholds are the network's probabilities."""

    begin_threshold: float = 0.5
    end_threshold: float = 0.35
    least_speech: float = 0.1
    """Shorter bursts are clicks."""
    hangover: float = 0.5
    """Silence that ends a span."""
    padding: float = 0.3
    """Kept before and after a span: the first consonant is quiet."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of speech, in samples from the start of the audio."""

    start: int
    end: int


class SileroVad:
    """Speech probability per frame of a stream."""

    def __init__(self) -> None:
        import faster_whisper
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.inter_op_num_threads = 1
        options.intra_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        network = Path(faster_whisper.__file__).parent / "assets" / "silero_vad_v6.onnx"
        if not network.is_file():
            raise InternalError(
                "The voice detector is missing from the installed faster-whisper package.",
                remedy="Install the application again.",
                detail=str(network),
            )
        self._session: Any = onnxruntime.InferenceSession(
            str(network), providers=["CPUExecutionProvider"], sess_options=options
        )
        self.reset()

    def reset(self) -> None:
        """Forget the stream so far."""
        self._hidden = np.zeros(_STATE, np.float32)
        self._cell = np.zeros(_STATE, np.float32)
        self._context = np.zeros(_CONTEXT, np.float32)

    def for_another_stream(self) -> SileroVad:
        """A detector for a stream of its own, with the same network in memory."""
        other = copy.copy(self)
        other.reset()
        return other

    def probabilities(self, samples: Samples) -> NDArray[np.float32]:
        """One probability per frame; the number of samples is a multiple of FRAME."""
        frames = samples.reshape(-1, FRAME)
        if not len(frames):
            return np.zeros(0, np.float32)
        before = np.concatenate((self._context[None], frames[:-1, -_CONTEXT:]))
        result, self._hidden, self._cell = self._session.run(
            None,
            {"input": np.concatenate((before, frames), axis=1), "h": self._hidden, "c": self._cell},
        )
        self._context = frames[-1, -_CONTEXT:].copy()
        probabilities: NDArray[np.float32] = result.reshape(-1)
        return probabilities


class SpeechFinder:
    """Turns frame probabilities into spans, as the stream comes in."""

    def __init__(self, options: VadOptions | None = None) -> None:
        options = options or VadOptions()
        self._options = options
        self._least = math.ceil(options.least_speech * SAMPLE_RATE)
        self._hangover = math.ceil(options.hangover * SAMPLE_RATE)
        self._padding = int(options.padding * SAMPLE_RATE)
        self._now = 0
        self._begin: int | None = None
        self._quiet_since: int | None = None
        self._last_end = 0

    @property
    def open_since(self) -> int | None:
        """Padded start of the span that still goes on, or None in silence."""
        return None if self._begin is None else self._padded_start(self._begin)

    def feed(self, probabilities: NDArray[np.float32]) -> Iterator[Span]:
        """Spans that ended within these frames."""
        for probability in probabilities:
            span = self._frame(float(probability))
            self._now += FRAME
            if span is not None:
                yield span

    def finish(self, length: int) -> Span | None:
        """The span that is open when the audio ends after `length` samples."""
        if self._begin is None:
            return None
        end = self._quiet_since if self._quiet_since is not None else length
        return self._close(min(end, length), length)

    def _frame(self, probability: float) -> Span | None:
        if probability >= self._options.begin_threshold:
            self._quiet_since = None
            if self._begin is None:
                self._begin = self._now
            return None
        if self._begin is None or probability >= self._options.end_threshold:
            return None
        if self._quiet_since is None:
            self._quiet_since = self._now
        if self._now + FRAME - self._quiet_since < self._hangover:
            return None
        return self._close(self._quiet_since, self._now + FRAME)

    def _close(self, end: int, limit: int) -> Span | None:
        assert self._begin is not None
        begin, self._begin, self._quiet_since = self._begin, None, None
        if end - begin < self._least:
            return None
        span = Span(self._padded_start(begin), min(end + self._padding, limit))
        self._last_end = span.end
        return span

    def _padded_start(self, begin: int) -> int:
        return max(begin - self._padding, self._last_end)
