"""EAGLE-3: a draft proposes, the base verifies, and what comes out is the base's own greedy answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from runtime.errors import ModelIncompleteError, ModelUnsupportedError, SettingError
from runtime.simulator import artifact
from runtime.simulator.build import build_artifact
from tests.simulator.checkpoints import greedy
from tests.simulator.drafts import HIDDEN, VOCAB, make_agreeing_pair, make_base, make_draft
from tests.simulator.headers import assert_refused
from tests.simulator.test_generate import LAYOUTS

CHUNK = 16
COUNT = 24
# Longer than one prefill chunk, and not a multiple of it.
PROMPT = [(7 * position) % VOCAB for position in range(37)]
BASES = ("llama", "llama-scaled", "qwen2", "qwen3")
AGREEING = "agreeing"


@dataclass
class Speculation:
    """A base alone in plain transformers, and with a draft for the simulated device."""

    plain: Any
    folder: Path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Speculation]:
    folder = tmp_path_factory.mktemp("eagle3")
    pairs = {AGREEING: make_agreeing_pair(folder / AGREEING)}
    for number, family in enumerate(BASES):
        base = make_base(folder / family, family)
        # With and without a vocabulary and an embedding of its own.
        pairs[family] = (
            base,
            make_draft(folder / f"{family}-draft", small=number % 2 == 0, embeds=number // 2 == 0),
        )
    made = {}
    for name, (base, draft) in pairs.items():
        build_artifact(base, folder / f"{name}-out", draft_dir=draft, prefill_chunk=CHUNK)
        plain = AutoModelForCausalLM.from_pretrained(base).eval()
        made[name] = Speculation(plain, folder / f"{name}-out")
    return made


@pytest.fixture
def load() -> Any:
    """As the text models', but each of the three networks is disposed of."""
    from runtime.device.active import vendor_stack
    from runtime.families.vendor import dispose_model

    vendor_stack()
    loaded: list[Any] = []

    def load_model(folder: Path, **kwargs: Any) -> Any:
        loaded.append(AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=True, **kwargs))
        return loaded[-1]

    yield load_model
    for model in loaded:
        dispose_model(model)


def new_cache(model: Any) -> Any:
    from transformers_mblt.utils.cache_utils import MobilintEagle3Cache

    return MobilintEagle3Cache(*model.get_cache_mxq_models())


@pytest.mark.parametrize("core_mode", LAYOUTS)
@pytest.mark.parametrize("family", BASES)
def test_greedy_output_is_the_bases_own(
    family: str, core_mode: str, load: Callable[..., Any], models: dict[str, Speculation]
) -> None:
    layout = LAYOUTS[core_mode] | {"core_mode": core_mode}
    roles = ("base", "draft", "fc")
    options = {f"{role}_{name}": value for role in roles for name, value in layout.items()}
    model = load(models[family].folder, **options)
    assert type(model).__module__.startswith("transformers_mblt.")
    for part in (model.eagle3_base_model, model.eagle3_draft_model, model.eagle3_fc_projector):
        assert part.npu_backend.core_mode == core_mode
    expected = greedy(models[family].plain, PROMPT, COUNT)
    assert greedy(model, PROMPT, COUNT) == expected
    assert len(set(expected)) > COUNT // 4, "a model that repeats itself proves little"
    assert model.last_eagle3_acceptance_stats["steps"] <= COUNT


def test_a_draft_that_agrees_is_believed(load: Callable[..., Any], models: dict[str, Speculation]) -> None:
    model = load(models[AGREEING].folder)
    assert greedy(model, PROMPT, COUNT) == greedy(models[AGREEING].plain, PROMPT, COUNT)
    stats = model.last_eagle3_acceptance_stats
    assert stats["acceptance_ratio"] == 1
    assert stats["steps"] == COUNT // 6, "the root and a tree of five at a time"


