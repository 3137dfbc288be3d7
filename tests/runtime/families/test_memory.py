"""What is advised when a model does not fit: the next smaller batch, else fewer cores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.errors import DeviceMemoryError
from runtime.families.memory import remedy, smaller_advised
from runtime.layout.request import LayoutRequest, PartLayout


def parts(**layouts: LayoutRequest) -> LayoutRequest:
    return LayoutRequest(parts=tuple(PartLayout(part, layout) for part, layout in layouts.items()))


@pytest.mark.parametrize(
    ("request_", "config", "words"),
    [
        (
            LayoutRequest(max_batch_size=48),
            {"max_batch_size": 16},
            "for 32 parallel conversations instead of 48",
        ),
        (
            LayoutRequest(max_batch_size=33),
            {"max_batch_size": 16},
            "for 32 parallel conversations instead of 33",
        ),
        (
            LayoutRequest(max_batch_size=17),
            {"max_batch_size": 16},
            "for 16 parallel conversations instead of 17",
        ),
        (LayoutRequest(max_batch_size=3), {}, "for 2 parallel conversations instead of 3"),
        (LayoutRequest("global8"), {}, "in global4 mode on one cluster"),
        (LayoutRequest("multi"), {}, "on one cluster instead of 2"),
        (LayoutRequest("global4", target_clusters=("0:1",)), {}, "in single mode on one core"),
        (LayoutRequest("single"), {}, "on one core instead of 8"),
        (LayoutRequest("single", target_cores=("0:0:0", "0:0:1")), {}, "on one core instead of 2"),
        (LayoutRequest("single", dev_no=(0, 1)), {}, "on one board instead of 2"),
        (LayoutRequest(), {"core_mode": "global8"}, "in global4 mode"),
        (LayoutRequest(), {"core_mode": "global4", "target_clusters": ["0:0"]}, "in single mode on one core"),
        (LayoutRequest(), {"core_mode": "single", "target_cores": ["0:0:0"]}, "smaller batch or a shorter"),
        (
            LayoutRequest("single", target_cores=("0:0:0",)),
            {"max_batch_size": 16},
            "smaller batch or a shorter",
        ),
        (LayoutRequest(max_batch_size=16), {"max_batch_size": 16, "core_mode": "single"}, "on one core"),
        (
            parts(encoder=LayoutRequest("single", ("0:0:0",)), decoder=LayoutRequest("global8")),
            {},
            "with its decoder in global4 mode on one cluster",
        ),
        (
            parts(encoder=LayoutRequest()),
            {"encoder_core_mode": "single", "encoder_target_cores": ["0:0:0", "0:0:1"]},
            "with its encoder on one core instead of 2",
        ),
    ],
)
def test_the_next_smaller_thing_to_ask_for(request_: LayoutRequest, config: dict, words: str) -> None:
    assert words in remedy(request_, config)


def test_only_a_lack_of_memory_is_advised_on(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_batch_size": 4}))
    with (
        pytest.raises(DeviceMemoryError) as caught,
        smaller_advised(tmp_path, LayoutRequest(max_batch_size=8)),
    ):
        raise DeviceMemoryError("It does not fit.", remedy="Something.")
    assert "for 4 parallel conversations instead of 8" in caught.value.info.remedy
    with pytest.raises(KeyError), smaller_advised(tmp_path, LayoutRequest()):
        raise KeyError
