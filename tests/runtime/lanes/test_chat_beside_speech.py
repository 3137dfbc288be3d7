"""Chat on one cluster and speech on the other, set up in the settings: a recording shows both at work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.catalog.entries import DEMO_CHAT
from runtime.layout.from_settings import layout_request
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Finished,
    Generate,
    LoadModel,
    LoadSpeech,
    ModelLoaded,
    RecordingFinished,
    RecordingStarted,
    StartRecording,
    StopRecording,
    TextDelta,
    TextPart,
    Transcribe,
    Transcribed,
    Turn,
)
from runtime.sampling.params import SamplingRequest
from runtime.settings.table import SETTINGS
from runtime.settings.types import SettingValue
from runtime.tracing.model import Span, Track
from runtime.tracing.read import read_trace
from tests.perfetto import PROBLEMS, perfetto_query
from tests.runtime.audio.media import SAMPLE, SPOKEN
from tests.runtime.hosting import Runtime
from tests.runtime.speech.words import text_of, word_errors

WHISPER = "whisper-tiny.en-sim"
TOKENS = 1500
"""More than it comes to."""
SIDE_BY_SIDE = """
with call as (
  select slice.ts as begin, slice.ts + slice.dur as end, track.name as who
  from slice join track on slice.track_id = track.id
  where slice.name = 'run npu'
)
select count(*) as n from call as chat join call as speech
where chat.who like 'NPU · Chat%' and speech.who like 'NPU · Speech%'
  and chat.begin < speech.end and speech.begin < chat.end
"""


def layout_of(model_id: str, cluster: str) -> LayoutRequest:
    """As the settings have it: all on cluster 0, but both parts of the speech model on `cluster`."""
    chosen: dict[str, SettingValue] = {
        "layout.core_mode": "global4",
        "layout.clusters": ("0:0",),
        "layout.parts": tuple(f"{WHISPER}/{part}=global4@{cluster}" for part in ("encoder", "decoder")),
    }
    return layout_request(lambda key: chosen.get(key, SETTINGS[key].default), model_id)


@pytest.fixture
def start(demo_models: Path, tmp_path: Path) -> Iterator[Callable[[str], Runtime]]:
    """Load both models, the one that hears on that cluster."""
    made = Runtime(tmp_path)

    def load(cluster: str) -> Runtime:
        chat, speech = demo_models / DEMO_CHAT, demo_models / WHISPER
        made.host.submit(LoadModel(DEMO_CHAT, str(chat), layout_of(DEMO_CHAT, cluster)))
        made.host.submit(LoadSpeech(WHISPER, str(speech), layout_of(WHISPER, cluster)))
        return made

    yield load
    made.host.stop()


def clusters(runtime: Runtime, model_id: str) -> set[str]:
    info = runtime.wait(ModelLoaded, lambda event: event.info.model_id == model_id).info
    assert info.layout is not None
    return {cluster for part in info.layout.parts or (info.layout,) for cluster in part.clusters}


def record_both(runtime: Runtime, folder: Path) -> Path:
    """A recording of an answer that goes on as long as the transcription takes, on a busy machine, too."""
    runtime.host.submit(StartRecording("rec", "Chat beside speech", str(folder)))
    runtime.wait(RecordingStarted)
    turns = (Turn("user", (TextPart("Tell me a long story about a lighthouse."),)),)
    sampling = SamplingRequest(temperature=0.0, max_tokens=TOKENS, min_tokens=TOKENS)
    runtime.host.submit(Generate("answer", "c", DEMO_CHAT, turns, sampling, time.perf_counter_ns()))
    runtime.wait(TextDelta)
    runtime.host.submit(Transcribe("words", str(SAMPLE), "en", False, time.perf_counter_ns()))
    assert word_errors(SPOKEN, text_of(runtime.wait(Transcribed).segments)) == 0
    runtime.host.cancel("answer")
    assert 5 < runtime.wait(Finished).usage.completion < TOKENS
    runtime.host.submit(StopRecording("rec"))
    info = runtime.wait(RecordingFinished).info
    assert (info.checked, info.warnings) == (True, ())
    return Path(info.path)


def computing(tracks: list[Track], title: str) -> list[Span]:
    """When the model had its cores, not when it waited for them."""
    (track,) = [track for track in tracks if track.title.startswith(f"NPU · {title}")]
    return [span for span in track.spans if span.name == "run npu"]


def meetings(some: list[Span], others: list[Span]) -> list[tuple[int, int]]:
    """Which of them overlap, by their numbers."""
    return [
        (number, other)
        for number, one in enumerate(some)
        for other, two in enumerate(others)
        if one.start_ns < two.end_ns and two.start_ns < one.end_ns
    ]


@pytest.mark.parametrize("cluster", ["0:1", "0:0"])
def test_chat_and_speech_compute_at_the_same_time_when_each_has_a_cluster(
    start: Callable[[str], Runtime], tmp_path: Path, cluster: str
) -> None:
    runtime = start(cluster)
    assert clusters(runtime, DEMO_CHAT) == {"0:0"}
    assert clusters(runtime, WHISPER) == {cluster}
    path = record_both(runtime, tmp_path / "recordings")
    tracks = read_trace(path).tracks
    found = meetings(computing(tracks, "Chat"), computing(tracks, "Speech"))
    problems, (seen,) = perfetto_query(path, PROBLEMS, SIDE_BY_SIDE)
    assert problems == []
    assert seen["n"] == len(found)
    if cluster == "0:1":
        assert len({chat for chat, _ in found}) > 5
        assert len({speech for _, speech in found}) > 5
    else:
        assert found == []  # one cluster: they take turns
