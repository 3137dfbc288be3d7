"""What a model's folder says about it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.catalog.manifest import MANIFEST
from runtime.families.model_info import eos_ids, sampling_defaults, title_of
from runtime.sampling.params import SamplingRequest
from runtime.sampling.sampler import resolve


@pytest.mark.parametrize(
    ("stated", "temperature", "source"),
    [
        ('{"do_sample": false, "temperature": 0.7, "top_k": 50}', 0.0, "model"),
        ('{"do_sample": false}', 0.0, "model"),
        ('{"do_sample": true, "temperature": 0.7}', 0.7, "model"),
        ('{"do_sample": "false"}', 1.0, "default"),
        ("{}", 1.0, "default"),
    ],
)
def test_a_model_that_does_not_sample_answers_greedily_and_it_is_said_why(
    tmp_path: Path, stated: str, temperature: float, source: str
) -> None:
    (tmp_path / "generation_config.json").write_text(stated)
    sampling = resolve(SamplingRequest(), sampling_defaults(tmp_path))
    (used,) = [used for used in sampling.used if used.name == "temperature"]
    assert (used.value, used.source) == (temperature, source)
    wanted = resolve(SamplingRequest(temperature=0.5), sampling_defaults(tmp_path))
    assert ("temperature", 0.5, "you") in [(one.name, one.value, one.source) for one in wanted.used]


@pytest.mark.parametrize(
    "content", [None, "{", "[]", json.dumps({"title": 3}), json.dumps({"title": "Half"})]
)
def test_a_folder_without_a_whole_manifest_is_called_by_its_own_name(
    tmp_path: Path, content: str | None
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    if content is not None:
        (folder / MANIFEST).write_text(content)
    assert title_of(folder) == "mine"


def test_an_installed_model_is_called_as_its_manifest_says(demo_models: Path) -> None:
    folder = demo_models / "whisper-tiny.en-sim"
    assert title_of(folder) == json.loads((folder / MANIFEST).read_text())["title"] == "Whisper tiny.en"


@pytest.mark.parametrize(
    ("stated", "ends"),
    [
        (7, {3, 7}),
        ([7, 8], {3, 7, 8}),
        (None, {3}),
        ("end", {3}),
        (["end", 7, None, [8], 1.5, True], {3, 7}),
        ({"id": 7}, {3}),
        ([-1, 10**30], {3}),
    ],
)
def test_only_what_can_be_a_token_ends_an_answer(stated: Any, ends: set[int]) -> None:
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=stated))
    assert eos_ids(model, SimpleNamespace(eos_token_id=3)) == ends
