"""What stays behind: memory after 1,000 requests and after 100 times loading and unloading, over warm-up.

Tiny models, loaded and asked as any other, so that what is measured is the program and not the weights: one
for text, of one network, and one of two networks that is asked about a picture. `rows` runs a process of its
own for each, which prints one JSON document.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.table import Goal, Row

if TYPE_CHECKING:
    from tests.runtime.families.talk import Talk

SLOTS = 4
PICTURE = (112, 84)
"""Width and height in pixels."""
REQUESTS = 1000
CYCLES = 100
WARM_UP = 20
"""Per cent of each."""
MOST = 3.0
"""Per cent."""
SAMPLED = {
    "temperature": 0.8,
    "top_p": 0.95,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.3,
    "frequency_penalty": 0.2,
    "stop": ("t1 t2 t3",),
    "max_tokens": 8,
}


def measure_text(folder: Path) -> dict[str, float]:
    """Growth of resident memory in per cent, and device memory left in bytes."""
    from runtime.simulator.build import build_artifact
    from tests.runtime.families.talk import Talk, save_tokenizer
    from tests.simulator.checkpoints import make_checkpoint

    checkpoint, artifact = make_checkpoint(folder / "checkpoint", "llama"), folder / "artifact"
    save_tokenizer(checkpoint)
    build_artifact(checkpoint, artifact, max_batch_size=SLOTS, context_length=96, prefill_chunk=16)
    lane = Talk(artifact)

    def request(number: int) -> None:
        lane.ask(f"r{number}", [[1 + number % 90, 7, 3]], **SAMPLED)
        lane.events.clear()

    requests = _growth(request, REQUESTS)
    cycles = _growth(lambda _: _load_again(lane, artifact, lambda: request(0)), CYCLES)
    return {"requests": requests, "cycles": cycles, "device_bytes": _left(lane)}


def measure_picture(folder: Path) -> dict[str, float]:
    """The same of a model with a vision network and a text network; loads and unloads only."""
    from runtime.messages import Finished, Generate, ImagePart, TextPart, Turn
    from runtime.sampling.params import SamplingRequest
    from runtime.simulator.build import build_artifact
    from tests.runtime.families.talk import Talk
    from tests.simulator.pictures import noise
    from tests.tiny_qwen2_vl import make_checkpoint

    checkpoint, artifact = make_checkpoint(folder / "checkpoint"), folder / "artifact"
    picture = folder / "picture.png"
    build_artifact(checkpoint, artifact, prefill_chunk=32)
    noise(*PICTURE).save(picture)
    lane = Talk(artifact)
    sampling = SamplingRequest(temperature=0.0, max_tokens=8)
    turns = (Turn("user", (ImagePart(str(picture)), TextPart("What is this?"))),)

    def request() -> None:
        lane.engine.handle(Generate("r", "r", "tiny", turns, sampling, 1))
        lane.run()
        assert any(isinstance(event, Finished) for event in lane.events), lane.events
        lane.events.clear()

    cycles = _growth(lambda _: _load_again(lane, artifact, request), CYCLES)
    return {"cycles": cycles, "device_bytes": _left(lane)}


def _load_again(lane: Talk, artifact: Path, request: Callable[[], None]) -> None:
    from runtime.layout.request import LayoutRequest
    from runtime.messages import LoadModel, UnloadModel

    lane.engine.handle(UnloadModel("tiny"))
    lane.engine.handle(LoadModel("tiny", str(artifact), LayoutRequest()))
    request()


def _left(lane: Talk) -> float:
    """Bytes of device memory that are still taken after the model has gone."""
    from runtime import simulator

    lane.engine.close()
    gc.collect()
    return float(sum(device.memory_used for device in simulator.usage()))


def _growth(work: Callable[[int], None], count: int) -> float:
    warm = count * WARM_UP // 100
    for number in range(warm):
        work(number)
    before = _resident()
    for number in range(warm, count + warm):
        work(number)
    return 100.0 * (_resident() - before) / before


def _resident() -> int:
    """Bytes, with what the allocator keeps for later given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def probe(part: str) -> dict[str, float]:
    """One of `PARTS` measured in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.lasting", part],
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    report: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return report


def rows(_models: Path) -> Iterator[Row]:
    """The figures as lines of the table."""
    text = probe("text")
    yield _grown(f"memory after {REQUESTS:,} requests", text["requests"])
    yield _grown(f"memory after {CYCLES} loads and unloads", text["cycles"])
    yield _taken("device memory left after the last unload", text["device_bytes"])
    picture = probe("picture")
    yield _grown(f"memory after {CYCLES} loads and unloads of a vision and text model", picture["cycles"])
    yield _taken("device memory left after the last unload of it", picture["device_bytes"])


def _grown(what: str, growth: float) -> Row:
    return Row(what, f"{growth:+.2f} %", Goal(growth, at_most=MOST, unit="%"))


def _taken(what: str, nbytes: float) -> Row:
    return Row(what, f"{nbytes:.0f} bytes", Goal(nbytes, at_most=0, unit="bytes"))


PARTS = {"text": measure_text, "picture": measure_picture}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mblt-lasting-") as place:
        sys.stdout.write(json.dumps(PARTS[sys.argv[1]](Path(place))) + "\n")
