"""LFM2-Audio checkpoints as three artifacts: sound encoder, backbone and depthformer.

A checkpoint is in the form of its authors, whose configuration has no model type: `encoder`, `lfm` and
`depthformer` describe the parts. The heads stay on the host, as the vendor's classes have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError
from runtime.simulator import build_encoder
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_decoder import rotary_frequencies
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.conformer import EPSILON, HALVINGS, ConformerArchitecture
from runtime.simulator.decoder import DecoderArchitecture
from runtime.simulator.lfm2 import Lfm2Architecture, lfm2_fields

if TYPE_CHECKING:
    import torch

    Named = Iterator[tuple[str, torch.Tensor]]

WINDOW = 1000
"""Frames of a spectrogram that the vendor's class gives at once: ten seconds."""
# Of the depthformer, which its configuration does not name.
DEPTH_HEADS, DEPTH_KV_HEADS = 32, 8
_DEPTH_EPSILON, _DEPTH_THETA = 1e-5, 1e6
_CONFORMER_LAYER = {
    "norm1": ["norm_feed_forward1"],
    "up1": ["feed_forward1.linear1"],
    "down1": ["feed_forward1.linear2"],
    "norm_attention": ["norm_self_att"],
    "qkv": ["self_attn.linear_q", "self_attn.linear_k", "self_attn.linear_v"],
    "proj": ["self_attn.linear_out"],
    "norm_convolution": ["norm_conv"],
    "norm2": ["norm_feed_forward2"],
    "up2": ["feed_forward2.linear1"],
    "down2": ["feed_forward2.linear2"],
    "norm_out": ["norm_out"],
}
_ADAPTER = {"norm": ["model.0"], "first": ["model.1"], "second": ["model.3"]}
_MLP = {"gate_up": ("feed_forward.w1", "feed_forward.w3"), "down": ("feed_forward.w2",)}


