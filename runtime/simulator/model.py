"""Stands in for the runtime's own `Model` object, behind the vendor's Python class.

The vendor's `qbruntime.Model` stays as it is, with its signatures and its shape matching; this is the object
it calls. What is not simulated answers with the runtime's `NotImplemented`.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelError, WrongDeviceError
from runtime.simulator import rows as row_rules
from runtime.simulator.artifact import Header, read_header
from runtime.simulator.cores import choose_mode, core_groups, native_mode
from runtime.simulator.device import CoreGroup, Device, NativeAccelerator
from runtime.simulator.errors import npu_error
from runtime.simulator.events import TRACE
from runtime.simulator.executor import Executor, Row, Shape
from runtime.simulator.faults import FAULTS
from runtime.simulator.kv import KvMemory, blob_size, cache_names
from runtime.simulator.roles import make_executor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_IDENTIFIERS = itertools.count()


class NativeModel:
    """One loaded artifact: configured at construction, alive between `launch` and `dispose`."""

    def __init__(self, path: str, config: Any = None) -> None:
        if not isinstance(path, str):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are "
                "supported:\n    1. qbruntime.qbruntime.Model(arg0: str)\n"
                "    2. qbruntime.qbruntime.Model(arg0: str, arg1: qbruntime.qbruntime.ModelConfig)\n\n"
                f"Invoked with: {path!r}"
            )
        self._path = path
        self._busy = threading.RLock()
        self._device: Device | None = None
        self._generation = 0
        self._kv: KvMemory | None = None
        self._give_back: Callable[[], object] = lambda: None
        with TRACE.span("create model"):
            # As on the real runtime, this span stays open when loading fails.
            TRACE.begin("load mxq")
            self._header, self._executor = _load(Path(path))
            TRACE.end("load mxq")
            self._mode = choose_mode(self._header, config)
            self._groups: list[CoreGroup] = core_groups(NativeAccelerator.fleet.board, self._mode, config)
        self._identifier = next(_IDENTIFIERS)

    # Life on the device

    def launch(self, accelerator: NativeAccelerator) -> None:
        """Put weights and KV memory on the device; raises BadAlloc when they do not fit."""
        device = accelerator.device
        if self._device is not None:
            raise npu_error("Model_AlreadyLaunched")
        if device.board.name not in self._header.devices:
            raise npu_error(
                "Model_IsNotSupportedHardware",
                f'Model targets device(s) "{", ".join(self._header.devices)}", but the accelerator is '
                f'"{device.board.name}".',
            )
        with TRACE.span("launch"):
            if FAULTS.strike("out_of_memory") is not None:
                raise npu_error("BadAlloc", "Failed to allocate NPU memory for model upload.")
            kv_shape, header = self._executor.kv_shape, self._header
            kv_bytes = 0 if kv_shape is None else kv_shape.nbytes(header.max_cache_size, header.batch)
            nbytes = self._executor.weights.nbytes + kv_bytes
            device.allocate(nbytes)
            # Also when the model is dropped without being disposed of.
            self._give_back = weakref.finalize(self, device.free, nbytes)
            if kv_shape is not None:
                self._kv = KvMemory(kv_shape, header.max_cache_size, header.batch)
            self._device, self._generation = device, device.generation

    def dispose(self) -> None:
        """Give the device memory back; the KV is lost."""
        with self._busy:
            self._give_back()
            self._device = self._kv = None

    # Inference

    def infer(self, inputs: list[Array], *rest: Any) -> list[Array] | None:
        """Every overload: `infer(in[, cache_size])`, `infer(in, params)`, and with `out` before the last.

        `rest` tells them apart by type: a list of arrays is `out`, which is filled and nothing returned; a
        list of BatchParam is `params`.
        """
        outputs, cache_size, params = row_rules.read_arguments(rest)
        device = self._alive()
        with TRACE.span("infer"):
            shapes = self._executor.inputs
            inputs = row_rules.check_inputs(inputs, shapes)
            width = inputs[0].shape[-2]
            rows = row_rules.plan_rows(self._header, self._kv, width, cache_size, params)
            with device.cores(self._groups):
                with TRACE.span("copy to npu"):
                    inputs = [array.astype("float32", copy=False) for array in inputs]
                with TRACE.span("run npu"):
                    results = self._run(device, inputs, rows)
                with TRACE.span("copy from npu"):
                    return row_rules.deliver(results, outputs)

    def infer_chw(self, inputs: list[Array], *rest: Any) -> list[Array] | None:
        """Only networks whose input is given height, width, channels are simulated."""
        raise npu_error("NotImplemented", "Channel-first input is not simulated.")

    def _run(self, device: Device, inputs: Sequence[Array], rows: Sequence[Row]) -> list[Array]:
        self._meet_faults(device)
        if self._kv is None:
            return self._executor.run(inputs, (), None)
        with self._busy:
            results = self._executor.run(inputs, rows, self._kv)
            for row in rows:
                self._kv.note_written(row.slot, row.end)
        if FAULTS.strike("nan_logits") is not None:
            results[0][...] = float("nan")
        return results

    def _meet_faults(self, device: Device) -> None:
        delay = FAULTS.strike("slow_core")
        if delay is not None:
            time.sleep(delay)
        stall = FAULTS.strike("stall")
        if stall is not None:
            time.sleep(stall)
            raise npu_error("Acc_NPUTimeout", f"No answer within {stall} s.")
        absent = FAULTS.strike("device_lost")
        if absent is not None:
            device.lose(absent)
        self._alive()

    def _alive(self) -> Device:
        if self._device is None:
            raise npu_error("Model_NotLaunched")
        if self._device.generation != self._generation or not self._device.present:
            raise npu_error(
                "Model_NotAlive",
                "A fatal error occurred while executing the NPU task. Please dispose of the model and "
                "relaunch it",
            )
        return self._device

    # What it is

    def get_num_model_variants(self) -> int:
        """Simulated artifacts have one variant."""
        return 1

    def get_model_variant_handle(self, variant_idx: int) -> NativeVariant:
        """The handle of variant 0."""
        if variant_idx != 0:
            raise npu_error("Model_InvalidVariantIdx")
        return NativeVariant(self)

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

    # KV memory

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

    def dump_cache_memory(self, where: int | str, cache_id: int = 0) -> list[Any] | None:
        """`(cache_id)` returns a blob per cache; `(directory, cache_id)` writes a file per cache."""
        if isinstance(where, str):
            folder = _folder(where)
            for info, blob in zip(self.get_cache_infos(), self._dump(cache_id), strict=True):
                (folder / f"cache_{info.layer_hash}.bin").write_bytes(blob.tobytes())
            return None
        return self._dump(where)

    def load_cache_memory(self, source: list[Any] | str, cache_id: int = 0) -> None:
        """The reverse of `dump_cache_memory`."""
        import numpy as np

        infos = self.get_cache_infos()
        if isinstance(source, str):
            folder = _folder(source)
            try:
                blobs = [
                    np.frombuffer((folder / f"cache_{info.layer_hash}.bin").read_bytes(), np.int8)
                    for info in infos
                ]
            except OSError as error:
                raise npu_error("Model_FailedToOpenCacheFile", str(error)) from error
        else:
            blobs = source
        if len(blobs) != len(infos):
            raise npu_error(
                "Model_NumCacheMismatched",
                "Failed to load cache memory - The number of cache is mismatched (expected: "
                f"{len(infos)}, actual: {len(blobs)})",
            )
        with self._busy, TRACE.span("load cache memory"):
            self._memory(cache_id).load_all(cache_id, blobs)

    def dump_cache_memory_by_name(self, name: str, cache_id: int = 0) -> Any:
        """The blob of one cache."""
        return self._memory(cache_id).dump(cache_id, self._find("name", name))

    def dump_cache_memory_by_layer_hash(self, layer_hash: str, cache_id: int = 0) -> Any:
        """The blob of one cache."""
        return self._memory(cache_id).dump(cache_id, self._find("layer_hash", layer_hash))

    def load_cache_memory_by_name(self, buf: Any, name: str, cache_id: int = 0) -> None:
        """Put one cache back."""
        self._memory(cache_id).load(cache_id, self._find("name", name), buf)

    def load_cache_memory_by_layer_hash(self, buf: Any, layer_hash: str, cache_id: int = 0) -> None:
        """Put one cache back."""
        self._memory(cache_id).load(cache_id, self._find("layer_hash", layer_hash), buf)

    def filter_cache_tail(self, cache_size: int, tail_size: int, mask: list[bool]) -> int:
        """Keep only the masked positions of the tail of slot 0."""
        with self._busy, TRACE.span("filter cache tail"):
            return self._memory(0).filter_tail(0, cache_size, tail_size, mask)

    def move_cache_tail(self, num_head: int, num_tail: int, cache_size: int) -> int:
        """Move the tail of slot 0 to the end of its head."""
        with self._busy, TRACE.span("move cache tail"):
            return self._memory(0).move_tail(0, num_head, num_tail, cache_size)

    def reset_fixed_tail_cache_memory(self, cache_id: int = 0) -> None:
        """No simulated network has a fixed-tail cache."""
        self._memory(cache_id)
        raise npu_error(
            "Model_CacheNotFound", "Model doesn't have KV-cache whose type is `CacheType::FixedTailCache`"
        )

    def _dump(self, cache_id: int) -> list[Any]:
        with self._busy, TRACE.span("dump cache memory"):
            kv = self._memory(cache_id)
            blobs = [kv.dump(cache_id, index) for index in range(len(kv.names))]
        if FAULTS.strike("truncated_kv") is not None:
            blobs[0] = blobs[0][:-1]
        if FAULTS.strike("corrupt_kv") is not None:
            blobs[0] = blobs[0].copy()
            blobs[0][-1] ^= 1
        return blobs

    def _memory(self, cache_id: int) -> KvMemory:
        if self._executor.kv_shape is None:
            raise npu_error("Model_NoCache")
        self._alive()
        assert self._kv is not None
        if not 0 <= cache_id < self._header.batch:
            raise npu_error(
                "Model_CacheNotFound",
                f"`cache_id` ({cache_id}) exceeds maximum batch size ({self._header.batch})",
            )
        return self._kv

    def _find(self, key: str, wanted: str) -> int:
        for index, info in enumerate(self.get_cache_infos()):
            if getattr(info, key) == wanted:
                return index
        raise npu_error("Model_CacheNotFound", f"Failed to find KV-cache whose {key} is `{wanted}`")

    def _buffer_info(self, shape: Shape) -> Any:
        info = _native().BufferInfo()
        height, width, channel = shape
        widest = width if width > 0 else self._header.prefill_width
        for prefix in ("original_", "reshaped_", ""):
            setattr(info, f"{prefix}height", height)
            setattr(info, f"{prefix}width", widest)
            setattr(info, f"{prefix}channel", channel)
        info.max_height, info.max_width, info.max_channel = height, widest, channel
        info.max_cache_size = self._header.max_cache_size
        return info


class NativeVariant:
    """Stands in for the runtime's `ModelVariantHandle`: the model's only variant."""

    def __init__(self, model: NativeModel) -> None:
        self._model = model
        self.get_model_input_shape = model.get_model_input_shape
        self.get_model_output_shape = model.get_model_output_shape
        self.get_input_buffer_info = model.get_input_buffer_info
        self.get_output_buffer_info = model.get_output_buffer_info
        self.get_input_scale = model.get_input_scale
        self.get_output_scale = model.get_output_scale
        self.get_model_input_data_type = model.get_model_input_data_type
        self.get_model_output_data_type = model.get_model_output_data_type

    def get_variant_idx(self) -> int:
        """The only one."""
        return 0


def summarise(path: str) -> str:
    """What the artifact is, as text; empty when it cannot be read."""
    try:
        header, executor = _read(Path(path))
    except ModelError:
        return ""
    rows = (
        ("Target device", ", ".join(header.devices)),
        ("Simulated role", header.role),
        ("Core modes", ", ".join(header.core_modes)),
        ("Batch", str(header.batch)),
        ("KV capacity", str(header.max_cache_size)),
        ("Input shapes", ", ".join(map(str, executor.inputs))),
        ("Output shapes", ", ".join(map(str, executor.outputs))),
    )
    return "\n".join(f"| {name:<15} | {value}" for name, value in rows) + "\n"


def _read(path: Path) -> tuple[Header, Executor]:
    header = read_header(path)
    return header, make_executor(path, header)


def _load(path: Path) -> tuple[Header, Executor]:
    """A damaged artifact is the runtime's error; one for a real board is ours, which says which is which."""
    try:
        return _read(path)
    except WrongDeviceError:
        raise
    except ModelError as error:
        raise npu_error("Model_FailedToLoadMXQ", error.summary) from error


def _folder(text: str) -> Path:
    folder = Path(text)
    if not folder.is_dir():
        raise npu_error("Model_FailedToFindDirectory", text)
    return folder


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
    "infer_npu_data",
    "infer_npu_data_chw",
    "infer_async",
    "infer_async_chw",
    "infer_async_to_float",
    "infer_async_chw_to_float",
)
for _name in (*_BUFFERS, *_OTHER_INFERS):
    setattr(NativeModel, _name, _not_simulated(_name))
for _name in _BUFFERS:
    setattr(NativeVariant, _name, _not_simulated(_name))
