"""What a lane's thread is in a call for: it ends with the call, and a load that nobody wants ends at a stage."""

from __future__ import annotations

import pytest

from runtime.device_call import DeviceCall, NotWantedError
from runtime.messages import Event, ModelLoading


def test_a_call_that_fails_is_over_too() -> None:
    call = DeviceCall()
    with pytest.raises(OSError, match="gone"), call.made_for("a", "b"):
        assert call.current is not None
        assert call.current.request_ids == ("a", "b")
        raise OSError("gone")
    assert call.current is None


def test_a_load_that_nobody_wants_ends_at_its_next_stage_and_says_no_more() -> None:
    call, posted = DeviceCall(), list[Event]()
    with pytest.raises(NotWantedError), call.loading("m", posted.append) as progress:
        progress("Reading", 0.5)
        call.wanted = False
        progress("Starting", 0.6)
    assert posted == [ModelLoading("m", "Reading", 0.5)]
    assert call.current is None
