"""Several conversations on the slots of one model, and several models on several boards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.simulator import decoder
from runtime.simulator.build import build_artifact
from runtime.simulator.device import Device
from tests.simulator.checkpoints import greedy, plain_model
from tests.simulator.conftest import CHUNK, CONTEXT
from tests.simulator.test_conversation import feed, oracle, same, step

SLOTS = 4
VOCAB = 131


@pytest.fixture(scope="module")
def folder(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("batch") / "llama"
    build_artifact(
        checkpoints["llama"], out, max_batch_size=SLOTS, context_length=CONTEXT, prefill_chunk=CHUNK
    )
    return out


@pytest.fixture(scope="module")
def plain(checkpoints: dict[str, Path]) -> Any:
    return plain_model(checkpoints["llama"])


class Conversations:
    """More conversations than slots, each with the slot that was chosen for it, beside their token lists."""

    def __init__(self, model: Any, plain: Any, slots: list[int], folder: Path) -> None:
        self._model, self._plain, self._folder = model, plain, folder
        self._slots = slots
        self._caches = [self._new(slot) for slot in slots]
        self.tokens: list[list[int]] = [[] for _ in slots]

    def _new(self, slot: int) -> Any:
        models = self._model.npu_backend.mxq_models
        return self._model.get_mobilint_cache_cls()(models, per_model_batch=SLOTS, slots=[(0, slot)])

    def say(self, which: int, new: list[int]) -> None:
        """Feed some tokens to one conversation."""
        new = new[: CONTEXT - 8 - len(self.tokens[which])]
        if new:
            self.tokens[which] += new
            logits = feed(self._model, self._caches[which], new)
            same(logits, oracle(self._plain, self.tokens[which]))

    def together(self, chosen: list[int], token: int) -> None:
        """One step of several conversations in one inference, in the order given."""
        rows: dict[int, int] = {}
        for which in chosen:
            if self.tokens[which] and len(self.tokens[which]) < CONTEXT:
                rows.setdefault(self._slots[which], which)
        if len(rows) < 2:
            return
        order = list(rows.values())
        joined = self._model.get_mobilint_cache_cls().from_rows([self._caches[which] for which in order])
        new = [(token + which) % VOCAB for which in order]
        for which, logits, one in zip(
            order, step(self._model, joined, [[one] for one in new]), new, strict=True
        ):
            self.tokens[which].append(one)
            same(logits, oracle(self._plain, self.tokens[which]))

    def forget(self, which: int, keep: int) -> None:
        """Cut one conversation short."""
        del self.tokens[which][keep:]
        self._caches[which].set_seq_length(len(self.tokens[which]))

    def store(self, which: int, slot: int) -> None:
        """Write one conversation to the disk and take it up again in another slot."""
        if self.tokens[which]:
            self._caches[which].dump_cache_memory_to(str(self._folder))
        self._caches[which].discard()
        self._slots[which] = slot
        self._caches[which] = self._new(slot)
        if self.tokens[which]:
            self._caches[which].load_cache_memory_from(str(self._folder))


WHICH = st.integers(0, 5)
TOKENS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=2 * CHUNK)
ACTIONS = st.one_of(
    st.tuples(st.just("say"), WHICH, TOKENS),
    st.tuples(st.just("together"), st.permutations(range(6)), st.integers(0, VOCAB - 1)),
    st.tuples(st.just("forget"), WHICH, st.integers(0, CONTEXT)),
    st.tuples(st.just("store"), WHICH, st.integers(0, SLOTS - 1)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, SLOTS - 1), min_size=6, max_size=6),
    st.lists(TOKENS, min_size=6, max_size=6),
    st.lists(ACTIONS, min_size=1, max_size=8),
)
def test_any_composition_of_batches_switches_and_dumps(
    load: Callable[..., Any],
    folder: Path,
    plain: Any,
    tmp_path: Path,
    kept: list[Any],
    slots: list[int],
    openings: list[list[int]],
    actions: list[tuple[str, Any, Any]],
) -> None:
    if not kept:
        kept.append(load(folder, core_mode="single"))
    conversations = Conversations(kept[0], plain, slots, tmp_path)
    for which, opening in enumerate(openings):
        conversations.say(which, opening)
    for name, one, other in actions:
        getattr(conversations, name)(one, other)


@pytest.fixture
def kept() -> list[Any]:
    """The model, loaded by the first example."""
    return []


def launched(folder: Path) -> Any:
    model = qbruntime.Model(str(folder / "llama.mxq"))
    model.launch(qbruntime.Accelerator())
    return model


def packed(rows: list[tuple[int, int, np.ndarray]]) -> tuple[list[np.ndarray], list[Any]]:
    """(slot, cached, embeddings) as the one input and the parameters of a batched inference."""
    params = [
        qbruntime.BatchParam(sequence_length=len(part), cache_size=cached, cache_id=slot)
        for slot, cached, part in rows
    ]
    return [np.concatenate([part for *_, part in rows])[None, None]], params


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_batched_inference_is_its_rows_one_by_one(data: st.DataObject, folder: Path) -> None:
    """Rows of any lengths in any slots after any pasts, below the vendor's classes."""
    one, other = launched(folder), launched(folder)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 16)))
    cached = [0] * SLOTS
    for _ in range(data.draw(st.integers(1, 4))):
        slots = data.draw(st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=SLOTS, unique=True))
        rows = []
        for slot in slots:
            length = data.draw(st.integers(1, CHUNK))
            start = data.draw(st.integers(0, cached[slot]))
            rows.append((slot, start, rng.normal(size=(length, 48)).astype(np.float32)))
            cached[slot] = start + length
        inputs, params = packed(rows)
        (together,) = one.infer(inputs, params=params)
        apart = []
        for row in rows:
            inputs, params = packed([row])
            apart.append(other.infer(inputs, params=params)[0].reshape(-1))
        np.testing.assert_allclose(together.reshape(len(rows), -1), apart, rtol=1e-4, atol=1e-4)


