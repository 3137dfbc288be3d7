"""What one call of a model gives to an answer: logits the host draws a token from, or a round of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from runtime.errors import SettingError
from runtime.families.base import FamilyModel, Logits, PromptChunk, Round, Speculative
from runtime.request import Request
from runtime.sampling import Sampling
from runtime.sampling_params import NEUTRAL_PENALTIES
from runtime.scheduler import Chunk, Decode, Prefill
from runtime.settings import SETTINGS
from runtime.tracing.recorder import RECORDER

Drawn: TypeAlias = "Logits | Round"

_NOT_IN_ROUNDS: dict[str, object] = {
    "min_p": 0.0,
    **NEUTRAL_PENALTIES,
    "apply_penalties": True,
    "min_tokens": 0,
    "seed": None,
    "report_candidates": False,
}
"""What the vendor's rounds know nothing of, each with the value that asks for nothing."""


class Steps(Protocol):
    """The calls of a loaded model, for running requests."""

    def accept(self, sampling: Sampling) -> Sampling:
        """The values as they take effect; raises SettingError for one that the model cannot follow."""

    def prefill(self, chunks: Sequence[Chunk]) -> Sequence[Drawn]:
        """Compute one chunk on each of some cards, in one call; what is drawn counts where a prompt ends."""

    def decode(self, requests: Sequence[Request]) -> Sequence[Drawn]:
        """Go on with every request, in one call."""


def steps_of(model: FamilyModel) -> Steps:
    """How the model's answers are made."""
    return _Rounds(model, model) if isinstance(model, Speculative) else _OneByOne(model)


def execute(plan: Prefill | Decode, steps: Steps) -> Sequence[Drawn]:
    """One call of the model, as a span of a recording; it carries the request if there is only one."""
    only = plan.requests[0].id if len(plan.requests) == 1 else None
    if isinstance(plan, Decode):
        with RECORDER.span("decode step", request=only, rows=len(plan.requests)):
            return steps.decode(plan.requests)
    tokens = sum(chunk.end - chunk.start for chunk in plan.chunks)
    start = plan.chunks[0].start
    with RECORDER.span("prefill chunk", request=only, rows=len(plan.chunks), start=start, tokens=tokens):
        return steps.prefill(plan.chunks)


def tokens_of(request: Request, drawn: Drawn) -> Sequence[int]:
    """Draw a token, or take what a round settled. Raises BadLogitsError."""
    running = request.running
    assert running is not None
    if isinstance(drawn, Round):
        running.count(drawn)
        return drawn.token_ids
    with RECORDER.span("sample", request=request.id):
        return (running.sampler.draw(drawn),)


class _OneByOne:
    """A token a step, drawn on the host."""

    def __init__(self, model: FamilyModel) -> None:
        self._model = model

    def accept(self, sampling: Sampling) -> Sampling:
        return sampling

    def prefill(self, chunks: Sequence[Chunk]) -> Sequence[Drawn]:
        return self._model.prefill(
            [
                PromptChunk(running.prompt, running.cache, chunk.start, chunk.end)
                for chunk in chunks
                if (running := chunk.request.running) is not None
            ]
        )

    def decode(self, requests: Sequence[Request]) -> Sequence[Drawn]:
        caches = [request.running.cache for request in requests if request.running is not None]
        return self._model.decode([request.output_ids[-1] for request in requests], caches)


class _Rounds(_OneByOne):
    """Several tokens a step, drawn by the model itself."""

    def __init__(self, model: FamilyModel, rounds: Speculative) -> None:
        super().__init__(model)
        self._rounds = rounds

    def accept(self, sampling: Sampling) -> Sampling:
        for one in sampling.used:
            if one.name not in _NOT_IN_ROUNDS or one.source == "default" or one.name == "apply_penalties":
                continue
            if one.name in NEUTRAL_PENALTIES and not sampling.apply_penalties:
                continue
            if one.value != _NOT_IN_ROUNDS[one.name]:
                raise self._refused(one.name)
        return replace(sampling, used=tuple(one for one in sampling.used if one.name not in _NOT_IN_ROUNDS))

    def prefill(self, chunks: Sequence[Chunk]) -> Sequence[Drawn]:
        (chunk,) = chunks
        running = chunk.request.running
        assert running is not None
        if chunk.end < len(running.prompt.token_ids):
            return super().prefill(chunks)
        return [self._rounds.first(running.prompt, running.cache, running.sampling, chunk.request.room)]

    def decode(self, requests: Sequence[Request]) -> Sequence[Drawn]:
        return [
            self._rounds.round(request.running.cache, request.running.sampling, request.room)
            for request in requests
            if request.running is not None
        ]

    def _refused(self, name: str) -> SettingError:
        setting, title = SETTINGS[f"sampling.{name}"], self._model.info.title
        return SettingError(
            setting.key,
            f"{title} answers by speculation, which takes temperature, top-k and top-p only, "
            f"but “{setting.title}” is set.",
            remedy=f"Put “{setting.title}” back to its default, in Settings, Sampling, or in this chat's own "
            "values, or choose a model without a draft.",
            unharmed="The conversation is unharmed.",
        )
