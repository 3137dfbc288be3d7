"""What crosses the thread boundary: commands in, events out. Frozen, picklable, no Qt, no torch.

Ids are strings made by whoever starts the work. Times ending in `_ns` are `time.perf_counter_ns()`, which
on Linux is the clock of the NPU runtime's own trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from runtime.errors import ErrorInfo
from runtime.layout import EffectiveLayout, LayoutRequest
from runtime.microphone_messages import (
    AudioOutlined,
    ListMicrophones,
    MicrophonesListed,
    OutlineAudio,
    PlayAudio,
    PlaybackEnded,
    PlaybackMoved,
    StartTake,
    StopAudio,
    StopTake,
    TakeFinished,
    TakeLevel,
    TakeStarted,
)
from runtime.sampling_params import SamplingRequest

if TYPE_CHECKING:
    from runtime.tracing.view import TraceView

Role = Literal["system", "user", "assistant"]
StopReason = Literal["end", "stop_string", "length", "context", "cancelled"]
ModelKind = Literal["chat", "image", "speech"]


# -- values -------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model, as the UI may show it."""

    model_id: str
    title: str
    kind: ModelKind
    family: str
    folder: str
    device: str
    """The device in words, e.g. "Simulated ARIES (CPU)"."""
    simulated: bool
    layout: EffectiveLayout | None
    """None for an engine that runs on the host CPU."""
    context_length: int
    prefill_chunk: int
    sampling_defaults: dict[str, float | int] = field(default_factory=dict)
    """Sampling values the model's own generation_config.json sets, by name, e.g. "temperature"."""
    load_seconds: float = 0.0
    languages: tuple[str, ...] = ()
    """ISO codes of what a speech model understands."""


@dataclass(frozen=True, slots=True)
class Word:
    """One recognised word; times in seconds from the start of the audio."""

    start: float
    end: float
    text: str
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Segment:
    """One line of a transcript; times in seconds from the start of the audio."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """A finished recording on disk."""

    recording_id: str
    path: str
    title: str
    started_at: float
    """Wall clock, seconds since the epoch."""
    duration: float
    """Seconds."""
    host_events: int
    device_events: int
    simulated: bool
    bytes: int = 0
    warnings: tuple[str, ...] = ()
    """What the file cannot say or had to repair, in words."""
    device: str = ""
    """The device in words; empty when none took part."""
    checked: bool = False
    """Whether the file was read back and found whole when it was written."""


# -- commands: models and generation (chat lane) -------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load the artifact in `folder`; the former model of the same lane is unloaded first."""

    model_id: str
    folder: str
    layout: LayoutRequest


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Give the model's device memory back."""

    model_id: str


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer the last turn. The turns hold the whole conversation, system prompt included."""

    request_id: str
    conversation_id: str
    model_id: str
    turns: tuple[Turn, ...]
    sampling: SamplingRequest
    submitted_ns: int


@dataclass(frozen=True, slots=True)
class ForgetConversation:
    """Drop the conversation's KV cache."""

    conversation_id: str


# -- commands: speech lane -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadSpeech:
    """Load a speech model: a CTranslate2 folder, or an NPU artifact (then `layout` counts)."""

    model_id: str
    folder: str
    layout: LayoutRequest


@dataclass(frozen=True, slots=True)
class Transcribe:
    """Transcribe one audio or video file with the loaded speech model."""

    request_id: str
    source: str
    language: str | None
    """ISO code, or None to detect."""
    word_times: bool
    submitted_ns: int


# -- commands: recorder lane ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartRecording:
    """Start a recording that ends at StopRecording or at one of its limits."""

    recording_id: str
    title: str
    folder: str
    max_seconds: float = 600.0
    max_events: int = 2_000_000


@dataclass(frozen=True, slots=True)
class StopRecording:
    """Stop, merge, write and check the recording."""

    recording_id: str


@dataclass(frozen=True, slots=True)
class ExportRecording:
    """Write `source` (.pftrace) to `target` as Chrome JSON, plain or gzipped by its name."""

    request_id: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class AnalyseRecording:
    """Read a recording for the tracing pane; answered by `RecordingAnalysed`."""

    request_id: str
    path: str


@dataclass(frozen=True, slots=True)
class ListRecordings:
    """Look at the folder of recordings; answered by `RecordingsListed`."""

    folder: str


@dataclass(frozen=True, slots=True)
class ImportRecording:
    """Copy a trace file from elsewhere into `folder` as a recording; answered by `RecordingFinished`."""

    request_id: str
    source: str
    folder: str


@dataclass(frozen=True, slots=True)
class RenameRecording:
    """Give a recording another title; answered by `RecordingsListed`."""

    path: str
    title: str


@dataclass(frozen=True, slots=True)
class RemoveRecording:
    """Take a recording off the list; it can be restored for a day. Answered by `RecordingsListed`."""

    path: str


@dataclass(frozen=True, slots=True)
class RestoreRecording:
    """Bring a removed recording back; answered by `RecordingsListed`."""

    path: str


