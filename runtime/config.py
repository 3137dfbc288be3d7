"""What the runtime is told once, at start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

DeviceChoice = Literal["auto", "npu", "simulated"]


@dataclass(frozen=True, slots=True)
class KvOptions:
    """How the KV of conversations is kept for their next turn."""

    conversations: int = 16
    """How many conversations' KV is kept, the least recently used one dropped first."""
    host_mib: int = 4096
    """Most host memory for KV that is not on the device."""
    minimum_hit: int = 0
    """Shorter prefixes are recomputed rather than loaded onto the device; in tokens."""
    load_margin: float = 0.9
    """KV is loaded if that takes less than this share of the time of recomputing it."""
    ewma_weight: float = 0.3
    """How much a new measurement counts against the former ones, 0..1."""
    calibrate: bool = False
    """Measure both on purpose after a load, when nothing else is to do."""
    block: int = 128
    """Times are kept for powers of two of so many tokens."""
    calibration_blocks: tuple[int, ...] = (1, 2, 4, 8)
    """The lengths that are measured, in blocks."""
    keep_on_disk: bool = False
    """Keep KV over a restart, and when it is dropped from memory."""
    disk_mib: int = 8192
    """Most disk space for it."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What of the engine the user can set."""

    kv: KvOptions = field(default_factory=KvOptions)


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Where the data lives, which kind of device to use, and how the engine starts out."""

    data_dir: Path
    device: DeviceChoice = "auto"
    engine: EngineOptions = field(default_factory=EngineOptions)
    stall_seconds: float = 60.0
    """How long one call of the device may take before it counts as stalled."""
    load_stall_seconds: float = 600.0
    """How long a load may show no progress before its model is given up."""

    @property
    def models_dir(self) -> Path:
        """One folder per installed model."""
        return self.data_dir / "models"

    @property
    def downloads_dir(self) -> Path:
        """Unfinished and finished downloads; may be deleted at any time."""
        return self.data_dir / "downloads"

    @property
    def recordings_dir(self) -> Path:
        """Perfetto recordings."""
        return self.data_dir / "recordings"

    @property
    def kv_dir(self) -> Path:
        """KV that is kept over a restart; may be deleted at any time."""
        return self.data_dir / "kv"
