"""What one call of a model gives to an answer: logits the host draws a token from, or a round of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from runtime.answering.request import Request
from runtime.answering.scheduler import Chunk, Decode, Prefill
from runtime.errors import SettingError
from runtime.families.base import FamilyModel, Logits, PromptChunk, Round, Speculative
from runtime.sampling.params import NEUTRAL_PENALTIES, NOT_IN_ROUNDS, UsedValue, by_speculation
from runtime.sampling.sampler import Sampling
from runtime.settings.table import SETTINGS
from runtime.tracing.recorder import RECORDER

Drawn: TypeAlias = "Logits | Round"


class Steps(Protocol):
    """The calls of a loaded model, for running requests."""

    def accept(self, sampling: Sampling) -> Sampling:
        """The values as they take effect; raises SettingError for one that the model cannot follow."""

    def prefill(self, chunks: Sequence[Chunk]) -> Sequence[Drawn]:
        """Compute one chunk on each of some copies of the model, in one call; what is drawn counts where a
        prompt ends."""

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
    running = request.require_running()
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
        rows = [(chunk, chunk.request.require_running()) for chunk in chunks]
        return self._model.prefill(
            [PromptChunk(running.prompt, running.cache, chunk.start, chunk.end) for chunk, running in rows]
        )

    def decode(self, requests: Sequence[Request]) -> Sequence[Drawn]:
        caches = [request.require_running().cache for request in requests]
        return self._model.decode([request.output_ids[-1] for request in requests], caches)


class _Rounds(_OneByOne):
    """Several tokens a step, drawn by the model itself."""

    def __init__(self, model: FamilyModel, rounds: Speculative) -> None:
        super().__init__(model)
        self._rounds = rounds

    def accept(self, sampling: Sampling) -> Sampling:
        """What the model states for itself is not refused: the answer says that it was not applied."""
        not_applied = [one for one in sampling.used if _asks_for_more(one, sampling)]
        for one in not_applied:
            if one.source != "model":
                raise self._refused(one.name)
        names = {one.name for one in not_applied}
        used = tuple(
            replace(one, applied=one.name not in names)
            for one in sampling.used
            if one.name in names or one.name not in NOT_IN_ROUNDS
        )
        neutral: dict[str, Any] = {name: NOT_IN_ROUNDS[name] for name in names}
        return replace(sampling, used=used, **neutral)

    def prefill(self, chunks: Sequence[Chunk]) -> Sequence[Drawn]:
        (chunk,) = chunks
        running = chunk.request.require_running()
        if chunk.end < len(running.prompt.token_ids):
            return super().prefill(chunks)
        return [self._rounds.first(running.prompt, running.cache, running.sampling, chunk.request.room)]

    def decode(self, requests: Sequence[Request]) -> Sequence[Drawn]:
        rows = [(request.require_running(), request.room) for request in requests]
        return [self._rounds.round(running.cache, running.sampling, room) for running, room in rows]

    def _refused(self, name: str) -> SettingError:
        setting, title = SETTINGS[f"sampling.{name}"], self._model.info.title
        return SettingError(
            setting.key,
            f"{by_speculation(title)}, but “{setting.title}” is set.",
            remedy=f"Put “{setting.title}” back to its default, in Settings, Sampling & penalties, or in "
            "this chat's own values, or choose a model without a draft.",
            unharmed="The conversation is unharmed.",
        )


def _asks_for_more(one: UsedValue, sampling: Sampling) -> bool:
    """Whether rounds would have to do something for the value that they cannot."""
    if one.name not in NOT_IN_ROUNDS or one.source == "default" or one.name == "apply_penalties":
        return False
    switched_off = one.name in NEUTRAL_PENALTIES and not sampling.apply_penalties
    return not switched_off and one.value != NOT_IN_ROUNDS[one.name]