def build_lfm2_audio(checkpoint: Checkpoint, target: Target) -> None:
    """Write the three `.mxq` files, their weights and what the host does itself."""
    raw = checkpoint.config
    try:
        lfm = _lfm_config(checkpoint)
        encoder = _encoder(checkpoint, lfm)
        codebooks, layers = int(raw["codebooks"]), int(raw["depthformer"]["layers"])
        turns = {name: int(raw[name]) for name in ("interleaved_n_text", "interleaved_n_audio")}
    except (KeyError, TypeError, ValueError) as error:
        raise ModelUnsupportedError(
            f"The configuration {checkpoint.folder / 'config.json'} cannot be used.",
            remedy="Check that the checkpoint is complete.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    host = _host_weights(checkpoint, codebooks)
    target.write_host_weights(host)
    depth = len(host["depthformer.rotation"])
    sizes = {"codebooks": codebooks, "audio_vocab_size": len(host["depthformer.depth_embeddings.0.weight"])}
    backbone = _backbone_header(checkpoint, lfm, target)
    target.config = _config(lfm, encoder, depth, sizes, backbone.prefill_width) | turns
    target.write_mxq("decoder.mxq", backbone, prefix="decoder_")
    head = _depth_header(checkpoint, (depth, layers, codebooks), target)
    target.write_mxq("depthformer.mxq", head, prefix="depthformer_")
    weights = target.write_weights("encoder", _encoder_tensors(checkpoint, encoder))
    header = Header(role="lfm2-audio encoder", architecture=asdict(encoder), weights=tuple(weights))
    target.write_mxq("encoder.mxq", header, prefix="encoder_")


def _config(
    lfm: Any, encoder: ConformerArchitecture, depth: int, sizes: dict[str, int], chunk: int
) -> dict[str, Any]:
    """The artifact's config.json."""
    hidden = {"hidden_size": lfm.hidden_size}
    tokens = {name: getattr(lfm, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    return {
        "model_type": "mobilint-lfm2_audio",
        "architectures": ["MobilintLfm2AudioForConditionalGeneration"],
        **sizes,
        **tokens,
        "audio_eos_code": sizes["audio_vocab_size"] - 1,
        "encoder_config": {"num_mel_bins": encoder.mels, "mel_frames": WINDOW, **hidden},
        "backbone_config": {
            **hidden,
            **sizes,
            **tokens,
            "vocab_size": lfm.vocab_size,
            "num_hidden_layers": lfm.num_hidden_layers,
            "npu_prefill_chunk_size": chunk,
        },
        "depthformer_config": {**hidden, **sizes, "depthformer_dim": depth, "norm_eps": _DEPTH_EPSILON},
    }


def _lfm_config(checkpoint: Checkpoint) -> Any:
    from huggingface_hub.errors import StrictDataclassError
    from transformers import Lfm2Config

    try:
        return Lfm2Config(**checkpoint.config["lfm"])
    except StrictDataclassError as error:
        raise ValueError(str(error)) from error


def _encoder(checkpoint: Checkpoint, lfm: Any) -> ConformerArchitecture:
    raw = checkpoint.config["encoder"]
    ordinary = {
        "subsampling": "dw_striding",
        "subsampling_factor": 2**HALVINGS,
        "causal_downsampling": False,
        "self_attention_model": "rel_pos",
        "conv_norm_type": "batch_norm",
        "reduction": None,
        "conv_context_size": None,
    }
    unusual = [f"{name} {raw[name]!r}" for name, value in ordinary.items() if raw.get(name, value) != value]
    if raw.get("feat_out", -1) not in (-1, raw["d_model"]) or unusual:
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} cannot be simulated: its encoder is not an ordinary "
            f"FastConformer ({', '.join(unusual) or 'another width of its output'}).",
            remedy="Choose another checkpoint.",
        )
    return ConformerArchitecture(
        mels=raw["feat_in"],
        frames=WINDOW,
        channels=raw["subsampling_conv_channels"],
        hidden=raw["d_model"],
        layers=raw["n_layers"],
        heads=raw["n_heads"],
        intermediate=raw["d_model"] * raw["ff_expansion_factor"],
        kernel=raw["conv_kernel_size"],
        scale=float(raw["d_model"] ** 0.5) if raw.get("xscaling") else 1.0,
        wide=lfm.hidden_size,
        out=lfm.hidden_size,
    )


def _host_weights(checkpoint: Checkpoint, codebooks: int) -> dict[str, torch.Tensor]:
    import torch

    host = {
        "backbone.embed_tokens.weight": checkpoint.tensor("lfm.embed_tokens.weight"),
        "backbone.audio_embedding.weight": checkpoint.tensor("audio_embedding.embedding.weight"),
        "depthformer.depth_linear.weight": checkpoint.tensor("depth_linear.weight"),
        "depthformer.depth_linear.bias": checkpoint.tensor("depth_linear.bias"),
    }
    for number in range(codebooks):
        theirs = f"depth_embeddings.{number}."
        embedding = checkpoint.tensor(f"{theirs}embedding.weight")
        head = f"{theirs}to_logits.weight"
        if checkpoint.has(head) and not torch.equal(checkpoint.tensor(head), embedding):
            raise ModelUnsupportedError(
                f"The checkpoint {checkpoint.folder} cannot be simulated: its depthformer has heads of its "
                "own, where the vendor's class takes the embeddings.",
                remedy="Choose another checkpoint.",
            )
        host[f"depthformer.depth_embeddings.{number}.weight"] = embedding
        host[f"depthformer.depth_norms.{number}"] = checkpoint.tensor(f"{theirs}embedding_norm.weight")
    # A compiled depthformer works in turned coordinates; this one in its own.
    depth = len(checkpoint.tensor("depth_linear.bias")) // codebooks
    host["depthformer.rotation"] = torch.eye(depth, dtype=torch.float32)
    return host


def _backbone_header(checkpoint: Checkpoint, lfm: Any, target: Target) -> Header:
    context = target.options.context(lfm.max_position_embeddings)
    attends = [kind == "full_attention" for kind in lfm.layer_types]
    arch = DecoderArchitecture(
        hidden=lfm.hidden_size,
        layers=lfm.num_hidden_layers,
        heads=lfm.num_attention_heads,
        kv_heads=lfm.num_key_value_heads,
        head_dim=lfm.hidden_size // lfm.num_attention_heads,
        intermediate=len(checkpoint.tensor("lfm.layers.0.feed_forward.w1.weight")),
        vocab=lfm.vocab_size,
        norm_epsilon=lfm.norm_eps,
        rope_scale=1.0,
    )
    kinds = Lfm2Architecture(attends=attends, kernel=lfm.conv_L_cache)
    weights = target.write_weights("simulated", _backbone_tensors(checkpoint, lfm, attends))
    return Header(
        role="lfm2 decoder",
        architecture=lfm2_fields(arch, kinds),
        weights=tuple(weights),
        max_cache_size=context,
        prefill_width=min(target.options.prefill_chunk, context),
    )


def _depth_header(checkpoint: Checkpoint, sizes: tuple[int, int, int], target: Target) -> Header:
    depth, layers, codebooks = sizes
    arch = DecoderArchitecture(
        hidden=depth,
        layers=layers,
        heads=DEPTH_HEADS,
        kv_heads=DEPTH_KV_HEADS,
        head_dim=depth // DEPTH_HEADS,
        intermediate=len(checkpoint.tensor("depthformer.layers.0.feed_forward.w1.weight")),
        vocab=1,
        norm_epsilon=_DEPTH_EPSILON,
        rope_scale=1.0,
    )
    kinds = Lfm2Architecture(attends=[True] * layers, kernel=1)
    weights = target.write_weights("depthformer", _depth_tensors(checkpoint, arch))
    return Header(
        role="lfm2 decoder",
        architecture=lfm2_fields(arch, kinds),
        weights=tuple(weights),
        max_cache_size=codebooks,
        prefill_width=1,
    )


def _backbone_tensors(checkpoint: Checkpoint, lfm: Any, attends: list[bool]) -> Named:
    yield "rope.inverse_frequencies", rotary_frequencies(lfm)[0]
    yield "norm", checkpoint.tensor("lfm.embedding_norm.weight")
    for number, attention in enumerate(attends):
        ours, theirs = f"layers.{number}.", f"lfm.layers.{number}."
        yield from _common(checkpoint, ours, theirs)
        if attention:
            part = f"{theirs}self_attn."
            yield ours + "qkv", checkpoint.stacked(f"{part}{name}_proj.weight" for name in "qkv").T
            yield ours + "output", checkpoint.tensor(f"{part}out_proj.weight").T
            for name in ("query", "key"):
                yield f"{ours}{name}_norm", checkpoint.tensor(f"{part}{name[0]}_layernorm.weight")
        else:
            part = f"{theirs}conv."
            yield ours + "kernel", checkpoint.tensor(f"{part}conv.weight")[:, 0].T
            for name, own in (("inward", "in_proj"), ("output", "out_proj")):
                yield ours + name, checkpoint.tensor(f"{part}{own}.weight").T
            for name, own in (("inward", "in_proj"), ("output", "out_proj"), ("kernel", "conv")):
                if checkpoint.has(f"{part}{own}.bias"):
                    yield f"{ours}{name}_bias", checkpoint.tensor(f"{part}{own}.bias")


def _depth_tensors(checkpoint: Checkpoint, arch: DecoderArchitecture) -> Named:
    import torch

    size = arch.head_dim
    # Said, as the data type of new tensors is another thread's while that loads a model.
    steps = torch.arange(0, size, 2, dtype=torch.float32)
    yield "rope.inverse_frequencies", _DEPTH_THETA ** (-steps / size)
    for number in range(arch.layers):
        ours, theirs = f"layers.{number}.", f"depthformer.layers.{number}."
        yield from _common(checkpoint, ours, theirs)
        part = f"{theirs}operator."
        fused = checkpoint.tensor(f"{part}qkv_proj.weight")
        turned = (arch.heads + arch.kv_heads) * size
        yield ours + "qkv", torch.cat([_pair_halves(fused[:turned], size), fused[turned:]]).T
        yield ours + "output", checkpoint.tensor(f"{part}out_proj.weight").T
        for name in ("query", "key"):
            norm = checkpoint.tensor(f"{part}bounded_attention.{name[0]}_layernorm.weight")
            yield f"{ours}{name}_norm", _pair_halves(norm, size)


def _common(checkpoint: Checkpoint, ours: str, theirs: str) -> Named:
    """The norms and the MLP of a layer."""
    for name, own in (("input_norm", "operator_norm"), ("mlp_norm", "ffn_norm")):
        yield ours + name, checkpoint.tensor(f"{theirs}{own}.weight")
    for name, parts in _MLP.items():
        yield ours + name, checkpoint.stacked(f"{theirs}{part}.weight" for part in parts).T


def _pair_halves(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Channels of heads whose pairs are neighbours, sorted so that the halves of a head are the pairs."""
    return tensor.reshape(-1, size // 2, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def _encoder_tensors(checkpoint: Checkpoint, arch: ConformerArchitecture) -> Named:
    front = {"depth.0": ["conv.0"], "out": ["out"]}
    for number in range(1, HALVINGS):
        front |= {f"depth.{number}": [f"conv.{3 * number - 1}"], f"point.{number}": [f"conv.{3 * number}"]}
    yield from build_encoder.renamed(checkpoint, front, "front.", "conformer.pre_encode.")
    yield from build_encoder.renamed(checkpoint, _ADAPTER, "adapter.", "audio_adapter.")
    for number in range(arch.layers):
        ours, theirs = f"layers.{number}.", f"conformer.layers.{number}."
        yield from build_encoder.renamed(checkpoint, _CONFORMER_LAYER, ours, theirs)
        yield ours + "position", checkpoint.tensor(f"{theirs}self_attn.linear_pos.weight")
        for name, own in (("content", "u"), ("position", "v")):
            shared = f"conformer.pos_bias_{own}"
            tensor = shared if checkpoint.has(shared) else f"{theirs}self_attn.pos_bias_{own}"
            yield f"{ours}bias_{name}", checkpoint.tensor(tensor)
        yield from _convolution(checkpoint, ours, f"{theirs}conv.")


def _convolution(checkpoint: Checkpoint, ours: str, theirs: str) -> Named:
    """The two projections of a convolution, and its kernel together with the norm behind it."""
    import torch

    for name, own in (("inward", "pointwise_conv1"), ("outward", "pointwise_conv2")):
        yield ours + name, checkpoint.tensor(f"{theirs}{own}.weight")[..., 0]
        yield f"{ours}{name}_bias", checkpoint.tensor(f"{theirs}{own}.bias")
    norm = {
        name: checkpoint.tensor(f"{theirs}batch_norm.{name}")
        for name in ("weight", "bias", "running_mean", "running_var")
    }
    factor = norm["weight"] / torch.sqrt(norm["running_var"] + EPSILON)
    bias = checkpoint.tensor(f"{theirs}depthwise_conv.bias")
    yield ours + "kernel", checkpoint.tensor(f"{theirs}depthwise_conv.weight") * factor[:, None, None]
    yield ours + "kernel_bias", (bias - norm["running_mean"]) * factor + norm["bias"]
