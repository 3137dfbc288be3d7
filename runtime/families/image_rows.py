"""Which image models answer several conversations in one call: the rules of the vendor's classes, in words.

Qwen3-VL does with pictures of any size, Qwen2-VL with pictures of one size; what comes from the other two the
vendor's classes refuse at the first call, or give to the network in the wrong order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runtime.errors import LayoutError, ModelDamagedError
from runtime.layout.rules import UNHARMED

_ANGLES = {"qwen2_vl": (2,), "qwen3_vl": (3, 5)}
"""Numbers of inputs of a text network that is given the angles of its positions: it takes any picture."""
_BUNDLED = 3
"""Inputs of a Qwen3-VL network whose order depends on how many conversations it was compiled for."""
_REFUSAL = "only supported for max_batch_size == 1"


@contextmanager
def rows_refused(title: str) -> Iterator[None]:
    """The block loads the model; the vendor's refusal of several conversations leaves it as LayoutError."""
    try:
        yield
    except ModelDamagedError as error:
        if _REFUSAL not in error.detail:
            raise
        raise _one_at_a_time(title, "takes pictures of one size only") from error


def require_rows(title: str, family: str, text: Any) -> None:
    """Raise LayoutError unless the loaded text model can answer as many conversations as it is to."""
    asked = int(getattr(text.config, "max_batch_size", None) or 1)
    compiled = int(text.npu_backend.k_per_model)
    inputs = len(text.get_mxq_model().get_model_variant_handle(0).get_model_input_shape())
    any_size = inputs in _ANGLES[family]
    if asked > 1 and family == "qwen2_vl" and any_size:
        raise _one_at_a_time(title, "is a Qwen2-VL that takes pictures of any size")
    if asked > 1 and family == "qwen3_vl" and not any_size:
        raise _one_at_a_time(title, "takes pictures of one size only")
    if family == "qwen3_vl" and inputs == _BUNDLED and (asked > 1) != (compiled > 1):
        if compiled == 1:
            raise _one_at_a_time(title, "was compiled for one conversation")
        raise LayoutError(
            "layout.max_batch_size",
            f"{title} was compiled for {compiled} parallel conversations and cannot hold only one.",
            remedy="Leave “Parallel conversations” to the model, or raise it (Settings, Device & layout).",
            unharmed=UNHARMED,
        )


def _one_at_a_time(title: str, why: str) -> LayoutError:
    return LayoutError(
        "layout.max_batch_size",
        f"{title} {why}, so it answers one conversation at a time.",
        remedy="Set “Parallel conversations” to 1 (Settings, Device & layout).",
        unharmed=UNHARMED,
    )
