"""Sizes on the disk, and clearing downloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.catalog.library import Library
from runtime.config import RuntimeConfig
from runtime.errors import DownloadError
from runtime.storage import bytes_below, clear_downloads, clear_kept_caches


def test_sizes_count_every_file_once_and_follow_no_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"x" * 1000)
    (tmp_path / "a" / "b" / "two").write_bytes(b"x" * 24)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * 5000)
    link = tmp_path / "a" / "link"
    link.symlink_to(outside)
    assert bytes_below(tmp_path / "a") == 1024 + link.lstat().st_size
    assert bytes_below(tmp_path / "a" / "one") == 1000
    assert bytes_below(tmp_path / "absent") == 0


def test_clearing_downloads_leaves_models_and_what_links_point_to(tmp_path: Path) -> None:
    config = RuntimeConfig(tmp_path)
    config.models_dir.mkdir()
    (config.models_dir / "kept").write_bytes(b"x")
    (config.downloads_dir / "model").mkdir(parents=True)
    (config.downloads_dir / "model" / "file.part").write_bytes(b"x" * 10)
    (config.downloads_dir / "wheel.part").write_bytes(b"x" * 5)
    (config.downloads_dir / "link").symlink_to(config.models_dir)
    assert clear_downloads(config) >= 15
    assert list(config.downloads_dir.iterdir()) == []
    assert (config.models_dir / "kept").exists()


def test_nothing_is_cleared_while_models_are_being_installed(tmp_path: Path) -> None:
    config = RuntimeConfig(tmp_path)
    config.downloads_dir.mkdir()
    part = config.downloads_dir / "wheel.part"
    part.write_bytes(b"x")
    with Library(config).locked(), pytest.raises(DownloadError, match="just now"):
        clear_downloads(config)
    assert part.exists()


def test_clearing_kept_caches_leaves_the_rest(tmp_path: Path) -> None:
    config = RuntimeConfig(tmp_path)
    assert clear_kept_caches(config) == 0
    (config.kv_dir / "model" / "conversation").mkdir(parents=True)
    (config.kv_dir / "model" / "conversation" / "data").write_bytes(b"x" * 100)
    (tmp_path / "mblt.sqlite").write_bytes(b"x")
    assert clear_kept_caches(config) == 100
    assert [path.name for path in tmp_path.iterdir()] == ["mblt.sqlite"]
