"""Pictures off the window's thread: taking them into the gallery, thumbnails, and the preview.

A `PictureLoader` lives in the window's thread and runs its jobs in two threads of its own. What a job makes
is handed over by signal; a job that fails says so with an ErrorInfo. `runtime.images` is imported in the jobs
only, so the window is painted before any decoder is loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRunnable, QSize, Qt, QThreadPool, Signal, Slot
from PySide6.QtGui import QImage

from mblt_desktop.store.records import ImageRecord, new_id
from runtime.errors import ErrorInfo, ImageError, storage_error, to_info

if TYPE_CHECKING:
    from runtime.images import Picture

THUMBNAIL = 96
"""Longest side of a gallery picture, in real pixels."""
PREVIEW = 3072
"""Longest side kept for the preview; zooming in further shows no more detail."""
_SMALLEST_LEVEL = 512
_BLOCK = 1 << 20
_APART = 0.001
"""Seconds between the times of two pictures that are added together, so that they stay in order."""
_PASTED_NAME = "Pasted picture"
_EXTENSIONS = {"PNG": "png", "JPEG": "jpg", "WebP": "webp", "GIF": "gif", "BMP": "bmp", "TIFF": "tiff"}


@dataclass(frozen=True, slots=True)
class Preview:
    """A picture ready to paint: the same picture in halving sizes, the largest first."""

    source: QSize
    """Size of the file's picture when upright."""
    levels: tuple[QImage, ...]


class _Job(QRunnable):
    """Runs one call and emits what comes of it."""

    def __init__(self, work: Callable[[], None], failed: Callable[[ErrorInfo], None]) -> None:
        super().__init__()
        self._work = work
        self._failed = failed

    def run(self) -> None:
        """In a thread of the pool."""
        try:
            self._work()
        except RuntimeError as error:
            # The loader is gone: the window was closed while the job ran.
            if "deleted" not in str(error):
                self._failed(to_info(error))
        except Exception as error:  # noqa: BLE001 - the top of a job; shown in the pane
            with contextlib.suppress(RuntimeError):
                self._failed(to_info(error))


