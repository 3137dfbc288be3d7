"""What a load says while somebody waits: which package is imported, and what is done with the model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from runtime.simulator.build import build_artifact
from tests.runtime.families.talk import save_tokenizer
from tests.simulator.checkpoints import make_checkpoint

PROGRAM = """
import gc, json, sys
from pathlib import Path
from runtime.families import load_model
from runtime.layout.request import LayoutRequest

stages, looked_through = [], []

def collected(phase, info):
    if phase == "start" and info["generation"] == 2:
        looked_through.append(len(gc.get_objects()))

gc.callbacks.append(collected)

def say(stage, fraction):
    modules = [name for name in ("torch", "transformers", "transformers_mblt") if name in sys.modules]
    stages.append((stage, fraction, modules))

for number in range(2):
    load_model("tiny", Path(sys.argv[1]), LayoutRequest(), "simulated", say).dispose()
gc.collect()
print(json.dumps([stages, looked_through]))
"""


def test_a_first_load_names_what_it_imports_and_keeps_the_collector_away_from_it(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", "llama")
    save_tokenizer(checkpoint)
    build_artifact(checkpoint, tmp_path / "artifact", context_length=96)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "artifact")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    stages, looked_through = json.loads(done.stdout.splitlines()[-1])
    # Nothing waits for the collector to look through all that torch and transformers are made of.
    assert max(looked_through) < 100_000
    model = ["Checking the layout", "Reading its tokenizer files", "Loading weights onto the device"]
    first = [
        "Looking for the device",
        "Importing torch",
        "Importing transformers",
        "Importing transformers-mblt",
        *model,
    ]
    assert [stage for stage, *_ in stages] == [*first, "Looking for the device", *model]
    loaded = {stage: modules for stage, _fraction, modules in stages[: len(first)]}
    assert loaded["Importing torch"] == []
    assert loaded["Importing transformers"] == ["torch"]
    assert loaded["Importing transformers-mblt"] == ["torch", "transformers"]
    fractions = [fraction for _stage, fraction, _modules in stages[: len(first)] if fraction is not None]
    assert fractions == sorted(fractions)
