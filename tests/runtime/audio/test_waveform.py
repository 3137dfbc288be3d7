"""The outline is the loudness at its place, however long the sound is."""

from __future__ import annotations

import numpy as np

from runtime.audio.waveform import MOST_BINS, FileOutline, Outline
from tests.runtime.audio.media import RATE, SAMPLE, clip


def test_a_short_sound_keeps_every_part() -> None:
    outline = Outline(bin_seconds=0.1)
    sound = np.repeat(np.array([0.1, -0.9, 0.3], np.float32), 1600)
    outline.feed(sound[:1000])
    outline.feed(sound[1000:])
    assert outline.bins() == (0.1, 0.9, 0.3)


def test_a_long_sound_has_no_more_parts_than_can_be_drawn() -> None:
    outline = Outline()
    for second in range(600):
        outline.feed(np.full(RATE, second / 600, np.float32))
    bins = outline.bins()
    assert MOST_BINS / 2 <= len(bins) <= MOST_BINS + 1
    expected = np.linspace(0, 1, len(bins))
    assert np.abs(np.array(bins) - expected).max() < 0.01


def test_a_file_is_measured_block_by_block() -> None:
    outline = FileOutline(SAMPLE)
    while outline.advance():
        pass
    outline.close()
    assert outline.duration == 11.0
    assert max(outline.bins()) == round(float(np.abs(clip()).max()), 3)
