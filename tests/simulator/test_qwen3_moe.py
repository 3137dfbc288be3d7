"""Qwen3-MoE: attention, router, experts and head as networks of their own, over one board and several."""

from __future__ import annotations

import itertools
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
from transformers import AutoModelForCausalLM

from runtime.errors import ModelUnsupportedError, SettingError
from runtime.simulator import artifact
from runtime.simulator.build import build_artifact
from runtime.simulator.device import Device
from runtime.simulator.roles import make_executor
from tests.simulator.checkpoints import greedy, make_checkpoint
from tests.simulator.conftest import CHUNK, CONTEXT
from tests.simulator.headers import assert_refused

LAYERS, EXPERTS = 3, 6
COUNT = 24
PROMPT = [(7 * position) % 131 for position in range(37)]
# Where each role may run: (options, boards used).
PLACES: dict[str, tuple[dict[str, Any], set[int]]] = {
    "as built": ({}, {0}),
    "one core each": (
        {
            "shared_target_cores": ["0:0:1"],
            "expert_target_cores": ["0:1:0"],
            "lm_head_target_cores": ["0:1:3"],
        },
        {0},
    ),
    "experts on two boards": ({"expert_dev_no": [0, 1]}, {0, 1}),
    "everything spread": (
        {
            "shared_target_cores": ["0:0:0", "1:0:0", "2:0:0"],
            "expert_dev_no": [1, 2, 3],
            "lm_head_target_cores": ["3:0:0"],
        },
        {0, 1, 2, 3},
    ),
}


def make_moe(folder: Path, **changes: Any) -> Path:
    return make_checkpoint(
        folder,
        "qwen3",
        model_type="qwen3_moe",
        num_hidden_layers=LAYERS,
        num_experts=EXPERTS,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        **{"norm_topk_prob": True, "tie_word_embeddings": False} | changes,
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_moe(tmp_path_factory.mktemp("moe") / "checkpoint")


@pytest.fixture(scope="module")
def folder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("moe") / "artifact"
    build_artifact(checkpoint, out, context_length=CONTEXT, prefill_chunk=CHUNK)
    return out


@pytest.fixture(scope="module")
def plain(checkpoint: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(checkpoint).eval()


@pytest.mark.parametrize("place", PLACES)
def test_greedy_output_is_that_of_plain_transformers(
    place: str, folder: Path, plain: Any, load: Callable[..., Any], boards: Callable[..., list[Device]]
) -> None:
    options, used = PLACES[place]
    devices = boards(4)
    model = load(folder, **options)
    assert type(model).__module__.startswith("transformers_mblt.")
    assert {device.number for device in devices if device.usage().memory_used} == used
    expected = greedy(plain, PROMPT, COUNT)
    assert greedy(model, PROMPT, COUNT) == expected
    assert len(set(expected)) > COUNT // 4, "a model that repeats itself proves little"
    assert {device.number for device in devices if device.usage().busy_ns} == used


@pytest.mark.parametrize("changes", [{"norm_topk_prob": False}, {"tie_word_embeddings": True}])
def test_other_routers_and_a_tied_head(
    changes: dict[str, Any], load: Callable[..., Any], tmp_path: Path
) -> None:
    checkpoint = make_moe(tmp_path / "checkpoint", **changes)
    build_artifact(checkpoint, tmp_path / "out", prefill_chunk=CHUNK)
    plain = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    assert greedy(load(tmp_path / "out"), PROMPT, COUNT) == greedy(plain, PROMPT, COUNT)


def test_a_second_turn_on_the_same_cache_equals_a_fresh_run(
    folder: Path, plain: Any, load: Callable[..., Any]
) -> None:
    model = load(folder)
    cache, other = model.build_mobilint_cache(), model.build_mobilint_cache()
    turn = [*PROMPT, *greedy(model, PROMPT, 7, past_key_values=cache), 77, 1, 19, 100]
    assert greedy(model, PROMPT[::-1], 5, past_key_values=other) == greedy(plain, PROMPT[::-1], 5)
    assert not cache.is_resident
    assert greedy(model, turn, COUNT, past_key_values=cache) == greedy(plain, turn, COUNT)


def test_a_conversation_survives_on_disk(
    folder: Path, plain: Any, load: Callable[..., Any], tmp_path: Path
) -> None:
    model = load(folder)
    cache = model.build_mobilint_cache()
    turn = [*PROMPT, *greedy(model, PROMPT, 7, past_key_values=cache), 5, 6]
    cache.dump_cache_memory_to(str(tmp_path))
    cache.discard()
    restored = model.build_mobilint_cache()
    restored.load_cache_memory_from(str(tmp_path))
    assert greedy(model, turn, 9, past_key_values=restored) == greedy(plain, turn, 9)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.lists(st.lists(st.integers(0, 130), min_size=1, max_size=20), min_size=1, max_size=4),
    chunk=st.integers(1, CHUNK),
)
def test_any_turns_in_any_chunks(
    folder: Path, plain: Any, load: Callable[..., Any], kept: list[Any], turns: list[list[int]], chunk: int
) -> None:
    if not kept:
        kept.append(load(folder))
    (model,) = kept
    cache, tokens = model.build_mobilint_cache(), []
    for turn in turns:
        tokens += turn
        with torch.inference_mode():
            ours = model(
                torch.tensor([turn]), past_key_values=cache, npu_prefill_chunk_size=chunk, logits_to_keep=1
            ).logits[0, -1]
            theirs = plain(torch.tensor([tokens])).logits[0, -1]
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-3)


