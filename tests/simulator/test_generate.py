"""Every text family and core mode through the vendor's Auto classes, against plain transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import qbruntime

from runtime.families.vendor import new_slot_cache
from tests.simulator.checkpoints import FAMILIES, greedy, plain_greedy, plain_model

LAYOUTS: dict[str, dict[str, Any]] = {
    "auto": {},
    "single": {"target_cores": ["0:1:2"]},
    "multi": {"target_clusters": ["0:1"]},
    "global4": {"target_clusters": ["0:0"]},
    "global8": {"target_clusters": ["0:0", "0:1"]},
}
# Longer than one prefill chunk, and not a multiple of it.
PROMPT = [(7 * position) % 131 for position in range(37)]
COUNT = 24


@pytest.fixture(scope="module")
def expected(checkpoints: dict[str, Path]) -> dict[str, list[int]]:
    return {name: plain_greedy(folder, PROMPT, COUNT) for name, folder in checkpoints.items()}


@pytest.mark.parametrize("core_mode", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_output_is_that_of_plain_transformers(
    family: str,
    core_mode: str,
    load: Callable[..., Any],
    artifacts: dict[str, Path],
    expected: dict[str, list[int]],
) -> None:
    model = load(artifacts[family], core_mode=core_mode, **LAYOUTS[core_mode])

    assert type(model).__module__.startswith("transformers_mblt.")
    assert greedy(model, PROMPT, COUNT) == expected[family]
    assert len(set(expected[family])) > COUNT // 4, "a model that repeats itself proves little"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_second_turn_on_the_same_cache_is_that_of_a_fresh_run(
    family: str, load: Callable[..., Any], artifacts: dict[str, Path], checkpoints: dict[str, Path]
) -> None:
    model = load(artifacts[family])
    cache = new_slot_cache(model)
    turn = PROMPT[:21]
    turn += greedy(model, turn, 8, past_key_values=cache) + PROMPT[30:]
    assert 21 < cache.get_seq_length() < len(turn)

    assert greedy(model, turn, 12, past_key_values=cache) == plain_greedy(checkpoints[family], turn, 12)


def test_the_outputs_differ_between_families(expected: dict[str, list[int]]) -> None:
    assert len({tuple(tokens) for tokens in expected.values()}) == len(FAMILIES)


@pytest.mark.parametrize(
    ("core_mode", "kwargs", "targets"),
    [
        ("single", {"target_cores": ["0:1:2"]}, [(1, 2)]),
        ("single", {}, [(cluster, core) for cluster in (0, 1) for core in range(4)]),
        ("global4", {"target_clusters": ["0:1"]}, [(1, core) for core in range(4)]),
        ("global8", {}, [(cluster, core) for cluster in (0, 1) for core in range(4)]),
    ],
)
def test_the_model_says_where_it_runs(
    core_mode: str,
    kwargs: dict[str, Any],
    targets: list[tuple[int, int]],
    load: Callable[..., Any],
    artifacts: dict[str, Path],
) -> None:
    native = load(artifacts["llama"], core_mode=core_mode, **kwargs).get_mxq_model()

    assert native.get_core_mode() is qbruntime.CoreMode[core_mode.capitalize()]
    assert [(int(c.cluster.name[-1]), int(c.core.name[-1])) for c in native.get_target_cores()] == targets
    inside = qbruntime.CoreId(qbruntime.Cluster.Cluster1, qbruntime.Core.Core2)
    assert native.is_target(inside) is ((1, 2) in targets)


@pytest.mark.parametrize("family", ["qwen3", "exaone-scaled", "exaone4-sliding", "cohere2"])
def test_every_position_of_a_prompt(
    family: str, load: Callable[..., Any], artifacts: dict[str, Path], checkpoints: dict[str, Path]
) -> None:
    """`logits_to_keep=0` on a last-only artifact: the vendor's slow path, one infer a position."""
    import torch

    model = load(artifacts[family])
    plain = plain_model(checkpoints[family])
    ids = torch.tensor([PROMPT])
    with torch.inference_mode(), pytest.warns(UserWarning, match="last-only MXQ"):
        ours = model(ids).logits
    with torch.inference_mode():
        theirs = plain(ids).logits

    torch.testing.assert_close(ours.reshape(theirs.shape), theirs, rtol=1e-3, atol=1e-3)
