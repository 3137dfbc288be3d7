"""The replaced objects beside the installed wheel's: signatures, error words, what may not be asked."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime
from qbruntime.type import get_available_device_numbers, get_available_devices, get_model_summary

from runtime import simulator
from runtime.errors import WrongDeviceError
from runtime.simulator.build import build_artifact
from runtime.simulator.device import Device, NativeAccelerator
from runtime.simulator.facts import NativeVariant
from runtime.simulator.model import NativeModel

REPLACED = {
    "Model": NativeModel,
    "Accelerator": NativeAccelerator,
    "ModelVariantHandle": NativeVariant,
}
OVERLOAD = re.compile(r"^(?:\d+\. )?(\w+)\(self: [\w.:]+(?:, )?(.*)\) -> ", re.MULTILINE)


def overloads(method: Any) -> list[list[bool]]:
    """For each overload in a native method's help, whether each argument may be left out."""
    return [
        [" = " in argument for argument in re.split(r", (?=\w+: )", arguments) if argument]
        for _, arguments in OVERLOAD.findall(method.__doc__ or "")
    ]


def original(name: str) -> Any:
    import qbruntime.qbruntime as native

    return simulator._originals.get(name) or getattr(native, name)


@pytest.mark.parametrize("name", REPLACED)
def test_every_native_method_is_there_and_takes_the_same_arguments(name: str) -> None:
    real, ours = original(name), REPLACED[name]
    assert real is not ours
    methods = [item for item in vars(real) if not item.startswith("_")]
    assert len(methods) > 1
    instance = object.__new__(ours)
    for method in methods:
        found = getattr(ours, method, None)
        assert found is not None, method
        assert isinstance(found, property) == isinstance(vars(real)[method], property), method
        if isinstance(found, property):
            continue
        signature = inspect.signature(found)
        for arguments in overloads(getattr(real, method)):
            required = [argument for argument in arguments if not argument]
            signature.bind(instance, *required)
            signature.bind(instance, *arguments)


def test_what_a_program_touches_is_the_vendors_own() -> None:
    import mblt_npu.npu_backend as backend

    for name in ("Model", "Accelerator", "ModelConfig", "CoreId", "QbRuntimeError"):
        assert getattr(qbruntime, name).__module__.startswith("qbruntime."), name
        assert getattr(backend, name) is getattr(qbruntime, name)
    assert inspect.getfile(qbruntime.Model).startswith(str(Path(qbruntime.__file__).parent))


CALLS = """
import json, sys, qbruntime
from pathlib import Path
from qbruntime.type import get_model_summary
qbruntime.set_log_level(qbruntime.LogLevel.Off)

def outcome(call):
    try:
        return call()
    except qbruntime.QbRuntimeError as error:
        # The simulated device says in a line between what the real one writes to its log.
        first, *_, last = str(error).splitlines()
        return first, last
    except Exception as error:
        return type(error).__name__, str(error)

missing, folder = sys.argv[1:]
print(json.dumps({
    "missing model": outcome(lambda: qbruntime.Model(missing)),
    "a folder": outcome(lambda: qbruntime.Model(folder)),
    "a Path": outcome(lambda: qbruntime.Model(Path(missing))),
    "unknown device": outcome(lambda: qbruntime.Accelerator("bogus", 0)),
    "absent device": outcome(lambda: qbruntime.Accelerator("regulus-rb", 0)),
    "summary": outcome(lambda: get_model_summary(missing)),
    "trace Path": outcome(lambda: qbruntime.start_tracing_events(Path(missing))),
    "trace folder": outcome(lambda: qbruntime.start_tracing_events(folder)),
    "trace nothing": outcome(lambda: qbruntime.start_tracing_events("")),
    "stray stop": outcome(qbruntime.stop_tracing_events),
}))
"""


def test_calls_without_a_device_answer_in_the_same_words(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "missing.mxq"), str(tmp_path)]
    simulate = "from runtime import simulator; simulator.install()\n"
    real, simulated = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", prologue + CALLS, *arguments],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()[-1]
        )
        for prologue in ("", simulate)
    )
    assert simulated == real


def test_installing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from runtime import simulator; simulator.install(); simulator.install()\n"
        "assert not {'torch', 'transformers', 'mblt_npu'} & set(sys.modules)\n"
        "import qbruntime; from qbruntime.type import get_available_devices as found\n"
        "assert found() == ['aries-rb']\n"
        "simulator.uninstall(); assert found() == [] and simulator.usage() == ()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_discovery(boards: Callable[..., list[Device]]) -> None:
    boards(3)
    assert get_available_devices() == ["aries-rb"]
    assert get_available_device_numbers() == get_available_device_numbers("ARIES") == [0, 1, 2]
    assert get_available_device_numbers("regulus") == get_available_device_numbers("bogus") == []
    assert qbruntime.Accelerator().get_device_name() == "aries-rb"
    assert qbruntime.Accelerator(2)._accelerator.device.number == 2
    with error("Driver_NotInitialized"):
        qbruntime.Accelerator("aries-rb", 3)


