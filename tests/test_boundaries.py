"""The boundary between window and runtime, read from the source: who may import whom, and when."""

from __future__ import annotations

import ast
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {
    "torch",
    "torchvision",
    "torchcodec",
    "transformers",
    "transformers_mblt",
    "mblt_npu",
    "mblt_model_zoo",
    "qbruntime",
    "ctranslate2",
    "faster_whisper",
    "onnxruntime",
    "gguf",
    "safetensors",
    "av",
    "soxr",
    "sounddevice",
}
QT_IN_RUNTIME = {"runtime.lanes.thread"}
WORKERS = {
    # What holds models, devices or files: only a lane may touch these.
    "runtime.answering",
    "runtime.sampling.sampler",
    "runtime.kv",
    "runtime.families",
    "runtime.simulator",
    "runtime.speech.service",
    "runtime.speech.faster_whisper",
    "runtime.speech.npu_whisper",
    "runtime.speech.npu_lfm2_audio",
    "runtime.speech.npu_qwen3_asr",
    "runtime.tracing.service",
    "runtime.catalog.service",
    "runtime.catalog.install",
    "runtime.catalog.download",
    "runtime.audio.capture",
    "runtime.audio.microphone_service",
    "runtime.audio.playback_service",
}
FOR_THE_WINDOW = {
    # All that the window imports of the runtime, as docs/architecture.md lists it.
    "runtime.lanes.thread",
    "runtime.messages",
    "runtime.errors",
    "runtime.config",
    "runtime.garbage",
    "runtime.settings.table",
    "runtime.settings.types",
    "runtime.sampling.params",
    "runtime.layout.request",
    "runtime.layout.check",
    "runtime.layout.outcome",
    "runtime.layout.parts",
    "runtime.layout.rules",
    "runtime.layout.from_settings",
    "runtime.audio.times",
    "runtime.audio.subtitles",
    "runtime.plain_files",
    "runtime.device.doctor_system",
    "runtime.tracing.model",
    "runtime.tracing.view",
    "runtime.tracing.levels",
    "runtime.tracing.analyse",
    "runtime.tracing.recorder",
    "runtime.tracing.serve",
    "runtime.images",
    "runtime.storage",
    "runtime.device.active",
    "runtime.device.readings",
}
SESSION = "mblt_desktop.session"
"""The command line's runtime without a window."""
COMMANDS = "mblt_desktop.commands."
"""The command line may wait and has no window to keep smooth."""


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of both packages, parsed."""
    found = {}
    for package in ("mblt_desktop", "runtime"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            with tokenize.open(path) as file:
                found[name] = ast.parse(file.read(), str(path))
    return found


def names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that an import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.level == 0, "relative import"
    return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]


def imports(tree: ast.AST, *, at_import_time: bool) -> Iterator[str]:
    """Imported modules; optionally only those loaded together with the module itself."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from names(node)
        elif at_import_time and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif at_import_time and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from (name for child in node.orelse for name in imports(child, at_import_time=True))
        else:
            yield from imports(node, at_import_time=at_import_time)


def under(name: str, parents: set[str]) -> bool:
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)


def test_there_is_something_to_check():
    assert {
        "mblt_desktop.app",
        "mblt_desktop.chat.pane",
        "runtime.answering.engine",
        "runtime.lanes.thread",
    } <= set(modules())


@pytest.mark.parametrize("package", ["mblt_desktop", "runtime"])
def test_heavy_packages_are_never_imported_with_a_module(package: str):
    found = [
        (name, imported)
        for name, tree in modules().items()
        if name.startswith(package)
        for imported in imports(tree, at_import_time=True)
        if under(imported, HEAVY)
    ]
    assert found == []


def test_the_runtime_does_not_know_the_window():
    found = [
        (name, imported)
        for name, tree in modules().items()
        if name.startswith("runtime")
        for imported in imports(tree, at_import_time=False)
        if under(imported, {"mblt_desktop"})
    ]
    assert found == []


def test_qt_is_in_one_module_of_the_runtime():
    found = {
        name
        for name, tree in modules().items()
        if name.startswith("runtime")
        for imported in imports(tree, at_import_time=False)
        if under(imported, {"PySide6", "shiboken6"})
    }
    assert found == QT_IN_RUNTIME


def test_the_window_never_touches_models_devices_or_engines():
    found = [
        (name, imported)
        for name, tree in modules().items()
        if name.startswith("mblt_desktop") and not name.startswith(COMMANDS)
        for imported in imports(tree, at_import_time=False)
        if under(imported, HEAVY | WORKERS)
    ]
    assert found == []


def test_the_window_imports_of_the_runtime_what_is_listed_and_nothing_is_listed_for_nothing():
    imported = {
        found
        for name, tree in modules().items()
        if name.startswith("mblt_desktop") and not name.startswith(COMMANDS) and name != SESSION
        for found in imports(tree, at_import_time=False)
        if found.startswith("runtime.") and found in modules()
    }
    assert imported == FOR_THE_WINDOW


def test_what_the_window_imports_brings_no_worker_with_it():
    """Also through others: everything that is loaded with the window's modules, followed to the end."""
    tree = modules()
    todo = [
        name
        for name in tree
        if name.startswith("mblt_desktop") and not name.startswith(COMMANDS) and name != SESSION
    ]
    loaded: set[str] = set()
    while todo:
        name = todo.pop()
        if name in loaded or name not in tree:
            continue
        loaded.add(name)
        todo += imports(tree[name], at_import_time=True)
    assert sorted(name for name in loaded if under(name, WORKERS)) == []


@pytest.mark.parametrize(
    "name", ["answering.scheduler", "kv.prefix_cache", "kv.costs", "kv.store", "kv.reuse", "kv.cache"]
)
def test_what_decides_about_requests_and_kv_is_pure_python(name: str):
    """A process of its own has imported nothing before."""
    code = f"import runtime.{name}, sys; print(sorted({{'torch', 'numpy', 'PySide6'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_nothing_unpickles_or_runs_code_of_a_model():
    banned = ("pickle", "marshal", "shelve", "dill")
    found = []
    for name, tree in modules().items():
        found += [(name, used) for used in imports(tree, at_import_time=False) if under(used, set(banned))]
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
                assert isinstance(node.value, ast.Constant), name
                if node.value.value is not False:
                    found.append((name, "trust_remote_code"))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("eval", "exec", "torch.load"):
                found.append((name, ast.unparse(node.func)))
    assert found == []


def test_the_window_neither_re_enters_its_event_loop_nor_kills_threads():
    """Nor leaves an object of Python's on the clipboard: freed after Python has gone, it crashes."""
    found = [
        (name, node.attr)
        for name, tree in modules().items()
        if name.startswith("mblt_desktop") or name in QT_IN_RUNTIME
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("processEvents", "terminate", "setMimeData")
    ]
    assert found == []
