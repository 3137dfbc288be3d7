"""Make a simulated artifact from a plain Hugging Face checkpoint.

The result is a folder that `transformers-mblt`'s Auto classes load as they load a compiled one: `config.json`
with a `mobilint-…` model type, the host's own weights, tokenizer and processor files, and the `.mxq` files,
which execute the checkpoint's float32 weights on the simulated device.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError, SettingError, StorageError, storage_error
from runtime.simulator import artifact
from runtime.simulator.artifact import CORE_MODES, Header, WeightFile
from runtime.simulator.checkpoint import Checkpoint, Progress, write_file, write_weights
from runtime.simulator.device import BOARDS, Board

if TYPE_CHECKING:
    import torch

DEFAULT_CONTEXT = 4096
"""Positions a KV slot holds unless asked otherwise: what the checkpoint allows, but at most this."""

_COPIED = (
    "generation_config.json",
    "tokenizer*",
    "vocab.*",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "normalizer.json",
    "chat_template*",
    "*processor_config.json",
    "LICENSE*",
    "README.md",
)
_DROPPED = ("auto_map", "torch_dtype", "_name_or_path", "transformers_version")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What the artifact is "compiled" for."""

    core_modes: tuple[str, ...]
    max_batch_size: int
    context_length: int | None
    prefill_chunk: int
    board: Board
    image_side: int | None = None
    """Side in pixels of the one picture an image model is compiled for; None takes any number and size."""
    split_features: bool = False
    """Give a text model an input a layer for the features of a picture, instead of one for all."""

    def context(self, longest: int) -> int:
        """Positions of a KV slot for a network that goes up to `longest`."""
        return min(longest, self.context_length or DEFAULT_CONTEXT)


@dataclass(slots=True)
class Target:
    """The folder being built, for a family's builder to fill."""

    folder: Path
    options: BuildOptions
    progress: Progress
    config: dict[str, Any] = field(default_factory=dict)
    """Becomes config.json: the checkpoint's, to be completed by the builder."""

    def write_weights(self, stem: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> list[WeightFile]:
        """Write tensors for one or several `.mxq` files; the host reads none of them."""
        return write_weights(self.folder, stem, tensors)

    def write_host_weights(self, tensors: dict[str, torch.Tensor]) -> WeightFile:
        """Write what the vendor's classes load themselves; a `.mxq` may name the file too."""
        return write_file(self.folder / "model.safetensors", tensors)

    def write_header(self, name: str, header: Header, modes: tuple[str, ...]) -> None:
        """Write a `.mxq` for these core modes and the board."""
        # Auto is kinder than the vendor's rule, so that one demo model can show every layout.
        header = replace(
            header, core_modes=modes, auto_core_mode=modes[0], devices=(self.options.board.name,)
        )
        artifact.write(self.folder / name, header)

    def write_mxq(self, name: str, header: Header, *, prefix: str = "") -> None:
        """Write a `.mxq` and the configuration that makes the vendor's classes load it."""
        options = self.options
        self.write_header(name, header, options.core_modes)
        self.config |= {
            f"{prefix}mxq_path": name,
            f"{prefix}core_mode": "auto",
            f"{prefix}target_clusters": [f"0:{cluster}" for cluster in range(options.board.clusters)],
            f"{prefix}max_batch_size": header.batch,
            f"{prefix}target_device": options.board.name,
            f"{prefix}dev_no": 0,
        }


Builder = Callable[[Checkpoint, Target], None]


def builders() -> dict[str, Builder]:
    """The builder of each checkpoint family."""
    from runtime.simulator.build_aya import build_aya_vision
    from runtime.simulator.build_bert import build_bert
    from runtime.simulator.build_blip import build_blip
    from runtime.simulator.build_decoder import build_decoder
    from runtime.simulator.build_lfm2_audio import build_lfm2_audio
    from runtime.simulator.build_qwen3_asr import build_qwen3_asr
    from runtime.simulator.build_qwen3_moe import build_qwen3_moe
    from runtime.simulator.build_qwen3_vl import build_qwen3_vl
    from runtime.simulator.build_text import build_cohere2, build_exaone, build_exaone4
    from runtime.simulator.build_vision import build_qwen2_vl
    from runtime.simulator.build_whisper import build_whisper

    return {
        "llama": build_decoder,
        "qwen2": build_decoder,
        "qwen3": build_decoder,
        "exaone": build_exaone,
        "exaone4": build_exaone4,
        "cohere2": build_cohere2,
        "aya_vision": build_aya_vision,
        "bert": build_bert,
        "blip": build_blip,
        "qwen2_vl": build_qwen2_vl,
        "qwen3_vl": build_qwen3_vl,
        "qwen3_moe": build_qwen3_moe,
        "lfm2_audio": build_lfm2_audio,
        "qwen3_asr": build_qwen3_asr,
        "whisper": build_whisper,
    }


def speculative(draft_dir: Path) -> Builder:
    """The builder of a checkpoint with the EAGLE-3 draft in `draft_dir`; raises like `build_artifact`."""
    from runtime.simulator.build_eagle3 import build_eagle3

    draft = Checkpoint(draft_dir)
    return lambda checkpoint, target: build_eagle3(checkpoint, draft, target)


def _builder(checkpoint: Checkpoint, draft_dir: Path | None) -> Builder:
    if draft_dir is not None:
        return speculative(draft_dir)
    known = builders()
    if checkpoint.model_type not in known:
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} is of the family “{checkpoint.model_type}”, "
            "which cannot be simulated.",
            remedy=f"Choose one of {', '.join(sorted(known))}.",
        )
    return known[checkpoint.model_type]


