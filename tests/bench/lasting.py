"""What stays behind: memory after 1,000 requests and after 100 times loading and unloading, over warm-up.

A tiny model, loaded and asked as any other, so that what is measured is the program and not the weights. Run
as a process of its own by `rows`; it prints one JSON document.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SLOTS = 4
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


def measure(folder: Path) -> dict[str, float]:
    """Growth of resident memory in per cent, and device memory left in bytes."""
    from runtime import simulator
    from runtime.layout import LayoutRequest
    from runtime.messages import LoadModel, UnloadModel
    from runtime.simulator.build import build_artifact
    from tests.runtime.families.talk import Talk, save_tokenizer
    from tests.simulator.checkpoints import make_checkpoint

    checkpoint, artifact = make_checkpoint(folder / "checkpoint", "llama"), folder / "artifact"
    save_tokenizer(checkpoint)
    build_artifact(checkpoint, artifact, max_batch_size=SLOTS, context_length=96, prefill_chunk=16)
    lane = Talk(artifact)
    report: dict[str, float] = {}

    def request(number: int) -> None:
        lane.ask(f"r{number}", [[1 + number % 90, 7, 3]], **SAMPLED)
        lane.events.clear()

    def cycle(_number: int) -> None:
        lane.engine.handle(UnloadModel("tiny"))
        lane.engine.handle(LoadModel("tiny", str(artifact), LayoutRequest()))
        request(0)

    report["requests"] = _growth(request, REQUESTS)
    report["cycles"] = _growth(cycle, CYCLES)
    lane.engine.close()
    gc.collect()
    report["device_bytes"] = float(sum(device.memory_used for device in simulator.usage()))
    return report


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


def probe() -> dict[str, float]:
    """`measure` in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.lasting"], capture_output=True, text=True, timeout=900, check=True
    )
    report: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return report


def rows(_models: Path) -> list[tuple[str, str]]:
    """The figures as lines of the table."""
    report = probe()
    return [
        (f"memory after {REQUESTS:,} requests", f"{report['requests']:+.2f} %  (at most {MOST:.0f})"),
        (f"memory after {CYCLES} loads and unloads", f"{report['cycles']:+.2f} %  (at most {MOST:.0f})"),
        ("device memory left after the last unload", f"{report['device_bytes']:.0f} bytes"),
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mblt-lasting-") as place:
        sys.stdout.write(json.dumps(measure(Path(place))) + "\n")
