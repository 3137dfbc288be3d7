"""What the speech models on the NPU have in common, beside the steps of `runtime/families/opening.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.errors import BadLogitsError
from runtime.families.model_info import title_of
from runtime.families.opening import Opening
from runtime.layout.outcome import effective_from_model
from runtime.messages import LoadSpeech, ModelInfo
from runtime.sampling.sampler import bad_logits


def speech_info(
    command: LoadSpeech, opening: Opening, model: Any, family: str, seconds: int, languages: Sequence[str]
) -> ModelInfo:
    """What the UI may know of a loaded model that hears up to `seconds` at once."""
    folder = Path(command.folder)
    return ModelInfo(
        model_id=command.model_id,
        title=title_of(folder),
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


def bad_numbers(title: str, detail: str) -> BadLogitsError:
    """The speech model of that title returned numbers that say nothing."""
    return bad_logits(
        detail, title, again="Transcribe it again", unharmed="The recording and the lines up to here are"
    )


def refuse_bad_logits(title: str) -> Any:
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
            raise bad_numbers(title, f"token {input_ids.shape[1]}: highest logits {highest.tolist()}")

    return LogitsProcessorList([Refuse()])