def build_artifact(
    hf_dir: Path,
    out_dir: Path,
    *,
    core_modes: Sequence[str] = CORE_MODES,
    max_batch_size: int = 1,
    context_length: int | None = None,
    prefill_chunk: int = 128,
    target_device: str = "aries-rb",
    image_side: int | None = None,
    split_features: bool = False,
    draft_dir: Path | None = None,
    progress: Progress | None = None,
) -> None:
    """Read the checkpoint in `hf_dir` and write a simulated artifact folder `out_dir`.

    `core_modes` are compiled in (the first is what `auto` takes), `max_batch_size` is the number of KV slots,
    `context_length` the positions of each, `prefill_chunk` the most positions of one prefill step,
    `image_side` the pixels of the square picture an image model is compiled for (None: any size).
    `split_features` chooses the newer of Qwen3-VL's two layouts. `draft_dir` holds an EAGLE-3 draft for the
    checkpoint and makes a model that answers by speculation. `out_dir` must not exist or be empty; it
    appears only when complete. `progress` gets a stage and a fraction in 0..1.

    Raises SettingError for values out of range, ModelUnsupportedError, ModelIncompleteError or
    ModelDamagedError for the checkpoint, StorageError for the disk.
    """
    checkpoint = Checkpoint(hf_dir)
    options = BuildOptions(
        tuple(core_modes),
        max_batch_size,
        context_length,
        prefill_chunk,
        BOARDS[target_device],
        image_side,
        split_features,
    )
    _check(options)
    builder = _builder(checkpoint, draft_dir)
    report = progress or (lambda stage, fraction: None)
    with _appearing(out_dir) as folder:
        _fill(Target(folder, options, report, config=dict(checkpoint.config)), checkpoint, builder)
    report("Done", 1.0)


@contextmanager
def _appearing(out_dir: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `out_dir` when the block ends well and goes otherwise."""
    if out_dir.exists() and (not out_dir.is_dir() or any(out_dir.iterdir())):
        raise StorageError(
            f"{out_dir} exists already.",
            unharmed="Nothing was changed.",
            remedy="Choose another name, or remove it first.",
        )
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.", dir=out_dir.parent))
    except OSError as error:
        raise storage_error(error, str(out_dir.parent), unharmed="Nothing was changed.") from error
    try:
        yield staging
        os.chmod(staging, 0o755)  # mkdtemp makes it private
        os.replace(staging, out_dir)
    except OSError as error:
        raise storage_error(error, str(out_dir), unharmed="Nothing was changed.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fill(target: Target, checkpoint: Checkpoint, builder: Builder) -> None:
    builder(checkpoint, target)
    for name in _DROPPED:
        target.config.pop(name, None)
    target.config["dtype"] = "float32"
    (target.folder / "config.json").write_text(json.dumps(target.config, indent=2) + "\n", encoding="utf-8")
    for pattern in _COPIED:
        for path in checkpoint.folder.glob(pattern):
            if path.is_file() and not (target.folder / path.name).exists():
                shutil.copyfile(path, target.folder / path.name)


def _check(options: BuildOptions) -> None:
    possible = CORE_MODES if len(options.board.cores) > 1 else ("single",)
    wrong = [mode for mode in options.core_modes if mode not in possible]
    if wrong or not options.core_modes:
        raise SettingError(
            "core_modes",
            f"A model for {options.board.name} cannot be compiled for {', '.join(wrong) or 'no core mode'}.",
            remedy=f"Use some of {', '.join(possible)}.",
        )
    if options.max_batch_size > 1 and options.core_modes[0] != "single":
        raise SettingError(
            "max_batch_size",
            "A batch model runs in single core mode only.",
            remedy="Put single first among the core modes, or use a batch size of 1.",
        )
    for name, value, high in (
        ("max_batch_size", options.max_batch_size, 256),
        ("context_length", 1 if options.context_length is None else options.context_length, 1 << 20),
        ("prefill_chunk", options.prefill_chunk, 1 << 20),
    ):
        if not 1 <= value <= high:
            raise SettingError(name, f"{name} is {value}.", remedy=f"Use a number from 1 to {high}.")
