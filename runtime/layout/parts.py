"""The networks that a model of each family consists of, as far as each can be placed by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One network, or several of a kind, with a place on the device of its own."""

    name: str
    """As transformers-mblt prefixes its options: "encoder" for `encoder_core_mode`."""
    title: str
    conversations: bool = True
    """Whether it holds conversations, so that a batch size concerns it."""


_HEARING = (Part("encoder", "Encoder"), Part("decoder", "Decoder"))
_SEEING = (Part("vision", "Vision network", conversations=False), Part("text", "Text network"))
_SPECULATIVE = (Part("base", "Base model"), Part("draft", "Draft"), Part("fc", "Feature layer of the draft"))

PARTS: dict[str, tuple[Part, ...]] = {
    "whisper": _HEARING,
    "qwen3_asr": _HEARING,
    "lfm2_audio": (*_HEARING, Part("depthformer", "Depthformer")),
    "qwen2_vl": _SEEING,
    "qwen3_vl": _SEEING,
    "aya_vision": _SEEING,
    "blip": _SEEING,
    "llama-eagle3": _SPECULATIVE,
    "qwen2-eagle3": _SPECULATIVE,
    "qwen3-eagle3": _SPECULATIVE,
    "qwen3_moe": (Part("shared", "Shared layers"), Part("expert", "Experts"), Part("lm_head", "Head")),
}
"""By family, in the order in which data passes through them. A family that is not named has one network."""

_BY_NAME = {part.name: part for parts in PARTS.values() for part in parts}


def parts_of(family: str) -> tuple[Part, ...]:
    """The parts of a family's models; empty when there is one network only."""
    return PARTS.get(family, ())


def part_named(name: str) -> Part:
    """The part of that name; one that no family has is called by its name."""
    return _BY_NAME.get(name) or Part(name, f"“{name}”")


def is_whole_model(names: set[str]) -> bool:
    """Whether these are all the parts of some family, so that nothing is left for a common layout."""
    return any(names == {part.name for part in parts} for parts in PARTS.values())
