"""Commands and events of a conversation; the chat lane answers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from runtime.sampling_params import SamplingRequest

Role = Literal["system", "user", "assistant"]


Priority = Literal["interactive", "background"]
StopReason = Literal["end", "stop_string", "length", "context", "cancelled"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of a turn, exactly as written."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture of a turn, by path; decoded in the runtime."""

    path: str


Part: TypeAlias = TextPart | ImagePart


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The turn's text parts joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer. `cached` prompt tokens were reused, `prompt - cached` computed."""

    prompt: int
    cached: int
    completion: int

    @property
    def new(self) -> int:
        """Prompt tokens that had to be computed."""
        return self.prompt - self.cached


@dataclass(frozen=True, slots=True)
class Timings:
    """Where one answer's time went, in seconds; `first_token` counts from the submit."""

    queue: float
    template: float
    tokenise: float
    prefill: float
    decode: float
    first_token: float
    total: float

    def tokens_per_second(self, completion: int) -> float | None:
        """Decode rate: the first token belongs to the prefill. None below two tokens."""
        return (completion - 1) / self.decode if completion > 1 and self.decode > 0 else None


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer the last turn. The turns hold the whole conversation, system prompt included."""

    request_id: str
    conversation_id: str
    model_id: str
    turns: tuple[Turn, ...]
    sampling: SamplingRequest
    submitted_ns: int
    priority: Priority = "interactive"


@dataclass(frozen=True, slots=True)
class ForgetConversation:
    """Drop the conversation's KV cache."""

    conversation_id: str


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits; `position` 0 runs next."""

    request_id: str
    position: int


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """Prompt tokens: reused, computed so far (reused included), all."""

    request_id: str
    cached: int
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the answer."""

    request_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete."""

    request_id: str
    reason: StopReason
    usage: Usage
    timings: Timings
    device: str