def error(code: str) -> Any:
    return pytest.raises(qbruntime.QbRuntimeError, match=rf"^{code} occurred\.\n(.*\n)?Please visit https")


@pytest.fixture
def native(artifacts: dict[str, Path]) -> Callable[..., Any]:
    """A raw model of the tiny Llama, not launched."""

    def make(name: str = "llama", config: Any = None) -> Any:
        return qbruntime.Model(str(artifacts[name] / f"{name.split('-')[0]}.mxq"), config)

    return make


def embeddings(positions: int, hidden: int = 48) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(1, 1, positions, hidden)).astype(np.float32)


def test_a_model_must_be_launched(native: Callable[..., Any]) -> None:
    model = native()
    with error("Model_NotLaunched"):
        model.infer([embeddings(1)])
    with error("Model_NotLaunched"):
        model.dump_cache_memory()
    accelerator = qbruntime.Accelerator()
    model.launch(accelerator)
    with error("Model_AlreadyLaunched"):
        model.launch(accelerator)
    model.dispose()
    with error("Model_NotLaunched"):
        model.infer([embeddings(1)])
    model.launch(accelerator)
    assert np.isfinite(model.infer([embeddings(1)])[0]).all()


def test_shapes_and_lengths(native: Callable[..., Any]) -> None:
    model = native()
    model.launch(qbruntime.Accelerator())
    with pytest.raises(ValueError, match="Input shape is invalid"):  # the vendor's own check
        model.infer([embeddings(1, hidden=47)])
    with error("Model_ShapeMismatched"):
        model._model.infer([embeddings(1, hidden=47)], 0)
    with error("Model_ShapeMismatched"):
        model.infer([embeddings(17)])  # compiled for prefill chunks of 16
    with error("Model_CacheOverflow"):
        model.infer([embeddings(16)], None, 81)  # of 96 positions
    with error("Model_ShapeMismatched"):
        model.infer([embeddings(1)], None, -1)
    with error("Model_CacheNotFound"):
        model.dump_cache_memory(1)
    with error("Model_CacheNotFound"):
        model.dump_cache_memory_by_name("layers.9.key")
    with error("Model_CacheNotFound"):
        model.reset_fixed_tail_cache_memory()
    with error("Model_NumCacheMismatched"):
        model.load_cache_memory([])
    with error("Model_FailedToFindDirectory"):
        model.dump_cache_memory_to("/nowhere/at/all")
    with error("Model_InvalidVariantIdx"):
        model.get_model_variant_handle(1)
    with error("NotImplemented"):
        model.infer_speedrun()


def test_every_form_of_infer_gives_the_same(native: Callable[..., Any]) -> None:
    model = native()
    model.launch(qbruntime.Accelerator())
    given = embeddings(5)
    expected = model.infer([given])[0]
    assert expected.shape == (1, 1, 1, 131)
    np.testing.assert_array_equal(model.infer(given)[0], expected)
    np.testing.assert_array_equal(model.infer(given[0])[0], expected)
    np.testing.assert_array_equal(model.infer_hwc([given])[0], expected)
    empty: list[np.ndarray] = []
    assert model.infer([given], empty) is None
    np.testing.assert_array_equal(empty[0].ravel(), expected.ravel())
    ready = [np.empty((1, 1, 131), np.float32)]
    model.infer([given], ready)
    np.testing.assert_array_equal(ready[0].ravel(), expected.ravel())
    row = qbruntime.type.BatchParam(sequence_length=5, cache_size=0, cache_id=0)
    np.testing.assert_array_equal(model.infer([given], None, 0, [row])[0], expected)


def test_channels_first(native: Callable[..., Any]) -> None:
    model = native()
    model.launch(qbruntime.Accelerator())
    given = embeddings(5)
    expected = model.infer([given])[0]
    turned = given.transpose(0, 3, 1, 2)  # (1, 48, 1, 5)
    answer = model.infer(turned)[0]
    assert answer.shape == (1, 131, 1, 1), "a leading 1 comes back"
    np.testing.assert_array_equal(answer.ravel(), expected.ravel())
    assert model.infer_chw(turned[0])[0].shape == (131, 1, 1)
    ready = [np.empty((131, 1, 1), np.float32)]
    assert model.infer_chw([turned], ready) is None
    np.testing.assert_array_equal(ready[0].ravel(), expected.ravel())
    two = model.infer(np.concatenate([turned, turned[..., ::-1]]))[0]
    assert two.shape == (2, 131, 1, 1)
    np.testing.assert_array_equal(two[0].ravel(), expected.ravel())
    assert not np.allclose(two[1].ravel(), expected.ravel(), atol=0.01)
    with error("NotImplemented"):
        model.infer_chw([turned], None, 0, [qbruntime.type.BatchParam(5, 0, 0)])