@pytest.fixture
def kept() -> list[Any]:
    """The model, loaded by the first example."""
    return []


def test_every_position_of_a_prompt(folder: Path, plain: Any, load: Callable[..., Any]) -> None:
    ids = torch.tensor([PROMPT])
    with torch.inference_mode():
        torch.testing.assert_close(load(folder)(ids).logits, plain(ids).logits, rtol=2e-3, atol=2e-3)


def test_the_mixture_is_stored_once_and_described_by_role(folder: Path) -> None:
    headers = {path.name: artifact.read_header(path) for path in folder.glob("*.mxq")}
    roles = [header.role for header in headers.values()]
    assert {role: roles.count(role) for role in roles} == {
        "moe shared": LAYERS,
        "moe expert": LAYERS * EXPERTS,
        "moe head": 1,
    }
    assert all(header.core_modes == ("single",) for header in headers.values())
    expert = headers["expert-2-5.mxq"]
    network = make_executor(folder / "expert-2-5.mxq", expert)
    assert network.weights.nbytes == 3 * 48 * 24 * 4, "an expert takes its own weights only"
    assert sum(path.stat().st_size for path in folder.glob("*.mxq")) < 1 << 16
    assert json.loads((folder / "config.json").read_text())["model_type"] == "mobilint-qwen3_moe"


def test_memory_is_counted_board_by_board(
    folder: Path, load: Callable[..., Any], boards: Callable[..., list[Device]]
) -> None:
    from mblt_npu.npu_backend import MobilintBackendAllocError

    devices = boards(2, memory_bytes=400_000)
    model = load(folder, expert_dev_no=[0, 1])
    one, two = (device.usage().memory_used for device in devices)
    assert one > two > 0, "the second board has half of the experts and nothing else"
    model.dispose()
    assert [device.usage().memory_used for device in devices] == [0, 0]

    devices = boards(2, memory_bytes=two - 1000)
    with pytest.raises(MobilintBackendAllocError, match="BadAlloc"):
        load(folder, expert_dev_no=[0, 1])
    assert [device.usage().memory_used for device in devices] == [0, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"expert_core_mode": "global4"}, "expert_core_mode='single'"),
        ({"lm_head_target_cores": ["0:0:0", "1:0:0"]}, "exactly one device"),
        ({"max_batch_size": 2}, "only max_batch_size=1"),
    ],
)
def test_what_the_vendor_refuses(
    folder: Path,
    load: Callable[..., Any],
    boards: Callable[..., list[Device]],
    options: dict[str, Any],
    words: str,
) -> None:
    boards(2)
    with pytest.raises(ValueError, match=words):
        load(folder, **options)


def test_options_and_checkpoints_that_do_not_fit(checkpoint: Path, tmp_path: Path) -> None:
    for options in ({"max_batch_size": 2}, {"core_modes": ("global4",)}):
        with pytest.raises(SettingError):
            build_artifact(checkpoint, tmp_path / "out", **options)
    with pytest.raises(ModelUnsupportedError, match="no experts"):
        build_artifact(make_moe(tmp_path / "dense", mlp_only_layers=[1]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("shared-0", "experts", 0),
        ("shared-1", "layers", 2),
        ("expert-0-0", "hidden", 7),
        ("lm_head", "vocab", "x"),
    ],
)
def test_a_damaged_header_is_refused(folder: Path, name: str, key: str, value: Any) -> None:
    assert_refused(folder / f"{name}.mxq", key, value)


# Tensors on the board, which only a mixture uses


@pytest.fixture
def expert(folder: Path, boards: Callable[..., list[Device]]) -> Any:
    boards(2)
    return launched(folder / "expert-0-0.mxq")


