"""Stands in for the runtime's own `Model` object, behind the vendor's Python class.

The vendor's `qbruntime.Model` stays as it is, with its signatures and its shape matching; this is the object
it calls. What is not simulated answers with the runtime's `NotImplemented`.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelError, WrongDeviceError
from runtime.simulator import channel_first
from runtime.simulator import rows as row_rules
from runtime.simulator.artifact import Header, read_header
from runtime.simulator.cores import choose_mode, core_groups
from runtime.simulator.device import Device, NativeAccelerator
from runtime.simulator.errors import npu_error
from runtime.simulator.events import TRACE
from runtime.simulator.executor import Executor, Row, Shape
from runtime.simulator.facts import ModelFacts
from runtime.simulator.faults import FAULTS
from runtime.simulator.kv import KvMemory
from runtime.simulator.npu_data import NativeNpuData, check_together
from runtime.simulator.roles import make_executor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_IDENTIFIERS = itertools.count()


class NativeModel(ModelFacts):
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
            super().__init__(*_load(Path(path)))
            TRACE.end("load mxq")
            self._mode = choose_mode(self._header, config)
            self._groups = core_groups(NativeAccelerator.fleet.board, self._mode, config)
        self._no_slots = config is not None and config.get_activation_slots() == 0
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
            delay = FAULTS.strike("slow_launch")
            if delay is not None:
                time.sleep(delay)
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
        if self._no_slots:
            raise npu_error(
                "Model_NotSupported",
                "This model was created with ModelConfig::setActivationSlots(0) (empty I/O): its input/output"
                " activations are not allocated in NPU DDR. Only NPUData and PinnedMemory inference are "
                "supported.",
            )
        return self._infer(inputs, outputs, cache_size, params)

    def _infer(
        self,
        inputs: list[Array],
        outputs: list[Array] | None,
        cache_size: int,
        params: list[Any] | None = None,
    ) -> list[Array] | None:
        device = self._alive()
        with TRACE.span("infer"):
            shapes = self._executor.inputs
            inputs = row_rules.check_inputs(inputs, shapes, several=self._kv is None)
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
        """`infer` for (c, h, w) or any number of them (n, c, h, w); what comes back is laid out alike."""
        outputs, cache_size, params = row_rules.read_arguments(rest)
        if params is not None:
            raise npu_error("NotImplemented", "Rows of a batch are given height, width, channels.")
        results = [self.infer(sample, cache_size) or [] for sample in channel_first.split(inputs)]
        return row_rules.deliver(channel_first.join(results, inputs), outputs)

    def acquire_input_npu_data(
        self, shape: list[int], idx: int, upload: bool, dtype: Any = None
    ) -> NativeNpuData:
        """A tensor of this shape for the input `idx`, on the host or, with `upload`, on the board."""
        return self._tensor(self._executor.inputs, shape, idx, upload, dtype)

    def acquire_output_npu_data(
        self, shape: list[int], idx: int, upload: bool, dtype: Any = None
    ) -> NativeNpuData:
        """The same for the output `idx`."""
        return self._tensor(self._executor.outputs, shape, idx, upload, dtype)

    def infer_npu_data(
        self, inputs: list[NativeNpuData], outputs: list[NativeNpuData], cache_size: int = 0
    ) -> list[NativeNpuData] | None:
        """`infer` on tensors that are all on the host or all on this board; fills `outputs`, if any."""
        device = self._alive()
        check_together([*inputs, *outputs], device, no_slots=self._no_slots)
        results = self._infer(
            [tensor.values for tensor in inputs], [tensor.values for tensor in outputs] or None, cache_size
        )
        if results is None:
            return None
        return [NativeNpuData.of(result, inputs[0].device) for result in results]

    def _tensor(
        self, shapes: Sequence[Shape], shape: list[int], idx: int, upload: bool, dtype: Any
    ) -> NativeNpuData:
        if dtype is not None and dtype != self.get_model_input_data_type():
            raise npu_error("NotImplemented", f"{dtype} is not simulated.")
        if not 0 <= idx < len(shapes):
            raise npu_error("Model_ShapeMismatched", f"There is no tensor {idx} of {len(shapes)}")
        row_rules.check_shape(shape, shapes[idx])
        if not upload:
            return NativeNpuData(shape)
        if self._device is None:
            raise npu_error(
                "Model_NotLaunched", "Cannot acquire an NPU-resident NPUData before the model is launched."
            )
        return NativeNpuData(shape, self._alive())

    def _run(self, device: Device, inputs: Sequence[Array], rows: Sequence[Row]) -> list[Array]:
        self._meet_faults(device)
        kv = self._kv
        if kv is None:
            return row_rules.run_each(lambda one: self._executor.run(one, (), None), inputs)
        with self._busy:
            results = self._executor.run(inputs, rows, kv)
            for row in rows:
                kv.note_written(row.slot, row.end)
        if FAULTS.strike("nan_logits") is not None:
            for result in results:
                result[...] = float("nan")
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
        if FAULTS.strike("refused") is not None:
            raise npu_error("Model_ShapeMismatched", "The shapes of the inputs do not match.")
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

    # KV memory

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
