"""What a loaded artifact tells about itself, in the runtime's own structs, and what it cannot do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from runtime.simulator.artifact import Header
from runtime.simulator.cores import native_mode
from runtime.simulator.device import CoreGroup
from runtime.simulator.errors import npu_error
from runtime.simulator.executor import Executor, Shape
from runtime.simulator.kv import blob_size, cache_names


class IoFacts:
    """Inputs and outputs: what the native `Model` and its `ModelVariantHandle` both answer."""

    def __init__(self, header: Header, executor: Executor) -> None:
        self._header = header
        self._executor = executor

    def get_model_input_shape(self) -> list[Shape]:
        """(height, width, channels) of each input; -1 for a dimension of any length."""
        return list(self._executor.inputs)

    def get_model_output_shape(self) -> list[Shape]:
        """(height, width, channels) of each output."""
        return list(self._executor.outputs)

    def get_input_buffer_info(self) -> list[Any]:
        """One BufferInfo per input; the first tells the widest input and the KV capacity."""
        return [self._buffer_info(shape) for shape in self._executor.inputs]

    def get_output_buffer_info(self) -> list[Any]:
        """One BufferInfo per output."""
        return [self._buffer_info(shape) for shape in self._executor.outputs]

    def get_input_scale(self) -> list[Any]:
        """A uniform scale of 1 per input: nothing is quantised."""
        return [_unit_scale() for _ in self._executor.inputs]

    def get_output_scale(self) -> list[Any]:
        """A uniform scale of 1 per output."""
        return [_unit_scale() for _ in self._executor.outputs]

    def get_model_input_data_type(self) -> Any:
        """Float32."""
        return _native().DataType.Float32

    def get_model_output_data_type(self) -> Any:
        """Float32."""
        return _native().DataType.Float32

    def _buffer_info(self, shape: Shape) -> Any:
        info = _native().BufferInfo()
        height, width, channel = shape
        widest = width if width > 0 else self._header.prefill_width
        deepest = channel if channel > 0 else self._header.max_cache_size  # a mask over all positions
        for prefix in ("original_", "reshaped_", ""):
            setattr(info, f"{prefix}height", height)
            setattr(info, f"{prefix}width", widest)
            setattr(info, f"{prefix}channel", deepest)
        info.max_height, info.max_width, info.max_channel = height, widest, deepest
        info.max_cache_size = self._header.max_cache_size
        return info


class NativeVariant(IoFacts):
    """Stands in for the runtime's `ModelVariantHandle`: the model's only variant."""

    def get_variant_idx(self) -> int:
        """The only one."""
        return 0


class ModelFacts(IoFacts):
    """The queries of the native `Model`."""

    _path: str
    _mode: str
    _groups: Sequence[CoreGroup]
    _identifier: int

    def get_num_model_variants(self) -> int:
        """Simulated artifacts have one variant."""
        return 1

    def get_model_variant_handle(self, variant_idx: int) -> NativeVariant:
        """The handle of variant 0."""
        if variant_idx != 0:
            raise npu_error("Model_InvalidVariantIdx")
        return NativeVariant(self._header, self._executor)

    def get_core_mode(self) -> Any:
        """The mode it was configured for; `auto` is resolved."""
        return native_mode(self._mode)

    def get_device_names(self) -> list[str]:
        """The boards it can be launched on."""
        return list(self._header.devices)

    @property
    def target_cores(self) -> list[Any]:
        """The cores it may use, as native CoreIds."""
        return [_core_id(*core) for core in sorted(frozenset().union(*self._groups))]

    def is_target(self, core_id: Any) -> bool:
        """Whether it may use that core."""
        return any(core_id == own for own in self.target_cores)

    def get_identifier(self) -> int:
        """Counts the models of this process from 0."""
        return self._identifier

    def get_model_path(self) -> str:
        """The path it was loaded from, as given."""
        return self._path

    def get_cache_infos(self) -> list[Any]:
        """One CacheInfo per layer for keys and one for values; empty without a cache."""
        shape = self._executor.kv_shape
        if shape is None:
            return []
        native, header = _native(), self._header
        infos = []
        for name in cache_names(shape):
            info = native.CacheInfo()
            info.cache_type = native.CacheType.Batch if header.batch > 1 else native.CacheType.Default
            info.name = name
            info.layer_hash = hashlib.sha256(f"{header.weights}/{name}".encode()).hexdigest()[:16]
            info.size = blob_size(shape, header.max_cache_size)
            info.num_batches = header.batch
            infos.append(info)
        return infos


def _native() -> Any:
    import qbruntime.qbruntime

    return qbruntime.qbruntime


def _core_id(cluster: int, core: int) -> Any:
    native = _native()
    core_id = native.CoreId()
    core_id.cluster = getattr(native.Cluster, f"Cluster{cluster}")
    core_id.core = getattr(native.Core, f"Core{core}")
    return core_id


def _unit_scale() -> Any:
    scale = _native().Scale()
    scale.scale, scale.is_uniform, scale.scale_list = 1.0, True, []
    return scale


def _not_simulated(name: str) -> Callable[..., Any]:
    def method(self: object, *args: object, **kwargs: object) -> Any:
        raise npu_error("NotImplemented", f"`{name}` is not simulated.")

    method.__name__ = name
    method.__doc__ = "Not simulated: raises the runtime's NotImplemented."
    return method


_BUFFERS = (
    "acquire_input_buffer",
    "acquire_output_buffer",
    "acquire_input_npu_data",
    "acquire_output_npu_data",
    "release_buffer",
    "reposition_inputs",
    "reposition_outputs",
)
_OTHER_INFERS = (
    "infer_to_float",
    "infer_chw_to_float",
    "infer_buffer",
    "infer_speedrun",
    "infer_pinned_memory",
    "infer_npu_data_chw",
    "infer_async",
    "infer_async_chw",
    "infer_async_to_float",
    "infer_async_chw_to_float",
)
for _name in _BUFFERS:
    setattr(IoFacts, _name, _not_simulated(_name))
for _name in _OTHER_INFERS:
    setattr(ModelFacts, _name, _not_simulated(_name))
