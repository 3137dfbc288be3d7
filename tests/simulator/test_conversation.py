"""KV memory as a conversation uses it: later turns, edits, snapshots, several conversations, batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.families.vendor import new_slot_cache
from runtime.simulator.build import build_artifact
from tests.simulator.checkpoints import greedy, plain_model
from tests.simulator.conftest import CHUNK, CONTEXT

VOCAB = 131
FIRST = [11, 5, 97, 3, 42, 8, 8, 61, 30]
SECOND = [77, 1, 19, 100]


def feed(model: Any, cache: Any, tokens: list[int]) -> np.ndarray:
    """One forward over `tokens` after what the cache holds; the logits after the last."""
    with torch.inference_mode():
        output = model(
            input_ids=torch.tensor([tokens]), past_key_values=cache, use_cache=True, logits_to_keep=1
        )
    return output.logits.reshape(-1).numpy()


@pytest.fixture(scope="module")
def plain(checkpoints: dict[str, Path]) -> Any:
    return plain_model(checkpoints["llama"])


def oracle(plain: Any, tokens: list[int]) -> np.ndarray:
    with torch.inference_mode():
        return plain(torch.tensor([tokens])).logits[0, -1].numpy()


def same(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3)
    assert ours.argmax() == theirs.argmax()


def test_a_second_turn_continues_on_the_same_cache(llama: Any, plain: Any) -> None:
    cache = new_slot_cache(llama)
    answer = greedy(llama, FIRST, 6, past_key_values=cache)
    turn = FIRST + answer + SECOND

    assert greedy(llama, turn, 12, past_key_values=cache) == greedy(plain, turn, 12)
    assert cache.get_seq_length() == len(turn) + 11, "the last token was not fed"


def test_truncating_forgets_what_came_after(llama: Any, plain: Any) -> None:
    cache = new_slot_cache(llama)
    feed(llama, cache, FIRST)
    cache.set_seq_length(4)

    same(feed(llama, cache, SECOND), oracle(plain, FIRST[:4] + SECOND))


def test_two_conversations_share_one_slot(llama: Any, plain: Any) -> None:
    one, two = new_slot_cache(llama), new_slot_cache(llama)
    feed(llama, one, FIRST)
    feed(llama, two, SECOND)
    assert (one.is_resident, two.is_resident) == (False, True)

    same(feed(llama, one, [50]), oracle(plain, [*FIRST, 50]))
    same(feed(llama, two, [51]), oracle(plain, [*SECOND, 51]))


def test_a_snapshot_holds_only_what_was_written(llama: Any, plain: Any) -> None:
    one, two = new_slot_cache(llama), new_slot_cache(llama)
    feed(llama, one, FIRST)
    feed(llama, two, SECOND)

    infos = llama.get_mxq_model().get_cache_infos()
    assert 0 < one.host_nbytes < sum(info.size for info in infos) / 4
    one.load_cache_memory()
    same(feed(llama, one, [50]), oracle(plain, [*FIRST, 50]))


def test_a_conversation_survives_on_disk(llama: Any, plain: Any, tmp_path: Path) -> None:
    cache = new_slot_cache(llama)
    feed(llama, cache, FIRST)
    cache.dump_cache_memory_to(str(tmp_path))
    cache.discard()
    feed(llama, new_slot_cache(llama), [9] * 20)

    restored = new_slot_cache(llama)
    restored.load_cache_memory_from(str(tmp_path))
    same(feed(llama, restored, SECOND), oracle(plain, FIRST + SECOND))


def test_single_caches_by_name_and_hash(llama: Any, plain: Any) -> None:
    native = llama.get_mxq_model()
    cache = new_slot_cache(llama)
    feed(llama, cache, FIRST)
    infos = native.get_cache_infos()
    by_name = {info.name: native.dump_cache_memory_by_name(info.name) for info in infos}
    by_hash = [native.dump_cache_memory_by_layer_hash(info.layer_hash) for info in infos]
    assert list(by_name.values()) == by_hash == native.dump_cache_memory()

    feed(llama, cache, SECOND)
    for name, blob in by_name.items():
        native.load_cache_memory_by_name(blob, name)
    cache.set_seq_length(len(FIRST))
    same(feed(llama, cache, [50]), oracle(plain, [*FIRST, 50]))


def test_moving_and_filtering_the_tail(llama: Any, plain: Any) -> None:
    """What speculative decoding asks for: keep some of the last positions, in order."""
    native = llama.get_mxq_model()
    cache = new_slot_cache(llama)
    feed(llama, cache, FIRST)
    assert native.filter_cache_tail(len(FIRST), 4, [True, False, True, False]) == 7
    kept = native.dump_cache_memory()
    feed(llama, cache, [1, 2, 3])
    cache.set_seq_length(0)
    feed(llama, cache, FIRST)
    # 9 positions, of which the last two go behind the first five.
    assert native.move_cache_tail(5, 2, 9) == 7
    moved = native.dump_cache_memory()

    # Positions 5 and 7 were kept in one case, 7 and 8 in the other: they agree up to position 5.
    one, other = (np.frombuffer(blobs[0][20:], np.float32).reshape(2, 7, 8) for blobs in (kept, moved))
    np.testing.assert_array_equal(one[:, :5], other[:, :5])
    np.testing.assert_array_equal(one[:, 6], other[:, 5])


class Steps:
    """Hypothesis's choices, run on two conversations of one slot and on their token lists."""

    def __init__(self, model: Any, plain: Any) -> None:
        self.model, self.plain = model, plain
        self.caches = [new_slot_cache(model), new_slot_cache(model)]
        self.tokens: list[list[int]] = [[], []]

    def run(self, which: int, keep: int, new: list[int], chunk: int) -> None:
        cache, tokens = self.caches[which], self.tokens[which]
        del tokens[keep:]
        cache.set_seq_length(len(tokens))
        new = new[: CONTEXT - len(tokens)]
        for start in range(0, len(new), chunk):
            logits = feed(self.model, cache, new[start : start + chunk])
        tokens += new
        assert cache.get_seq_length() == len(tokens)
        if new:
            same(logits, oracle(self.plain, tokens))


