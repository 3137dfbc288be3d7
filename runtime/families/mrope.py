"""Three-axis rotary positions of Qwen2-VL: a check of the vendor's table, and a repair.

transformers-mblt 0.6.1 hands a compiled text model its rotary angles as one packed row a position. Its rows
take every section of `mrope_section` twice as long, where the reference repeats the list of sections, so that
the two halves of a head turn by different angles as soon as the axes differ, that is on every picture token.
`repair` compares the rows with the reference and, when they differ, halves and repeats the sections, which
gives the reference's layout through the vendor's own code. A release that is right is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

PROBE = (3, 5, 11)
"""Distinct positions on the three axes, so that a mixed-up axis shows."""


def repair(rotary: Any) -> bool:
    """Make the vendor's rotary table agree with the reference; True when it does in the end.

    `rotary` is a `MobilintQwen2VLRotaryEmbedding`.
    """
    sections = rotary.mrope_section
    if sections is None or agrees(rotary, sections):
        return True
    if any(section % 2 for section in sections):
        return False
    rotary.mrope_section = [section // 2 for section in sections] * 2
    if agrees(rotary, sections):
        return True
    rotary.mrope_section = sections
    return False


def agrees(rotary: Any, sections: Sequence[int]) -> bool:
    """Whether the packed row of one position holds the reference's angles, pair by pair."""
    import numpy as np
    import torch

    row = rotary(torch.tensor(PROBE).reshape(3, 1, 1)).reshape(2, -1)
    half = rotary.head_dim // 2
    axes = np.repeat(PROBE, sections)
    frequencies = rotary.rope_theta ** (-np.arange(half) * 2.0 / rotary.head_dim)
    angles = axes * frequencies
    first, second = row[0, : 2 * half].reshape(half, 2), row[1, : 2 * half].reshape(half, 2)
    wanted = np.stack([np.cos(angles), -np.sin(angles)], axis=1)
    turned = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    return bool(np.allclose(first, wanted, atol=1e-4) and np.allclose(second, turned, atol=1e-4))
