"""Device layout: what somebody asks for and what takes effect.

The grammar and rules are the vendor's (`mblt_npu.npu_target`), plus the gaps it leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CoreMode = Literal["auto", "single", "multi", "global4", "global8"]


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """What the user asked for. Empty tuples mean "the whole device"."""

    core_mode: CoreMode = "auto"
    target_cores: tuple[str, ...] = ()
    """Canonical `d:c:k` items; used by single."""
    target_clusters: tuple[str, ...] = ()
    """Canonical `d:c` items; used by auto, multi, global4 and global8."""
    dev_no: tuple[int, ...] = (0,)
    max_batch_size: int | None = None
    """None takes the artifact's own."""


@dataclass(frozen=True, slots=True)
class EffectiveLayout:
    """What the loaded model really runs on."""

    board: str
    """The vendor's device name, e.g. "aries-rb"."""
    core_mode: str
    cores: tuple[str, ...]
    clusters: tuple[str, ...]
    dev_no: tuple[int, ...]
    models: int
    """Compiled models launched side by side (N)."""
    slots_per_model: int
    """KV slots of each (K)."""
