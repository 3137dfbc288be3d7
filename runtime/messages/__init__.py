"""What crosses the thread boundary: commands in, events out. Frozen, picklable, no Qt, no torch.

Ids are strings made by whoever starts the work. Times ending in `_ns` are `time.perf_counter_ns()`, which
on Linux is the clock of the NPU runtime's own trace. One module per lane; this one joins them.
"""

from __future__ import annotations

from typing import TypeAlias

from runtime.messages.chat import (
    Candidate,
    CandidatesReported,
    DrawnToken,
    Finished,
    ForgetConversation,
    Generate,
    ImagePart,
    MeasurePrompt,
    MissCause,
    Part,
    PrefillProgress,
    PromptMeasured,
    Queued,
    Reuse,
    Role,
    SetEngineOptions,
    Speculation,
    StopReason,
    TextDelta,
    TextPart,
    Timings,
    Turn,
    Usage,
    WaitCause,
)
from runtime.messages.common import CallOverdue, Cancelled, Exported, Failed, LaneFaulted
from runtime.messages.library import (
    CatalogRow,
    FetchModel,
    FileShare,
    ImportModel,
    JobFinished,
    JobProgress,
    ListModels,
    ModelsListed,
    RemoveModel,
    VerifyModel,
)
from runtime.messages.microphone import (
    AudioOutlined,
    ListMicrophones,
    Microphone,
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
from runtime.messages.models import (
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelKind,
    ModelLoaded,
    ModelLoading,
    ModelUnloaded,
    UnloadModel,
    UnloadSpeech,
    model_lane,
)
from runtime.messages.speech import Segment, SegmentReady, Transcribe, Transcribed, TranscribeProgress, Word
from runtime.messages.tracing import (
    AnalyseRecording,
    ExportRecording,
    ImportRecording,
    ListRecordings,
    RecordingAnalysed,
    RecordingFailed,
    RecordingFinished,
    RecordingInfo,
    RecordingsListed,
    RecordingStarted,
    RemoveRecording,
    RenameRecording,
    RestoreRecording,
    StartRecording,
    StopRecording,
)

Command: TypeAlias = (
    LoadModel
    | UnloadModel
    | Generate
    | ForgetConversation
    | SetEngineOptions
    | MeasurePrompt
    | LoadSpeech
    | UnloadSpeech
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

Event: TypeAlias = (
    ModelLoading
    | ModelLoaded
    | ModelUnloaded
    | ModelFailed
    | Queued
    | PrefillProgress
    | TextDelta
    | PromptMeasured
    | CandidatesReported
    | Finished
    | Failed
    | Cancelled
    | CallOverdue
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

__all__ = [
    "AnalyseRecording",
    "AudioOutlined",
    "CallOverdue",
    "Cancelled",
    "Candidate",
    "CandidatesReported",
    "CatalogRow",
    "Command",
    "DrawnToken",
    "Event",
    "ExportRecording",
    "Exported",
    "Failed",
    "FetchModel",
    "FileShare",
    "Finished",
    "ForgetConversation",
    "Generate",
    "ImagePart",
    "ImportModel",
    "ImportRecording",
    "JobFinished",
    "JobProgress",
    "LaneFaulted",
    "ListMicrophones",
    "ListModels",
    "ListRecordings",
    "LoadModel",
    "LoadSpeech",
    "MeasurePrompt",
    "Microphone",
    "MicrophonesListed",
    "MissCause",
    "ModelFailed",
    "ModelInfo",
    "ModelKind",
    "ModelLoaded",
    "ModelLoading",
    "ModelUnloaded",
    "ModelsListed",
    "OutlineAudio",
    "Part",
    "PlayAudio",
    "PlaybackEnded",
    "PlaybackMoved",
    "PrefillProgress",
    "PromptMeasured",
    "Queued",
    "RecordingAnalysed",
    "RecordingFailed",
    "RecordingFinished",
    "RecordingInfo",
    "RecordingStarted",
    "RecordingsListed",
    "RemoveModel",
    "RemoveRecording",
    "RenameRecording",
    "RestoreRecording",
    "Reuse",
    "Role",
    "Segment",
    "SegmentReady",
    "SetEngineOptions",
    "Speculation",
    "StartRecording",
    "StartTake",
    "StopAudio",
    "StopReason",
    "StopRecording",
    "StopTake",
    "TakeFinished",
    "TakeLevel",
    "TakeStarted",
    "TextDelta",
    "TextPart",
    "Timings",
    "Transcribe",
    "TranscribeProgress",
    "Transcribed",
    "Turn",
    "UnloadModel",
    "UnloadSpeech",
    "Usage",
    "VerifyModel",
    "WaitCause",
    "Word",
    "model_lane",
]