def test_a_batch_reads_the_weights_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what makes eight rows cheap; `make bench` measures by how much."""
    products: list[int] = []
    linear = decoder.linear

    def counted(x: Any, *rest: Any) -> Any:
        products.append(len(x))
        return linear(x, *rest)

    monkeypatch.setattr(decoder, "linear", counted)
    model = launched(folder)
    row = np.ones((1, 48), np.float32)
    for rows in (1, SLOTS):
        products.clear()
        inputs, params = packed([(slot, 0, row) for slot in range(rows)])
        model.infer(inputs, params=params)
        assert products == [rows] * (4 * 3 + 1), "four products a layer and the head"


def prompts(count: int) -> list[list[int]]:
    return [[(11 * row + 7 * position) % VOCAB for position in range(5 + 4 * row)] for row in range(count)]


def generate(model: Any, texts: list[list[int]], count: int) -> list[list[int]]:
    """`generate()` on left-padded rows."""
    longest = max(map(len, texts))
    ids = torch.tensor([[0] * (longest - len(text)) + text for text in texts])
    mask = torch.tensor([[0] * (longest - len(text)) + [1] * len(text) for text in texts])
    with torch.inference_mode():
        output = model.generate(
            ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=0
        )
    return output[:, longest:].tolist()


@pytest.mark.parametrize(
    ("count", "rows", "models"), [(1, 4, 1), (2, 8, 2), (3, 8, 2), (4, 15, 4), (8, 32, 8)]
)
def test_models_times_slots_over_boards(
    load: Callable[..., Any],
    folder: Path,
    plain: Any,
    boards: Callable[..., list[Device]],
    count: int,
    rows: int,
    models: int,
) -> None:
    """N models of K slots each, dealt to the boards of `dev_no` in turn."""
    devices = boards(count)
    model = load(folder, dev_no=list(range(count)), max_batch_size=rows, core_mode="single")
    backend = model.npu_backend
    assert (len(backend.mxq_models), backend.k_per_model) == (models, SLOTS)
    assert backend.model_dev_no == [number % count for number in range(models)]
    held = [device.usage().memory_used for device in devices]
    assert [bool(used) for used in held] == [number < models for number in range(count)]

    texts = prompts(min(rows, 9))
    assert generate(model, texts, 6) == [greedy(plain, text, 6) for text in texts]
    model.dispose()
    assert [device.usage().memory_used for device in devices] == [0] * count


@pytest.mark.parametrize(("dev_no", "cores"), [(7, "7:0:3"), (3, "3:1:0")])
def test_one_board_of_eight(
    load: Callable[..., Any],
    folder: Path,
    plain: Any,
    boards: Callable[..., list[Device]],
    dev_no: int,
    cores: str,
) -> None:
    devices = boards(8)
    model = load(folder, dev_no=dev_no, target_cores=[cores], core_mode="single")
    assert greedy(model, [1, 2, 3], 8) == greedy(plain, [1, 2, 3], 8)
    assert [device.number for device in devices if device.usage().busy_ns] == [dev_no]


def test_a_board_that_is_not_there(
    load: Callable[..., Any], folder: Path, boards: Callable[..., list[Device]]
) -> None:
    devices = boards(2)
    with pytest.raises(qbruntime.QbRuntimeError, match="Driver_NotInitialized"):
        load(folder, dev_no=[1, 2], max_batch_size=2 * SLOTS)
    assert [device.usage().memory_used for device in devices] == [0, 0]


def test_several_regulus_boards(
    load: Callable[..., Any],
    checkpoints: dict[str, Path],
    plain: Any,
    boards: Callable[..., list[Device]],
    tmp_path: Path,
) -> None:
    """One core each, whose single slot takes one conversation."""
    devices = boards(3, board="regulus-rb")
    out = tmp_path / "regulus"
    build_artifact(checkpoints["llama"], out, core_modes=("single",), target_device="regulus-rb")
    assert json.loads((out / "config.json").read_text())["target_device"] == "regulus-rb"
    model = load(out, dev_no=[0, 1, 2], max_batch_size=3)
    assert model.npu_backend.model_dev_no == [0, 1, 2]
    texts = prompts(3)
    assert generate(model, texts, 6) == [greedy(plain, text, 6) for text in texts]
    assert all(device.usage().busy_ns and device.usage().cores == 1 for device in devices)
