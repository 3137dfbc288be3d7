"""The vendor's one exception class, sorted into our tree by its code word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runtime.errors import (
    DeviceError,
    DeviceLostError,
    DeviceMemoryError,
    DeviceStalledError,
    MbltError,
    ModelDamagedError,
    RequestError,
)

_LOST = ("Model_NotAlive", "Driver_", "Acc_")
_STALLED = ("Timeout",)


@contextmanager
def device_faults(what: str) -> Iterator[None]:
    """Turn a failure of the NPU runtime into a DeviceError or ModelError that names `what`."""
    from mblt_npu.npu_backend import MobilintBackendAllocError
    from qbruntime import QbRuntimeError

    try:
        yield
    except (QbRuntimeError, MobilintBackendAllocError) as error:
        if isinstance(error.__cause__, MbltError):  # the simulated device knows more than its code word
            raise error.__cause__ from error
        raise sort_fault(what, str(error)) from error


def from_template(title: str, write: Callable[[], object]) -> str:
    """What `write` makes of a conversation with a model's chat template.

    Raises RequestError for what the template refuses, is itself wrong with, or makes nothing of.
    """
    detail = "It is empty."
    try:
        if text := str(write()):
            return text
    except Exception as error:  # noqa: BLE001 - a template may fail in any way that Python can
        detail = f"{type(error).__name__}: {error}"
    raise RequestError(
        f"The chat template of {title} cannot write this conversation.",
        remedy="Start a new chat; if that fails too, fetch the model again.",
        unharmed="The conversation is unharmed.",
        detail=detail,
    )


def sort_fault(what: str, text: str) -> DeviceError | ModelDamagedError:
    """The branch of the tree for a message such as "Model_NotAlive occurred.\\n…"."""
    code = text.split(" occurred.")[0].rsplit(maxsplit=1)[-1] if text.strip() else ""
    saved = "Your conversations are unharmed."
    if "badalloc" in text.lower().replace(" ", ""):
        return DeviceMemoryError(
            f"{what} does not fit into the device's memory.",
            remedy="Unload another model, or choose a smaller batch size or another layout.",
            unharmed=saved,
            detail=text,
        )
    if code == "Model_FailedToLoadMXQ":
        return ModelDamagedError(
            f"The device cannot read the compiled model of {what}.",
            remedy="Verify the model in the Models pane, or fetch it again.",
            unharmed=saved,
            detail=text,
        )
    if any(word in code for word in _STALLED):
        return DeviceStalledError(
            f"The device did not answer in time while running {what}.",
            remedy="Reload the model; if it happens again, restart the board.",
            unharmed=saved,
            detail=text,
        )
    if code.startswith(_LOST):
        return DeviceLostError(
            f"The device was lost while running {what}.",
            remedy="Check the board and its cable, then load the model again.",
            unharmed=saved,
            detail=text,
        )
    return DeviceError(
        f"The device refused {what}.",
        remedy="Load the model again; the Details say what the device reported.",
        unharmed=saved,
        detail=text,
    )
