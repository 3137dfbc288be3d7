"""The chunk by the vendor's rules: a number, a map by core mode, its default, the limit of batches."""

from __future__ import annotations

import pytest

from runtime.families.prefill_chunk import resolve_chunk


@pytest.mark.parametrize(
    ("stated", "core_mode", "expected"),
    [
        (256, "single", 256),
        ("512", "single", 512),
        (64.0, "auto", 64),
        ({"single": 256, "global4": 512}, "global4", 512),
        ({"single": 256, "default": 96}, "global8", 96),
        ({"single": 256, "DEFAULT": 96}, "multi", 96),
        ({"global4": 512}, "auto", 512),
        ({"global4": 512, "single": "junk"}, "auto", 512),
        ({"single": 256, "global4": 512}, "auto", 128),
        ({"global4": 512}, "single", 128),
        (None, "single", 128),
        (0, "single", 128),
        (-5, "single", 128),
        (True, "single", 128),
        ("many", "single", 128),
        (0.5, "single", 128),
        ([256], "single", 128),
        ({}, "auto", 128),
    ],
)
def test_resolution(stated: object, core_mode: str, expected: int) -> None:
    assert resolve_chunk(stated, core_mode, batch=False) == expected


@pytest.mark.parametrize(
    ("stated", "expected"), [(512, 128), (96, 96), ({"default": 1024}, 128), (None, 128)]
)
def test_a_batch_model_takes_at_most_128(stated: object, expected: int) -> None:
    assert resolve_chunk(stated, "single", batch=True) == expected
