"""Qwen2-VL checkpoints as a pair of artifacts: the vision network and the text decoder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runtime.errors import SettingError
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_decoder import write_decoder
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.vision import VisionArchitecture

if TYPE_CHECKING:
    import torch

STATIC_SIDE = 224
"""Pixels that the vendor's processor scales every picture to for a static artifact."""
_PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json")
_TENSORS = {
    "norm1": "norm1",
    "norm2": "norm2",
    "qkv": "attn.qkv",
    "proj": "attn.proj",
    "fc1": "mlp.fc1",
    "fc2": "mlp.fc2",
}


def build_qwen2_vl(checkpoint: Checkpoint, target: Target) -> None:
    """Write both `.mxq` files, their weights, the host's embedding and the processor's files.

    Without `image_side` both are dynamic: pictures of any size, rotary angles given by the host, as in the
    reference. With it they are static: one square picture, and the text decoder counts positions one by one.
    Raises SettingError for several conversations at once with pictures of any size: the vendor's classes
    refuse such a pair.
    """
    config = checkpoint.load_config()
    side = target.options.image_side
    if side is None and target.options.max_batch_size > 1:
        raise SettingError(
            "max_batch_size",
            "A Qwen2-VL model for pictures of any size answers one conversation at a time.",
            remedy=f"Give image_side {STATIC_SIDE}, or leave max_batch_size out.",
        )
    vision = vision_architecture(config.vision_config, side)
    text = write_decoder(
        checkpoint,
        config.text_config,
        target,
        role="decoder" if side else "mrope decoder",
        embedding="model.language_model.embed_tokens.weight",
    )
    weights = target.write_weights("vision", _vision_tensors(checkpoint, vision.layers))
    target.config |= {
        "model_type": "mobilint-qwen2_vl",
        "architectures": ["MobilintQwen2VLForConditionalGeneration"],
        "dynamic_vision": side is None,
        "text_npu_prefill_chunk_size": text.prefill_width,
        "text_config": config.text_config.to_dict() | {"model_type": "mobilint-qwen2_vl_text"},
        "vision_config": config.vision_config.to_dict() | {"model_type": "mobilint-qwen2_vl"},
    }
    target.write_mxq("text.mxq", text, prefix="text_")
    header = Header(role="vision", architecture=asdict(vision), weights=tuple(weights))
    target.write_mxq("vision.mxq", header, prefix="vision_")
    write_processor(checkpoint, target, "MobilintQwen2VLProcessor")


def vision_architecture(config: Any, side: int | None) -> VisionArchitecture:
    """The vision network's dimensions; `side` fixes its picture. Raises SettingError for another side."""
    if side not in (None, STATIC_SIDE):
        raise SettingError(
            "image_side",
            f"A Qwen2-VL model cannot be compiled for pictures of {side} pixels.",
            remedy=f"Use {STATIC_SIDE}, or leave it out for any size.",
        )
    grid = (side or 0) // config.patch_size
    return VisionArchitecture(
        embed=config.embed_dim,
        layers=config.depth,
        heads=config.num_heads,
        intermediate=int(config.embed_dim * config.mlp_ratio),
        hidden=config.hidden_size,
        patch=config.patch_size,
        temporal_patch=config.temporal_patch_size,
        merge=config.spatial_merge_size,
        activation=config.hidden_act,
        grid_height=grid,
        grid_width=grid,
    )


def _vision_tensors(checkpoint: Checkpoint, layers: int) -> Iterator[tuple[str, torch.Tensor]]:
    kernel = checkpoint.tensor("visual.patch_embed.proj.weight")
    yield "patch_embed", kernel.reshape(len(kernel), -1)
    names = {
        f"blocks.{n}.{ours}": f"visual.blocks.{n}.{theirs}"
        for n in range(layers)
        for ours, theirs in _TENSORS.items()
    }
    names |= {
        "merger.norm": "visual.merger.ln_q",
        "merger.first": "visual.merger.mlp.0",
        "merger.second": "visual.merger.mlp.2",
    }
    for ours, theirs in names.items():
        yield ours, checkpoint.tensor(f"{theirs}.weight")
        yield f"{ours}_bias", checkpoint.tensor(f"{theirs}.bias")


def write_processor(
    checkpoint: Checkpoint, target: Target, name_of_class: str, *, pixels: int | None = None
) -> None:
    """Name the vendor's processor class, which scales pictures to what the artifact takes.

    `pixels` is how many every picture must have in the end; None leaves the checkpoint's limits.
    """
    for name in _PROCESSOR_FILES:
        path = checkpoint.folder / name
        if not path.is_file():
            continue
        config = json.loads(path.read_text(encoding="utf-8"))
        if "processor_class" in config:
            config["processor_class"] = name_of_class
        images = config.get("image_processor", config if "image_processor_type" in config else None)
        if images is not None and pixels is not None:
            images["size"] = {"shortest_edge": pixels, "longest_edge": pixels}
        text = json.dumps(config, indent=2, ensure_ascii=False)
        (target.folder / name).write_text(text + "\n", encoding="utf-8")
