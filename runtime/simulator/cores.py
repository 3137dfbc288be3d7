"""Core modes: what an artifact was compiled for, what a `ModelConfig` asks for, and the cores that makes."""

from __future__ import annotations

from typing import Any

from runtime.simulator.artifact import Header
from runtime.simulator.device import Board, CoreGroup
from runtime.simulator.errors import npu_error

_NATIVE_NAMES = {
    "single": "Single",
    "multi": "Multi",
    "global4": "Global4",
    "global8": "Global8",
    "auto": "Auto",
}


def native_mode(mode: str) -> Any:
    """The runtime's enum value."""
    from qbruntime.qbruntime import CoreMode

    return getattr(CoreMode, _NATIVE_NAMES[mode])


def choose_mode(header: Header, config: Any) -> str:
    """The mode a model will run in; `config` is a native ModelConfig, or None for its default, auto."""
    asked = "auto" if config is None else _mode_name(config.get_core_mode())
    if asked == "auto":
        if len(header.core_modes) == 1:
            return header.core_modes[0]
        if header.auto_core_mode is None:
            raise npu_error(
                "Model_MXQAndModelConfigNotMatch",
                "`CoreMode::Auto` can be used only when each bundle of the MXQ has exactly one core mode, "
                "but bundle 0 has more than one. Please set the core mode explicitly.",
            )
        return header.auto_core_mode
    if asked not in header.core_modes:
        raise npu_error(
            "Model_MXQAndModelConfigNotMatch",
            f"bundle[0] doesn't support the core mode({asked}); compiled for {', '.join(header.core_modes)}.",
        )
    return asked


def core_groups(board: Board, mode: str, config: Any) -> list[CoreGroup]:
    """The groups of cores of which the model takes one per inference."""
    if mode == "single":
        return [frozenset({core}) for core in _single_cores(board, config)]
    clusters = _clusters(board, config)
    if mode == "global8":
        if len(clusters) < 2:
            raise npu_error("Model_NoTargetCores", "global8 needs both clusters.")
        return [frozenset(board.cores)]
    return [frozenset((cluster, core) for core in board.cluster(cluster)) for cluster in clusters]


def _single_cores(board: Board, config: Any) -> list[tuple[int, int]]:
    cores = list(board.cores)
    if config is None:
        return cores
    if config.core_ids:
        named = [(_number(core.cluster), _number(core.core)) for core in config.core_ids]
        for core in named:
            if core not in cores:
                raise npu_error(
                    "Model_NoTargetCores",
                    f"Invalid core ID: {{Cluster {core[0]}, Core {core[1]}}} is not available on the "
                    f"{board.name} device.",
                )
        return named
    # A number of cores without names: the first ones. Auto mode has neither and takes them all.
    wanted = config.get_num_cores() if _mode_name(config.get_core_mode()) == "single" else 0
    if wanted > len(cores):
        raise npu_error(
            "Model_NoTargetCores",
            f"Invalid `num_cores` value: {wanted}. {board.name} device has {len(cores)} local cores.",
        )
    return cores[:wanted] if wanted > 0 else cores


def _clusters(board: Board, config: Any) -> list[int]:
    named = [_number(cluster) for cluster in config.clusters] if config is not None else []
    for cluster in named:
        if cluster >= board.clusters:
            raise npu_error(
                "Model_NoTargetCores",
                f"Invalid cluster: Cluster {cluster} is not available on the {board.name} device.",
            )
    return named or list(range(board.clusters))


def _mode_name(mode: Any) -> str:
    name = str(mode.name)
    # The deprecated name of global4.
    return "global4" if name == "Global" else name.lower()


def _number(value: Any) -> int:
    """0 for Cluster0 or Core0, and so on."""
    return int(str(value.name)[-1])
