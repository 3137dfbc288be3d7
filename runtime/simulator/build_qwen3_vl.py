"""Qwen3-VL checkpoints as a pair of artifacts: the vision network and the text decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError, SettingError
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_decoder import write_decoder
from runtime.simulator.build_vision import write_processor
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.deepstack_vision import DeepstackArchitecture

if TYPE_CHECKING:
    import torch

STATIC_SIDE = 256
"""Pixels along a side of the picture that the vendor's static networks were compiled for."""
_VISION, _TEXT = "model.visual.", "model.language_model."
_BLOCK = {
    "norm1": "norm1",
    "norm2": "norm2",
    "qkv": "attn.qkv",
    "proj": "attn.proj",
    "fc1": "mlp.linear_fc1",
    "fc2": "mlp.linear_fc2",
}
_MERGER = {"norm": "norm", "first": "linear_fc1", "second": "linear_fc2"}


def build_qwen3_vl(checkpoint: Checkpoint, target: Target) -> None:
    """Write both `.mxq` files, their weights, the host's embeddings and the processor's files.

    Without `image_side` both are dynamic: pictures of any size and number, frames, rotary angles given by the
    host. With it they are static: one square picture, and the text decoder counts positions one by one. With
    `split_features` the text decoder takes an input a DeepStack layer, and a static vision network takes
    patches, as newer compilers make them.
    """
    config = checkpoint.load_config()
    options = target.options
    dynamic = options.image_side is None
    vision = _architecture(checkpoint, config.vision_config, target)
    positions = checkpoint.tensor(f"{_VISION}pos_embed.weight")
    text = write_decoder(
        checkpoint,
        config.text_config,
        target,
        role=" ".join(
            ("split" if options.split_features else "bundled", "dynamic" if dynamic else "static", "decoder")
        ),
        embedding=f"{_TEXT}embed_tokens.weight",
        prefix=_TEXT,
        host_tensors={f"{_VISION}pos_embed.weight": positions} if dynamic else None,
    )
    weights = target.write_weights("vision", _vision_tensors(checkpoint, vision, positions))
    target.config |= {
        "model_type": "mobilint-qwen3_vl",
        "architectures": ["MobilintQwen3VLForConditionalGeneration"],
        "dynamic_vision": dynamic,
        "text_npu_prefill_chunk_size": text.prefill_width,
        "text_config": config.text_config.to_dict() | {"model_type": "mobilint-qwen3_vl_text"},
        "vision_config": config.vision_config.to_dict() | {"model_type": "mobilint-qwen3_vl"},
    }
    target.write_mxq("text.mxq", text, prefix="text_")
    header = Header(role="deepstack vision", architecture=asdict(vision), weights=tuple(weights))
    target.write_mxq("vision.mxq", header, prefix="vision_")
    # The vendor's processor makes 224 of every side first and leaves the rest to these limits.
    pixels = None if dynamic else STATIC_SIDE**2
    write_processor(checkpoint, target, "MobilintQwen3VLProcessor", pixels=pixels)


def _architecture(checkpoint: Checkpoint, config: Any, target: Target) -> DeepstackArchitecture:
    options = target.options
    if options.image_side not in (None, STATIC_SIDE):
        raise SettingError(
            "image_side",
            f"A Qwen3-VL model cannot be compiled for pictures of {options.image_side} pixels.",
            remedy=f"Use {STATIC_SIDE}, or leave it out for any size.",
        )
    if options.image_side and options.max_batch_size > 1:
        raise SettingError(
            "max_batch_size",
            "A Qwen3-VL model for pictures of one size answers one conversation at a time.",
            remedy="Leave image_side out, or max_batch_size.",
        )
    grid = (options.image_side or 0) // config.patch_size
    try:
        return DeepstackArchitecture(
            embed=config.hidden_size,
            layers=config.depth,
            heads=config.num_heads,
            intermediate=config.intermediate_size,
            hidden=config.out_hidden_size,
            patch=config.patch_size,
            temporal_patch=config.temporal_patch_size,
            merge=config.spatial_merge_size,
            activation=config.hidden_act,
            grid_height=grid,
            grid_width=grid,
            features=tuple(config.deepstack_visual_indexes),
            rearranged=bool(grid) and not options.split_features,
        )
    except ValueError as error:
        raise ModelUnsupportedError(
            f"The vision network of {checkpoint.folder} cannot be simulated: {error}.",
            remedy="Choose another checkpoint.",
        ) from error


def _vision_tensors(
    checkpoint: Checkpoint, arch: DeepstackArchitecture, positions: torch.Tensor
) -> Iterator[tuple[str, torch.Tensor]]:
    kernel = checkpoint.tensor(f"{_VISION}patch_embed.proj.weight")
    yield "patch_embed", kernel.reshape(len(kernel), -1)
    yield "patch_embed_bias", checkpoint.tensor(f"{_VISION}patch_embed.proj.bias")
    if arch.grid_height:
        yield "positions", _fixed_positions(arch, positions)
    names = {
        f"blocks.{number}.{ours}": f"blocks.{number}.{theirs}"
        for number in range(arch.layers)
        for ours, theirs in _BLOCK.items()
    }
    for ours, theirs in _MERGER.items():
        names[f"merger.{ours}"] = f"merger.{theirs}"
        for number in range(len(arch.features)):
            names[f"feature_mergers.{number}.{ours}"] = f"deepstack_merger_list.{number}.{theirs}"
    for ours, theirs in names.items():
        yield ours, checkpoint.tensor(f"{_VISION}{theirs}.weight")
        yield f"{ours}_bias", checkpoint.tensor(f"{_VISION}{theirs}.bias")


def _fixed_positions(arch: DeepstackArchitecture, table: torch.Tensor) -> torch.Tensor:
    """The learned square table at the compiled grid, in the processor's order of patches."""
    from torch.nn import functional

    side = round(len(table) ** 0.5)
    grid = (arch.grid_height, arch.grid_width)
    square = table.T.reshape(1, arch.embed, side, side)
    placed = functional.interpolate(square, grid, mode="bilinear", align_corners=True)[0]
    merge = arch.merge
    order = (arch.embed, arch.grid_height // merge, merge, arch.grid_width // merge, merge)
    return placed.reshape(order).permute(1, 3, 2, 4, 0).reshape(-1, arch.embed)
