"""Writing a transcript to a file of the user's, away from the GUI thread."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal, Slot

from mblt_desktop.store.records import TranscriptRecord
from runtime.audio.subtitles import TranscriptFormat, write
from runtime.errors import MbltError
from runtime.messages import Transcribed

TITLES: dict[TranscriptFormat, str] = {
    "txt": "Plain text (.txt)",
    "srt": "Subtitles, SubRip (.srt)",
    "vtt": "Subtitles, WebVTT (.vtt)",
    "json": "JSON with words and times (.json)",
    "tsv": "Table (.tsv)",
}


class _Signals(QObject):
    done = Signal(object, object)
    """Path, ErrorInfo or None."""


class _Write(QRunnable):
    def __init__(self, result: Transcribed, target: Path, form: TranscriptFormat, signals: _Signals) -> None:
        super().__init__()
        self._job = (result, target, form)
        self._signals = signals

    def run(self) -> None:
        result, target, form = self._job
        error = None
        try:
            write(result, target, form)
        except MbltError as failure:
            error = failure.info
        self._signals.done.emit(target, error)


class Exporter(QObject):
    """Writes one file after the other."""

    finished = Signal(object, object)
    """Path, ErrorInfo or None."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._signals = _Signals(self)
        self._signals.done.connect(self._on_done)

    def write(self, record: TranscriptRecord, target: Path, form: TranscriptFormat) -> None:
        """Write the transcript; `finished` says how it went."""
        result = Transcribed(
            request_id=record.id,
            source=record.source,
            duration=record.duration,
            language=record.language,
            segments=record.segments,
            engine=record.engine,
            elapsed=0.0,
            warnings=record.warnings,
        )
        self._pool.start(_Write(result, target, form, self._signals))

    @Slot(object, object)
    def _on_done(self, target: Path, error: object) -> None:
        self.finished.emit(target, error)


def suggested_name(title: str, form: TranscriptFormat) -> str:
    """A file name from the transcript's title."""
    stem = Path(title).stem if Path(title).suffix else title
    safe = "".join(character if character not in '/\\:*?"<>|' else "-" for character in stem).strip(" .")
    return f"{safe or 'transcript'}.{form}"
