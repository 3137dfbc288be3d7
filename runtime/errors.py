"""Every failure a person can meet, as one tree.

    MbltError
    ├── SettingError            a value of one named setting or option
    │   └── LayoutError         core mode, cores, clusters, device numbers
    ├── DeviceError             the accelerator itself
    │   ├── DeviceNotFoundError
    │   ├── DeviceMemoryError
    │   ├── DeviceLostError
    │   └── DeviceStalledError
    ├── ModelError              a model folder or its content
    │   ├── ModelNotFoundError
    │   ├── ModelIncompleteError
    │   ├── ModelDamagedError
    │   ├── WrongDeviceError    a real .mxq on the simulator, or the reverse
    │   └── ModelUnsupportedError
    ├── RequestError            one request; the model stays usable
    │   ├── ContextFullError
    │   ├── BadLogitsError
    │   └── ModelNotLoadedError
    ├── DownloadError
    │   ├── NetworkError
    │   └── HashMismatchError
    ├── MediaError              a file somebody dropped
    │   ├── AudioError
    │   └── ImageError
    ├── MicrophoneError
    ├── StorageError
    │   ├── DiskFullError
    │   ├── ReadOnlyError
    │   └── CorruptStoreError
    ├── TraceError
    └── InternalError           a fault of ours, with its traceback in `detail`

The runtime raises these with all the words a person needs; nothing parses them. `summary` names the file
or setting, `unharmed` says what is still fine (each branch of the tree has words of its own for where nothing
closer is known), `remedy` says what to do, `detail` is for the Details box.
"""

from __future__ import annotations

import errno
import logging
import traceback
from dataclasses import dataclass
from typing import ClassVar

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """A failure as a value: what crosses the thread boundary and what `--json` prints."""

    code: str
    summary: str
    remedy: str = ""
    unharmed: str = ""
    detail: str = ""

    def sentence(self) -> str:
        """The one line for stderr or a banner: what happened, what is unharmed, what to do."""
        return " ".join(part for part in (self.summary, self.unharmed, self.remedy) if part)


class MbltError(Exception):
    """Base of every failure that is shown to a person."""

    code: ClassVar[str] = "error"
    usually_unharmed: ClassVar[str] = "Your conversations, transcripts and recordings are unharmed."
    """What is still fine, whatever failed in this branch of the tree."""

    def __init__(self, summary: str, *, remedy: str = "", unharmed: str = "", detail: str = "") -> None:
        super().__init__(summary)
        self.summary = summary
        self.remedy = remedy
        self.unharmed = unharmed or self.usually_unharmed
        self.detail = detail

    @property
    def info(self) -> ErrorInfo:
        """This failure as a value."""
        return ErrorInfo(self.code, self.summary, self.remedy, self.unharmed, self.detail)


class SettingError(MbltError):
    """A value that its setting does not take; `setting` is the setting's key."""

    code = "setting.invalid"
    usually_unharmed = "Nothing was changed."

    def __init__(
        self,
        setting: str,
        summary: str,
        *,
        remedy: str = "",
        unharmed: str = "",
        detail: str = "",
    ) -> None:
        super().__init__(summary, remedy=remedy, unharmed=unharmed, detail=detail)
        self.setting = setting


class LayoutError(SettingError):
    """A device layout that the vendor's rules, or the board, do not allow."""

    code = "layout.invalid"


class DeviceError(MbltError):
    """The accelerator refused or failed."""

    code = "device"
    loses_model: ClassVar[bool] = False
    """Whether nothing can be computed any more until the model is loaded again."""


def loses_model(error: BaseException) -> bool:
    """Whether the model that it happened to cannot go on."""
    return isinstance(error, DeviceError) and error.loses_model


class DeviceNotFoundError(DeviceError):
    """No such board."""

    code = "device.not_found"


class DeviceMemoryError(DeviceError):
    """The board's memory does not hold what was asked for."""

    code = "device.memory"


class DeviceLostError(DeviceError):
    """The board went away in the middle of the work."""

    code = "device.lost"
    loses_model = True


class DeviceStalledError(DeviceError):
    """The board has not answered within the watchdog's limit."""

    code = "device.stalled"
    loses_model = True


