"""A tiny real model with numbers for words, and an engine around it whose calls to the device are counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from runtime.answering.engine import Engine
from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.device.active import activate, vendor_stack
from runtime.families.base import Prompt
from runtime.families.causal_lm import CausalLm
from runtime.families.model_info import model_info
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    SetEngineOptions,
    TextDelta,
    TextPart,
    Turn,
    UnloadModel,
)
from runtime.sampling.params import SamplingRequest

K = 4
COUNT = 10
ALWAYS = 1e9
"""The margin with which KV is loaded whatever a busy machine measures."""


def turn(engine: Engine) -> bool:
    """What the engine's lane does when nothing comes for a while; False when there is nothing to do."""
    return engine.step() or engine.work_when_quiet()


class Numbers(CausalLm):
    """The text model with numbers for words: a test needs no tokenizer."""

    def render(self, turns: Sequence[Turn]) -> str:
        return " ".join(turn.text for turn in turns)

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        ids = [int(word) for word in text.split()]
        return Prompt(ids, ids)

    def token_stream(self) -> Any:
        return NumberStream()


class NoTokens:
    """A tokenizer without tokens that steer the model."""

    added_tokens_decoder: ClassVar[dict[int, object]] = {}


class NumberStream:
    """Every token is a number and a space."""

    def push(self, token_id: int) -> str:
        return f"{token_id} "

    def finish(self) -> str:
        return ""


class Lane:
    """An engine on one model folder."""

    def __init__(
        self, folder: Path, data: Path | None = None, kv: KvOptions | None = None, **layout: Any
    ) -> None:
        self.events: list[Event] = []
        self.marks = CancelMarks()
        self.rows: list[int] = []
        self._folder = folder
        config = RuntimeConfig(
            data or folder, "simulated", EngineOptions(kv or KvOptions(load_margin=ALWAYS))
        )
        self.engine = Engine(config, self.events.append, self.marks, self._load)
        self.load(**layout)

    def load(self, model_id: str = "tiny", **layout: Any) -> None:
        self.engine.handle(LoadModel(model_id, str(self._folder), LayoutRequest(**layout)))

    def unload(self, model_id: str = "tiny") -> None:
        self.engine.handle(UnloadModel(model_id))

    def set_kv(self, **options: Any) -> None:
        self.engine.handle(SetEngineOptions(EngineOptions(KvOptions(**options))))

    def _load(self, model_id: str, folder: Path, layout: LayoutRequest, *_: Any) -> Numbers:
        active = activate("simulated")
        vendor_stack()
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(
            str(folder),
            local_files_only=True,
            max_batch_size=layout.max_batch_size or K,
            dev_no=list(layout.dev_no),
        )
        info = model_info(model_id, folder, "llama", "chat", model, active, 0.0)
        numbers = Numbers(model, NoTokens(), info, frozenset())
        decode = numbers.decode

        def counted(token_ids: Sequence[int], caches: Sequence[Any]) -> Any:
            self.rows.append(len(token_ids))
            return decode(token_ids, caches)

        numbers.decode = counted  # type: ignore[method-assign]
        return numbers

    def ask(self, request_id: str, conversation: str, prompt: Sequence[int], **options: Any) -> None:
        self.ask_turns(request_id, conversation, [("user", prompt)], **options)

    def ask_turns(
        self, request_id: str, conversation: str, turns: Iterable[tuple[Any, Sequence[int]]], **options: Any
    ) -> None:
        greedy = SamplingRequest(temperature=0.0, max_tokens=options.pop("count", COUNT))
        sampling = options.pop("sampling", greedy)
        model_id = options.pop("model_id", "tiny")
        said = tuple(Turn(role, (TextPart(" ".join(map(str, ids))),)) for role, ids in turns)
        self.engine.handle(Generate(request_id, conversation, model_id, said, sampling, 1, **options))

    def run(self, steps: int | None = None) -> None:
        for _ in itertools.count() if steps is None else range(steps):
            if not turn(self.engine):
                return

    def answer(self, request_id: str) -> list[int]:
        self.finished(request_id)
        mine = [event for event in self.events if getattr(event, "request_id", None) == request_id]
        return [int(w) for event in mine if isinstance(event, TextDelta) for w in event.text.split()]

    def finished(self, request_id: str) -> Finished:
        mine = [event for event in self.events if getattr(event, "request_id", None) == request_id]
        assert not [event for event in mine if isinstance(event, Failed)], mine
        (finished,) = [event for event in mine if isinstance(event, Finished)]
        return finished