@pytest.mark.parametrize("name", ["llama", "qwen3", AGREEING])
def test_a_second_turn_on_the_same_cache_equals_a_fresh_run(
    name: str, load: Callable[..., Any], models: dict[str, Speculation]
) -> None:
    model, plain = load(models[name].folder), models[name].plain
    cache = new_cache(model)
    turn = [*PROMPT, *greedy(model, PROMPT, 7, past_key_values=cache), 77, 1, 19, 100]
    other = new_cache(model)
    assert greedy(model, PROMPT[::-1], 5, past_key_values=other) == greedy(plain, PROMPT[::-1], 5)
    assert not cache.is_resident, "the other conversation took both slots"
    assert greedy(model, turn, COUNT, past_key_values=cache) == greedy(plain, turn, COUNT)


@pytest.mark.parametrize("name", ["qwen2", AGREEING])
def test_rounds_of_two_requests_take_turns(
    name: str, load: Callable[..., Any], models: dict[str, Speculation]
) -> None:
    """As vllm-mblt serves them: a prefill, then one round a step, every request with its own cache."""
    model, plain = load(models[name].folder), models[name].plain
    model.configure_eagle3_tree()
    prompts = [PROMPT, PROMPT[5:29]]
    requests = [Request(model, prompt, COUNT) for prompt in prompts]
    while not all(request.done for request in requests):
        for request in requests:
            if not request.done:
                request.advance()
    assert [request.tokens for request in requests] == [greedy(plain, prompt, COUNT) for prompt in prompts]
    if name == AGREEING:
        assert max(request.largest for request in requests) == 6


class Request:
    """What `vllm_mblt.eagle3_runtime` does for one request, without its scheduler."""

    def __init__(self, model: Any, prompt: list[int], most: int) -> None:
        self._model, self._prompt, self._most = model, prompt, most
        self._cache = new_cache(model)
        self._cache.reset()
        self.tokens: list[int] = []
        self.largest = 0
        self._ended = False

    @property
    def done(self) -> bool:
        return self._ended or len(self.tokens) >= self._most

    def advance(self) -> None:
        remaining = self._most - len(self.tokens)
        if not self.tokens:
            root = self._model.eagle3_prefill(
                torch.tensor([self._prompt]), self._cache, max_new_tokens=remaining
            )
            self.tokens.append(int(root))
            return
        step = self._model.eagle3_decode_step(self._cache, max_new_tokens=remaining + 1)
        new = step.tokens[0, 1:].tolist()
        self._ended = step.stopped
        if step.next_token is not None:
            new.append(int(step.next_token))
        self.largest = max(self.largest, len(new))
        self.tokens += new


def test_a_conversation_survives_on_disk(
    load: Callable[..., Any], models: dict[str, Speculation], tmp_path: Path
) -> None:
    model, plain = load(models["llama"].folder), models["llama"].plain
    cache = new_cache(model)
    turn = [*PROMPT, *greedy(model, PROMPT, 7, past_key_values=cache), 5, 6]
    cache.dump_cache_memory_to(str(tmp_path))
    cache.discard()
    restored = new_cache(model)
    restored.load_cache_memory_from(str(tmp_path))
    assert greedy(model, turn, 9, past_key_values=restored) == greedy(plain, turn, 9)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["llama-scaled", "qwen3", AGREEING]),
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=40),
    count=st.integers(1, 20),
    size=st.integers(2, 40),
    depth=st.integers(1, 4),
    width=st.integers(1, 8),
    chunk=st.integers(1, CHUNK),
)
def test_any_tree_and_any_chunking_gives_the_bases_answer(
    load: Callable[..., Any],
    models: dict[str, Speculation],
    kept: dict[str, Any],
    name: str,
    prompt: list[int],
    count: int,
    size: int,
    depth: int,
    width: int,
    chunk: int,
) -> None:
    if name not in kept:
        kept[name] = load(models[name].folder)
    answer = greedy(
        kept[name],
        prompt,
        count,
        num_assistant_tokens=size,
        eagle3_tree_depth=depth,
        eagle3_tree_top_k=width,
        npu_prefill_chunk_size=chunk,
    )
    assert answer == greedy(models[name].plain, prompt, count)