STEP = st.tuples(
    st.integers(0, 1),
    st.integers(0, CONTEXT),
    st.lists(st.integers(0, VOCAB - 1), max_size=40),
    st.integers(1, CHUNK),
)


@settings(
    max_examples=25,
    deadline=None,
    # The loaded model holds no state that one example could leave to the next.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(STEP, min_size=1, max_size=6))
def test_any_chunking_truncation_and_switching(
    llama: Any, plain: Any, steps: list[tuple[int, int, list[int], int]]
) -> None:
    conversation = Steps(llama, plain)
    for step in steps:
        conversation.run(*step)


def test_a_batch_is_its_rows_one_by_one(
    load: Callable[..., Any], checkpoints: dict[str, Path], plain: Any, tmp_path: Path
) -> None:
    """Three conversations prefilled alone, then stepped together in one infer."""
    artifact = tmp_path / "batch"
    build_artifact(checkpoints["llama"], artifact, max_batch_size=4, context_length=CONTEXT)
    model = load(artifact, core_mode="single")
    assert model.npu_backend.k_per_model == 4
    prompts = [FIRST, SECOND, FIRST[::-1]]
    caches = [
        model.get_mobilint_cache_cls()(model.npu_backend.mxq_models, per_model_batch=4, slots=[(0, slot)])
        for slot in (2, 0, 3)
    ]
    texts = [list(prompt) for prompt in prompts]
    for text, cache in zip(texts, caches, strict=True):
        text.append(int(step(model, cache, [text])[0].argmax()))
    joined = model.get_mobilint_cache_cls().from_rows(caches)
    for _ in range(8):
        rows = step(model, joined, [[text[-1]] for text in texts])
        for text, logits in zip(texts, rows, strict=True):
            text.append(int(logits.argmax()))

    assert [text[len(p) :] for text, p in zip(texts, prompts, strict=True)] == [
        greedy(plain, prompt, 9) for prompt in prompts
    ]


def step(model: Any, cache: Any, rows: list[list[int]]) -> np.ndarray:
    ids = torch.tensor(rows)
    with torch.inference_mode():
        output = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
    return output.logits.reshape(len(rows), -1).numpy()
