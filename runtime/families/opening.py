"""One artifact on its way onto the device: the steps that loading has in common for every family."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from runtime.config import DeviceChoice
from runtime.device.active import ActiveDevice, activate, vendor_stack
from runtime.device.infers import watch_infers
from runtime.device.launches import each_launch
from runtime.errors import ModelIncompleteError
from runtime.families.base import Progress
from runtime.families.config_layout import layout_named
from runtime.families.faults import device_faults
from runtime.families.model_info import title_of
from runtime.layout.check import validate_for
from runtime.layout.request import LayoutRequest, NormalisedLayout, from_pretrained_kwargs
from runtime.model_folder import loading
from runtime.simulator.artifact import refuse_simulated

_IMPORTED = {"torch": 0.0, "transformers": 0.1, "transformers-mblt": 0.15}
"""How far a first load is, about, when it begins to import each of the large packages."""


class Opening:
    """Checks device, folder and layout when made; then `read` and `load`, in that order.

    Raises a ModelError, LayoutError or DeviceError with the words for the user.
    """

    def __init__(self, folder: Path, layout: LayoutRequest, device: DeviceChoice, progress: Progress) -> None:
        self._started = time.perf_counter()
        self._folder = folder
        self._progress = progress
        progress("Looking for the device", None)
        self.active: ActiveDevice = activate(device)
        vendor_stack(lambda package: progress(f"Importing {package}", _IMPORTED[package]))
        require_artifact(folder, self.active)
        progress("Checking the layout", 0.4)
        self.layout: NormalisedLayout = validate_for(folder, layout, self.active.board, self.active.devices)

    @property
    def seconds(self) -> float:
        """Since the opening began."""
        return time.perf_counter() - self._started

    def read(self, what: str, *readers: Any) -> list[Any]:
        """What each reader (a tokenizer or processor class) makes of the folder; `what` names its files."""
        from transformers import AutoConfig

        self._progress(f"Reading {what}", 0.5)
        with layout_named(self._folder, self.active), loading(self._folder, "its config.json"):
            AutoConfig.from_pretrained(str(self._folder), local_files_only=True)
        with loading(self._folder, what):
            return [reader.from_pretrained(str(self._folder), local_files_only=True) for reader in readers]

    def load(self, auto_class: Any, kwargs: dict[str, Any]) -> Any:
        """The model on the device, through the vendor's class for this folder."""
        stage = "Loading weights onto the device"

        def tell(count: int) -> None:
            self._progress(f"{stage}: {count} networks", 0.6)

        self._progress(stage, 0.6)
        watch_infers()
        with (
            each_launch(tell),
            layout_named(self._folder, self.active),
            loading(self._folder, "its config.json or weights"),
            device_faults(title_of(self._folder)),
        ):
            model = auto_class.from_pretrained(
                str(self._folder), local_files_only=True, use_safetensors=True, **kwargs
            )
        return model.eval()


def require_artifact(folder: Path, active: ActiveDevice) -> None:
    """Raise unless the folder has compiled models and host weights, made for this kind of device.

    ModelIncompleteError names what is missing. A board is never given a simulated file; the simulated device
    refuses a board's file by itself.
    """
    for pattern, what in (("*.mxq", "compiled model (.mxq)"), ("*.safetensors", "weights (.safetensors)")):
        if not any(folder.glob(pattern)):
            raise ModelIncompleteError(
                f"The model folder {folder} has no {what}.",
                remedy="Fetch the model again, or choose the folder of a complete download.",
                unharmed="Other models and your conversations are unharmed.",
            )
    if not active.simulated:
        for compiled in folder.glob("*.mxq"):
            refuse_simulated(compiled)


def image_kwargs(layout: NormalisedLayout) -> dict[str, Any]:
    """The layout as the vendor's keyword arguments for a vision network and a text model."""
    kwargs = from_pretrained_kwargs(layout, ("vision_", "text_"))
    kwargs.pop("vision_max_batch_size", None)  # conversations in parallel concern the text model
    return kwargs