class PictureLoader(QObject):
    """Starts the jobs; its signals are emitted from their threads and arrive in the window's."""

    imported = Signal(object, object)
    """An ImageRecord and its thumbnail (QImage)."""
    import_failed = Signal(object)
    """An ErrorInfo; nothing was added."""
    thumbnail_ready = Signal(str, object)
    """An image id and its thumbnail (QImage)."""
    preview_ready = Signal(str, object)
    """An image id and its Preview."""
    preview_failed = Signal(str, object)

    def __init__(self, media: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._media = media
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(2)

    def take_files(self, paths: list[Path]) -> None:
        """Copy files into the media folder and make their thumbnails.

        They may be done in any order. The newest picture stands first, so the first of these is the newest.
        """
        now = time.time()
        for number, path in enumerate(paths):
            self._take_file(path, now - number * _APART)

    def _take_file(self, path: Path, added_at: float) -> None:
        self._start(
            lambda: self.imported.emit(*_added(import_file(path, self._media), added_at)),
            self.import_failed.emit,
        )

    def take_image(self, image: QImage, name: str = _PASTED_NAME) -> None:
        """Save pasted image data in the media folder and make its thumbnail."""
        self._start(
            lambda: self.imported.emit(*import_image(image, name, self._media)), self.import_failed.emit
        )

    def request_thumbnail(self, record: ImageRecord) -> None:
        """Make the thumbnail of a picture of an earlier session.

        Where that fails the gallery's placeholder stays; the preview says why.
        """
        key, path = record.id, record.path
        self._start(
            lambda: self.thumbnail_ready.emit(key, thumbnail(path)),
            lambda _error: None,
        )

    def request_preview(self, record: ImageRecord) -> None:
        """Decode a picture for the preview, before any thumbnails that wait."""
        key, path = record.id, record.path
        self._start(
            lambda: self.preview_ready.emit(key, preview(path)),
            lambda error: self.preview_failed.emit(key, error),
            priority=1,
        )

    @Slot()
    def close(self) -> None:
        """Drop what waits and wait for what runs."""
        self._pool.clear()
        self._pool.waitForDone()

    def _start(
        self, work: Callable[[], None], failed: Callable[[ErrorInfo], None], priority: int = 0
    ) -> None:
        self._pool.start(_Job(work, failed), priority)


# -- the work, in a job's thread -----------------------------------------------------------------


def import_file(path: Path, media: Path) -> tuple[ImageRecord, QImage]:
    """Copy a picture into the media folder under its content's hash.

    Raises ImageError or StorageError; the original is only read.
    """
    from runtime import images

    picture = images.thumbnail(path, THUMBNAIL)
    digest = hashlib.sha256()
    temporary = media / f".{new_id()}.part"
    try:
        media.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as source, temporary.open("wb") as copy:
            while block := source.read(_BLOCK):
                digest.update(block)
                copy.write(block)
        kept = media / f"{digest.hexdigest()[:32]}.{_EXTENSIONS[picture.kind]}"
        os.replace(temporary, kept)
    except OSError as error:
        _discard(temporary)
        raise storage_error(error, str(media), unharmed=f"{path.name} is unharmed.") from error
    return _record(kept, path.name, picture), to_qimage(picture)


def import_image(image: QImage, name: str, media: Path) -> tuple[ImageRecord, QImage]:
    """Save image data as a PNG in the media folder. Raises ImageError or StorageError."""
    if image.isNull():
        raise ImageError("The clipboard holds no usable picture.", remedy="Copy the picture again.")
    temporary = media / f".{new_id()}.png"
    try:
        media.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb"):
            pass  # QImage.save says only whether it worked; this says why not
        if not image.save(str(temporary), "PNG"):  # type: ignore[call-overload]
            raise OSError("the picture could not be written")
        return _renamed(import_file(temporary, media), name)
    except OSError as error:
        raise storage_error(error, str(media)) from error
    finally:
        _discard(temporary)


def thumbnail(path: str) -> QImage:
    """The gallery's picture. Raises ImageError."""
    from runtime import images

    return to_qimage(images.thumbnail(path, THUMBNAIL))


def preview(path: str) -> Preview:
    """The picture for the preview. Raises ImageError."""
    from runtime import images

    picture = images.thumbnail(path, PREVIEW)
    levels = [to_qimage(picture)]
    while max(levels[-1].width(), levels[-1].height()) > 2 * _SMALLEST_LEVEL:
        half = levels[-1].size() / 2
        levels.append(
            levels[-1].scaled(
                half, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
            )
        )
    return Preview(QSize(picture.source_width, picture.source_height), tuple(levels))


def to_qimage(picture: Picture) -> QImage:
    """The decoded rows as a QImage of its own memory, in the format that paints fastest."""
    rows = QImage(picture.rgb, picture.width, picture.height, 3 * picture.width, QImage.Format.Format_RGB888)
    return rows.convertToFormat(QImage.Format.Format_RGB32)


def together(errors: list[ErrorInfo]) -> ErrorInfo:
    """One error as it is; several as one, each a line of its details."""
    if len(errors) == 1:
        return errors[0]
    return replace(
        errors[-1],
        summary=f"{len(errors)} files could not be added. The last: {errors[-1].summary}",
        detail="\n".join(error.sentence() for error in errors),
    )


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):  # the reason it could not be written may keep it from being removed
        path.unlink(missing_ok=True)


def _record(path: Path, name: str, picture: Picture) -> ImageRecord:
    return ImageRecord(str(path), name, picture.source_width, picture.source_height)


def _added(made: tuple[ImageRecord, QImage], at: float) -> tuple[ImageRecord, QImage]:
    record, small = made
    return replace(record, created_at=at), small


def _renamed(made: tuple[ImageRecord, QImage], name: str) -> tuple[ImageRecord, QImage]:
    record, small = made
    return replace(record, name=name), small
