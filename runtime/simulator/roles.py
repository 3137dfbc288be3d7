"""Which executor runs which role. A new family adds its class here and a builder in `build.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from runtime.errors import ModelDamagedError, ModelUnsupportedError
from runtime.simulator.artifact import Header
from runtime.simulator.aya_vision import AyaVision
from runtime.simulator.bert import BertEncoder
from runtime.simulator.blip import BlipDecoder, BlipVision
from runtime.simulator.conformer import ConformerEncoder
from runtime.simulator.decoder import Decoder
from runtime.simulator.deepstack_decoder import DeepstackDecoder
from runtime.simulator.deepstack_vision import DeepstackVision
from runtime.simulator.eagle3 import Eagle3Base, Eagle3Draft, Eagle3Projector
from runtime.simulator.executor import Executor
from runtime.simulator.hybrid_decoder import Cohere2Decoder, Exaone4Decoder
from runtime.simulator.lfm2 import Lfm2Decoder
from runtime.simulator.moe import MoeExpert, MoeHead, MoeShared
from runtime.simulator.mrope_decoder import MropeDecoder
from runtime.simulator.qwen3_asr import Qwen3AsrEncoder
from runtime.simulator.vision import Vision
from runtime.simulator.weights import Weights
from runtime.simulator.whisper import WhisperDecoder, WhisperEncoder

ROLES: dict[str, Callable[[Header, Weights], Executor]] = {
    "decoder": Decoder,
    "exaone4 decoder": Exaone4Decoder,
    "cohere2 decoder": Cohere2Decoder,
    "aya vision": AyaVision,
    "bert": BertEncoder,
    "blip vision": BlipVision,
    "blip decoder": BlipDecoder,
    "mrope decoder": MropeDecoder,
    "bundled static decoder": partial(DeepstackDecoder, split=False, dynamic=False),
    "bundled dynamic decoder": partial(DeepstackDecoder, split=False, dynamic=True),
    "split static decoder": partial(DeepstackDecoder, split=True, dynamic=False),
    "split dynamic decoder": partial(DeepstackDecoder, split=True, dynamic=True),
    "vision": Vision,
    "deepstack vision": DeepstackVision,
    "moe shared": MoeShared,
    "moe expert": MoeExpert,
    "moe head": MoeHead,
    "eagle3 base": Eagle3Base,
    "eagle3 draft": Eagle3Draft,
    "eagle3 fc": Eagle3Projector,
    "lfm2-audio encoder": ConformerEncoder,
    "lfm2 decoder": Lfm2Decoder,
    "qwen3-asr encoder": Qwen3AsrEncoder,
    "whisper encoder": WhisperEncoder,
    "whisper decoder": WhisperDecoder,
}


def make_executor(path: Path, header: Header) -> Executor:
    """The network of an artifact on its mapped weights.

    Raises ModelUnsupportedError for a role of a newer program, ModelDamagedError when header and weights do
    not make the network the role needs.
    """
    factory = ROLES.get(header.role)
    if factory is None:
        raise ModelUnsupportedError(
            f"The model {path.name} has the role “{header.role}”, which this program does not know.",
            remedy="Update the program, or build the model again with this version.",
            unharmed="Other models and your conversations are unharmed.",
        )
    try:
        return factory(header, Weights(path, header))
    except (TypeError, ValueError, KeyError) as error:
        raise ModelDamagedError(
            f"The file {path.name} is damaged: its architecture does not make a {header.role} ({error}).",
            remedy="Fetch or build the model again.",
            unharmed="Other models and your conversations are unharmed.",
            detail=str(path),
        ) from error
