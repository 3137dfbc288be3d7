"""How many threads numpy's BLAS may take.

A decode step is bound by memory, which half of the processors can fill, and more threads mostly wait for each
other: on two processors one thread is as fast as two, does not stall when something else runs, and leaves a
processor to the window. A prefill computes, and takes them all.
"""

from __future__ import annotations

import functools
import os
from typing import Any

_FEW = 8
"""Positions up to which reading the weights is the work."""


def set_threads(positions: int) -> None:
    """Choose the threads for an inference over so many positions; an environment limit is kept."""
    libraries, most = _libraries()
    threads = max(1, most // 2) if positions <= _FEW else most
    for library in libraries:
        library.set_num_threads(threads)


@functools.cache
def _libraries() -> tuple[list[Any], int]:
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().select(internal_api="openblas").lib_controllers
    allowed = [library.num_threads for library in libraries]
    return libraries, min([len(os.sched_getaffinity(0)), *allowed])
