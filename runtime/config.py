"""What the runtime is told once, at start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

DeviceChoice = Literal["auto", "npu", "simulated"]


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Where the data lives and which kind of device to use."""

    data_dir: Path
    device: DeviceChoice = "auto"

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