class ModelError(MbltError):
    """Something is wrong with a model folder."""

    code = "model"
    usually_unharmed = "The other models are unharmed."


class ModelNotFoundError(ModelError):
    """No model of that name, or no such folder."""

    code = "model.not_found"


class ModelIncompleteError(ModelError):
    """Files are missing from the model folder."""

    code = "model.incomplete"


class ModelDamagedError(ModelError):
    """A file of the model is not what it should be."""

    code = "model.damaged"


class WrongDeviceError(ModelError):
    """The artifact is for the other kind of device."""

    code = "model.wrong_device"


class ModelUnsupportedError(ModelError):
    """This program cannot run that kind of model."""

    code = "model.unsupported"


class RequestError(MbltError):
    """One request failed; the model and the conversation stay usable."""

    code = "request"
    usually_unharmed = "The model and the conversation stay usable."


class ContextFullError(RequestError):
    """The prompt does not fit into the model's context."""

    code = "request.context_full"


class BadLogitsError(RequestError):
    """The model returned numbers that no token can be drawn from."""

    code = "request.bad_logits"


class ModelNotLoadedError(RequestError):
    """The model asked for is not loaded."""

    code = "request.model_not_loaded"


class DownloadError(MbltError):
    """A download did not finish."""

    code = "download"
    usually_unharmed = "Installed models are unharmed."


class NetworkError(DownloadError):
    """The source could not be reached."""

    code = "download.network"


class HashMismatchError(DownloadError):
    """What arrived is not what was promised."""

    code = "download.hash"


class MediaError(MbltError):
    """A dropped file cannot be used."""

    code = "media"
    usually_unharmed = "The file was not changed."


class AudioError(MediaError):
    """A file without usable sound."""

    code = "media.audio"


class ImageError(MediaError):
    """A file without a usable picture."""

    code = "media.image"


class MicrophoneError(MbltError):
    """No microphone, or it stopped delivering."""

    code = "microphone"
    usually_unharmed = "Finished takes are unharmed."


class StorageError(MbltError):
    """Reading or writing the user's data failed."""

    code = "storage"
    usually_unharmed = "What was saved before is unharmed."


class DiskFullError(StorageError):
    """The disk is full."""

    code = "storage.full"


class ReadOnlyError(StorageError):
    """The folder cannot be written to."""

    code = "storage.read_only"


class CorruptStoreError(StorageError):
    """A settings or database file is damaged."""

    code = "storage.corrupt"


class TraceError(MbltError):
    """A recording could not be made, read or exported."""

    code = "trace"
    usually_unharmed = "The other recordings are unharmed."


class InternalError(MbltError):
    """A fault of this program."""

    code = "internal"


def storage_error(error: OSError, path: str, *, unharmed: str = "") -> StorageError:
    """Turn an OSError met while using `path` into the right branch of the tree."""
    detail = f"{type(error).__name__}: {error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(
            f"The disk holding {path} is full.",
            remedy="Free some space, then try again.",
            unharmed=unharmed,
            detail=detail,
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnlyError(
            f"{path} cannot be written to.",
            remedy="Make it writable, or choose another folder.",
            unharmed=unharmed,
            detail=detail,
        )
    return StorageError(
        f"{path} cannot be used: {error.strerror or error}.",
        remedy="Check that the folder exists and can be read and written.",
        unharmed=unharmed,
        detail=detail,
    )


def to_info(error: BaseException) -> ErrorInfo:
    """Any exception as an ErrorInfo; what is not in the tree becomes an InternalError."""
    if isinstance(error, MbltError):
        return error.info
    _log.warning("An unexpected fault: %s at %s", type(error).__name__, _places(error))
    detail = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return InternalError(
        f"An unexpected fault: {type(error).__name__}.",
        remedy="Try again; if it happens again, report it with the Details text.",
        unharmed="Your conversations, transcripts and recordings are unharmed.",
        detail=detail,
    ).info


def _places(error: BaseException) -> str:
    """Where the exception went through, innermost first, without its words: they may be the user's."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames)) or "an unknown place"
