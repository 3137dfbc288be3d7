"""Commands and events of a conversation; the lane of its model answers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from runtime.config import EngineOptions
from runtime.sampling.params import SamplingRequest, UsedValue

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


MissCause = Literal[
    "new",
    "restarted",
    "reloaded",
    "model",
    "layout",
    "system",
    "template",
    "edited",
    "image",
    "shortened",
    "evicted",
    "unsaved",
    "cheaper",
    "rejected",
    "distrusted",
]
"""Why a prompt was not reused as far as it could have been:
new: there was no turn before; restarted: the last turn was before this program was started;
reloaded, model, layout: the model was loaded again, is another one, or is laid out differently since;
system, edited, image: the system prompt, an earlier turn or its picture is not the one of last time;
template: the same turns came out as other tokens; shortened: earlier turns were left out to fit the context;
evicted: dropped to make room; unsaved: the same, and the disk that should have kept it refused;
cheaper: computing it again was faster than loading it; rejected: what the disk kept did not pass its check;
distrusted: the device returned bad numbers last time."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """How a prompt met what was kept of its conversation."""

    held: int
    """Positions that the conversation's last turn had left, wherever they are now."""
    cause: MissCause | None = None
    """None: everything that could be reused was."""
    first_different: int | None = None
    """The first prompt position whose token is not the one held, if they were compared and differ."""
    token: str = ""
    """That token's text, for the user's eyes only: never for a log or a recording."""
    turn: int | None = None
    """The index of the first turn that differs, the system prompt counted."""
    from_disk: bool = False
    """Whether what was reused came from the disk."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """How often a draft was right in one answer."""

    rounds: int
    drafted: int
    """Tokens that could have been taken over from the draft, all rounds together."""
    accepted: int
    """Those that were."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Where one answer's time went, in seconds; `first_token` counts from the submit.

    `queue` is the time without a slot, also after the answer gave way to another.
    """

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
class MeasurePrompt:
    """How long would the prompt of these turns be? Answered by `PromptMeasured`, at once, or `Failed`."""

    request_id: str
    model_id: str
    turns: tuple[Turn, ...]
    sampling: SamplingRequest


@dataclass(frozen=True, slots=True)
class ForgetConversation:
    """Drop the conversation's KV cache."""

    conversation_id: str


@dataclass(frozen=True, slots=True)
class SetEngineOptions:
    """Go on with other settings; they hold from the next answer or load."""

    options: EngineOptions


# -- events ---------------------------------------------------------------------------------------


WaitCause = Literal["next", "turn", "interactive", "gave_way", "conversation", "loading"]
"""Why a request waits:
next: for nothing, it begins with the next step; turn: for those that came before it;
interactive: it is in the background, and somebody waits for another answer; gave_way: the same, after it
had begun; conversation: another answer of its conversation is being made; loading: for its model."""


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits; `position` 0 runs next."""

    request_id: str
    position: int
    cause: WaitCause = "turn"
    behind: str = ""
    """The request that it waits for, where the cause is about one."""


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
class PromptMeasured:
    """A prompt's length in tokens, and what the context policy would do about it."""

    request_id: str
    tokens: int
    """All turns, nothing left out."""
    limit: int
    """What the model holds, the answer included."""
    left_out: int
    """Earlier turns that would be left out."""
    fits: bool
    """False when it would be refused even so."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could have come next."""

    token_id: int
    text: str
    logits: tuple[float, ...]
    """One for each of the report's stages."""


@dataclass(frozen=True, slots=True)
class DrawnToken:
    """One step of an answer: the token drawn, and the likeliest ones with it among them."""

    index: int
    """Its place in the answer, from 0."""
    token_id: int
    text: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class CandidatesReported:
    """The likeliest tokens of an answer's last steps; comes before `Finished`, when it was asked for."""

    request_id: str
    stages: tuple[str, ...]
    """What the logits of a candidate are: "model", "min_tokens" if the end of the answer had to wait (it is
    minus infinity then), and the name of each penalty applied."""
    tokens: tuple[DrawnToken, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete."""

    request_id: str
    reason: StopReason
    usage: Usage
    timings: Timings
    device: str
    reuse: Reuse | None = None
    sampling: tuple[UsedValue, ...] = ()
    """What the answer was made with; empty when it was never begun."""
    left_out: int = 0
    """Earlier turns that were left out to keep within the context."""
    speculation: Speculation | None = None
    """None for a model without a draft."""
