"""What the speech models on the NPU have in common, beside the steps of `runtime/families/opening.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime.errors import BadLogitsError
from runtime.families.opening import Opening
from runtime.layout_outcome import effective_from_model
from runtime.messages import LoadSpeech, ModelInfo
from runtime.speech.engine import model_title


def speech_info(
    command: LoadSpeech, opening: Opening, model: Any, family: str, seconds: int, languages: Sequence[str]
) -> ModelInfo:
    """What the UI may know of a loaded model that hears up to `seconds` at once."""
    folder = Path(command.folder)
    return ModelInfo(
        model_id=command.model_id,
        title=model_title(folder),
        kind="speech",
        family=family,
        folder=str(folder),
        device=opening.active.title,
        simulated=opening.active.simulated,
        layout=effective_from_model(model),
        context_length=seconds,
        prefill_chunk=0,
        load_seconds=opening.seconds,
        languages=tuple(languages),
    )


def stop_when(cancelled: Callable[[], bool]) -> Any:
    """The stopping criteria with which a generation ends once `cancelled` says so."""
    from transformers import StoppingCriteria, StoppingCriteriaList

    class Stop(StoppingCriteria):  # type: ignore[misc]  # the base has no types
        """Looked at after every token: the only place where a generation can be ended."""

        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            """Whether each row is to end."""
            import torch

            del scores, kwargs
            return torch.full((input_ids.shape[0],), cancelled(), dtype=torch.bool)

    return StoppingCriteriaList([Stop()])


def refuse_bad_logits() -> Any:
    """The logits processors with which a generation ends where no token can be drawn, with BadLogitsError.

    transformers takes the first token of the vocabulary otherwise, and words come of it that nobody said.
    """
    from transformers import LogitsProcessor, LogitsProcessorList

    class Refuse(LogitsProcessor):  # type: ignore[misc]  # the base has no types
        """Looks at the scores of every token."""

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            """The scores, shape (rows, vocab), as they are."""
            highest = scores.amax(-1)  # NaN if there is one
            if bool(highest.isfinite().all()):
                return scores
            raise BadLogitsError(
                "The speech model returned numbers that no word can be read from.",
                remedy="Transcribe it again; if it happens again, unload and load the model.",
                unharmed="The recording and your other transcripts are unharmed.",
                detail=f"token {input_ids.shape[1]}: highest logits {highest.tolist()}",
            )

    return LogitsProcessorList([Refuse()])
