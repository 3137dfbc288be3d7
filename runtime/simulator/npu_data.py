"""Stands in for the runtime's own `NPUData`: a tensor that lives on the host or on a board.

Several models on one board can pass such a tensor on without copying it to the host in between, which is how
a mixture of experts is run. On a board the values are out of reach until they are copied to a tensor of the
host, as on the real one; what they cost there is counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.device import Device, NativeAccelerator
from runtime.simulator.errors import npu_error
from runtime.simulator.events import TRACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

ON_HOST = -1
"""Device number of what is not on a board."""


class NativeNpuData:
    """Zeros of `shape`, on `device` or on the host."""

    def __init__(self, shape: Sequence[int], device: Device | None = None) -> None:
        self.values: Array = np.zeros(tuple(shape), dtype=np.float32)
        self._device: Device | None = None
        self._generation = 0
        self._give_back: Callable[[], object] = lambda: None
        if device is not None:
            self._place(device)

    @classmethod
    def of(cls, values: Array, device: Device | None) -> NativeNpuData:
        """A tensor with these values."""
        made = cls(values.shape, device)
        made.values[...] = values
        return made

    @property
    def device(self) -> Device | None:
        """The board it is on; None for the host. Raises once that board has lost it."""
        if self._device is not None and self._device.generation != self._generation:
            raise npu_error("Model_NotAlive", "NPUData is no longer valid.")
        return self._device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The host's values themselves, for the vendor's view of them."""
        return self.values

    def launch(self, accelerator: NativeAccelerator) -> None:
        """Move it to a board."""
        if self.device is not None:
            raise npu_error("Model_NotSupported", "This NPUData is already on the NPU.")
        with TRACE.span("copy to npu"):
            self._place(accelerator.device)

    def cpu(self) -> None:
        """Move it to the host."""
        if self.device is not None:
            with TRACE.span("copy from npu"):
                self._give_back()
            self._device = None

    def copy_from(self, source: NativeNpuData) -> None:
        """Take over the values of another of the same shape, wherever each is."""
        if source.values.shape != self.values.shape:
            raise npu_error("Model_ShapeMismatched", f"Shape {source.values.shape} for {self.values.shape}")
        ends = (source.device, self.device)
        with TRACE.span("copy from npu" if ends[0] is not None else "copy to npu"):
            self.values[...] = source.values

    def shape(self) -> list[int]:
        """As it was acquired."""
        return list(self.values.shape)

    def data_type(self) -> Any:
        """Float32: nothing is quantised."""
        from qbruntime.qbruntime import DataType

        return DataType.Float32

    def dev_no(self) -> int:
        """The board's number; -1 for the host, and for what a board has lost."""
        if self._device is None or self._device.generation != self._generation:
            return ON_HOST
        return self._device.number

    def hardware_name(self) -> str:
        """The board's name; empty for the host."""
        return "" if self._device is None or self.dev_no() == ON_HOST else self._device.board.name

    def _place(self, device: Device) -> None:
        device.allocate(self.values.nbytes)
        self._give_back = weakref.finalize(self, device.free, self.values.nbytes)
        self._device, self._generation = device, device.generation


def check_together(tensors: Sequence[NativeNpuData], device: Device, *, no_slots: bool) -> None:
    """Raise the runtime's error unless all are on the host, or all on the model's `device`.

    A model without activation slots has no room of its own for what comes from the host.
    """
    homes = {None if tensor.device is None else tensor.device.number for tensor in tensors}
    if len(homes) > 1:
        raise npu_error(
            "Model_NotSupported",
            "All input/output NPUData must share the same status (all InCPU or all InNPU).",
        )
    if homes == {None}:
        if no_slots:
            raise npu_error(
                "Model_NotSupported",
                "A model created with ModelConfig::setActivationSlots(0) (empty I/O) requires NPU-resident "
                "NPUData; acquire them with upload = true.",
            )
    elif homes != {device.number}:
        raise npu_error(
            "Model_NotSupported",
            "All input/output NPUData must reside on the same accelerator as the model "
            f'("{device.board.name}" device #{device.number}).',
        )