# -- commands: library lane (models on disk) -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListModels:
    """Look at the model folders; answered by `ModelsListed`.

    With `ask_hub`, and a board in this computer, the vendor's published models are looked up, too; they come
    in a second answer. Nothing goes over the network without it.
    """

    ask_hub: bool = False


@dataclass(frozen=True, slots=True)
class FetchModel:
    """Download, verify and prepare a catalogue entry."""

    request_id: str
    model_id: str


@dataclass(frozen=True, slots=True)
class ImportModel:
    """Copy a compiled model folder into the library, or compile a checkpoint for the simulated device."""

    request_id: str
    folder: str


@dataclass(frozen=True, slots=True)
class VerifyModel:
    """Check every file of an installed model against its recorded hashes."""

    request_id: str
    model_id: str


@dataclass(frozen=True, slots=True)
class RemoveModel:
    """Delete an installed model from the disk."""

    request_id: str
    model_id: str


Command: TypeAlias = (
    LoadModel
    | UnloadModel
    | Generate
    | ForgetConversation
    | LoadSpeech
    | Transcribe
    | StartRecording
    | StopRecording
    | ExportRecording
    | AnalyseRecording
    | ListRecordings
    | ImportRecording
    | RenameRecording
    | RemoveRecording
    | RestoreRecording
    | ListModels
    | FetchModel
    | ImportModel
    | VerifyModel
    | RemoveModel
    | ListMicrophones
    | StartTake
    | StopTake
    | OutlineAudio
    | PlayAudio
    | StopAudio
)


# -- events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelLoading:
    """Progress of a load; `fraction` in 0..1 or None while it cannot be told."""

    model_id: str
    stage: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """The model is ready."""

    info: ModelInfo


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """The model is gone from the device."""

    model_id: str


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The model could not be loaded, or was lost."""

    model_id: str
    error: ErrorInfo


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


@dataclass(frozen=True, slots=True)
class Failed:
    """This request ended with an error; everything else goes on."""

    request_id: str
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A job other than a generation was stopped on request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """One more transcript line."""

    request_id: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class TranscribeProgress:
    """Seconds of audio dealt with; `duration` is None while the container does not say."""

    request_id: str
    position: float
    duration: float | None


@dataclass(frozen=True, slots=True)
class Transcribed:
    """A file is done. `warnings` names damaged packets and other things to know, in words."""

    request_id: str
    source: str
    duration: float
    language: str
    segments: tuple[Segment, ...]
    engine: str
    elapsed: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordingStarted:
    """The recording runs."""

    recording_id: str
    started_at: float


@dataclass(frozen=True, slots=True)
class RecordingFinished:
    """The recording is on disk and passed its checks."""

    info: RecordingInfo


@dataclass(frozen=True, slots=True)
class RecordingFailed:
    """The recording could not be started or written."""

    recording_id: str
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Exported:
    """A file was written."""

    request_id: str
    path: str


@dataclass(frozen=True, slots=True)
class RecordingsListed:
    """The recordings in a folder, newest first; `notice` says what could not be read, in words."""

    folder: str
    rows: tuple[RecordingInfo, ...]
    notice: str = ""


@dataclass(frozen=True, slots=True)
class RecordingAnalysed:
    """A recording made ready to draw."""

    request_id: str
    path: str
    view: TraceView


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """A model that is installed or can be."""

    model_id: str
    title: str
    kind: ModelKind
    family: str
    device: Literal["simulated", "npu", "cpu"]
    state: Literal["installed", "partial", "available"]
    folder: str
    download_bytes: int
    disk_bytes: int
    licence: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ModelsListed:
    """What is installed and what can be."""

    rows: tuple[CatalogRow, ...]
    notice: str = ""
    """What could not be looked up and what to do, in words."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A long job of the library lane; bytes where they mean something, else a fraction."""

    request_id: str
    stage: str
    done: int = 0
    total: int | None = None
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class JobFinished:
    """A library job is done; `message` says what came of it."""

    request_id: str
    message: str


@dataclass(frozen=True, slots=True)
class LaneFaulted:
    """A runtime thread met a fault outside any request; it goes on with the next command."""

    lane: str
    error: ErrorInfo


Event: TypeAlias = (
    ModelLoading
    | ModelLoaded
    | ModelUnloaded
    | ModelFailed
    | Queued
    | PrefillProgress
    | TextDelta
    | Finished
    | Failed
    | Cancelled
    | SegmentReady
    | TranscribeProgress
    | Transcribed
    | RecordingStarted
    | RecordingFinished
    | RecordingFailed
    | Exported
    | RecordingsListed
    | RecordingAnalysed
    | ModelsListed
    | JobProgress
    | JobFinished
    | LaneFaulted
    | MicrophonesListed
    | TakeStarted
    | TakeLevel
    | TakeFinished
    | AudioOutlined
    | PlaybackMoved
    | PlaybackEnded
)
