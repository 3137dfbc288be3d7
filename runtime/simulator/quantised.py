"""Projections with 8-bit weights, for speed without a board: the default of the simulated device.

A decode step reads every weight once, so its time is the weights' size over the memory's speed; a byte a
weight instead of four makes it that much shorter. Every 16 inputs of a column have a scale of their own, and
the ONNX runtime's `MatMulNBits` multiplies without unpacking. What that rounding changes, and what it saves,
is in docs/decisions.md; `MBLT_SIM_PRECISION=float32` computes with the checkpoint's own weights, which the
tests compare with.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.errors import SettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

ENVIRONMENT = "MBLT_SIM_PRECISION"
PRECISIONS = ("int8", "float32")

_BLOCK = 16
_SMALLEST = 1 << 16
"""Weights of a matrix below which the call would cost more than it saves."""

_MANY_ROWS = 32
_FEW_CORES = 2

_LOCK = threading.Lock()
_MADE: weakref.WeakValueDictionary[tuple[int, tuple[int, ...], tuple[int, ...]], QuantisedMatrix] = (
    weakref.WeakValueDictionary()
)


def precision() -> str:
    """The precision that the environment asks for; raises SettingError for one that does not exist."""
    asked = os.environ.get(ENVIRONMENT) or PRECISIONS[0]
    if asked not in PRECISIONS:
        raise SettingError(
            ENVIRONMENT,
            f"{ENVIRONMENT} names “{asked}”, which the simulated device cannot compute with.",
            remedy=f"Use one of {', '.join(PRECISIONS)}.",
        )
    return asked


def prepare(weight: Array) -> Array:
    """A projection (in, out) in the precision asked for; used like an array, as `x @ weight`."""
    if precision() == "float32" or weight.size < _SMALLEST or weight.shape[0] % _BLOCK:
        return weight
    # Made once for all models on the same mapped file; each keeps the mapping, and so its address, alive.
    key = (weight.__array_interface__["data"][0], weight.shape, weight.strides)
    with _LOCK:
        made = _MADE.get(key)
        if made is None:
            made = _MADE[key] = QuantisedMatrix(weight)
    return made  # type: ignore[return-value]  # stands for an array on the right of @


class QuantisedMatrix:
    """A matrix (in, out) of 8-bit weights that only knows how to be multiplied by rows from the left."""

    __array_ufunc__ = None
    """Tells NumPy to leave `x @ matrix` to `__rmatmul__`."""

    def __init__(self, weight: Array) -> None:
        self._source = weight
        self.shape = weight.shape
        self._session = _session(*quantise(weight))

    def __rmatmul__(self, x: Array) -> Array:
        """x (in,) or (n, in) times this: (out,) or (n, out)."""
        if x.ndim > 1 and len(x) >= _MANY_ROWS and len(os.sched_getaffinity(0)) > _FEW_CORES:
            # A long prefill computes more than it reads: all cores in float32 are faster than one.
            many: Array = x @ self._source
            return many
        rows = np.ascontiguousarray(x.reshape(-1, self.shape[0]))
        (product,) = self._session.run(None, {"x": rows})
        result: Array = product.reshape(*x.shape[:-1], self.shape[1])
        return result


def quantise(weight: Array) -> tuple[NDArray[np.uint8], Array]:
    """A matrix (in, out) as bytes (out, in / 16, 16) around 128, and each block's scale (out, in / 16)."""
    inputs, outputs = weight.shape
    blocks = np.ascontiguousarray(weight.T).reshape(outputs, inputs // _BLOCK, _BLOCK)
    largest = np.zeros(blocks.shape[:-1], np.float32)
    for place in range(_BLOCK):  # eight times faster than `max` over an axis this short
        np.maximum(largest, np.abs(blocks[..., place]), out=largest)
    scales = largest / np.float32(127)
    scales[scales == 0] = 1
    levels = np.rint(blocks / scales[..., None]).astype(np.int8)
    return (levels.view(np.uint8) ^ 0x80), scales.astype(np.float32)


def _session(levels: NDArray[np.uint8], scales: Array) -> Any:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    outputs, inputs = levels.shape[0], levels.shape[1] * _BLOCK
    node = helper.make_node(
        "MatMulNBits",
        ["x", "levels", "scales"],
        ["y"],
        domain="com.microsoft",
        K=inputs,
        N=outputs,
        bits=8,
        block_size=_BLOCK,
        accuracy_level=4,  # integer products; the level in float32 is slower than float32 weights
    )
    graph = helper.make_graph(
        [node],
        "projection",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", outputs])],
        [numpy_helper.from_array(levels, "levels"), numpy_helper.from_array(scales.reshape(-1), "scales")],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, ir_version=10, opset_imports=opsets).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a pool for each projection would be hundreds of threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
