"""The names of `qwen-asr` are there for the vendor's modules, and for nobody else."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.device.active import activate, vendor_stack
from runtime.speech import qwen_asr
from runtime.speech.qwen_asr import qwen_asr_names

PACKAGE = "qwen_asr.core.transformers_backend"
CLASSES = "from qwen_asr.core.transformers_backend.modeling_qwen3_asr import Qwen3ASRForConditionalGeneration"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    qwen_asr._names.cache_clear()
    yield
    qwen_asr._names.cache_clear()


def install(folder: Path, content: str) -> None:
    """A package of that name, whose classes are in a module of this content."""
    inner = folder / "qwen_asr" / "core" / "transformers_backend"
    inner.mkdir(parents=True)
    for path in (inner.parent.parent, inner.parent):
        (path / "__init__.py").touch()
    (inner / "__init__.py").write_text(f"from {PACKAGE}.modeling_qwen3_asr import *\n")
    (inner / "modeling_qwen3_asr.py").write_text(content)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "qwen_asr"]:
        del sys.modules[name]


def there() -> list[str]:
    return [name for name in sys.modules if name.split(".")[0] == "qwen_asr"]


def test_the_vendors_classes_are_registered_and_the_names_gone() -> None:
    activate("simulated")
    assert "qwen3_asr" in vendor_stack().register()
    assert there() == []
    with pytest.raises(ModuleNotFoundError):
        exec(CLASSES)


def test_names_are_there_inside_only() -> None:
    with qwen_asr_names():
        exec(CLASSES)
    assert there() == []


def test_a_package_that_cannot_be_imported_here_is_no_hindrance(path: Path) -> None:
    install(path, "raise TypeError('check_model_inputs() missing 1 required positional argument')\n")
    with qwen_asr_names():
        exec(CLASSES)
    with pytest.raises(TypeError):
        exec(CLASSES)


def test_a_package_that_works_is_used(path: Path) -> None:
    install(path, "class Qwen3ASRForConditionalGeneration:\n    mine = True\n")
    with qwen_asr_names():
        names: dict[str, type] = {}
        exec(CLASSES, names)
    assert vars(names["Qwen3ASRForConditionalGeneration"])["mine"]
    assert importlib.import_module(PACKAGE)


def test_a_broken_package_keeps_no_other_model_from_loading(path: Path) -> None:
    """The vendor's registration skips what misses a package; any other failure would end it for all."""
    install(path, "raise TypeError('another transformers')\n")
    program = (
        "from runtime.device.active import activate, vendor_stack\n"
        "activate('simulated')\n"
        "known = vendor_stack().register()\n"
        "assert {'llama', 'whisper', 'qwen3_asr'} <= set(known), known\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{path}:{Path.cwd()}", "HOME": str(path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