@pytest.fixture
def kept() -> dict[str, Any]:
    """Models loaded by one test's examples."""
    return {}


def test_a_mask_of_other_positions_is_refused(models: dict[str, Speculation]) -> None:
    model = qbruntime.Model(str(models["llama"].folder / "base.mxq"))
    model.launch(qbruntime.Accelerator())
    step = [np.ones((1, 1, 2, HIDDEN), np.float32), None, np.ones((1, 1, 2, 128), np.float32)]
    for positions, cached in ((4, 3), (2, 1), (1, 0)):
        step[1] = np.zeros((1, 1, 2, positions), np.float32)
        with pytest.raises(qbruntime.QbRuntimeError, match="Model_ShapeMismatched"):
            model.infer(step, None, cached)


def test_the_artifact_says_what_it_holds(models: dict[str, Speculation]) -> None:
    folder = models["qwen2"].folder
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "mobilint-qwen2-eagle3"
    roles = {path.stem: artifact.read_header(path) for path in folder.glob("*.mxq")}
    assert {name: header.role for name, header in roles.items()} == {
        "base": "eagle3 base",
        "draft": "eagle3 draft",
        "fc": "eagle3 fc",
    }
    assert roles["base"].architecture["features"] == [2, 3, 4]


def test_a_draft_may_name_the_layers_it_was_trained_on(
    models: dict[str, Speculation], tmp_path: Path
) -> None:
    base = make_base(tmp_path / "base", "llama")
    draft = make_draft(tmp_path / "draft")
    edit(draft, eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 2, 6]})
    build_artifact(base, tmp_path / "out", draft_dir=draft)
    header = artifact.read_header(tmp_path / "out" / "base.mxq")
    assert header.architecture["features"] == [1, 2, 6]


def edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 96},
        {"vocab_size": 200},
        {"num_hidden_layers": 2},
        {"draft_vocab_size": 63},
        {"hidden_act": "gelu"},
        {"eagle_aux_hidden_state_layer_ids": [1, 2, 7]},
        {"model_type": "qwen2"},
    ],
)
def test_a_draft_for_another_base_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    base, draft = make_base(tmp_path / "base", "llama"), make_draft(tmp_path / "draft")
    edit(draft, **changes)
    with pytest.raises(ModelUnsupportedError, match="draft"):
        build_artifact(base, tmp_path / "out", draft_dir=draft)
    assert not (tmp_path / "out").exists()


def test_other_mistakes_are_refused(tmp_path: Path, checkpoints: dict[str, Path]) -> None:
    base, draft = make_base(tmp_path / "base", "llama"), make_draft(tmp_path / "draft")
    with pytest.raises(SettingError, match="one conversation"):
        build_artifact(base, tmp_path / "out", draft_dir=draft, max_batch_size=2)
    with pytest.raises(ModelUnsupportedError, match="cohere2"):
        build_artifact(checkpoints["cohere2"], tmp_path / "out", draft_dir=draft)
    with pytest.raises(ModelIncompleteError, match=r"fc\.weight"):
        build_artifact(base, tmp_path / "out", draft_dir=drop(draft, "fc.weight"))
    assert not (tmp_path / "out").exists()


def drop(draft: Path, name: str) -> Path:
    from safetensors.torch import load_file, save_file

    tensors = load_file(draft / "model.safetensors")
    del tensors[name]
    save_file(tensors, draft / "model.safetensors", {"format": "pt"})
    return draft


@pytest.mark.parametrize(
    ("network", "key", "value"),
    [
        ("base", "features", [2, 3]),
        ("base", "features", [0, 3, 4]),
        ("draft", "layers", 2),
        ("fc", "inputs", 7),
    ],
)
def test_a_damaged_header_is_refused(
    models: dict[str, Speculation], network: str, key: str, value: Any
) -> None:
    assert_refused(models["llama"].folder / f"{network}.mxq", key, value)
