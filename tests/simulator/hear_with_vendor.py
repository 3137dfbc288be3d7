"""Answers of the vendor's Qwen3-ASR classes, for `test_qwen3_asr`: a program of its own, see there.

    hear_with_vendor.py ARTIFACT REQUESTS ANSWERS

REQUESTS are tensors `features.N` (1, mels, frames) and `prompt.N`; ANSWERS get `heard.N`, `tokens.N` and
`logits.N` (of the prompt's last position), and `turn.N` where REQUESTS have a second prompt `turn.N`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from runtime.device.active import activate, vendor_stack
from runtime.families.vendor import dispose_model


def main(artifact: str, requests: str, answers: str, layout: str) -> None:
    """See above; `layout` is JSON with keyword arguments for loading."""
    activate("simulated")
    vendor_stack()
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    assert transformers.__version__ == "4.57.6"
    load = transformers.AutoModelForSpeechSeq2Seq.from_pretrained
    try:
        load(artifact, local_files_only=True)
    except Exception as error:  # noqa: BLE001 - which one it is depends on the hub's client
        found_nothing = "mobilint/" in str(error)
    else:
        found_nothing = False
    assert found_nothing, "the vendor's nested configurations know their folder now: drop the two paths"
    paths = {f"{part}_mxq_path": str(Path(artifact) / f"{part}.mxq") for part in ("encoder", "decoder")}
    model = load(artifact, local_files_only=True, **paths, **json.loads(layout))
    assert type(model).__module__.startswith("transformers_mblt.")
    given = load_file(requests)
    found: dict[str, torch.Tensor] = {}
    for name in [name for name in given if name.startswith("prompt.")]:
        number = name.split(".")[1]
        features = given[f"features.{number}"]
        mask = torch.ones(1, features.shape[-1], dtype=torch.long)
        with torch.inference_mode():
            sound = {"input_features": features, "feature_attention_mask": mask}
            found[f"heard.{number}"] = model.get_audio_features(**sound)
            found[f"logits.{number}"] = model.thinker(
                input_ids=given[name], use_cache=False, logits_to_keep=1, **sound
            ).logits.reshape(-1)
            cache = model.thinker.model._get_cache("", 1, 0)
            found[f"tokens.{number}"] = say(model, given[name], sound, cache)
            if f"turn.{number}" in given:
                found[f"turn.{number}"] = say(model, given[f"turn.{number}"], {}, cache)
    save_file({name: tensor.clone().contiguous() for name, tensor in found.items()}, answers)
    dispose_model(model)


def say(model: Any, prompt: Any, sound: dict[str, Any], cache: Any) -> Any:
    """The prompt and sixteen greedy tokens."""
    import torch

    result = model.generate(
        input_ids=prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=16,
        min_new_tokens=16,
        do_sample=False,
        eos_token_id=[1],
        past_key_values=cache,
        **sound,
    )
    return result.sequences


if __name__ == "__main__":
    main(*sys.argv[1:])
    assert Path(sys.argv[3]).is_file()
