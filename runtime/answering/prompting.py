"""From a conversation's turns to a prompt that the model's context holds, and how long the answer may be."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runtime.answering.context_policy import Fit, answer_room, fit
from runtime.answering.request import Request, Running
from runtime.answering.stop_strings import StopStrings
from runtime.errors import ContextFullError
from runtime.families.base import FamilyModel, Prompt
from runtime.kv.keeper import Lease
from runtime.messages import ImagePart, ModelInfo, PromptMeasured, StopReason, Turn
from runtime.sampling.params import ContextPolicy
from runtime.sampling.sampler import Sampler, Sampling
from runtime.tracing.recorder import RECORDER

MOST_SHARING = 4
"""A conversation with more pictures has turns left out instead of making all of them smaller and smaller."""

_MORE: dict[ContextPolicy, str] = {
    "stop": "have earlier turns left out",
    "drop_middle": "choose the rolling window, which leaves out the first turns too",
}
"""What else may help where earlier turns stay, by the policy that keeps them."""


def prompt_for(model: FamilyModel, request: Request, sampling: Sampling) -> Fit[Prompt]:
    """Render and tokenise the request's turns; the context policy leaves out what does not fit.

    Raises ContextFullError when it is too long all the same.
    """
    clock, sharing = request.clock, sharing_of(request.command.turns)

    def build(turns: Sequence[Turn]) -> Prompt:
        with RECORDER.span("template", request=request.id):
            text = model.render(turns)
        clock.rendered = clock.rendered or time.perf_counter_ns()
        with RECORDER.span("tokenise", request=request.id):
            return model.tokenise(text, turns, sharing)

    limit = model.info.context_length
    room = answer_room(limit, sampling.max_tokens)
    fitted = fit(request.command.turns, sampling.context_policy, build, limit, room)
    clock.tokenised = time.perf_counter_ns()
    if len(fitted.prompt.token_ids) >= limit:
        raise _too_long(model.info, sampling, fitted)
    return fitted


def sharing_of(turns: Sequence[Turn]) -> int:
    """How many pictures share the room for pictures in a conversation of these turns.

    All of them up to `MOST_SHARING`, but those of one turn in any case. It is counted with nothing left out:
    if the pictures that stay grew into the room of those that go, leaving turns out would make no room, and
    nothing that was computed could be reused.
    """
    counts = [sum(isinstance(part, ImagePart) for part in turn.parts) for turn in turns]
    return max(1, max(counts, default=0), min(sum(counts), MOST_SHARING))


def _too_long(info: ModelInfo, sampling: Sampling, fitted: Fit[Prompt]) -> ContextFullError:
    length, left_out = len(fitted.prompt.token_ids), fitted.left_out
    if left_out:
        said = f"Even without {left_out} earlier turns this conversation is {length} tokens long"
    else:
        said = f"This conversation is {length} tokens long"
    ways = "Shorten the message, or start a new chat."
    if sampling.context_policy in _MORE and sum(turn.role == "user" for turn in fitted.turns) > 1:
        more = _MORE[sampling.context_policy]
        ways = f"Shorten the message, start a new chat, or {more} (Settings, Sampling & penalties)."
    return ContextFullError(
        f"{said}; {info.title} holds {info.context_length}.",
        remedy=ways,
        unharmed="The conversation is unharmed.",
    )


def begun(model: FamilyModel, fitted: Fit[Prompt], lease: Lease, sampling: Sampling) -> Running:
    """An answer at its beginning: its prompt is there, but for what the lease holds of it."""
    prompt, total = fitted.prompt, len(fitted.prompt.token_ids)
    most, reason = budget(sampling, 0, total, model.info.context_length)
    return Running(
        prompt=prompt,
        turns=fitted.turns,
        left_out=fitted.left_out,
        cache=lease.cache,
        reuse=lease.reuse,
        sampling=sampling,
        sampler=Sampler(sampling, prompt.token_ids, model.eos_ids),
        stream=model.token_stream(),
        stops=StopStrings(sampling.stop),
        prompt_tokens=total,
        cached=lease.kept,
        computed=lease.kept,
        budget=most,
        budget_reason=reason,
    )


def read_anew(model: FamilyModel, request: Request) -> None:
    """The KV of a running request is lost: its prompt is read again, with the answer so far behind it."""
    running = request.require_running()
    if request.prompt_done:
        running.prompt = model.continued(running.prompt, request.output_ids[running.prompt.answered :])
    running.lose_kv()


def rolled(model: FamilyModel, request: Request) -> Fit[Prompt] | None:
    """The prompt with which an answer that has filled the context goes on: fewer turns, and itself so far.

    None when the policy wants it to end, or no earlier turn is left.
    """
    running = request.require_running()
    if running.sampling.context_policy != "rolling":
        return None
    sharing = sharing_of(request.command.turns)

    def build(turns: Sequence[Turn]) -> Prompt:
        prompt = model.tokenise(model.render(turns), turns, sharing)
        return model.continued(prompt, request.output_ids)

    limit = model.info.context_length
    fitted = fit(running.turns, "rolling", build, limit, max(1, limit // 4))
    return fitted if fitted.left_out and len(fitted.prompt.token_ids) < limit else None


def budget(sampling: Sampling, produced: int, used: int, limit: int) -> tuple[int, StopReason]:
    """How many tokens an answer may have in all, and why no more.

    It has `produced` so far, and `used` positions of the context's `limit` are taken, its own included.
    """
    room = produced + limit - used
    if sampling.max_tokens is not None and sampling.max_tokens <= room:
        return sampling.max_tokens, "length"
    return room, "context"


def measured(
    model: FamilyModel, request_id: str, turns: Sequence[Turn], sampling: Sampling
) -> PromptMeasured:
    """How long the prompt of these turns is, and what the policy would do about it."""
    sharing = sharing_of(turns)

    def build(kept: Sequence[Turn]) -> Prompt:
        return model.tokenise(model.render(kept), kept, sharing)

    limit = model.info.context_length
    fitted = fit(turns, sampling.context_policy, build, limit, answer_room(limit, sampling.max_tokens))
    fits = len(fitted.prompt.token_ids) < limit
    return PromptMeasured(request_id, fitted.whole, limit, fitted.left_out, fits)