def test_batch_parameters(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    build_artifact(checkpoints["llama"], tmp_path / "batch", max_batch_size=2, context_length=32)
    model = qbruntime.Model(str(tmp_path / "batch" / "llama.mxq"))
    model.launch(qbruntime.Accelerator())
    assert [info.num_batches for info in model.get_cache_infos()] == [2] * 6

    def infer(*rows: tuple[int, int, int]) -> None:
        model.infer([embeddings(4)], None, 0, [qbruntime.type.BatchParam(*row) for row in rows])

    infer((2, 0, 1), (2, 0, 0))
    for rows in (
        [(2, 0, 0), (2, 0, 0)],  # one cache twice
        [(2, 0, 0), (2, 0, 2)],  # a cache beyond the capacity
        [(2, 0, 0), (1, 0, 1)],  # fewer positions than the input has
        [(2, 0, 0), (1, 0, 1), (1, 0, 1)],  # more rows than the capacity
    ):
        with error("Model_InvalidBatchParam"):
            infer(*rows)


def test_core_modes_that_were_not_compiled_in(
    checkpoints: dict[str, Path], tmp_path: Path, boards: Callable[..., list[Device]]
) -> None:
    build_artifact(checkpoints["llama"], tmp_path / "one", core_modes=("global4",))
    path = str(tmp_path / "one" / "llama.mxq")
    config = qbruntime.ModelConfig()
    config.set_single_core_mode(None, [qbruntime.CoreId(qbruntime.Cluster.Cluster0, qbruntime.Core.Core0)])
    with error("Model_MXQAndModelConfigNotMatch"):
        qbruntime.Model(path, config)
    assert qbruntime.Model(path).get_core_mode() is qbruntime.CoreMode.Global4, "auto takes the only mode"

    boards(1, board="regulus-rb")
    config.set_global4_core_mode([qbruntime.Cluster.Cluster1])
    with error("Model_NoTargetCores"):
        qbruntime.Model(path, config)
    model = qbruntime.Model(path)
    with error("Model_IsNotSupportedHardware"):
        model.launch(qbruntime.Accelerator())


def test_auto_keeps_the_vendors_rule_unless_the_artifact_is_kinder(artifacts: dict[str, Path]) -> None:
    from dataclasses import replace

    from runtime.simulator import artifact

    path = artifacts["llama"] / "strict.mxq"
    header = artifact.read_header(artifacts["llama"] / "llama.mxq")
    artifact.write(path, replace(header, auto_core_mode=None))
    with error("Model_MXQAndModelConfigNotMatch"):
        qbruntime.Model(str(path))
    path.unlink()


def test_files_that_are_no_simulated_model(tmp_path: Path, artifacts: dict[str, Path]) -> None:
    foreign = tmp_path / "real.mxq"
    foreign.write_bytes(b"\x7fMXQ" + bytes(4000))
    with pytest.raises(WrongDeviceError, match=r"real\.mxq is not a simulated model"):
        qbruntime.Model(str(foreign))

    damaged = tmp_path / "cut.mxq"
    damaged.write_bytes((artifacts["llama"] / "llama.mxq").read_bytes()[:-1])
    with error("Model_FailedToLoadMXQ"):
        qbruntime.Model(str(damaged))
    assert get_model_summary(str(damaged)) == ""
    assert "decoder" in get_model_summary(str(artifacts["llama"] / "llama.mxq"))


def test_the_vendors_loader_passes_the_refusal_on(artifacts: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    from runtime.device.active import vendor_stack

    vendor_stack()
    from transformers import AutoModelForCausalLM

    folder = tmp_path / "real"
    shutil.copytree(artifacts["llama"], folder)
    (folder / "llama.mxq").write_bytes(b"compiled for hardware")
    with pytest.raises(WrongDeviceError, match=r"llama\.mxq"):
        AutoModelForCausalLM.from_pretrained(str(folder))


def test_what_a_model_tells_about_itself(native: Callable[..., Any], artifacts: dict[str, Path]) -> None:
    model = native()
    (info,) = model.get_input_buffer_info()
    assert (info.max_width, info.max_channel, info.max_cache_size) == (16, 48, 96)
    assert model.get_model_input_shape() == [(1, -1, 48)]
    assert model.get_model_output_shape() == [(1, 1, 131)]
    assert model.get_model_variant_handle(0).get_model_input_shape() == [(1, -1, 48)]
    assert model.get_num_model_variants() == 1
    assert model.get_model_input_data_type() is qbruntime.type.DataType.Float32
    assert [scale.scale for scale in model.get_input_scale()] == [1.0]
    assert model.get_model_path() == str(artifacts["llama"] / "llama.mxq")
    assert native().get_identifier() == model.get_identifier() + 1
    assert model.get_device_names() == ["aries-rb"]
    assert len({info.layer_hash for info in model.get_cache_infos()}) == 6
    assert native("qwen3").get_cache_infos()[0].layer_hash != model.get_cache_infos()[0].layer_hash
