"""The rules of one infer: its arguments, the shapes it takes, and the sequences it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.errors import npu_error
from runtime.simulator.executor import Row, Shape
from runtime.simulator.kv import KvMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


def read_arguments(rest: Sequence[Any]) -> tuple[list[Array] | None, int, list[Any] | None]:
    """(outputs, cache size, batch parameters) out of the overloads' positional arguments."""
    outputs: list[Array] | None = None
    cache_size, params = 0, None
    for argument in rest:
        if isinstance(argument, int):
            cache_size = argument
        elif argument and not isinstance(argument[0], np.ndarray):
            params = list(argument)
        else:
            outputs = argument
    return outputs, cache_size, params


def check_inputs(inputs: Sequence[Array], shapes: Sequence[Shape], *, several: bool) -> list[Array]:
    """The inputs without a leading batch of 1; raises the vendor's error for other shapes.

    `several` lets a batch of more through, as four dimensions: pictures, for a network without a cache.
    """
    if len(inputs) != len(shapes):
        raise npu_error("Model_ShapeMismatched", f"{len(inputs)} inputs instead of {len(shapes)}")
    checked = []
    for array, shape in zip(inputs, shapes, strict=True):
        plain = array[0] if array.ndim == 4 and len(array) == 1 else array
        one = plain[0] if several and plain.ndim == 4 and len(plain) else plain
        if one.ndim != 3 or any(want not in (-1, have) for have, want in zip(one.shape, shape, strict=True)):
            raise npu_error("Model_ShapeMismatched", f"Input shape {array.shape} instead of {shape}")
        checked.append(plain)
    if len({len(array) if array.ndim == 4 else 1 for array in checked}) > 1:
        raise npu_error("Model_ShapeMismatched", "The inputs are batches of different sizes")
    return checked


def check_shape(shape: Sequence[int], wanted: Shape) -> None:
    """Raises the vendor's error unless a tensor of this shape, with or without a leading 1, fits."""
    plain = shape[1:] if len(shape) == 4 and shape[0] == 1 else shape
    if len(plain) != 3 or any(
        want not in (-1, have) or have < 1 for have, want in zip(plain, wanted, strict=True)
    ):
        raise npu_error("Model_ShapeMismatched", f"Shape {list(shape)} instead of {wanted}")


def run_each(run: Callable[[list[Array]], list[Array]], inputs: Sequence[Array]) -> list[Array]:
    """Run a network on every member of a batch of inputs; the results one behind the other."""
    if inputs[0].ndim == 3:
        return run(list(inputs))
    results = [run(list(member)) for member in zip(*inputs, strict=True)]
    return [np.concatenate(parts) for parts in zip(*results, strict=True)]


def plan_rows(
    header: Header, kv: KvMemory | None, width: int, cache_size: int, params: Sequence[Any] | None
) -> list[Row]:
    """The sequences that the positions of one infer belong to; none for a network without a cache."""
    if kv is None:
        return []
    if params is None:
        rows = [Row(0, cache_size, width)]
    else:
        rows = [Row(param.cache_id, param.cache_size, param.sequence_length) for param in params]
        _check_batch(header, rows, width)
    for row in rows:
        _check_row(header, row)
    return rows


def deliver(results: list[Array], outputs: list[Array] | None) -> list[Array] | None:
    """Return the results, or copy them into the caller's arrays."""
    if outputs is None:
        return results
    if len(outputs) != len(results):
        raise npu_error("Model_ShapeMismatched", f"{len(outputs)} outputs instead of {len(results)}")
    for target, result in zip(outputs, results, strict=True):
        if target.size != result.size:
            raise npu_error("Model_ShapeMismatched", f"Output shape {target.shape} for {result.shape}")
        target[...] = result.reshape(target.shape)
    return None


def _check_batch(header: Header, rows: Sequence[Row], width: int) -> None:
    slots = [row.slot for row in rows]
    if len(rows) > header.batch or any(not 0 <= slot < header.batch for slot in slots):
        raise npu_error(
            "Model_InvalidBatchParam",
            f"Batch size or Cache Id exceeds maximum value ({header.batch}): cache ids {slots}",
        )
    if len(set(slots)) != len(slots):
        raise npu_error("Model_InvalidBatchParam", f"Duplicated `cache_id` is detected ({slots}).")
    total = sum(row.length for row in rows)
    if total != width:
        raise npu_error(
            "Model_InvalidBatchParam",
            f"Sequence Length is mismatched between input and `BatchParam` (expected: {total}, actual: "
            f"{width})",
        )


def _check_row(header: Header, row: Row) -> None:
    if row.length < 1 or row.start < 0:
        raise npu_error(
            "Model_ShapeMismatched",
            f"Sequence length ({row.length}) must be positive, cache size not negative",
        )
    if row.length > header.prefill_width:
        raise npu_error(
            "Model_ShapeMismatched",
            f"Sequence length of inputs[0] exceeds maximum value ({row.length} > {header.prefill_width})",
        )
    if row.end > header.max_cache_size:
        raise npu_error(
            "Model_CacheOverflow",
            f"Sum of sequence length and cache size exceeds max cache size ({row.end} > "
            f"{header.max_cache_size})",
        )
