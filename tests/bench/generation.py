"""Tokens per second of the engine's loop and of `model.generate()`, side by side on the same loaded model."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from runtime.catalog.entries import DEMO_CHAT
from runtime.config import RuntimeConfig
from runtime.engine import Engine
from runtime.families import load_model
from runtime.families.base import FamilyModel
from runtime.families.causal_lm import CausalLm
from runtime.lane import CancelMarks
from runtime.layout import LayoutRequest
from runtime.messages import Event, Finished, ForgetConversation, Generate, LoadModel, TextPart, Turn
from runtime.sampling_params import SamplingRequest

TURNS = (Turn("user", (TextPart("Tell me a long story about a fox and a lighthouse."),)),)
TOKENS = 64
PAIRS = 5


@dataclass(frozen=True)
class Rates:
    """Tokens per second of one pair of runs, prompt included."""

    engine: float
    generate: float


def measure(models: Path) -> list[Rates]:
    """`PAIRS` pairs after one warm-up pair, in turn, so that the machine's drift hits both."""
    loaded: list[CausalLm] = []

    def load(*args: object) -> FamilyModel:
        model = load_model(*args)  # type: ignore[arg-type]
        assert isinstance(model, CausalLm)
        loaded.append(model)
        return model

    events: list[Event] = []
    engine = Engine(RuntimeConfig(models.parent, "simulated"), events.append, CancelMarks(), load=load)
    engine.open()
    engine.handle(LoadModel(DEMO_CHAT, str(models / DEMO_CHAT), LayoutRequest()))
    (model,) = loaded
    pairs = [Rates(_engine(engine, events, run), _generate(model)) for run in range(PAIRS + 1)]
    engine.close()
    return pairs[1:]


def _engine(engine: Engine, events: list[Event], run: int) -> float:
    conversation = f"bench-{run}"
    sampling = SamplingRequest(temperature=0.0, max_tokens=TOKENS)
    started = time.perf_counter()
    engine.handle(Generate(conversation, conversation, DEMO_CHAT, TURNS, sampling, time.perf_counter_ns()))
    while engine.step():
        pass
    seconds = time.perf_counter() - started
    engine.handle(ForgetConversation(conversation))
    finished = next(e for e in events if isinstance(e, Finished) and e.request_id == conversation)
    return finished.usage.completion / seconds


def _generate(model: CausalLm) -> float:
    """The same prompt from text to text through transformers' own loop."""
    import torch

    started = time.perf_counter()
    prompt = model.tokenise(model.render(TURNS), TURNS)
    ids = torch.tensor([prompt.token_ids])
    with torch.inference_mode():
        output = model.vendor_model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False
        )
    new = output[0, ids.shape[1] :].tolist()
    stream = model.token_stream()
    _ = [stream.push(token) for token in new]
    return len(new) / (time.perf_counter() - started)


def rows(models: Path) -> list[tuple[str, str]]:
    """The figures as lines of the table."""
    pairs = measure(models)
    ratio = statistics.median(pair.engine / pair.generate for pair in pairs)
    return [
        ("engine, greedy", f"{statistics.median(pair.engine for pair in pairs):.1f} tokens/s"),
        ("model.generate(), greedy", f"{statistics.median(pair.generate for pair in pairs):.1f} tokens/s"),
        ("engine ÷ generate", f"{ratio:.3f} (at least 0.95)"),
    ]
