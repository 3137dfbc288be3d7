"""The layout rules, asked of the installed vendor package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.device import active as devices
from runtime.errors import LayoutError
from runtime.layout.request import (
    LayoutRequest,
    NormalisedLayout,
    from_pretrained_kwargs,
    validate,
)

ARIES = "aries-rb"
REGULUS = "regulus-ra"


@pytest.fixture(scope="module", autouse=True)
def device() -> devices.ActiveDevice:
    return devices.activate("simulated")


def check(board: str = ARIES, boards: int = 2, **fields: object) -> NormalisedLayout:
    return validate(LayoutRequest(**fields), board, boards)  # type: ignore[arg-type]


# Every refusal of the vendor's rules: what is asked, the setting it is about, our words, the vendor's words.
REFUSED = [
    (
        ARIES,
        {"core_mode": "single", "target_cores": ("0:0:0", "1:3")},
        "layout.cores",
        "written in two ways",
        "mixes legacy 'c:k' and canonical 'd:c:k'",
    ),
    (
        ARIES,
        {"target_clusters": ("0:0", 1)},
        "layout.clusters",
        "written in two ways",
        "mixes legacy and canonical",
    ),
    (
        ARIES,
        {"core_mode": "single", "target_cores": ("0:0",), "dev_no": (0, 1)},
        "layout.cores",
        "“0:0” does not say on which",
        "Legacy target_cores item '0:0' is ambiguous",
    ),
    (
        ARIES,
        {"target_clusters": (0,), "dev_no": (0, 1)},
        "layout.clusters",
        "“0” does not say on which",
        "Legacy target_clusters int 0 is ambiguous",
    ),
    (
        ARIES,
        {"target_clusters": ("0",), "dev_no": (0, 1)},
        "layout.clusters",
        "“0” does not say on which",
        "Legacy target_clusters item '0' is ambiguous",
    ),
    (
        ARIES,
        {"core_mode": "single", "target_cores": ("0:2:0",)},
        "layout.cores",
        "“0:2:0” is not one of the cores",
        "cluster must be in [0, 1] and core must be in [0, 1, 2, 3]",
    ),
    (
        ARIES,
        {"core_mode": "single", "target_cores": ("a:b:c",)},
        "layout.cores",
        "“a:b:c” is not one of the cores",
        "Invalid target_cores entry: 'a:b:c'",
    ),
    (
        ARIES,
        {"core_mode": "single", "target_cores": ("-1:0:0",)},
        "layout.cores",
        "“-1:0:0” is not one of the cores",
        "Invalid target_cores entry: '-1:0:0'",
    ),
    (
        ARIES,
        {"core_mode": "single", "target_cores": (" 0:0:0",)},
        "layout.cores",
        "“ 0:0:0” is not one of the cores",
        "Invalid target_cores entry: ' 0:0:0'",
    ),
    (
        ARIES,
        {"target_clusters": (2,)},
        "layout.clusters",
        "“2” is not one of the clusters",
        "Invalid target_clusters entry 2: cluster must be in [0, 1].",
    ),
    (
        ARIES,
        {"target_clusters": ("x",)},
        "layout.clusters",
        "“x” is not one of the clusters",
        "Invalid target_clusters entry: 'x'",
    ),
    (
        ARIES,
        {"core_mode": "single", "target_cores": (3,)},
        "layout.cores",
        "“3” is not one of the cores",
        "Unsupported target_cores entry: 3 (int)",
    ),
    (
        ARIES,
        {"target_clusters": (1.0,)},
        "layout.clusters",
        "“1.0” is not one of the clusters",
        "Unsupported target_clusters entry: 1.0 (float)",
    ),
    (
        ARIES,
        {"target_clusters": (True,)},
        "layout.clusters",
        "“True” is not one of the clusters",
        "Unsupported target_clusters entry: True",
    ),
    (
        ARIES,
        {"core_mode": "single", "target_cores": ("0:0:0",), "dev_no": (1,)},
        "layout.dev_no",
        "on device 0, but the device numbers say 1",
        "target device set [0] does not match dev_no [1].",
    ),
    (
        ARIES,
        {"core_mode": "global8", "target_clusters": ("0:0",)},
        "layout.clusters",
        "Global 8 needs both clusters of device 0, but only cluster 0",
        "requires both clusters for device 0",
    ),
    (
        ARIES,
        {"core_mode": "global"},
        "layout.core_mode",
        "“global” is not a core mode",
        "Invalid core mode 'global'",
    ),
    (
        REGULUS,
        {"core_mode": "global4"},
        "layout.core_mode",
        "automatic or single mode",
        "Regulus supports only",
    ),
    (
        REGULUS,
        {"core_mode": "multi"},
        "layout.core_mode",
        "automatic or single mode",
        "Regulus supports only",
    ),
    (
        REGULUS,
        {"core_mode": "global8"},
        "layout.core_mode",
        "automatic or single mode",
        "Regulus supports only",
    ),
    (
        REGULUS,
        {"core_mode": "single", "target_cores": ("0:0:1",)},
        "layout.cores",
        "one core only",
        "sole core (0:0)",
    ),
    (
        REGULUS,
        {"core_mode": "single", "target_clusters": ("0:0",)},
        "layout.cores",
        "one core only",
        "sole core (0:0)",
    ),
    (
        REGULUS,
        {"target_cores": ("0:1",)},
        "layout.cores",
        "one core only",
        "accepts only its sole core (0:0)",
    ),
    (REGULUS, {"target_clusters": ("0:1",)}, "layout.cores", "one core only", "sole core/cluster (0:0)"),
    (
        "mla100",
        {},
        "layout.device",
        "does not know a board called “mla100”",
        "unknown target_device 'mla100'",
    ),
]


@pytest.mark.parametrize(("board", "fields", "setting", "ours", "theirs"), REFUSED)
def test_what_the_vendor_refuses_is_said_in_our_words(
    board: str, fields: dict[str, object], setting: str, ours: str, theirs: str
) -> None:
    with pytest.raises(LayoutError) as caught:
        check(board, **fields)
    error = caught.value
    assert error.setting == setting
    assert ours in error.summary
    assert error.remedy
    assert error.unharmed
    assert theirs in error.detail


# What the vendor lets through although it names nothing, or something else than it says.
GAPS = [
    ({"core_mode": "single", "target_cores": ("0:0:4",)}, "layout.cores", "“0:0:4” is not one of the cores"),
    ({"core_mode": "single", "target_cores": ("0:65536:0",)}, "layout.cores", "“0:65536:0” is not one of"),
    ({"target_clusters": ("0:131072",)}, "layout.clusters", "“0:131072” is not one of the clusters"),
    (
        {"core_mode": "single", "target_cores": ("\u0660:0:0",)},
        "layout.cores",
        "“\u0660:0:0” is not one of the cores",
    ),
    ({"dev_no": (-1,)}, "layout.dev_no", "There is no device -1."),
    ({"dev_no": (2,)}, "layout.dev_no", "There is no device 2."),
    ({"dev_no": (True,)}, "layout.dev_no", "There is no device True."),
    ({"dev_no": ()}, "layout.dev_no", "No device number is given."),
    ({"max_batch_size": 0}, "layout.max_batch_size", "cannot hold 0 parallel"),
    ({"max_batch_size": True}, "layout.max_batch_size", "cannot hold True parallel"),
    ({"max_batch_size": 4, "core_mode": "global4"}, "layout.max_batch_size", "do not go together"),
]


@pytest.mark.parametrize(("fields", "setting", "ours"), GAPS)
def test_what_the_vendor_lets_through_is_refused(fields: dict[str, object], setting: str, ours: str) -> None:
    with pytest.raises(LayoutError) as caught:
        check(**fields)
    assert caught.value.setting == setting
    assert ours in caught.value.summary


def test_nothing_asked_for_leaves_the_layout_to_the_model() -> None:
    layout = check()
    assert layout.model_decides
    assert from_pretrained_kwargs(layout) == {"target_device": ARIES}


def test_single_mode_without_names_means_all_eight_cores() -> None:
    layout = check(core_mode="single")
    assert layout.cores == tuple(f"0:{cluster}:{core}" for cluster in (0, 1) for core in range(4))
    assert layout.clusters == ()


def test_leading_zeros_are_dropped() -> None:
    assert check(core_mode="single", target_cores=("00:0:01",)).cores == ("0:0:1",)


def test_short_and_repeated_items_are_spelled_out_once() -> None:
    layout = check(core_mode="single", target_cores=("0:1", "0:1", "1:3"), dev_no=(1, 1))
    assert layout.cores == ("1:0:1", "1:1:3")
    assert layout.dev_no == (1,)


def test_clusters_unfold_to_cores_in_single_mode() -> None:
    assert check(core_mode="single", target_clusters=("0:1",)).cores == ("0:1:0", "0:1:1", "0:1:2", "0:1:3")


def test_the_list_that_is_not_used_is_said() -> None:
    layout = check(core_mode="single", target_cores=("0:0:0",), target_clusters=("0:1",))
    assert layout.cores == ("0:0:0",)
    assert layout.notes == ("The named clusters are not used in single mode.",)
    layout = check(core_mode="global4", target_cores=("0:0:0",), target_clusters=("0:1",))
    assert layout.clusters == ("0:1",)
    assert layout.notes == ("The named cores are not used in global4 mode.",)


def test_rounding_up_to_a_whole_cluster_is_said() -> None:
    layout = check(core_mode="multi", target_cores=("0:1:0", "0:1:1"))
    assert layout.clusters == ("0:1",)
    assert layout.notes == ("Rounded up to all cores of cluster 0:1: multi mode uses whole clusters.",)
    whole = check(core_mode="multi", target_cores=tuple(f"0:1:{core}" for core in range(4)))
    assert whole.notes == ()


def test_automatic_mode_says_that_names_only_choose_the_board() -> None:
    layout = check(target_clusters=("1:0",), dev_no=(1,))
    assert any("only chooses the board" in note for note in layout.notes)
    assert from_pretrained_kwargs(layout)["dev_no"] == 1


def test_regulus_has_one_core() -> None:
    assert check(REGULUS, core_mode="single").cores == ("0:0:0",)
    assert check(REGULUS, target_cores=("0:0:0",)).clusters == ("0:0",)


def test_kwargs_hold_only_the_items_of_the_mode() -> None:
    layout = check(core_mode="global4", target_clusters=("0:1",), max_batch_size=1)
    assert from_pretrained_kwargs(layout) == {
        "target_device": ARIES,
        "core_mode": "global4",
        "dev_no": 0,
        "target_clusters": ["0:1"],
        "max_batch_size": 1,
    }
    both = from_pretrained_kwargs(check(core_mode="single", dev_no=(0, 1)), ("encoder_", "decoder_"))
    assert both["encoder_dev_no"] == [0, 1]
    assert both["decoder_target_cores"] == both["encoder_target_cores"]
    assert set(both) == {
        prefix + key
        for prefix in ("encoder_", "decoder_")
        for key in ("target_device", "core_mode", "dev_no", "target_cores")
    }


ITEM = st.one_of(
    st.from_regex(r"\A[0-9]{1,2}(:[0-9]{1,2}){0,2}\Z"),
    st.from_regex(r"\A0:[01](:[0-3])?\Z"),
    st.text(max_size=8),
)


@given(
    mode=st.sampled_from(["auto", "single", "multi", "global4", "global8"]),
    cores=st.lists(ITEM, max_size=4),
    clusters=st.lists(ITEM, max_size=3),
    dev_no=st.lists(st.integers(-1, 3), max_size=3),
    board=st.sampled_from([ARIES, REGULUS]),
)
def test_any_items_give_a_canonical_layout_or_a_layout_error(
    mode: str, cores: list[str], clusters: list[str], dev_no: list[int], board: str
) -> None:
    request = LayoutRequest(mode, tuple(cores), tuple(clusters), tuple(dev_no))  # type: ignore[arg-type]
    try:
        layout = validate(request, board, devices=2)
    except LayoutError:
        return
    per_cluster = 4 if board == ARIES else 1
    every_cluster = {f"{dev}:{cluster}" for dev in (0, 1) for cluster in range(2 if board == ARIES else 1)}
    every_core = {f"{cluster}:{core}" for cluster in every_cluster for core in range(per_cluster)}
    if mode == "single":
        assert layout.cores
        assert set(layout.cores) <= every_core
        assert layout.clusters == ()
    else:
        assert layout.clusters
        assert set(layout.clusters) <= every_cluster
        assert layout.cores == ()
    used = {int(item.split(":")[0]) for item in layout.cores + layout.clusters}
    assert used == set(layout.dev_no)
    again = LayoutRequest(layout.core_mode, layout.cores, layout.clusters, layout.dev_no)
    repeated = validate(again, board, devices=2)
    assert (repeated.cores, repeated.clusters) == (layout.cores, layout.clusters)
