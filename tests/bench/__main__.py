"""`make bench`: the figures the program is held to, as ratios side by side in one run.

All on the simulated device (CPU): these are not figures of an NPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mblt_desktop.paths import default_paths
from runtime.config import RuntimeConfig
from tests.bench import batch, concurrency, generation, host_time, lasting, reuse, window
from tests.bench.table import Row, print_table

SECTIONS: dict[str, Callable[[Path], Iterable[Row]]] = {
    "generation": generation.rows,
    "host-time": host_time.rows,
    "batch": batch.rows,
    "concurrency": concurrency.rows,
    "reuse": reuse.rows,
    "window": window.rows,
    "memory": lasting.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, for `docs/benchmarks.md`; the exit status is 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; else all")
    wanted = parser.parse_args(arguments).sections or list(SECTIONS)
    if unknown := set(wanted) - set(SECTIONS):
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    models = RuntimeConfig(default_paths().data).models_dir
    return print_table(row for name in wanted for row in SECTIONS[name](models))


if __name__ == "__main__":
    sys.exit(main())