def launched(path: Path, board: int = 0, slots: int = -1) -> Any:
    config = qbruntime.ModelConfig()
    config.set_single_core_mode(1)
    if slots >= 0:
        config.set_activation_slots(slots)
    model = qbruntime.Model(str(path), config)
    model.launch(qbruntime.Accelerator(board))
    return model


def test_tensors_on_the_host_and_on_the_board_give_the_same(expert: Any) -> None:
    values = np.random.default_rng(0).normal(size=(1, 5, 48)).astype(np.float32)
    host_in = expert.acquire_input_npu_data([1, 5, 48])
    host_in[:] = values
    (wanted,) = expert.infer([values])
    (made,) = expert.infer_npu_data([host_in])
    np.testing.assert_array_equal(made[:], wanted)

    board_in = expert.acquire_input_npu_data([1, 5, 48], upload=True)
    board_out = expert.acquire_output_npu_data([1, 5, 48], upload=True)
    board_in.copy_from(host_in)
    assert expert.infer_npu_data([board_in], [board_out]) is None
    back = expert.acquire_output_npu_data([1, 5, 48])
    back.copy_from(board_out)
    np.testing.assert_array_equal(back[:], wanted)


def test_a_tensor_says_where_it_is_and_what_it_costs(
    expert: Any, boards: Callable[..., list[Device]]
) -> None:
    from runtime import simulator

    def used() -> int:
        return simulator.usage()[0].memory_used

    before = used()
    tensor = expert.acquire_input_npu_data([1, 5, 48])
    assert (tensor.dev_no, tensor.hardware_name, tensor.shape, len(tensor)) == (-1, "", (1, 5, 48), 1)
    assert tensor.dtype == np.float32
    tensor[0, 0] = 1
    tensor.launch(qbruntime.Accelerator())
    assert (tensor.dev_no, tensor.hardware_name) == (0, "aries-rb")
    assert used() == before + 5 * 48 * 4
    with pytest.raises(ValueError, match="not on the CPU"):
        tensor[:]
    with error("already on the NPU"):
        tensor.launch(qbruntime.Accelerator())
    tensor.cpu()
    assert tensor[:].sum() == 48
    assert used() == before
    other = expert.acquire_input_npu_data([1, 5, 48], upload=True)
    del other
    assert used() == before


def error(words: str) -> Any:
    return pytest.raises(qbruntime.QbRuntimeError, match=words)


def test_tensors_that_cannot_be_used_together(expert: Any, folder: Path) -> None:
    host, board = (expert.acquire_input_npu_data([1, 1, 48], upload=upload) for upload in (False, True))
    with error("share the same status"):
        expert.infer_npu_data([host], [board])
    elsewhere = launched(folder / "expert-0-1.mxq", board=1)
    with error("same accelerator"):
        elsewhere.infer_npu_data([board])
    with error("Model_ShapeMismatched"):
        board.copy_from(expert.acquire_input_npu_data([1, 2, 48]))
    for shape, idx in (([1, 1, 47], 0), ([1, 0, 48], 0), ([48], 0), ([1, 1, 48], 1)):
        with error("Model_ShapeMismatched"):
            expert.acquire_input_npu_data(shape, idx)
    with error("NotImplemented"):
        expert.acquire_input_npu_data([1, 1, 48], dtype=qbruntime.DataType.Int8)


def test_a_model_without_slots_takes_tensors_of_the_board_only(folder: Path) -> None:
    bare = launched(folder / "expert-0-0.mxq", slots=0)
    with error(r"setActivationSlots\(0\)"):
        bare.infer([np.ones((1, 1, 48), np.float32)])
    with error("NPU-resident"):
        bare.infer_npu_data([bare.acquire_input_npu_data([1, 1, 48])])
    (made,) = bare.infer_npu_data([bare.acquire_input_npu_data([1, 1, 48], upload=True)])
    assert made.dev_no == 0


def test_a_tensor_needs_a_launched_model_and_is_lost_with_its_board(
    expert: Any, folder: Path, boards: Callable[..., list[Device]]
) -> None:
    idle = qbruntime.Model(str(folder / "expert-0-0.mxq"))
    with error("before the model is launched"):
        idle.acquire_input_npu_data([1, 1, 48], upload=True)
    (device,) = boards()
    model = launched(folder / "expert-0-0.mxq")
    tensor = model.acquire_input_npu_data([1, 1, 48], upload=True)
    device.lose(0)
    assert tensor.dev_no == -1
    with error("no longer valid"):
        tensor.cpu()


def test_the_tensor_has_every_native_method() -> None:
    import qbruntime.qbruntime as native

    from runtime.simulator.npu_data import NativeNpuData

    for name in itertools.filterfalse(lambda name: name.startswith("_"), vars(native.NPUData)):
        assert callable(getattr(NativeNpuData, name)), name
