"""Tiny models of any family behind the real engine, spoken to in words that are tokens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.answering.engine import Engine
from runtime.config import RuntimeConfig
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    Role,
    TextDelta,
    TextPart,
    Turn,
)
from runtime.messages.chat import Priority
from runtime.sampling.params import SamplingRequest
from tests.runtime.conftest import Calls

WORDS = 131
TEMPLATE = (
    "{% for turn in messages %}t1 {{ turn['content'] }} t2 {% endfor %}"
    "{% if add_generation_prompt %}t3{% endif %}"
)
"""Every turn between t1 and t2; the answer follows t3."""


def save_tokenizer(folder: Path) -> None:
    """Words `t0` to `t130`, a token each, and an end that no model here knows and no answer comes to."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({f"t{number}": number for number in range(WORDS)}, unk_token="t0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens([AddedToken("<end>", special=True)])
    PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<end>", chat_template=TEMPLATE
    ).save_pretrained(folder)


def prompt_ids(turns: Sequence[Sequence[int]]) -> list[int]:
    """The tokens that the template makes of turns of those words."""
    return [token for turn in turns for token in (1, *turn, 2)] + [3]


class Talk:
    """An engine on one model folder."""

    def __init__(self, folder: Path, layout: LayoutRequest | None = None) -> None:
        self.events: list[Event] = []
        self.marks = CancelMarks()
        self.engine = Engine(RuntimeConfig(folder, "simulated"), self.events.append, self.marks)
        self.engine.handle(LoadModel("tiny", str(folder), layout or LayoutRequest()))

    @property
    def info(self) -> ModelInfo:
        (info,) = [event.info for event in self.events if isinstance(event, ModelLoaded)]
        return info

    @property
    def refusal(self) -> str:
        (error,) = [event.error for event in self.events if isinstance(event, ModelFailed)]
        return f"{error.summary} {error.remedy}"

    def send(
        self,
        name: str,
        turns: Sequence[Sequence[int]],
        priority: Priority = "interactive",
        **sampling: Any,
    ) -> None:
        """Ask in the conversation `name`, up to a slash; roles take turns."""
        roles: tuple[Role, Role] = ("user", "assistant")
        said = tuple(
            Turn(roles[index % 2], (TextPart(" ".join(f"t{word}" for word in turn)),))
            for index, turn in enumerate(turns)
        )
        wanted = SamplingRequest(**{"temperature": 0.0, "max_tokens": 12} | sampling)
        self.engine.handle(Generate(name, name.split("/")[0], "tiny", said, wanted, 1, priority))

    def run(self) -> None:
        while self.engine.step():
            pass

    def ask(self, name: str, turns: Sequence[Sequence[int]], **sampling: Any) -> tuple[list[int], Finished]:
        """The answer's tokens, and how it came out."""
        self.send(name, turns, **sampling)
        self.run()
        return self.answer(name)

    def cancel_in_call(self, name: str, call: int, calls: Calls) -> int:
        """Cancel it in the middle of that call of the engine's thread; how many of those begin in all."""
        begun = 0

        def cancel() -> None:
            nonlocal begun
            begun += threading.current_thread() is threading.main_thread()
            if begun == call:
                self.marks.cancel(name)

        calls.append(cancel)
        self.run()
        calls.remove(cancel)
        assert self.answer(name)[1].reason == "cancelled"
        return begun

    def answer(self, name: str) -> tuple[list[int], Finished]:
        mine = [event for event in self.events if getattr(event, "request_id", None) == name]
        assert not [event for event in mine if isinstance(event, Failed)], mine
        text = "".join(event.text for event in mine if isinstance(event, TextDelta))
        (finished,) = [event for event in mine if isinstance(event, Finished)]
        return [int(word[1:]) for word in text.split()], finished

    def failure(self, name: str) -> Failed:
        (failed,) = [e for e in self.events if isinstance(e, Failed) and e.request_id == name]
        return failed
