"""Tokens per second of the engine's loop and of `model.generate()`, side by side on the same loaded model."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.answering.engine import Engine
from runtime.catalog.entries import DEMO_CHAT
from runtime.config import RuntimeConfig
from runtime.families import load_model
from runtime.families.base import FamilyModel
from runtime.families.causal_lm import CausalLm
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import Event, Finished, ForgetConversation, Generate, LoadModel, TextPart, Turn
from runtime.sampling.params import SamplingRequest
from tests.bench.table import Goal, Row

TURNS = (Turn("user", (TextPart("Tell me a long story about a fox and a lighthouse."),)),)
TOKENS = 64
PAIRS = {"greedy": 24, "sampled, all penalties": 8}
"""The more, the closer the ratio is to one: a single pair is off by a few per cent."""
GREEDY = SamplingRequest(temperature=0.0, repetition_penalty=1.0, max_tokens=TOKENS)
SAMPLED = SamplingRequest(
    temperature=0.8,
    top_k=50,
    top_p=0.95,
    repetition_penalty=1.1,
    presence_penalty=0.3,
    frequency_penalty=0.2,
    seed=1,
    min_tokens=TOKENS,
    max_tokens=TOKENS,
)


@dataclass(frozen=True)
class Rates:
    """Tokens per second of one pair of runs, prompt included."""

    engine: float
    generate: float


def measure(models: Path) -> dict[str, list[Rates]]:
    """`PAIRS` of each kind after one to warm up. Who begins changes: the machine's drift hits both."""
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
    kinds = {"greedy": GREEDY, "sampled, all penalties": SAMPLED}
    pairs: dict[str, list[Rates]] = {kind: [] for kind in kinds}
    for run in range(max(PAIRS.values()) + 1):
        for kind, sampling in kinds.items():
            if run > PAIRS[kind]:
                continue
            rates = _pair(engine, model, events, f"{kind}-{run}", sampling, engine_first=run % 2 == 0)
            pairs[kind] += [rates] if run else []
    engine.close()
    return pairs


def _pair(
    engine: Engine,
    model: CausalLm,
    events: list[Event],
    conversation: str,
    sampling: SamplingRequest,
    *,
    engine_first: bool,
) -> Rates:
    if engine_first:
        ours = _engine(engine, events, conversation, sampling)
        return Rates(ours, _generate(model, sampling))
    theirs = _generate(model, sampling)
    return Rates(_engine(engine, events, conversation, sampling), theirs)


def _engine(engine: Engine, events: list[Event], conversation: str, sampling: SamplingRequest) -> float:
    started = time.perf_counter()
    engine.handle(Generate(conversation, conversation, DEMO_CHAT, TURNS, sampling, time.perf_counter_ns()))
    while engine.step():
        pass
    seconds = time.perf_counter() - started
    engine.handle(ForgetConversation(conversation))
    finished = next(e for e in events if isinstance(e, Finished) and e.request_id == conversation)
    return finished.usage.completion / seconds


def _generate(model: CausalLm, sampling: SamplingRequest) -> float:
    """The same prompt from text to text through transformers' own loop, with the same values."""
    import torch

    started = time.perf_counter()
    prompt = model.tokenise(model.render(TURNS), TURNS)
    ids = torch.tensor([prompt.token_ids])
    chosen: dict[str, Any] = {"do_sample": False}
    if sampling is SAMPLED:
        torch.manual_seed(1)
        chosen = {
            "do_sample": True,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_new_tokens": sampling.min_tokens,
            "logits_processor": [AnswerPenalties(ids.shape[1], sampling)],
        }
    with torch.inference_mode():
        output = model.vendor_model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=TOKENS,
            repetition_penalty=sampling.repetition_penalty,
            **chosen,
        )
    new = output[0, ids.shape[1] :].tolist()
    stream = model.token_stream()
    _ = [stream.push(token) for token in new]
    return len(new) / (time.perf_counter() - started)


class AnswerPenalties:
    """Presence and frequency penalties, which transformers lacks, the way vLLM writes them in torch."""

    def __init__(self, prompt_tokens: int, sampling: SamplingRequest) -> None:
        self._prompt_tokens = prompt_tokens
        self._presence = sampling.presence_penalty
        self._frequency = sampling.frequency_penalty

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """The scores (1, vocab) with what the answer already has made less likely."""
        import torch

        counts = torch.bincount(input_ids[0, self._prompt_tokens :], minlength=scores.shape[1])
        return scores - self._frequency * counts - self._presence * (counts > 0)


def rows(models: Path) -> list[Row]:
    """The figures as lines of the table."""
    lines = []
    for kind, pairs in measure(models).items():
        ratio = statistics.median(pair.engine / pair.generate for pair in pairs)
        lines += [
            Row(f"engine, {kind}", f"{statistics.median(pair.engine for pair in pairs):.1f} tokens/s"),
            Row(f"generate(), {kind}", f"{statistics.median(pair.generate for pair in pairs):.1f} tokens/s"),
            Row(f"engine ÷ generate(), {kind}", f"{ratio:.3f}", Goal(ratio, at_least=1.0)),
        ]
    return lines
