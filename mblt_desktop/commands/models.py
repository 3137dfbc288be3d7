"""`mblt-desktop models`: list, fetch, build, check and remove models from the command line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from mblt_desktop.commands.progress_bar import ProgressBar
from mblt_desktop.paths import default_paths
from mblt_desktop.settings import file
from runtime.catalog.adopt import adopt
from runtime.catalog.entries import DEMO_ENTRIES, Entry, HubSource
from runtime.catalog.install import BuildOptions, build, install
from runtime.catalog.job import Job
from runtime.catalog.library import Library
from runtime.catalog.manifest import Manifest
from runtime.config import RuntimeConfig
from runtime.errors import SettingError
from runtime.layout.from_settings import with_parts
from runtime.messages import CatalogRow
from runtime.settings.table import SETTINGS

_DEVICE = {"simulated": "simulated NPU", "npu": "NPU", "cpu": "CPU"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "models",
        help="list, fetch, build, verify and remove models",
        description="Manage the models on this machine.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _action(actions, "list", _list, "show what is installed and what can be installed")
    fetch = _action(actions, "fetch", _fetch, "download, check and prepare models")
    fetch.add_argument(
        "models", nargs="*", metavar="MODEL", help="ids from `list`, or mobilint/NAME of the hub"
    )
    fetch.add_argument("--demo", action="store_true", help="all demo models, as a first start does")
    add = _action(actions, "add", _add, "add a model folder of your own")
    add.add_argument(
        "folders", nargs="+", metavar="FOLDER", help="a compiled model, or a checkpoint to compile"
    )
    _add_build(actions)
    verify = _action(actions, "verify", _verify, "compare every file with what was installed")
    verify.add_argument("models", nargs="*", metavar="MODEL", help="ids; without any, all installed models")
    remove = _action(actions, "remove", _remove, "delete models from the disk")
    remove.add_argument("models", nargs="+", metavar="MODEL", help="ids from `list`")


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    words: str,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=words, description=words.capitalize() + "."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)
    return parser


def _add_build(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    words = "compile a Hugging Face checkpoint for the simulated NPU"
    parser = _action(actions, "build-simulated", _build, words)
    parser.add_argument(
        "checkpoint", type=Path, metavar="HF_DIR", help="folder with config.json and safetensors"
    )
    parser.add_argument("target", metavar="OUT", help="a name (installs it) or the path of a new folder")
    parser.add_argument("--core-modes", help="comma-separated: single,multi,global4,global8")
    parser.add_argument("--batch-size", type=int, default=1, metavar="K", help="conversations side by side")
    parser.add_argument("--context-length", type=int, metavar="TOKENS", help="default: the checkpoint's own")
    parser.add_argument("--prefill-chunk", type=int, default=128, metavar="TOKENS", help="default: 128")
    parser.add_argument(
        "--image-side", type=int, metavar="PIXELS", help="compile an image model for one square picture"
    )
    parser.add_argument(
        "--split-features", action="store_true", help="the newer of the two layouts of Qwen3-VL"
    )
    parser.add_argument(
        "--draft", type=Path, metavar="HF_DIR", help="folder of an EAGLE-3 draft, to answer by speculation"
    )


def _library(extra: tuple[Entry, ...] = ()) -> Library:
    return Library(RuntimeConfig(default_paths().data), DEMO_ENTRIES + extra)


def _list(args: argparse.Namespace) -> int:
    rows = _library().rows()
    if args.json:
        _print_json([dataclasses.asdict(row) for row in rows])
        return 0
    for row in rows:
        _print(f"{row.model_id:<30} {row.state:<10} {row.kind:<7} {_DEVICE[row.device]:<14} {_size(row)}")
    return 0


def _size(row: CatalogRow) -> str:
    if row.state == "installed":
        return f"{row.disk_bytes / 1e6:.0f} MB on disk"
    return f"{row.download_bytes / 1e6:.0f} MB to download" if row.download_bytes else row.note


def _fetch(args: argparse.Namespace) -> int:
    names = [entry.model_id for entry in DEMO_ENTRIES] if args.demo else list(args.models)
    if not names:
        raise SettingError("models", "No model was named.", remedy="Name one, or give --demo.")
    hub = tuple(_hub_entry(name) for name in names if "/" in name)
    library = _library(hub)
    return _each(args, names, lambda name, job: install(library, name.rpartition("/")[2], job), "installed")


def _hub_entry(repository: str) -> Entry:
    name = repository.rpartition("/")[2]
    return Entry(
        model_id=name,
        title=name.replace("-", " "),
        kind="chat",
        family="",
        device="npu",
        licence="see its page",
        source=HubSource(repository),
        preparation="none",
        disk_bytes=0,
    )


def _build(args: argparse.Namespace) -> int:
    options = BuildOptions(
        core_modes=tuple(args.core_modes.split(",")) if args.core_modes else None,
        max_batch_size=args.batch_size,
        context_length=args.context_length,
        prefill_chunk=args.prefill_chunk,
        image_side=args.image_side,
        split_features=args.split_features,
        draft_dir=args.draft,
    )
    library = _library()
    return _each(
        args,
        [args.target],
        lambda target, job: build(library, args.checkpoint, target, options, job),
        "built",
    )


def _add(args: argparse.Namespace) -> int:
    library = _library()
    return _each(args, args.folders, lambda folder, job: adopt(library, Path(folder), job), "added")


def _verify(args: argparse.Namespace) -> int:
    library = _library()
    names = args.models or [row.model_id for row in library.rows() if row.state == "installed"]
    return _each(args, names, library.verify, "unharmed")


def _remove(args: argparse.Namespace) -> int:
    library = _library()
    freed = {name: library.remove(name) for name in args.models}
    _forget_parts(args.models)
    if args.json:
        _print_json([{"model_id": name, "state": "removed", "freed_bytes": n} for name, n in freed.items()])
    else:
        for name, count in freed.items():
            _print(f"{name}: removed, {count / 1e6:.0f} MB freed")
    return 0


def _forget_parts(models: list[str]) -> None:
    """Where the parts of removed models ran is of no use any more."""
    path = default_paths().settings_file
    stored, _ = file.read(path)
    try:
        items = SETTINGS["layout.parts"].check(stored.get("layout.parts", ()))
    except SettingError:
        return  # said, and left as it is, by whatever reads the settings
    kept = cast("tuple[str, ...]", items)
    for model_id in models:
        kept = with_parts(kept, model_id, ())
    if kept != items:
        file.write(path, stored | {"layout.parts": list(kept)})


def _each(args: argparse.Namespace, names: list[str], work: Callable[[str, Job], Manifest], word: str) -> int:
    """Do one job after the other with a progress bar; the first failure ends the command."""
    results: list[dict[str, Any]] = []
    for name in names:
        with ProgressBar(name) as bar:
            manifest = work(name, Job(bar.show))
        results.append(
            {
                "model_id": manifest.about.model_id,
                "state": word,
                "bytes": manifest.bytes,
                "files": len(manifest.files),
            }
        )
        if not args.json:
            _print(f"{name}: {word}, {manifest.bytes / 1e6:.0f} MB in {len(manifest.files)} files")
    if args.json:
        _print_json(results)
    return 0


def _print_json(value: object) -> None:
    _print(json.dumps(value, indent=2, ensure_ascii=False))


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
