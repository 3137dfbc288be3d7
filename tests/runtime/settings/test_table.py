"""Typed settings: what is taken, what is refused with which words, and the command line."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.errors import SettingError
from runtime.layout.request import LayoutRequest, PartLayout
from runtime.sampling.params import SamplingRequest
from runtime.settings.table import (
    ENGINE_KEYS,
    SETTINGS,
    add_arguments,
    device_from_args,
    engine_options,
    layout_from_args,
    on_page,
    sampling_from_args,
    sampling_request,
)
from runtime.settings.types import SettingValue


def parse(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser, "sampling")
    add_arguments(parser, "layout")
    return parser.parse_args(options)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)
def test_every_declaration_is_sound(setting) -> None:
    assert setting.check(setting.default) == setting.default
    if setting.fallback is not None:
        assert setting.check(setting.fallback) == setting.fallback
    assert not setting.shown or (setting.title and setting.help)
    assert setting.allowed()
    assert (setting.default is not None) or setting.unset
    if setting.choices:
        assert len({choice.value for choice in setting.choices}) == len(setting.choices) > 1
    for junk in (object(), float("nan"), float("inf"), 10**400, b"x", {}):
        with pytest.raises(SettingError):
            setting.check(junk)


def test_every_sampling_value_of_the_runtime_is_a_setting() -> None:
    names = {setting.key.split(".")[1] for setting in on_page("sampling")}
    assert names == set(SamplingRequest.__dataclass_fields__) - {"by_conversation"}


def test_no_options_leave_everything_to_the_model() -> None:
    args = parse()
    assert sampling_from_args(args) == SamplingRequest()
    assert layout_from_args(args) == LayoutRequest()
    assert device_from_args(args) == "auto"


def test_all_options_arrive() -> None:
    args = parse(
        *("--temperature", "0.7", "--top-k", "-1", "--top-p", "0.9", "--min-p", "0.05"),
        *("--repetition-penalty", "1.1", "--presence-penalty", "-0.5", "--frequency-penalty", "0.2"),
        *("--seed", "9223372036854775807", "--max-tokens", "64", "--stop", "a,b", "--stop", "\n\n"),
        *("--no-penalties", "--device", "simulated", "--core-mode", "single", "--max-batch-size", "4"),
        *("--cores", "0:0:0,0:0:1", "--cores", "0:1:0"),
        *("--part", "encoder=single@1:0:0,1:0:1", "--part", "decoder=global4"),
    )
    assert sampling_from_args(args) == SamplingRequest(
        temperature=0.7, top_k=-1, top_p=0.9, min_p=0.05, repetition_penalty=1.1, presence_penalty=-0.5,
        frequency_penalty=0.2, seed=2**63 - 1, max_tokens=64, stop=("a,b", "\n\n"), apply_penalties=False,
    )  # fmt: skip
    parts = (
        PartLayout("encoder", LayoutRequest("single", ("1:0:0", "1:0:1"), (), (1,))),
        PartLayout("decoder", LayoutRequest("global4")),
    )
    cores = ("0:0:0", "0:0:1", "0:1:0")
    assert layout_from_args(args) == LayoutRequest("single", cores, (), (0,), 4, parts)
    assert device_from_args(args) == "simulated"


@pytest.mark.parametrize(
    ("options", "dev_no"),
    [
        ("--core-mode single --cores 1:0:0,2:1:3", (1, 2)),
        ("--core-mode global4 --clusters 3:1", (3,)),
        ("--core-mode multi --cores 1:0:0", (1,)),
        ("--core-mode single --clusters 1:0", (1,)),
        ("--core-mode single --cores 0:1", (0,)),
        ("--cores 1:0:0 --core-mode single --dev-no 0", (0,)),
        ("--dev-no 1,0", (1, 0)),
    ],
)
def test_device_numbers_follow_from_the_named_cores_unless_given(
    options: str, dev_no: tuple[int, ...]
) -> None:
    assert layout_from_args(parse(*options.split())).dev_no == dev_no


def test_length_and_context_policy_are_options_too() -> None:
    asked = sampling_from_args(parse("--min-tokens", "3", "--context-policy", "rolling"))
    assert (asked.min_tokens, asked.context_policy) == (3, "rolling")
    assert sampling_from_args(parse()).context_policy == "stop"


@pytest.mark.parametrize(
    ("options", "setting", "said"),
    [
        (("--temperature", "hot"), "sampling.temperature", "Temperature (--temperature) does not take “hot”"),
        (("--temperature", "2.1"), "sampling.temperature", "a number from 0 to 2"),
        (("--temperature", "nan"), "sampling.temperature", "“nan”"),
        (("--temperature", "inf"), "sampling.temperature", "“inf”"),
        (("--temperature", ""), "sampling.temperature", "“”"),
        (("--top-k", "5.5"), "sampling.top_k", "a whole number from -1 to 1000000"),
        (("--top-k", "9" * 5000), "sampling.top_k", "“" + "9" * 60 + "…”"),
        (("--top-p", "0"), "sampling.top_p", "a number above 0 and up to 1"),
        (("--seed", "-1"), "sampling.seed", "from 0 to 9223372036854775807"),
        (("--max-tokens", "0"), "sampling.max_tokens", "a whole number from 1 to 1000000 tokens"),
        (("--min-tokens", "-1"), "sampling.min_tokens", "a whole number from 0 to 1000000 tokens"),
        (("--context-policy", "drop"), "sampling.context_policy", "one of stop, drop_middle, rolling"),
        (("--stop", ""), "sampling.stop", "Stop at (--stop)"),
        (("--core-mode", "global"), "layout.core_mode", "one of auto, single, multi, global4, global8"),
        (("--device", "gpu"), "layout.device", "one of auto, npu, simulated"),
        (("--cores", "0:0:0,,0:0:1"), "layout.cores", "such as 0:0:0,0:0:1"),
        (("--dev-no", "zero"), "layout.dev_no", "“zero”"),
        (("--dev-no", "0.5"), "layout.dev_no", "whole numbers from 0 to 255"),
        (("--dev-no", "-1"), "layout.dev_no", "“-1”"),
        (("--max-batch-size", "0"), "layout.max_batch_size", "from 1 to 256"),
        (("--part", "encoder"), "layout.parts", "It takes text such as encoder=single@0:0:0"),
        (("--part", "encoder=fast"), "layout.parts", "“encoder=fast”"),
        (("--part", "encoder=single@"), "layout.parts", "“encoder=single@”"),
    ],
)  # fmt: skip
def test_an_unknown_value_is_named_with_what_is_allowed(
    options: tuple[str, ...], setting: str, said: str
) -> None:
    args = parse(*options)
    with pytest.raises(SettingError) as caught:
        sampling_from_args(args), layout_from_args(args), device_from_args(args)
    assert caught.value.setting == setting
    assert said in caught.value.info.sentence()


def test_values_are_said_in_words() -> None:
    assert SETTINGS["sampling.temperature"].say(None) == "the model's own"
    assert SETTINGS["sampling.temperature"].say(0.5) == "0.50"
    assert SETTINGS["sampling.apply_penalties"].say(False) == "off"
    assert SETTINGS["sampling.stop"].say(()) == "none"
    assert SETTINGS["sampling.max_tokens"].say(64) == "64 tokens"
    assert SETTINGS["layout.core_mode"].say("global4") == "Global 4"
    assert SETTINGS["audio.language"].say("en") == "en"


def test_search_finds_by_every_word_in_title_help_key_and_choices() -> None:
    def found(words: str) -> list[str]:
        return [setting.key for setting in SETTINGS.values() if setting.matches(words)]

    assert found("REPETITION penalt") == ["sampling.apply_penalties", "sampling.repetition_penalty"]
    assert found("dark") == ["appearance.theme"]
    assert found("--min-p") == ["sampling.min_p"]
    assert found("no such thing") == []
    assert found("") == list(SETTINGS)


def test_every_help_text_shows_without_a_formatting_error() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, "sampling")
    add_arguments(parser, "layout")
    text = parser.format_help()
    options = {setting.cli_option for setting in SETTINGS.values() if setting.cli_option}
    assert options <= set(re.findall(r"--[a-z-]+", text))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda children: st.lists(children, max_size=3) | st.tuples(children, children),
    max_leaves=5,
)


@given(st.sampled_from(sorted(SETTINGS)), VALUES)
def test_any_value_is_either_taken_as_it_is_or_refused(key: str, value: object) -> None:
    setting = SETTINGS[key]
    try:
        taken = setting.check(value)
    except SettingError:
        return
    assert taken == (tuple(value) if isinstance(value, list) else value)
    assert setting.check(taken) == taken
    assert setting.say(taken) or taken == ""


@given(st.sampled_from(sorted(SETTINGS)), st.text(max_size=12))
def test_any_text_is_either_taken_within_bounds_or_refused(key: str, text: str) -> None:
    setting = SETTINGS[key]
    try:
        taken = setting.parse(text)
    except SettingError:
        return
    assert setting.check(taken) == taken


def test_a_request_is_read_from_any_source_of_values() -> None:
    values = {"sampling.temperature": 0.3, "sampling.stop": ("x",)}
    request = sampling_request(lambda key: values.get(key, SETTINGS[key].default))
    assert request == SamplingRequest(temperature=0.3, stop=("x",))


def test_the_defaults_are_the_ones_that_are_promised() -> None:
    promised: dict[str, object] = {
        "conversations": 16,
        "host_mib": 4096,
        "minimum_hit": 0,
        "load_margin": 0.9,
        "ewma_weight": 0.3,
        "block": 128,
        "calibration_blocks": (1, 2, 4, 8),
    }
    assert {name: SETTINGS[f"advanced.kv_{name}"].default for name in promised} == promised
    assert {name: getattr(RuntimeConfig(Path()).engine.kv, name) for name in promised} == promised
    assert SETTINGS["advanced.kv_calibrate"].default is True
    assert SETTINGS["storage.keep_kv"].default is False


def test_the_engine_is_given_what_the_settings_say() -> None:
    def default(key: str) -> SettingValue:
        return SETTINGS[key].default

    assert engine_options(default) == EngineOptions(KvOptions(calibrate=True))
    values: dict[str, SettingValue] = {
        "advanced.kv_load_margin": 1,
        "advanced.kv_calibration_blocks": (1, 3),
        "storage.keep_kv": True,
    }
    asked: set[str] = set()

    def get(key: str) -> SettingValue:
        asked.add(key)
        return values.get(key, default(key))

    assert engine_options(get).kv == KvOptions(
        calibrate=True, load_margin=1.0, calibration_blocks=(1, 3), keep_on_disk=True
    )
    assert asked == ENGINE_KEYS
