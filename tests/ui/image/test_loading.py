"""Pictures become files of the media folder, off the window's thread."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from mblt_desktop.image import loading
from mblt_desktop.image.loading import PictureLoader
from mblt_desktop.store.records import ImageRecord
from runtime import images
from runtime.errors import ErrorInfo, ImageError, StorageError

Photo = Callable[..., Path]


def test_an_imported_picture_is_copied_under_its_content(photo: Photo, tmp_path: Path) -> None:
    source = photo("wide.png", turned=True)
    before = source.read_bytes()
    record, small = loading.import_file(source, tmp_path / "media")
    copy = Path(record.path)
    assert copy.parent == tmp_path / "media"
    assert copy.name == hashlib.sha256(before).hexdigest()[:32] + ".png"
    assert copy.read_bytes() == before == source.read_bytes()
    assert (record.name, record.width, record.height) == ("wide.png", 40, 60)
    assert small.size() == QSize(40, 60), "upright"
    assert [path.name for path in copy.parent.iterdir()] == [copy.name], "nothing half-written stays"


def test_the_copy_is_named_by_what_it_is(photo: Photo, tmp_path: Path) -> None:
    wrong = photo("real.png").rename(tmp_path / "looks-like.jpg")
    assert Path(loading.import_file(wrong, tmp_path / "media")[0].path).suffix == ".png"


def test_what_is_no_picture_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("words")
    with pytest.raises(ImageError, match=r"notes\.png is a text file"):
        loading.import_file(tmp_path / "notes.png", tmp_path / "media")
    assert not (tmp_path / "media").exists()


def test_a_media_folder_that_cannot_be_made_is_named(photo: Photo, tmp_path: Path) -> None:
    (tmp_path / "media").write_text("a file is in the way")
    for take in (
        lambda: loading.import_file(photo(), tmp_path / "media"),
        lambda: loading.import_image(_image(), "Pasted", tmp_path / "media"),
    ):
        with pytest.raises(StorageError, match="media"):
            take()


def _image(colour: Qt.GlobalColor = Qt.GlobalColor.blue) -> QImage:
    image = QImage(8, 6, QImage.Format.Format_ARGB32)
    image.fill(colour)
    return image


def test_pasted_data_is_saved_as_a_file(tmp_path: Path) -> None:
    record, small = loading.import_image(_image(), "Pasted picture", tmp_path / "media")
    with Image.open(record.path) as saved:
        assert (saved.format, saved.size) == ("PNG", (8, 6))
    assert (record.name, record.width, record.height) == ("Pasted picture", 8, 6)
    assert small.pixelColor(3, 3) == QColor("blue")
    assert len(list((tmp_path / "media").iterdir())) == 1


def test_an_empty_clipboard_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="clipboard"):
        loading.import_image(QImage(), "Pasted picture", tmp_path / "media")


def test_a_preview_has_halving_levels(photo: Photo) -> None:
    preview = loading.preview(str(photo("big.png", "green", (4000, 1000))))
    assert preview.source == QSize(4000, 1000)
    widths = [level.width() for level in preview.levels]
    assert widths[0] == loading.PREVIEW
    assert all(2 * below == above for above, below in itertools.pairwise(widths))
    assert widths[-1] <= 1024
    assert preview.levels[-1].pixelColor(5, 5) == QColor("#008000")


@pytest.fixture
def loader(qtbot: QtBot, tmp_path: Path) -> PictureLoader:
    return PictureLoader(tmp_path / "media")


def test_no_picture_is_decoded_in_the_windows_thread(
    qtbot: QtBot, loader: PictureLoader, photo: Photo, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, threads = images.thumbnail, set()

    def spy(path: str | Path, longest: int) -> images.Picture:
        threads.add(threading.get_ident())
        return decode(path, longest)

    monkeypatch.setattr(images, "thumbnail", spy)
    record = ImageRecord(str(photo()), "photo.png", 60, 40)
    with qtbot.waitSignals([loader.imported, loader.thumbnail_ready, loader.preview_ready]):
        loader.take_files([photo("other.png")])
        loader.request_thumbnail(record)
        loader.request_preview(record)
    assert threads
    assert threading.get_ident() not in threads
    loader.close()


def test_a_failure_arrives_as_words(qtbot: QtBot, loader: PictureLoader, tmp_path: Path) -> None:
    gone = ImageRecord(str(tmp_path / "gone.png"), "gone.png", 1, 1)
    with qtbot.waitSignal(loader.preview_failed) as failed:
        loader.request_preview(gone)
    key, error = failed.args
    assert key == gone.id
    assert isinstance(error, ErrorInfo)
    assert "gone.png" in error.summary
    loader.close()


def test_closing_waits_for_what_runs(qtbot: QtBot, loader: PictureLoader, photo: Photo) -> None:
    loader.take_files([photo(f"{number}.png", size=(400, 400)) for number in range(8)])
    loader.close()
    assert loader._pool.activeThreadCount() == 0
