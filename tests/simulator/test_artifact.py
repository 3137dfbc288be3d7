"""The simulated `.mxq` as a file: what is written is read back, and anything else is refused in words."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import (
    ModelDamagedError,
    ModelError,
    ModelIncompleteError,
    ModelNotFoundError,
    ModelUnsupportedError,
    WrongDeviceError,
)
from runtime.simulator import artifact
from runtime.simulator.artifact import MAGIC, MAX_HEADER_BYTES, Header
from runtime.simulator.roles import make_executor


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A sound artifact whose weights nobody looks into."""
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"not looked into here")
    path = tmp_path / "model.mxq"
    header = Header("decoder", {"hidden": 8}, (artifact.describe_weights(weights),), max_cache_size=64)
    artifact.write(path, header)
    return path


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    header = json.loads(path.read_bytes()[len(MAGIC) + 4 :])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(MAGIC + struct.pack("<I", len(text)) + text)


def test_a_header_comes_back(made: Path) -> None:
    header = artifact.read_header(made)
    assert (header.role, header.architecture, header.max_cache_size) == ("decoder", {"hidden": 8}, 64)
    again = replace(header, batch=4, core_modes=("single",), tensor_names={"a": "b"}, devices=("regulus-ra",))
    artifact.write(made, again)
    assert artifact.read_header(made) == again


def test_the_two_kinds_are_told_apart(made: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.mxq"
    real.write_bytes(b"whatever a board takes")
    with pytest.raises(WrongDeviceError, match=r"real\.mxq is not a simulated model") as refusal:
        artifact.read_header(real)
    assert "--device npu" in refusal.value.remedy

    assert artifact.is_simulated(made)
    assert not artifact.is_simulated(real)
    assert not artifact.is_simulated(tmp_path / "missing.mxq")
    artifact.refuse_simulated(real)
    with pytest.raises(WrongDeviceError, match=r"model\.mxq is a simulated model") as refusal:
        artifact.refuse_simulated(made)
    assert "--device simulated" in refusal.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("role"),
        lambda header: header.update(extra=1),
        lambda header: header.update(role=""),
        lambda header: header.update(role=7),
        lambda header: header.update(batch=0),
        lambda header: header.update(batch=True),
        lambda header: header.update(batch=10**9),
        lambda header: header.update(max_cache_size=-1),
        lambda header: header.update(max_cache_size=1.5),
        lambda header: header.update(core_modes=["warp"]),
        lambda header: header.update(core_modes=[]),
        lambda header: header.update(core_modes="single"),
        lambda header: header.update(core_modes=["single"], auto_core_mode="global8"),
        lambda header: header.update(devices=[]),
        lambda header: header.update(weights=[]),
        lambda header: header.update(weights=header["weights"] * 1000),
        lambda header: header.update(architecture=[]),
        lambda header: header.update(tensor_names={"a": 1}),
        *(
            lambda header, name=name: header["weights"][0].update(file=name)
            for name in ("../weights.safetensors", "/etc/passwd", "..", "a/b", "a\\b", "", "x" * 2000, "a\0b")
        ),
    ],
)
def test_wrong_fields(made: Path, change: Callable[[dict[str, Any]], object]) -> None:
    rewrite(made, change)
    with pytest.raises(ModelDamagedError, match=r"model\.mxq is damaged") as error:
        artifact.read_header(made)
    assert error.value.remedy


@pytest.mark.parametrize(
    "content",
    [
        MAGIC,
        MAGIC + b"\x05\x00\x00",
        MAGIC + struct.pack("<I", 10) + b"{}",
        MAGIC + struct.pack("<I", 2) + b"{} ",
        MAGIC + struct.pack("<I", 2) + b"[]",
        MAGIC + struct.pack("<I", 2) + b"\xff\xfe",
        MAGIC + struct.pack("<I", MAX_HEADER_BYTES + 1) + b"{}",
        MAGIC + struct.pack("<I", 60000) + b"[" * 60000,
    ],
    ids=range(8),
)
def test_broken_files(made: Path, content: bytes) -> None:
    made.write_bytes(content)
    with pytest.raises(ModelDamagedError):
        artifact.read_header(made)


@given(st.binary(max_size=200), st.booleans())
def test_noise_is_refused_as_a_model_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, magic: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.mxq"
    path.write_bytes(MAGIC + noise if magic else noise)
    with pytest.raises(ModelError):
        artifact.read_header(path)


def test_weights_that_are_not_what_was_written(made: Path) -> None:
    weights = made.parent / "weights.safetensors"
    artifact.verify(made)
    content = weights.read_bytes()
    weights.write_bytes(content[::-1])
    with pytest.raises(ModelDamagedError, match="differs from what was written"):
        artifact.verify(made)
    weights.write_bytes(content + b"!")
    with pytest.raises(ModelDamagedError, match="21 bytes instead of 20"):
        artifact.read_header(made)
    weights.unlink()
    with pytest.raises(ModelIncompleteError, match=r"weights\.safetensors are missing"):
        artifact.read_header(made)
    elsewhere = made.parent.parent / "elsewhere"
    elsewhere.write_bytes(content)
    weights.symlink_to(elsewhere)
    with pytest.raises(ModelIncompleteError):
        artifact.read_header(made)


def test_missing_and_unreadable(made: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"nothing\.mxq"):
        artifact.read_header(made.parent / "nothing.mxq")
    with pytest.raises(ModelDamagedError, match="cannot be read"):
        artifact.read_header(made.parent)


def test_weights_that_do_not_make_the_network(made: Path, artifacts: dict[str, Path]) -> None:
    with pytest.raises(ModelDamagedError, match=r"weights\.safetensors is damaged"):
        make_executor(made, artifact.read_header(made))

    path = artifacts["llama"] / "llama.mxq"
    header = artifact.read_header(path)

    def executor(**changes: Any) -> None:
        make_executor(path, replace(header, **changes))

    def with_size(**changes: Any) -> dict[str, Any]:
        return {"architecture": {**header.architecture, **changes}}

    executor()
    for changes in (
        with_size(hidden=40),
        with_size(layers=4),
        with_size(heads=5),
        with_size(heads=0),
        with_size(vocab="many"),
        with_size(unknown=1),
        with_size(head_dim=1 << 30),
        {"architecture": {}},
        {"tensor_names": {"embedding": "norm"}},
        {"tensor_names": {"embedding": "absent"}},
    ):
        with pytest.raises(ModelDamagedError):
            executor(**changes)
    with pytest.raises(ModelUnsupportedError, match="“telepathy”"):
        executor(role="telepathy")
