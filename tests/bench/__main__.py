"""`make bench`: the figures the program is held to, as ratios side by side in one run."""

from __future__ import annotations

import sys

from mblt_desktop.paths import default_paths
from runtime.config import RuntimeConfig
from tests.bench import batch, concurrency, generation, host_time, lasting, reuse, window


def main() -> int:
    """Print every figure; the exit status says only whether they could be measured."""
    models = RuntimeConfig(default_paths().data).models_dir
    for title, section in (
        ("Generation", generation.rows),
        ("Host time per token outside infer", host_time.rows),
        ("Batches", batch.rows),
        ("Conversations", concurrency.rows),
        ("Reuse", reuse.rows),
        ("Window", window.rows),
        ("Memory", lasting.rows),
    ):
        _say(f"\n{title}")
        for name, value in section(models):
            _say(f"  {name:<44} {value}")
    _say("\nAll on the simulated device (CPU): these are not figures of an NPU.")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
