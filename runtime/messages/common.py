"""Events that any lane may post."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import ErrorInfo


@dataclass(frozen=True, slots=True)
class Failed:
    """This request ended with an error; everything else goes on."""

    request_id: str
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A job other than a generation was stopped on request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A file was written."""

    request_id: str
    path: str


@dataclass(frozen=True, slots=True)
class LaneFaulted:
    """A runtime thread met a fault outside any request; it goes on with the next command."""

    lane: str
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class CallOverdue:
    """The device has not answered a call for this request within the limit; it may still do so.

    When it does not, or when the request is cancelled now, the model is given up: `Failed` for each of its
    requests and `ModelFailed` with the code "device.stalled".
    """

    request_id: str
    since: float
    """Wall clock, seconds since the epoch: when the call began."""
    limit: float
    """Seconds."""
