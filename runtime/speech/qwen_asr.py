"""The names that the vendor's Qwen3-ASR classes take from the package `qwen-asr`.

Every release of that package demands one release of transformers 4 and cannot be imported beside transformers
5 (docs/decisions.md). The vendor's classes replace what they derive from it, all but a few methods that only
`generate` calls, and this program makes their calls itself. What is left are names, and these are given here
by the installed transformers, while the vendor's modules are imported and to nobody else.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

_PACKAGE = "qwen_asr.core.transformers_backend"
_MODULES = (_PACKAGE, f"{_PACKAGE}.configuration_qwen3_asr", f"{_PACKAGE}.modeling_qwen3_asr")


@contextmanager
def qwen_asr_names() -> Iterator[None]:
    """The block may import modules that need names of `qwen-asr`, whether or not it can be used here.

    Nothing is changed where the package works, or where the installed transformers has no Qwen3-ASR either.
    """
    names = _names()
    if names is None:
        yield
        return
    hidden = {name: sys.modules[name] for name in _MODULES if name in sys.modules}
    sys.modules.update(dict.fromkeys(_MODULES, names))
    try:
        yield
    finally:
        for name in _MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


@cache
def _names() -> ModuleType | None:
    try:
        importlib.import_module(_PACKAGE)
    except Exception:  # noqa: BLE001 - absent, or broken by another transformers in a way of its own
        try:
            return _made_of_transformers()
        except ImportError:
            return None
    return None


def _made_of_transformers() -> ModuleType:
    from transformers.models.qwen3 import Qwen3Config
    from transformers.models.qwen3_asr import Qwen3ASRProcessor

    module = ModuleType(_PACKAGE, __doc__)
    vars(module).update(_configurations(), **_networks())
    # The text network is a Qwen3 whose three axes of positions always agree.
    vars(module).update(Qwen3ASRTextConfig=Qwen3Config, Qwen3ASRProcessor=Qwen3ASRProcessor)
    return module


def _configurations() -> dict[str, Any]:
    """What holds the values of a config.json; the vendor's classes say which."""
    from transformers import PretrainedConfig

    class Qwen3ASRAudioEncoderConfig(PretrainedConfig):  # type: ignore[misc]  # the base has no types
        model_type = "qwen3_asr_audio_encoder"

    class Qwen3ASRThinkerConfig(PretrainedConfig):  # type: ignore[misc]
        model_type = "qwen3_asr_thinker"
        pad_token_id: int | None = None

    class Qwen3ASRConfig(PretrainedConfig):  # type: ignore[misc]
        model_type = "qwen3_asr"

    return {
        kind.__name__: kind for kind in (Qwen3ASRAudioEncoderConfig, Qwen3ASRThinkerConfig, Qwen3ASRConfig)
    }


def _networks() -> dict[str, Any]:
    from dataclasses import dataclass

    from transformers import GenerationMixin, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutputWithPast

    class Qwen3ASRPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
        """Says nothing of its own: the vendor's subclass does."""

    class Qwen3ASRThinkerForConditionalGeneration(
        Qwen3ASRPreTrainedModel,
        GenerationMixin,  # type: ignore[misc]
    ):
        """The encoder and the text network; the vendor's subclass makes both."""

    class Qwen3ASRForConditionalGeneration(Qwen3ASRPreTrainedModel, GenerationMixin):  # type: ignore[misc]
        """The whole; the vendor's subclass makes it."""

    @dataclass
    class Qwen3ASRThinkerCausalLMOutputWithPast(CausalLMOutputWithPast):  # type: ignore[misc]
        """One answer of the text network."""

        rope_deltas: Any = None

    made = (
        Qwen3ASRPreTrainedModel,
        Qwen3ASRThinkerForConditionalGeneration,
        Qwen3ASRForConditionalGeneration,
        Qwen3ASRThinkerCausalLMOutputWithPast,
    )
    return {kind.__name__: kind for kind in made}
