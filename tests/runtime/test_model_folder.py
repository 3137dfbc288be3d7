"""What is read of a model folder before any library sees it, where a whole damaged folder does not reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.errors import LayoutError, ModelDamagedError
from runtime.model_folder import loading, read_object, require_plain_files, stated_in


def test_a_file_too_large_for_a_configuration_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)  # holes only: it takes no room on the disk
    with pytest.raises(ValueError, match=r"config\.json is no file of JSON"):
        read_object(path)


@pytest.mark.parametrize("name", ["/etc/other.mxq", "../other.mxq", "a/../../other.mxq"])
@pytest.mark.parametrize("nested", [1, 3])
def test_a_submodels_compiled_model_may_not_be_elsewhere_either(
    tmp_path: Path, name: str, nested: int
) -> None:
    config: dict[str, Any] = {"mxq_path": name}
    for _ in range(nested):
        config = {"inner_config": config, "mxq_path": "own.mxq"}
    with pytest.raises(ModelDamagedError, match=r"other\.mxq, which is not in the folder"):
        require_plain_files(tmp_path, config)


def test_an_error_that_has_words_already_keeps_them(tmp_path: Path) -> None:
    said = LayoutError("layout.clusters", "There is no cluster 0:9.", remedy="Choose another.")
    with pytest.raises(LayoutError) as caught, loading(tmp_path, "its tokenizer files"):
        raise said
    assert caught.value is said


def test_a_lack_of_memory_is_not_the_folders_fault(tmp_path: Path) -> None:
    with pytest.raises(MemoryError), loading(tmp_path, "its tokenizer files"):
        raise MemoryError


def test_a_link_to_nothing_is_left_to_who_needs_the_file(tmp_path: Path) -> None:
    (tmp_path / "README.md").symlink_to(tmp_path / "gone")
    require_plain_files(tmp_path, {})


def test_a_fault_that_is_not_about_values_is_not_the_folders_either(tmp_path: Path) -> None:
    with pytest.raises(ImportError), stated_in(tmp_path):
        raise ImportError("no such package")
