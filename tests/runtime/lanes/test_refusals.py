"""What is said to who asks for something that no model is there for."""

from __future__ import annotations

from runtime.lanes.refusals import nothing_loaded
from runtime.messages import Generate, Transcribe
from runtime.sampling.params import SamplingRequest


def test_a_file_is_named_and_a_model_where_there_is_one() -> None:
    about_a_file = nothing_loaded(Transcribe("t", "/takes/meeting.wav", None, False, 0)).info
    assert about_a_file.summary == "meeting.wav cannot be transcribed: no speech model is loaded."
    about_a_model = nothing_loaded(Generate("g", "c", "tiny", (), SamplingRequest(), 0)).info
    assert about_a_model.summary == "The model tiny is not loaded."
    assert about_a_file.code == about_a_model.code == "request.model_not_loaded"
