"""An answer on the command line: its text as it comes, its facts in a line, all of it as JSON."""

from __future__ import annotations

import dataclasses
import sys

from mblt_desktop.result_words import left_out_words, result_facts
from mblt_desktop.reuse_words import reuse_words
from mblt_desktop.store.records import Result
from runtime.messages import Finished, ModelInfo, Reuse, Usage
from runtime.sampling.params import ignored_penalties


def write(text: str) -> None:
    """Put it on standard output at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def summary(finished: Finished) -> str:
    """Two lines for people: the facts, and how the prompt met what was kept of the conversation."""
    result = Result.of(finished)
    facts = [
        left_out_words(result),
        *(f"not applied: {one.name} {one.value}" for one in ignored_penalties(finished.sampling)),
        *(
            f"not applied, answers by speculation: {one.name} {one.value}"
            for one in finished.sampling
            if not one.applied
        ),
        *result_facts(result, finished.device),
    ]
    return " · ".join(fact for fact in facts if fact) + f"\n{reuse_words(finished.usage, finished.reuse)}"


def document(text: str, info: ModelInfo, finished: Finished) -> dict[str, object]:
    """Everything for a program, as `chat --help` says."""
    return {
        "text": text,
        "reason": finished.reason,
        "usage": {**dataclasses.asdict(finished.usage), "new": finished.usage.new},
        "timings": dataclasses.asdict(finished.timings),
        "tokens_per_second": finished.timings.tokens_per_second(finished.usage.completion),
        "model": info.model_id,
        "device": info.device,
        "simulated": info.simulated,
        "sampling": {
            one.name: {"value": one.value, "source": one.source, "applied": one.applied}
            for one in finished.sampling
        },
        "left_out": finished.left_out,
        "reuse": _reuse(finished.usage, finished.reuse) if finished.reuse else None,
        "speculation": dataclasses.asdict(finished.speculation) if finished.speculation else None,
        "layout": dataclasses.asdict(info.layout) if info.layout else None,
    }


def _reuse(usage: Usage, reuse: Reuse) -> dict[str, object]:
    """What `chat --help` says."""
    return {
        "reused": usage.cached,
        "recomputed": usage.new,
        **dataclasses.asdict(reuse),
        "words": reuse_words(usage, reuse),
    }
