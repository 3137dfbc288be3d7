"""What the store holds, as values, and how their parts become JSON and come back."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from runtime.errors import ErrorInfo
from runtime.messages import Finished, Reuse, Segment, Speculation, StopReason, Timings, Usage, Word
from runtime.sampling.params import UsedValue

MessageState = Literal["writing", "done", "failed", "interrupted"]


def new_id() -> str:
    """An id that no other row has."""
    return uuid.uuid4().hex


@dataclass(slots=True)
class Conversation:
    """A chat, without its messages."""

    id: str = field(default_factory=new_id)
    title: str = "New chat"
    titled: bool = False
    """The user gave the title; it is no longer made from the first message."""
    pinned: bool = False
    created_at: float = field(default_factory=time.time)
    updated_at: float = field(default_factory=time.time)
    system_prompt: str = ""
    sampling: dict[str, float | int | str] = field(default_factory=dict)
    """Values set for this conversation only, by setting key."""
    draft: str = ""
    """Typed but not sent."""
    leaf_id: str | None = None
    """The last message of the branch that is shown."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A picture that belongs to a message: its copy in the media folder and its own name."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Result:
    """How an answer came out. `reason` and the rest are None while it is written, or if it failed."""

    reason: StopReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: ErrorInfo | None = None
    sampling: tuple[UsedValue, ...] = ()
    """What the answer was made with."""
    left_out: int = 0
    """Earlier turns that the model was not given, to keep within its context."""
    reuse: Reuse | None = None
    """How the prompt met what was kept of the conversation."""
    speculation: Speculation | None = None
    """How the draft did, of a model that has one."""

    @classmethod
    def of(cls, event: Finished) -> Result:
        """How the runtime says an answer came out."""
        return cls(
            event.reason,
            event.usage,
            event.timings,
            sampling=event.sampling,
            left_out=event.left_out,
            reuse=event.reuse,
            speculation=event.speculation,
        )


@dataclass(slots=True)
class Message:
    """One turn of a conversation; `parent_id` makes the turns a tree of branches."""

    conversation_id: str
    role: Literal["user", "assistant"]
    text: str = ""
    parent_id: str | None = None
    id: str = field(default_factory=new_id)
    state: MessageState = "done"
    created_at: float = field(default_factory=time.time)
    model: str = ""
    device: str = ""
    result: Result = field(default_factory=Result)
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class TranscriptSummary:
    """One line of the list of transcripts."""

    id: str
    title: str
    source: str
    duration: float
    """Seconds."""
    language: str
    engine: str
    created_at: float


@dataclass(frozen=True, slots=True)
class TranscriptRecord:
    """A whole transcript. Times of segments and words in seconds."""

    title: str
    source: str
    """The file it came from, or the microphone take in the media folder."""
    duration: float
    language: str
    segments: tuple[Segment, ...]
    engine: str
    warnings: tuple[str, ...] = ()
    created_at: float = field(default_factory=time.time)
    id: str = field(default_factory=new_id)

    @property
    def summary(self) -> TranscriptSummary:
        """Everything but the text."""
        return TranscriptSummary(
            self.id,
            self.title,
            self.source,
            self.duration,
            self.language,
            self.engine,
            self.created_at,
        )


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """A picture of the gallery: its copy in the media folder; size in pixels, upright."""

    path: str
    name: str
    width: int
    height: int
    created_at: float = field(default_factory=time.time)
    id: str = field(default_factory=new_id)


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """A question about a picture and what the model said."""

    image_id: str
    question: str
    text: str
    model: str = ""
    device: str = ""
    result: Result = field(default_factory=Result)
    created_at: float = field(default_factory=time.time)
    id: str = field(default_factory=new_id)

    @property
    def is_complete(self) -> bool:
        """Whether the model has said all it would."""
        return self.result.reason not in (None, "cancelled")

    @property
    def is_over(self) -> bool:
        """Whether it is complete or has failed: it was neither stopped nor cut off."""
        return self.is_complete or self.result.error is not None


@dataclass(frozen=True, slots=True)
class ImageRound:
    """One question about each of several pictures. Its answers are theirs, like any other."""

    question: str
    """As the answers have it."""
    image_ids: tuple[str, ...]
    beginning: str = ""
    """Of a round of descriptions: how each begins."""
    describes: bool = False
    """Whether it is for a model that describes and takes no question."""
    since: float = 0.0
    """Answers from before (seconds since the epoch) do not count: all are asked again."""
    created_at: float = field(default_factory=time.time)
    id: str = field(default_factory=new_id)

    def answer(self, answers: Iterable[ImageAnswer]) -> ImageAnswer | None:
        """The newest of a picture's answers that is one to this round's question; a failed one only if
        no other is."""
        own = sorted(
            (one for one in answers if one.created_at >= self.since and self._asks(one) and one.is_over),
            key=lambda one: (one.is_complete, one.created_at),
        )
        return own[-1] if own else None

    def _asks(self, answer: ImageAnswer) -> bool:
        return answer.question == self.question and answer.text.startswith(self.beginning)


def result_to_json(result: Result) -> str:
    """A result as a JSON object without its empty parts."""
    return json.dumps({key: value for key, value in asdict(result).items() if value})


def result_from_json(text: str) -> Result:
    """The reverse; a part that cannot be read is left out, so that one bad row hides nothing else."""
    try:
        data: dict[str, Any] = json.loads(text)
        return Result(
            data.get("reason"),
            Usage(**data["usage"]) if "usage" in data else None,
            Timings(**data["timings"]) if "timings" in data else None,
            ErrorInfo(**data["error"]) if "error" in data else None,
            tuple(_used_value(row) for row in data.get("sampling", ())),
            int(data.get("left_out", 0)),
            Reuse(**data["reuse"]) if "reuse" in data else None,
            Speculation(**data["speculation"]) if "speculation" in data else None,
        )
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return Result()


def _used_value(row: dict[str, Any]) -> UsedValue:
    value = row["value"]
    value = tuple(value) if isinstance(value, list) else value
    return UsedValue(row["name"], value, row["source"], row.get("applied", True))


def segments_to_json(segments: tuple[Segment, ...]) -> str:
    """Transcript lines as a JSON list."""
    return json.dumps([asdict(segment) for segment in segments], ensure_ascii=False)


def segments_from_json(text: str) -> tuple[Segment, ...]:
    """The reverse."""
    return tuple(
        Segment(
            row["start"],
            row["end"],
            row["text"],
            tuple(Word(**word) for word in row["words"]),
        )
        for row in json.loads(text)
    )
